"""`recoveryctl schedule`: commands that are sent again and again, at the times of a cron expression."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from recoveryd.cli.failure import ExitCode, Failure, usage
from recoveryd.cli.options import Format, Output, Reason, WideOutput, argument, option
from recoveryd.cli.render.output import note, show
from recoveryd.cli.render.showing import public, show_all, show_recovery
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import Id, connected
from recoveryd.cli.send.sending import Sending, begin, quiet_status, send
from recoveryd.cli.status import Document, has_ended
from recoveryd.cli.verbs.inspect import events_of
from recoveryd.kernel.catalogue import Code

_HOLDS = "It holds the command to send: verb, data, and for pause and the like a subject."
_group = typer.Typer(help="Commands that are sent at the times of a cron expression.", no_args_is_help=True)
NewId = Annotated[str, argument("ID", "Id of the schedule; its runs add their due time to it.")]
Cron = Annotated[str, option("--cron", "Minute, hour, day of month, month, day of week: `0 2 * * *`.", "FIELDS")]
File = Annotated[
    Path | None, option("-f --file", "YAML or JSON of the command: verb, data, subject. `-` reads stdin.", "FILE")
]
Zone = Annotated[str, option("--time-zone", "The zone of the fields, like Europe/Berlin.", "NAME", shows_default=True)]
Overrun = Annotated[
    Literal["skip", "queue"],
    option("--overrun", "A due time while the last run goes on is left out, or waits.", shows_default=True),
]
MaxRuntime = Annotated[str | None, option("--max-runtime", "End each run this long after it was fired.", "DURATION")]


def add_to(app: typer.Typer) -> None:
    app.add_typer(_group, name="schedule", rich_help_panel="Start")


@_group.callback()
def _schedule() -> None:
    """Commands that are sent again and again, once for each due time."""


@_group.command("add")
@connected
def add_schedule(
    connection: Connection,
    schedule: NewId,
    cron: Cron,
    file: File = None,
    time_zone: Zone = "UTC",
    overrun: Overrun = "skip",
    max_runtime: MaxRuntime = None,
    reason: Reason = None,
    *,
    sending: Sending,
) -> int:
    """Send the command in a file at the times of a cron expression."""
    from recoveryd.cli.send.documents import read_file  # noqa: PLC0415

    if file is None:
        raise usage("--file is missing.", _HOLDS)
    data: Document = {"reason": reason, "cron": cron, "time_zone": time_zone, "overrun": overrun}
    data |= {} if max_runtime is None else {"max_runtime": max_runtime}
    data["command"] = {"data": {}, **read_file(file, _HOLDS)}
    record = sending.make(connection, "schedule", schedule, data)
    if record is None:
        return ExitCode.DONE
    show_recovery(quiet_status(connection, schedule, begin(connection, record, sending.timeout_s)), sending.output)
    note(f"See its runs with `recoveryctl schedule show {schedule}`.")
    return ExitCode.DONE


@_group.command("list")
@connected
def list_schedules(connection: Connection, output: WideOutput = Format.TABLE) -> int:
    """All schedules, the next to fire first."""
    from recoveryd.cli.render.scheduled import schedules_table  # noqa: PLC0415

    found = [document for document in connection.backend.statuses().values() if document.get("kind") == "schedule"]
    found.sort(key=lambda document: (document["schedule"].get("next_run") or "~", document["recovery"]))
    show(
        [public(document) for document in found],
        output,
        lambda: [schedules_table(found, is_wide=output == Format.WIDE)],
        [str(document["recovery"]) for document in found],
    )
    if not found and output.is_table:
        note("There is no schedule yet; make one with `recoveryctl schedule add`.")
    return ExitCode.DONE


@_group.command("show")
@connected
def show_schedule(connection: Connection, schedule: Id, output: Output = Format.TABLE) -> int:
    """One schedule: when it is due, what it sends, its runs, where the last one ended, and its events."""
    document = _find(connection, schedule)
    show_all(document, events_of(connection, document), output)
    return ExitCode.DONE


@_group.command("remove")
@connected
def remove_schedule(connection: Connection, schedule: Id, reason: Reason = None, *, sending: Sending) -> int:
    """End a schedule. A run that goes on is left alone."""
    record = sending.make(connection, "unschedule", schedule, {"reason": reason})
    if record is None:
        return ExitCode.DONE
    send(connection, record, sending.timeout_s)
    show_recovery(quiet_status(connection, schedule, "", has_ended), sending.output)
    return ExitCode.DONE


def _find(connection: Connection, schedule: str) -> Document:
    document = connection.backend.status(schedule)
    if document is None or document.get("kind") != "schedule":
        raise Failure(Code.NO_SUCH_RECOVERY, f"No schedule has the id `{schedule}`.")
    return document
