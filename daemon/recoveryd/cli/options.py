"""Options that many verbs share: their names, help and kinds, and how the program itself is called.

Only what stands on a command line. How a verb gets its connection is `send.connected`, what is sent how is `send.sending`.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

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


Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap", metavar="HOST:PORT", envvar="RECOVERYD_BOOTSTRAP_SERVERS", help="Kafka brokers.",
        rich_help_panel=_PANEL, show_default=False,
    ),
]  # fmt: skip
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", envvar="RECOVERYD_CONFIG", help="The daemon's YAML config.",
        rich_help_panel=_PANEL, show_default=False,
    ),
]  # fmt: skip
Http = Annotated[
    str | None,
    typer.Option(
        "--http", metavar="URL", help="Read status from the daemon's HTTP API instead of the topic.",
        rich_help_panel=_PANEL, show_default=False,
    ),
]  # fmt: skip
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=_PANEL)]

Reason = Annotated[
    str | None,
    typer.Option(
        "--reason", metavar="TEXT", help="Why, for the record; required (1 to 500 characters).", show_default=False
    ),
]
Output = Annotated[Format, typer.Option("-o", "--output", help="How to print the result.")]
Wait = Annotated[
    bool,
    typer.Option("--wait", help="Stay until it is done; the exit code says how it ended.", rich_help_panel=_SENDING),
]
Timeout = Annotated[
    str | None,
    typer.Option(
        "--timeout", metavar="DURATION", help="Longest wait, like 10m; then exit code 8.",
        rich_help_panel=_SENDING, show_default=False,
    ),
]  # fmt: skip
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.", rich_help_panel=_SENDING)]
PrintRecord = Annotated[
    bool,
    typer.Option(
        "--print-record", help="Print the control record and a kcat line; send nothing.", rich_help_panel=_SENDING
    ),
]
Expires = Annotated[
    str | None,
    typer.Option(
        "--expires", metavar="DURATION", help="The command is void when not handled within this time.",
        rich_help_panel=_SENDING, show_default=False,
    ),
]  # fmt: skip
CommandId = Annotated[
    str | None,
    typer.Option(
        "--command-id", metavar="TEXT", help="Idempotency key; sending the same again does nothing.",
        rich_help_panel=_SENDING, show_default=False,
    ),
]  # fmt: skip
