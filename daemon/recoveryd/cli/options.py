"""Options that many verbs share: their names, help and kinds, and how the program itself is called.

Only what stands on a command line. How a verb gets its connection is `send.connected`, what is sent how is
`send.sending`.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

PROGRAM = "recoveryctl"
COMPLETE_VARIABLE = "_RECOVERYCTL_COMPLETE"

_PANEL = "Connection"
_SENDING = "Sending"


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


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


def argument(metavar: str | None, text: str, **more: Any) -> typer.models.ArgumentInfo:
    made: typer.models.ArgumentInfo = typer.Argument(metavar=metavar, help=text, show_default=False, **more)
    return made


Bootstrap = Annotated[
    str | None, option("--bootstrap", "Kafka brokers.", "HOST:PORT", _PANEL, envvar="RECOVERYD_BOOTSTRAP_SERVERS")
]
Config = Annotated[
    Path | None, option("--config", "The daemon's YAML config.", "FILE", _PANEL, envvar="RECOVERYD_CONFIG")
]
Http = Annotated[
    str | None, option("--http", "Read status from the daemon's HTTP API instead of the topic.", "URL", _PANEL)
]
Debug = Annotated[bool, option("--debug", "Show the traceback of an error.", panel=_PANEL)]

Reason = Annotated[str | None, option("--reason", "Why, for the record; required (1 to 500 characters).", "TEXT")]
Output = Annotated[Format, option("-o --output", "How to print the result.", shows_default=True)]
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
