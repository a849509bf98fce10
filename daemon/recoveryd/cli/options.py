"""Options that many verbs share: their names, help and kinds, and how the program itself is called.

Only what stands on a command line. How a verb gets its connection is `send.connected`, what is sent how is
`send.sending`.
"""

import difflib
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import typer

PROGRAM = "recoveryctl"
COMPLETE_VARIABLE = "_RECOVERYCTL_COMPLETE"

_PANEL = "Connection"
_SENDING = "Sending"


class Format(str):
    """How a result is printed: one of the names below, or `jsonpath=PATH`."""

    __slots__ = ()
    TABLE: ClassVar["Format"]
    WIDE: ClassVar["Format"]
    JSON: ClassVar["Format"]
    JSONL: ClassVar["Format"]
    YAML: ClassVar["Format"]
    NAME: ClassVar["Format"]

    @property
    def is_table(self) -> bool:
        """For people to read, so that hints have a place beside it."""
        return self in {Format.TABLE, Format.WIDE}

    @property
    def json_path(self) -> str | None:
        """What is wanted of the JSON, None when all of it is."""
        return self.removeprefix(_JSON_PATH) if self.startswith(_JSON_PATH) else None


_JSON_PATH: Final = "jsonpath="
_NAMES: Final = ("table", "wide", "json", "jsonl", "yaml", "name")
Format.TABLE, Format.WIDE, Format.JSON, Format.JSONL, Format.YAML, Format.NAME = map(Format, _NAMES)


def read_format(text: str) -> Format:
    """What stands behind `-o`."""
    if text not in _NAMES and not text.startswith(_JSON_PATH):
        near = difflib.get_close_matches(text, _NAMES, n=1)
        guess = f" Did you mean `{near[0]}`?" if near else ""
        raise typer.BadParameter(f"`{text}` is no form.{guess} Forms are {', '.join(_NAMES)} and jsonpath=PATH.")
    return Format(text)


def complete_format(incomplete: str) -> list[str]:
    return [name for name in (*_NAMES, _JSON_PATH) if name.startswith(incomplete)]


def option(
    name: str,
    text: str,
    metavar: str | None = None,
    panel: str | None = None,
    *,
    shows_default: bool = False,
    **more: Any,
) -> typer.models.OptionInfo:
    """`name` with dashes, a short form after a blank; `text` says in the help what it is for."""
    made: typer.models.OptionInfo = typer.Option(
        *name.split(), metavar=metavar, help=text, rich_help_panel=panel, show_default=shows_default, **more
    )
    return made


def id_option(text: str, panel: str | None = None, name: str = "--id") -> typer.models.OptionInfo:
    """`--id`. An empty one is refused: it comes from a shell's variable that is not set, and an id made up in its place
    would be a new one at each try.
    """
    return option(name, text, "ID", panel, callback=_read_id)


def _read_id(given: str | None) -> str | None:
    if given is not None and not given.strip():
        raise typer.BadParameter("it is empty. Give it a value, or leave it out.")
    return given


def argument(metavar: str | None, text: str, **more: Any) -> typer.models.ArgumentInfo:
    made: typer.models.ArgumentInfo = typer.Argument(metavar=metavar, help=text, show_default=False, **more)
    return made


Bootstrap = Annotated[
    str | None,
    option(
        "--bootstrap --bootstrap-server -b", "Kafka brokers.", "HOST:PORT", _PANEL, envvar="RECOVERYD_BOOTSTRAP_SERVERS"
    ),
]
Config = Annotated[
    Path | None, option("--config", "The daemon's YAML config.", "FILE", _PANEL, envvar="RECOVERYD_CONFIG")
]
Context = Annotated[
    str | None,
    option(
        "--context", "What `recoveryctl context` keeps under this name.", "NAME", _PANEL, envvar="RECOVERYD_CONTEXT"
    ),
]
Http = Annotated[
    str | None, option("--http", "Read status from the daemon's HTTP API instead of the topic.", "URL", _PANEL)
]

Reason = Annotated[str | None, option("--reason", "Why, for the record; required (1 to 500 characters).", "TEXT")]


def _output(text: str, metavar: str) -> typer.models.OptionInfo:
    return option("-o --output", text, metavar, shows_default=True, parser=read_format, autocompletion=complete_format)


_PART = "jsonpath=.stop.reason a part of the JSON."
Output = Annotated[Format, _output(f"How to print the result; {_PART}", "table|json|jsonl|yaml|name|jsonpath=PATH")]
# Of verbs whose tables have more columns on request; any other takes `wide` for `table`.
WideOutput = Annotated[
    Format,
    _output(
        f"How to print the result; wide has more columns, {_PART}", "table|wide|json|jsonl|yaml|name|jsonpath=PATH"
    ),
]
Wait = Annotated[bool, option("--wait", "Stay until it is done; the exit code says how it ended.", panel=_SENDING)]
Timeout = Annotated[str | None, option("--timeout", "Longest wait, like 10m; then exit code 8.", "DURATION", _SENDING)]
Yes = Annotated[bool, option("--yes -y", "Do not ask.", panel=_SENDING)]
PrintRecord = Annotated[
    bool, option("--print-record", "Print the control record and a kcat line; send nothing.", panel=_SENDING)
]
Expires = Annotated[
    str | None, option("--expires", "The command is void when not handled within this time.", "DURATION", _SENDING)
]
CommandId = Annotated[
    str | None, option("--command-id", "Idempotency key; sending the same again does nothing.", "TEXT", _SENDING)
]
