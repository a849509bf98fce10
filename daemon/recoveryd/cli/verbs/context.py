"""`recoveryctl context add|use|list|show|remove`: where recoveryd is, kept under a name. Works offline, needs no config
of a daemon.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recoveryd.settings.sources import Origin

from recoveryd.cli.failure import Failure, usage
from recoveryd.cli.options import Format, Output, argument, option
from recoveryd.cli.render.output import note, show
from recoveryd.cli.send.contexts import BOOTSTRAP, CLUSTER, VARIABLE, Context, Contexts
from recoveryd.cli.send.java_properties import read_properties
from recoveryd.cli.send.places import of_places
from recoveryd.errors import ConfigProblem, RecoverydError

_PLACE = re.compile(rf"(?<![^\s`(]){re.escape('.'.join(CLUSTER))}\.")  # where a name begins, not in a value
_group = typer.Typer(help="Where recoveryd is, kept under a name.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    app.add_typer(_group, name="context", rich_help_panel="Set up")


def complete_names(incomplete: str) -> list[str]:
    return [name for name in Contexts(os.environ).names() if name.startswith(incomplete)]


Name = Annotated[str, argument("NAME", "Name of the context.", autocompletion=complete_names)]


@_group.callback()
def _context() -> None:
    """Where recoveryd is, kept under a name: client properties, prefix of its topics, address of the daemon."""


@_group.command()
def add(
    name: Annotated[str, argument("NAME", "Letters, digits, `.`, `_` and `-`.")],
    bootstrap: Annotated[str | None, option("--bootstrap --bootstrap-server -b", "Kafka brokers.", "HOST:PORT")] = None,
    properties: Annotated[
        Path | None, option("--properties", "Client properties, as Kafka's own tools take them.", "FILE")
    ] = None,
    given: Annotated[
        list[str] | None,
        option(
            "--property",
            "One of Kafka's client properties; may be repeated. `${file:PATH}` in it is read when used.",
            "NAME=VALUE",
        ),
    ] = None,
    topics_prefix: Annotated[
        str | None, option("--topics-prefix", "Prefix of recoveryd's own topics; `recovery.` when left out.", "TEXT")
    ] = None,
    http: Annotated[
        str | None, option("--http", "Where the daemon answers, for what Kafka does not hold.", "URL")
    ] = None,
    replace: Annotated[bool, option("--replace", "Overwrite the one of this name.")] = False,
    use: Annotated[bool, option("--use", "Use it from now on.")] = False,
) -> None:
    """Keep a context in a file that only you can read. It is checked first, without a connection."""
    contexts = Contexts(os.environ)
    typed, origins = _properties(bootstrap, properties, given or [])
    context = contexts.make(name, typed, topics_prefix, _url(http))
    if name in contexts.names() and not replace:
        raise usage(f"There is a context `{name}` already.", "Give --replace, or another name.")
    _check(context, origins)
    contexts.write(context)
    if use or contexts.current() is None:
        contexts.use(name)
    note(f"Kept in {context.file}." + (f" `{name}` is in use." if contexts.current() == name else ""))
    if contexts.current() == name:
        _tell_what_wins(name)


@_group.command("use")
def use_context(name: Name) -> None:
    """Take this context from now on; --context, RECOVERYD_CONTEXT, --bootstrap and --config override it."""
    Contexts(os.environ).use(name)
    note(f"`{name}` is in use.")
    _tell_what_wins(name)


@_group.command("list")
def list_contexts(output: Output = Format.TABLE) -> None:
    """All contexts; the one in use has a star."""
    contexts = Contexts(os.environ)
    rows = [_row_of(contexts, name, _in_use(contexts)) for name in contexts.names()]
    show(rows, output, lambda: [_table(rows)], [row["name"] for row in rows])
    for row in rows:
        if output.is_table and row["problem"]:
            note(f"`{row['name']}` cannot be read: {row['problem']} {row['next_step']}")
    if not rows and output.is_table:
        note("There is no context yet; make one with `recoveryctl context add NAME --bootstrap HOST:PORT`.")


@_group.command("show")
def show_context(
    name: Annotated[
        str | None, argument("[NAME]", "The one in use when left out.", autocompletion=complete_names)
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """One context; secrets are masked."""
    contexts = Contexts(os.environ)
    wanted = name or _in_use(contexts)
    if wanted is None:
        raise usage("No context is in use.", "Name one; `recoveryctl context list` has them.")
    context = contexts.read(wanted)
    document = _row(context, _in_use(contexts)) | {"file": str(context.file), "properties": _shown(context)}
    show(document, output, lambda: [_facts(document)], [wanted])


@_group.command()
def remove(name: Name) -> None:
    """Forget a context; what it led to stays as it is."""
    Contexts(os.environ).remove(name)
    note(f"`{name}` is forgotten.")


def _in_use(contexts: Contexts) -> str | None:
    """The one that a verb would take here and now, were no brokers named."""
    return os.environ.get(VARIABLE) or contexts.current()


def _tell_what_wins(name: str) -> None:
    """A variable of this shell comes before the context in use, which nobody thinks of at night."""
    places = (VARIABLE, *of_places(os.environ))
    if winners := [each for each in places if os.environ.get(each) and os.environ[each] != name]:
        note(f"Variables of this shell come first: {', '.join(winners)}. Unset them, or say `--context {name}`.")


def _properties(
    bootstrap: str | None, file: Path | None, given: list[str]
) -> tuple[dict[str, str], dict[str, "Origin"]]:
    """The properties, and where each was given. Paths in them are those of this working directory: a context is used
    from everywhere.
    """
    from recoveryd.settings.secrets import with_whole_paths  # noqa: PLC0415
    from recoveryd.settings.sources import Origin  # noqa: PLC0415

    typed: dict[str, str] = {}
    for pair in given:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise usage(
                f"--property `{name}` has no value.", "Write it as NAME=VALUE, for instance security.protocol=SSL."
            )
        if name.strip() in typed:
            raise usage(f"--property gives `{name.strip()}` more than once.", "Give it one value.")
        typed[name.strip()] = value
    read = {} if file is None else read_properties(file)
    origins = {name: Origin(str(file), at.line) for name, at in read.items()}
    origins |= {name: Origin("--property") for name in typed}
    found = {name: at.value for name, at in read.items()} | typed
    found = {name: with_whole_paths(name, value) for name, value in found.items()}
    if bootstrap is not None:
        found[BOOTSTRAP], origins[BOOTSTRAP] = bootstrap, Origin("--bootstrap")
    return found, origins


def _url(http: str | None) -> str | None:
    from recoveryd.cli.send.http_reader import check_url  # noqa: PLC0415

    return None if http is None else check_url(http)


def _check(context: Context, origins: dict[str, "Origin"]) -> None:
    """As a config would be. Without brokers it must say where the daemon is at least. What is wrong is told as it was
    given: nothing is written yet, and a context has no clusters.
    """
    if context.has_brokers:
        from recoveryd.settings import load  # noqa: PLC0415

        # What it refers to may be a variable; what variables say of a config is not meant.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RECOVERYD_")}
        try:
            load(env=environment, base=context.as_tree(origins))
        except ConfigProblem as problem:
            is_own = problem.hint != problem.code.next_step  # that one is about the file of a config
            hint = _PLACE.sub("", problem.hint) if is_own else "Correct it where it stands, then add it again."
            raise Failure(problem.code, _as_given(problem), hint) from None
    elif context.properties or context.daemon is None:
        raise usage("The context says no brokers.", "Give --bootstrap HOST:PORT, or --http URL alone to only look.")


def _as_given(problem: ConfigProblem) -> str:
    """The message, with the names of properties as they were given. What a path holds is left as it is."""
    place = f"{problem.origin}:{problem.line}: " if problem.line else f"{problem.origin}: "
    if not problem.origin or not problem.message.startswith(place):
        return _PLACE.sub("", problem.message)
    # `--property NAME`, not `--property: NAME`, is what can be looked for on the line.
    origin = "--property " if place == "--property: " else place
    return origin + _PLACE.sub("", problem.message.removeprefix(place))


def _shown(context: Context) -> dict[str, str]:
    from recoveryd.settings.secrets import shown_property  # noqa: PLC0415

    return {name: shown_property(name, value) for name, value in context.properties.items()}


def _row_of(contexts: Contexts, name: str, current: str | None) -> dict[str, Any]:
    """A file that is spoiled costs its own row only."""
    try:
        return _row(contexts.read(name), current) | {"problem": None, "next_step": None}
    except RecoverydError as error:
        row = {"name": name, "in_use": name == current, "bootstrap": "", "topics_prefix": "", "daemon": ""}
        return row | {"problem": error.message, "next_step": error.hint}


def _row(context: Context, current: str | None) -> dict[str, Any]:
    return {
        "name": context.name,
        "in_use": context.name == current,
        "bootstrap": str(context.properties.get(BOOTSTRAP, "")),
        "topics_prefix": context.topics_prefix or "recovery.",
        "daemon": context.daemon or "",
    }


def _table(rows: list[dict[str, Any]]) -> "RenderableType":
    from recoveryd.cli.render.tables import columns  # noqa: PLC0415

    table = columns("", "NAME", "BROKERS", "TOPICS", "DAEMON")
    for row in rows:
        star = "*" if row["in_use"] else ""
        table.add_row(
            star,
            row["name"],
            "cannot be read" if row["problem"] else row["bootstrap"],
            row["topics_prefix"],
            row["daemon"],
        )
    return table


def _facts(document: dict[str, Any]) -> "RenderableType":
    from recoveryd.cli.render.tables import facts  # noqa: PLC0415

    plain = [(name, value) for name, value in document.items() if name not in {"properties", "in_use"}]
    return facts(*plain, ("in use", "yes" if document["in_use"] else "no"), *document["properties"].items())
