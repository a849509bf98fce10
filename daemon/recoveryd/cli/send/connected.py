"""How a verb gets its connection.

`@connected` lets a verb say `connection: Connection` and hides how `--bootstrap`, `--config` and `--http` reach it. A
parameter that is a dataclass stands for its fields, each an option of its own. Ids complete here too, since that asks a
connection.
"""

import functools
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from recoveryd.cli.failure import usage
from recoveryd.cli.options import Bootstrap, Config, Context, Format, Http, argument
from recoveryd.cli.render.harmless import harmless
from recoveryd.cli.render.json_path import select
from recoveryd.cli.render.manner import manner
from recoveryd.cli.send.connect import Connection, Tools

P = ParamSpec("P")
_PLACES = ("context", "config", "bootstrap", "http")


def complete_ids(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids of recoveries that start as typed, with their state as help. What does not answer completes to nothing rather
    than to an error in the middle of typing.
    """
    tools = ctx.find_root().obj or Tools()
    given = ctx.params
    with (
        suppress(Exception),
        _connect(ctx, given, tools) as found,
    ):
        offered = [(name, status["state"]) for name, status in found.backend.statuses().items()]
        return [(name, state) for name, state in offered if name.startswith(incomplete) and _is_harmless(name, state)]
    return []


def _connect(ctx: typer.Context, given: Mapping[str, Any], tools: Tools) -> Connection:
    """A context that is named wins over variables; brokers or a config that are typed beside it contradict it."""
    bootstrap, config, context = given.get("bootstrap"), given.get("config"), given.get("context")
    words = [word for name in _PLACES if is_typed(ctx, name) for word in (f"--{name}", str(given.get(name)))]
    if context is not None:
        typed = [name for name in ("bootstrap", "config") if given.get(name) and is_typed(ctx, name)]
        if typed and is_typed(ctx, "context"):
            raise usage(f"--context and --{typed[0]} say two places.", "Give one of them.")
        if typed:
            context = None  # of a variable
        else:
            bootstrap, config = None, None
    http = given.get("http")
    variables = [name for name in ("bootstrap", "config") if not is_typed(ctx, name)]
    return Connection(bootstrap, config, http, tools, context, words, variables)


def is_typed(ctx: typer.Context, name: str) -> bool:
    """Whether the value of this parameter stands on the command line, and comes from no variable."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _is_harmless(*words: str) -> bool:
    """Whether a terminal obeys none of it: a shell shows completions as they are."""
    return all(harmless(word) == word for word in words)


Id = Annotated[str, argument("ID", "Recovery id.", autocompletion=complete_ids)]


def connected(verb: Callable[Concatenate[Connection, P], int | None]) -> Callable[..., int | None]:
    """The verb with the connection's options added; its first argument is a `Connection`, closed at the end."""

    @functools.wraps(verb)
    def with_connection(
        ctx: typer.Context,
        bootstrap: str | None,
        config: Path | None,
        context: str | None,
        http: str | None,
        **own: object,
    ) -> int | None:
        tools: Tools = ctx.find_root().obj
        # Client libraries report lost connections to their logger while they heal them; what matters comes back as an
        # error.
        logging.getLogger("recoveryd").setLevel(logging.DEBUG if manner.debug else logging.CRITICAL)
        output = own.get("output")
        if isinstance(output, Format) and output.json_path is not None:
            select(None, output.json_path)  # a path that is none is refused before anything is sent
        given = {"bootstrap": bootstrap, "config": config, "context": context, "http": http}
        with _connect(ctx, given, tools) as connection:
            for name, kind in groups.items():
                own[name] = kind(**{parameter.name: own.pop(parameter.name) for parameter in _options_of(kind)})
            return verb(connection, **own)  # type: ignore[call-arg, arg-type]  # Typer calls by the signature made below

    parameters = list(_options_of(verb))[1:]
    groups: dict[str, Any] = {
        parameter.name: parameter.annotation for parameter in parameters if is_dataclass(parameter.annotation)
    }
    added = [
        _parameter("ctx", typer.Context),
        *(one for each in parameters for one in (_options_of(each.annotation) if each.name in groups else [each])),
        _parameter("bootstrap", Bootstrap, default=None),
        _parameter("config", Config, default=None),
        _parameter("context", Context, default=None),
        _parameter("http", Http, default=None),
    ]
    added = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in added]
    with_connection.__signature__ = inspect.Signature(added)  # type: ignore[attr-defined]
    with_connection.__annotations__ = {parameter.name: parameter.annotation for parameter in added}
    return with_connection


def _options_of(taker: Callable[..., object]) -> Iterator[inspect.Parameter]:
    yield from inspect.signature(taker, eval_str=True).parameters.values()


def _parameter(name: str, annotation: object, default: object = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
