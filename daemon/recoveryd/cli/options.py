"""Options that many verbs share, and the decorator that adds those of the connection.

`@connected` lets a verb say `connection: Connection` and hides how `--bootstrap`, `--config` and `--http` reach it. A parameter that is a dataclass stands for
its fields, each an option of its own. Only names and help stand here; what a connection does is `recoveryd.cli.send.connect`, what is sent how is `recoveryd.cli.send.sending`.
"""

import functools
import inspect
import logging
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from recoveryd.cli.render.output import Format
from recoveryd.cli.send.connect import Connection, Tools
from recoveryd.cli.verbs.completion import complete_ids

P = ParamSpec("P")

_PANEL = "Connection"
_SENDING = "Sending"

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

Id = Annotated[str, typer.Argument(metavar="ID", help="Recovery id.", show_default=False, autocompletion=complete_ids)]
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


def connected(verb: Callable[Concatenate[Connection, P], int | None]) -> Callable[..., int | None]:
    """The verb with the connection's options added to its own, and a `Connection` as first argument, closed afterwards."""

    @functools.wraps(verb)
    def with_connection(
        ctx: typer.Context, bootstrap: str | None, config: Path | None, http: str | None, debug: bool, **own: object
    ) -> int | None:
        tools: Tools = ctx.find_root().obj
        tools.debug = tools.debug or debug
        # Client libraries report lost connections to their logger while they heal them; what matters comes back as an error.
        logging.getLogger("recoveryd").setLevel(logging.DEBUG if tools.debug else logging.CRITICAL)
        with Connection(bootstrap=bootstrap, config=config, http=http, tools=tools) as connection:
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
        _parameter("http", Http, default=None),
        _parameter("debug", Debug, default=False),
    ]
    added = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in added]
    with_connection.__signature__ = inspect.Signature(added)  # type: ignore[attr-defined]
    with_connection.__annotations__ = {parameter.name: parameter.annotation for parameter in added}
    return with_connection


def _options_of(taker: Callable[..., object]) -> Iterator[inspect.Parameter]:
    yield from inspect.signature(taker, eval_str=True).parameters.values()


def _parameter(name: str, annotation: object, default: object = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
