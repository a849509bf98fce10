"""`recoveryctl logs`: what the Spark application of a recovery wrote.

The driver runs beside the daemon that led then, so its log lies in the work folder of that one: read there, or through
the HTTP API. What lies on this machine is no answer for a context, whose daemon may be another, and an older attempt is
none for the newest without a word.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from recoveryd.cli.failure import ExitCode, Failure
from recoveryd.cli.options import Format, Output, option
from recoveryd.cli.render.output import note, say, show
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import Id, connected
from recoveryd.cli.status import Document
from recoveryd.errors import RecoverydError
from recoveryd.kernel.catalogue import Code

_WITH_ATTEMPTS = ("replay", "verification")


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Look")(logs)


@connected
def logs(
    connection: Connection,
    recovery: Id,
    attempt: Annotated[
        int | None, option("--attempt", "The attempt whose log is printed; the newest when left out.", "N", min=1)
    ] = None,
    lines: Annotated[
        int, option("--lines -n", "How many of the last lines.", "N", min=0, max=10_000, shows_default=True)
    ] = 200,
    output: Output = Format.TABLE,
) -> int:
    """Print the log of a recovery's Spark application, from this machine or from the daemon's. With a context or
    --http it comes from the daemon's only.
    """
    document = connection.backend.status(recovery)
    if document is None:
        raise Failure(Code.NO_SUCH_RECOVERY, f"Nothing has the id `{recovery}`.")
    _check(document, attempt)
    found = _find(connection, recovery, attempt, document["attempt"], lines)
    if not output.is_table:
        show(found, output, list, [recovery])
        return ExitCode.DONE
    if found["is_cut"]:
        note(f"The last {len(found['lines'])} lines of attempt {found['attempt']}; --lines shows more.")
    for line in found["lines"]:
        say(line)
    return ExitCode.DONE


def _check(document: Document, attempt: int | None) -> None:
    recovery = document["recovery"]
    if document.get("kind") not in _WITH_ATTEMPTS:
        what = document.get("workflow") or document.get("kind")
        message = f"{recovery} is a {what}, which runs no Spark application."
        hint = f"`recoveryctl describe {recovery}` has its events."
        raise Failure(Code.NOT_FOR_THIS_KIND, message, hint, otherwise=ExitCode.REJECTED)
    last = document.get("attempt") or 0
    if last == 0 or (attempt or 0) > last:
        said = f"no attempt {attempt}, the last one is {last}" if last else "not begun an attempt"
        why = f"`recoveryctl get {recovery}` says what it waits for, or why it ended."
        raise Failure(Code.NO_LOG, f"{recovery} has {said}.", why)


def _find(connection: Connection, recovery: str, attempt: int | None, last: int, lines: int) -> Mapping[str, Any]:
    """Of the attempt that is named, or of the `last` one; where that log is on neither side, of the newest there is."""
    found = _here(connection, recovery, attempt or last, lines)
    if found is not None:
        return found
    try:
        return _there(connection, recovery, attempt or last, lines)
    except Failure as refused:
        if attempt is not None:
            raise
        older = _here(connection, recovery, None, lines)
        if older is None and refused.code is Code.NO_LOG:
            older = _there(connection, recovery, None, lines)
        if older is None:
            raise
        note(f"This is attempt {older['attempt']}. The newest is {last}, whose log is elsewhere: {refused.message}")
        return older


def _here(connection: Connection, recovery: str, attempt: int | None, lines: int) -> Mapping[str, Any] | None:
    """None where this machine has no such log, or nothing says that it would be that of the daemon that is meant."""
    if connection.http is not None or connection.context is not None:
        return None
    from recoveryd.adapters.spark.attempt_logs import read_log  # noqa: PLC0415

    folder: Path = connection.settings.work_dir
    return read_log(folder, recovery, attempt, lines)


def _there(connection: Connection, recovery: str, attempt: int | None, lines: int) -> Mapping[str, Any]:
    from recoveryd.cli.send.http_reader import HttpReader, no_kafka  # noqa: PLC0415

    url = connection.daemon_url
    try:
        return HttpReader(url, no_kafka).log(recovery, attempt, lines)
    except Failure:
        raise
    except RecoverydError as error:
        hint = (
            f"Its log lies beside the daemon: give that one's address with --http, or run this there ({error.message})"
        )
        message = f"There is no log of {recovery} on this machine, and no daemon to ask at {url}."
        raise Failure(Code.CLUSTER_UNREACHABLE, message, hint) from error
