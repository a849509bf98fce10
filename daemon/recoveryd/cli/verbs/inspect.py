"""The verbs that only look: list (ls), get (status), describe, watch, wait. None of them writes anything."""

import time
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import typer

from recoveryd.cli.failure import ExitCode, Failure, usage
from recoveryd.cli.options import Format, Output, Timeout, WideOutput, argument, option
from recoveryd.cli.render.following import following, lines_of
from recoveryd.cli.render.output import note, stderr_console, stdout_console
from recoveryd.cli.render.showing import show_all, show_recoveries, show_recovery
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import Id, complete_ids, connected
from recoveryd.cli.send.http_asking import Later
from recoveryd.cli.send.values import parse_duration_s
from recoveryd.cli.send.waiting import detaching, exit_code_of_state, wait_for
from recoveryd.cli.status import Document, has_ended, is_settled
from recoveryd.errors import RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.wire.spelling import did_you_mean


def add_to(app: typer.Typer) -> None:
    panel = "Look"
    app.command("list", rich_help_panel=panel)(list_recoveries)
    for verb in (get, describe, watch, wait):
        app.command(rich_help_panel=panel)(verb)
    app.command("ls", hidden=True, help="The same as `list`.")(list_recoveries)
    app.command("status", hidden=True, help="The same as `get`.")(get)


@connected
def list_recoveries(
    connection: Connection,
    state: Annotated[list[State] | None, option("--state", "Only in this state; may be repeated.", "STATE")] = None,
    limit: Annotated[int | None, option("--limit", "Show only this many.", "N", min=1)] = None,
    sort: Annotated[
        Literal["created", "updated", "name", "state"],
        option("--sort", "Sort by this; times with the newest first.", shows_default=True),
    ] = "created",
    output: WideOutput = Format.TABLE,
) -> int:
    """All recoveries, newest first."""
    known = connection.backend.statuses().values()
    found = _sorted((document for document in known if not state or document["state"] in state), sort)
    if limit is not None and len(found) > limit:
        note(f"{limit} of {len(found)}; leave out --limit to see all.")
        found = found[:limit]
    show_recoveries(found, output)
    if not found and output.is_table:
        note(
            "No recovery is in this state."
            if state
            else "There is no recovery yet; start one with `recoveryctl replay`."
        )
    return ExitCode.DONE


def _sorted(documents: Iterable[Document], by: str) -> list[Document]:
    in_order = sorted(documents, key=lambda document: str(document["recovery"]))
    if by == "name":
        return in_order
    if by == "state":
        return sorted(in_order, key=lambda document: str(document["state"]))
    return sorted(in_order, key=lambda document: (str(document.get(by) or ""), str(document["recovery"])), reverse=True)


@connected
def get(connection: Connection, recovery: Id, output: WideOutput = Format.TABLE) -> int:
    """One recovery as it is now."""
    show_recovery(_find(connection, recovery), output)
    return ExitCode.DONE


@connected
def describe(connection: Connection, recovery: Id, output: Output = Format.TABLE) -> int:
    """Everything about one recovery: plan, positions, completeness, verification and its events."""
    document = _find(connection, recovery)
    show_all(document, events_of(connection, document), output)
    return ExitCode.DONE


@connected
def watch(
    connection: Connection,
    recovery: Annotated[str | None, argument("[ID]", "Recovery id.", autocompletion=complete_ids)] = None,
    every: Annotated[bool, option("--all", "All recoveries, until Ctrl-C; a line per change.")] = False,
    output: Output = Format.TABLE,
) -> int:
    """Follow a recovery until it ends: redrawn on a terminal, else a line per change. Ctrl-C leaves it running. With
    `-o json` each change is one line of JSON.
    """
    if every == bool(recovery):
        raise usage("Say what to watch.", "Give the id of one recovery, or --all; `recoveryctl list` has the ids.")
    if recovery is None:
        return _watch_all(connection, output)
    _find(connection, recovery)
    with following(stdout_console()) if output.is_table else lines_of(output) as on_change:
        document = wait_for(connection.backend, recovery, has_ended, timeout_s=None, on_change=on_change)
    return exit_code_of_state(document)


def _watch_all(connection: Connection, output: Format) -> int:
    """A line for each recovery as it is, then one for each change of any."""
    told: dict[str, Sequence[object]] = {}
    with detaching(None), lines_of(output) as on_change:
        for document in connection.backend.follow_all():
            if document is None:
                continue
            version = ((document.get("command") or {}).get("id"), document.get("version", 0))
            if told.get(document["recovery"]) != version:
                told[document["recovery"]] = version
                on_change(document)
    return ExitCode.DONE


@connected
def wait(
    connection: Connection,
    recovery: Id,
    wanted: Annotated[
        State | None, option("--for", "Until it is in this state; until it ended when left out.", "STATE")
    ] = None,
    at: Annotated[str | None, option("--at", "Until a workflow waits at this step, for an ack.", "STEP")] = None,
    timeout: Timeout = None,
    output: WideOutput = Format.TABLE,
) -> int:
    """Wait until a recovery ended; the exit code says how. Ends early, with 7, when it waits for approval."""
    if wanted is not None and at is not None:
        raise usage("--for and --at cannot both be waited for.", "Give one of them.")
    timeout_s = None if timeout is None else parse_duration_s(timeout, "--timeout")
    begun_s = time.monotonic()
    if timeout_s is None or connection.http is None:
        found = _find(connection, recovery)
    else:
        found = _find_within(connection, recovery, timeout_s)
    if at is not None:
        _check_step(found, at)

    def is_reached(document: Document) -> bool:
        if at is not None:
            _check_step(document, at)  # once more: while a plan is made, nobody knows its steps
            return has_ended(document) or _waits_at(document) == at
        return has_ended(document) or (is_settled(document) if wanted is None else document["state"] == wanted.value)

    with following(stderr_console()) as on_change:
        document = wait_for(
            connection.backend,
            recovery,
            is_reached,
            timeout_s=timeout_s,
            on_change=on_change,
            known=found,
            begun_s=begun_s,
        )
    show_recovery(document, output, with_result=True)
    if wanted is None and at is None:
        return exit_code_of_state(document)
    if _waits_at(document) == at if wanted is None else document["state"] == wanted.value:
        return ExitCode.DONE
    if wanted is None:
        note(f"{recovery} ended as {document['state']} and does not wait at {at}.")
        return exit_code_of_state(document) or ExitCode.FAILED
    note(f"{recovery} ended as {document['state']} and cannot become {wanted.value}.")
    return exit_code_of_state(document) or ExitCode.FAILED


def _check_step(document: Document, step: str) -> None:
    """Raises `Failure` where it has steps and none of this name, or will have none at all. A runbook gets the last ones
    with what is decided on its way.
    """
    from recoveryd.workflows.kinds.runbook.names import SHADOW  # noqa: PLC0415

    recovery = document["recovery"]
    if document.get("kind") != "workflow":
        message = f"{recovery} is a {document.get('kind') or 'recovery'}, which has no steps."
        hint = "Wait for one of its states with --for, or until it ended."
        raise Failure(Code.NOT_FOR_THIS_KIND, message, hint, otherwise=ExitCode.REJECTED)
    names = [each["name"] for each in document.get("steps") or ()]
    if document.get("workflow") == "runbook" and not has_ended(document):
        names += SHADOW
    if names and step not in names:
        hint = did_you_mean(step, names, f"Its steps are {', '.join(names)}.")
        raise Failure(Code.INVALID_VALUE, f"{recovery} has no step `{step}`.", hint, otherwise=ExitCode.NOT_FOUND)


def _waits_at(document: Document) -> str | None:
    return (document.get("waiting_for") or {}).get("step") or None


def events_of(connection: Connection, document: Document) -> list[Document]:
    """None when only `--http` was given: the API has no events."""
    try:
        return connection.backend.events(document["recovery"], since=document.get("created"))
    except RecoverydError as error:
        if connection.http is None or error.code is not Code.BOOTSTRAP_MISSING:
            raise
        note("Without events, which stand on a topic: give --bootstrap too to see them.")
        return []


def _find(connection: Connection, recovery: str) -> Document:
    document = connection.backend.status(recovery)
    if document is None:
        raise Failure(Code.NO_SUCH_RECOVERY, f"Nothing has the id `{recovery}`.")
    return document


def _find_within(connection: Connection, recovery: str, timeout_s: float) -> Document:
    """As `_find`, but whoever waits gets control back in time."""
    asked = Later(lambda: _find(connection, recovery))
    if not asked.wait(timeout_s):
        message = f"Nobody said within {timeout_s:g} s how {recovery} is."
        raise Failure(Code.WAIT_TIMED_OUT, message, f"Wait for it again with `recoveryctl wait {recovery}`.")
    return asked.result()
