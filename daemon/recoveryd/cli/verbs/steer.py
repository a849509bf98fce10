"""The verbs that steer a recovery which exists: pause, resume, stop, throttle, approve, reject.

Each sends one command and hears its answer; with `--wait` it stays until the recovery is where the command wants it.
`--all` means every replay and verification that has not ended, a command for each; a plan is approved or rejected by
its own hash, one at a time. What ends for good is asked about
first, where there is a terminal to ask on: an emergency stop in a script must not fail for want of a flag.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal

import typer

from recoveryd.cli.failure import ExitCode, Failure, usage
from recoveryd.cli.options import Reason, Yes, argument, option
from recoveryd.cli.render.output import confirm, note, print_failure, show, stderr_console
from recoveryd.cli.render.showing import show_recovery
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import Id, complete_ids, connected
from recoveryd.cli.send.sending import Sending, Staying, send
from recoveryd.cli.send.values import parse_count, parse_size
from recoveryd.cli.send.waiting import exit_code_of_state
from recoveryd.cli.status import Document, has_ended
from recoveryd.kernel.catalogue import Code

PlanHash = Annotated[str | None, option("--plan-hash", "The plan meant; read from the status when left out.", "HASH")]
Reached = Callable[[Document], bool]
SomeId = Annotated[str | None, argument("[ID]", "Recovery id.", autocompletion=complete_ids)]
Every = Annotated[bool, option("--all", "Every replay and verification that has not ended.")]
_COPIES = ("replay", "verification")
_IS_SO = {"pause": ("pausing", "paused"), "resume": (), "stop": ("stopping",), "throttle": ("stopping",)}


def add_to(app: typer.Typer) -> None:
    for verb in (
        pause,
        _make_verb("resume", "Go on with a paused recovery at the exact position; --wait stays until it ended."),
        _make_verb("stop", "End a recovery for good at a chunk boundary, with exact final positions."),
        throttle,
        _make_judging(
            "approve",
            "Let a recovery run that waits for approval, one plan at a time; --wait stays until it ended.",
            Staying,
        ),
        _make_judging("reject", "Refuse a recovery that waits for approval; it ends as rejected.", Sending),
    ):
        app.command(rich_help_panel="Steer")(verb)


def _is_paused(document: Document) -> bool:
    return bool(document["state"] == "paused")


def _make_verb(name: str, summary: str, is_reached: Reached = has_ended) -> Callable[..., int | None]:
    """The verb of a command that says a reason and nothing else."""

    def verb(
        connection: Connection,
        recovery: SomeId = None,
        every: Every = False,
        reason: Reason = None,
        yes: Yes = False,
        *,
        sending: Staying,
    ) -> int:
        return _steer_some(connection, name, recovery, every, {"reason": reason}, sending, is_reached, yes=yes)

    verb.__name__, verb.__doc__ = name, summary
    return connected(verb)


def _steer_some(
    connection: Connection,
    name: str,
    recovery: str | None,
    every: bool,
    data: Document,
    sending: Sending,
    is_reached: Reached,
    *,
    yes: bool,
) -> int:
    """One, or all for which it changes something."""
    if every == bool(recovery):
        raise usage(f"Say what to {name}.", "Give the id of one recovery, or --all.")
    if every and sending.command_id:
        raise usage("--command-id names one command, and --all sends several.", "Leave one of them out.")
    ids = [recovery] if recovery else _all_to(connection, name)
    if not ids:
        note(f"There is nothing to {name}.")
    elif name == "stop" and not (yes or sending.print_only):
        _ask_to_stop(connection, ids)
    if recovery:
        return _steer(connection, name, recovery, data, sending, is_reached)
    return _steer_all(connection, name, ids, data, sending, is_reached)


@connected
def pause(
    connection: Connection,
    recovery: SomeId = None,
    every: Every = False,
    release: Annotated[
        bool, option("--release", "Let the Spark application go; resume then starts another one.")
    ] = False,
    reason: Reason = None,
    yes: Yes = False,
    *,
    sending: Staying,
) -> int:
    """Hold a recovery at a chunk boundary; it stays paused over restarts until resumed."""
    data: Document = {"reason": reason} | ({"release": True} if release else {})
    return _steer_some(connection, "pause", recovery, every, data, sending, _is_paused, yes=yes)


def _all_to(connection: Connection, verb: str) -> list[str]:
    """Ids of the replays and verifications for which the verb changes something, in their order."""
    known = connection.backend.statuses()
    return sorted(
        recovery
        for recovery, document in known.items()
        if document.get("kind") in _COPIES and not has_ended(document) and document["state"] not in _IS_SO[verb]
        and (verb != "resume" or document["state"] in {"paused", "pausing"})
    )  # fmt: skip


def _ask_to_stop(connection: Connection, ids: Sequence[str]) -> None:
    """It cannot be taken back. Where nobody can be asked, it was meant."""
    if not connection.tools.is_interactive():
        return
    for one in ids:
        document = connection.backend.status(one)
        note(f"{one}: {document['state']}; {document.get('why') or ''}" if document else f"{one}: not known here")
    if not confirm(f"End {', '.join(ids)} for good?"):
        raise typer.Abort


def _rate(text: str, parse: Callable[[str, str], float], flag: str) -> float | None:
    return None if text == "none" else parse(text, flag)


@connected
def throttle(
    connection: Connection,
    recovery: SomeId = None,
    every: Every = False,
    max_bytes_per_s: Annotated[
        str | None, option("--max-bytes-per-s", "Rate of all lanes together, like 10MB, or none.", "SIZE")
    ] = None,
    max_records_per_s: Annotated[
        str | None, option("--max-records-per-s", "Rate of all lanes together, or none.", "N")
    ] = None,
    mode: Annotated[
        Literal["unlimited", "fixed", "controller"] | None,
        option("--mode", "controller yields to live traffic, up to the rate; kept when left out."),
    ] = None,
    lift: Annotated[bool, option("--lift", "No limit any more.")] = False,
    reason: Reason = None,
    *,
    sending: Sending,
) -> int:
    """Set or lift the rate of a recovery, within 5 seconds. A rate not given stays; `none` lifts it, `--lift` both.
    With `--all` each of them gets the same rate of its own.
    """
    if lift == bool(max_bytes_per_s or max_records_per_s) and (lift or mode is None):
        raise usage("Say which rate.", "Give --max-bytes-per-s, --max-records-per-s or --mode, or --lift alone.")
    limits: dict[str, object] = {"max_bytes_per_s": None, "max_records_per_s": None} if lift else {}
    if max_bytes_per_s is not None:
        limits["max_bytes_per_s"] = _rate(max_bytes_per_s, parse_size, "--max-bytes-per-s")
    if max_records_per_s is not None:
        limits["max_records_per_s"] = _rate(max_records_per_s, parse_count, "--max-records-per-s")
    if mode is not None:
        limits["mode"] = mode
    data: Document = {"reason": reason, "limits": limits}
    return _steer_some(connection, "throttle", recovery, every, data, sending, has_ended, yes=True)


def _make_judging(name: str, summary: str, kind: type[Sending]) -> Callable[..., int | None]:
    """The verb of a command that judges the plan that waits; `kind` is how it is sent."""

    def verb(
        connection: Connection,
        recovery: Id,
        plan_hash: PlanHash = None,
        reason: Reason = None,
        yes: Yes = False,
        *,
        sending: Sending,
    ) -> int:
        data = {"plan_hash": plan_hash or _hash_to_judge(connection, recovery, name, yes), "reason": reason}
        return _steer(connection, name, recovery, data, sending)

    verb.__name__, verb.__doc__, verb.__annotations__["sending"] = name, summary, kind
    return connected(verb)


def _steer(
    connection: Connection,
    verb: str,
    recovery: str,
    data: Mapping[str, object],
    sending: Sending,
    is_reached: Reached = has_ended,
) -> int:
    """Send, hear, and stay until `is_reached` (or the end) when wanted."""
    is_sent = _send(connection, verb, recovery, data, sending)
    if is_sent and isinstance(sending, Staying) and sending.wait:
        return _stay(connection, verb, recovery, sending, is_reached)
    return ExitCode.DONE


def _send(connection: Connection, verb: str, recovery: str, data: Mapping[str, object], sending: Sending) -> bool:
    """False when it was only to be printed. The answer is the result where nothing is waited for."""
    record = sending.make(connection, verb, recovery, data)
    if record is None:
        return False
    answer = send(connection, record, sending.timeout_s)
    if not (isinstance(sending, Staying) and sending.wait):
        show(answer, sending.output, list, [recovery])
    return True


def _steer_all(
    connection: Connection,
    verb: str,
    ids: Sequence[str],
    data: Mapping[str, object],
    sending: Sending,
    is_reached: Reached,
) -> int:
    """All are sent before one is waited for, and one that is refused (it may just have ended) stops no other."""
    codes: list[int] = []
    sent: list[str] = []
    for recovery in ids:
        try:
            sent += [recovery] if _send(connection, verb, recovery, data, sending) else []
        except Failure as failure:
            if failure.code is Code.NO_ANSWER:
                raise
            print_failure(failure, failure.exit_code)
            codes.append(failure.exit_code)
    if isinstance(sending, Staying) and sending.wait:
        codes += [_stay(connection, verb, recovery, sending, is_reached) for recovery in sent]
    return max(codes, default=ExitCode.DONE)


def _stay(connection: Connection, verb: str, recovery: str, sending: Staying, is_reached: Reached) -> int:
    document = sending.stay(connection, recovery, lambda seen: is_reached(seen) or has_ended(seen))
    show_recovery(document, sending.output)
    if verb == "stop" and document["state"] == "stopped" and not document.get("error_code"):
        return ExitCode.DONE  # also of a verification, which has no verdict then: that was wanted
    if is_reached(document):
        return exit_code_of_state(document)
    note(f"{recovery} ended as {document['state']} before {verb} could take effect.")
    return exit_code_of_state(document) or ExitCode.FAILED


def _hash_to_judge(connection: Connection, recovery: str, verb: str, yes: bool) -> str:
    """The hash of the plan that waits now, after a person saw it (or said --yes)."""
    document = connection.backend.status(recovery)
    if document is None:
        raise Failure(Code.NO_SUCH_RECOVERY, f"Nothing has the id `{recovery}`.")
    plan = document.get("plan")
    if document["state"] != "awaiting_approval" or not plan:
        message = f"{recovery} is {document['state']} and does not wait for approval."
        raise Failure(Code.NOT_IN_THIS_STATE, message, otherwise=ExitCode.REJECTED)
    if not yes:
        if not connection.tools.is_interactive():
            raise usage("There is no terminal to ask on.", f"Give --plan-hash {plan['hash']} or --yes.")
        from recoveryd.cli.render.recoveries import plan_parts  # noqa: PLC0415

        console = stderr_console(asks=True)
        for part in plan_parts(document):
            console.print(part)
        if not confirm(f"{verb.capitalize()} this plan?"):
            raise typer.Abort
    return str(plan["hash"])
