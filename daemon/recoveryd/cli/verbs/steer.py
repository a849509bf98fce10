"""The verbs that steer a recovery which exists: pause, resume, stop, throttle.

Each sends one command and hears its answer; with `--wait` it stays until the recovery is where the command wants it.
`--all` means every replay and verification that has not ended, of `pause` and `resume` every workflow too, a command
for each. What ends for good is asked about first, where there is a terminal to ask on: an emergency stop in a script
must not fail for want of a flag.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import typer

from recoveryd.cli.failure import usage
from recoveryd.cli.options import Reason, Yes, argument, option
from recoveryd.cli.render.output import confirm, note
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import complete_ids, connected
from recoveryd.cli.send.sending import Sending, Staying
from recoveryd.cli.send.values import parse_count, parse_size
from recoveryd.cli.status import Document, has_ended
from recoveryd.cli.verbs.steering import Reached, steer_all, steer_one

SomeId = Annotated[str | None, argument("[ID]", "Recovery id.", autocompletion=complete_ids)]
EveryCopy = Annotated[bool, option("--all", "Every replay and verification that has not ended.")]
Every = Annotated[bool, option("--all", "Every replay, verification and workflow that has not ended.")]
_COPIES = ("replay", "verification")
_IS_SO = {"pause": ("pausing", "paused"), "resume": (), "stop": ("stopping",), "throttle": ("stopping",)}
_OF_WORKFLOWS = {"pause": ("running", "waiting"), "resume": ("pausing", "paused")}  # others are ended one at a time


def add_to(app: typer.Typer) -> None:
    for verb in (
        pause,
        _make_verb("resume", "Go on with a paused recovery at the exact position; --wait stays until it ended.", Every),
        _make_verb("stop", "End a recovery for good at a chunk boundary, with exact final positions.", EveryCopy),
        throttle,
    ):
        app.command(rich_help_panel="Steer")(verb)


def _is_paused(document: Document) -> bool:
    return bool(document["state"] == "paused")


def _make_verb(name: str, summary: str, every_kind: Any) -> Callable[..., int | None]:
    """The verb of a command that says a reason and nothing else; `every_kind` is what it means by `--all`."""

    def verb(
        connection: Connection,
        recovery: SomeId = None,
        every: EveryCopy = False,
        reason: Reason = None,
        yes: Yes = False,
        *,
        sending: Staying,
    ) -> int:
        return _steer_some(connection, name, recovery, every, {"reason": reason}, sending, has_ended, yes=yes)

    verb.__name__, verb.__doc__, verb.__annotations__["every"] = name, summary, every_kind
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
    meant = {recovery: data} if recovery else _all_to(connection, name, data)
    if not meant:
        note(f"There is nothing to {name}.")
    elif name == "stop" and not (yes or sending.print_only):
        _ask_to_stop(connection, list(meant))
    if recovery:
        return steer_one(connection, name, recovery, data, sending, is_reached)
    return steer_all(connection, name, meant, sending, is_reached)


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
    """Hold a recovery at a chunk boundary; it stays paused over restarts until resumed. With `--all`, schedules go on
    to begin new ones.
    """
    data: Document = {"reason": reason} | ({"release": True} if release else {})
    return _steer_some(connection, "pause", recovery, every, data, sending, _is_paused, yes=yes)


def _all_to(connection: Connection, verb: str, data: Document) -> dict[str, Document]:
    """By id, the data for those for which the verb changes something. Workflows come last: each steers what it began
    too, which is so already then.
    """
    known = sorted(connection.backend.statuses().items())
    copies = [
        recovery
        for recovery, document in known
        if document.get("kind") in _COPIES and not has_ended(document) and document["state"] not in _IS_SO[verb]
        and (verb != "resume" or document["state"] in {"paused", "pausing"})
    ]  # fmt: skip
    workflows = [
        workflow
        for workflow, document in known
        if document.get("kind") == "workflow" and document["state"] in _OF_WORKFLOWS.get(verb, ())
    ]
    theirs = {name: value for name, value in data.items() if name != "release"}  # they have no application
    return {**dict.fromkeys(copies, data), **dict.fromkeys(workflows, theirs)}


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
    every: EveryCopy = False,
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
    weight: Annotated[float | None, option("--weight", "Share next to others; kept when left out.", "N")] = None,
    tier: Annotated[
        int | None,
        option("--tier", "Recoveries of a lower tier get their rate first; 0 to 9, kept when left out.", "N"),
    ] = None,
    lift: Annotated[bool, option("--lift", "No limit any more.")] = False,
    reason: Reason = None,
    *,
    sending: Sending,
) -> int:
    """Set or lift the rate of a recovery, within 5 seconds. A rate not given stays; `none` lifts it, `--lift` both.
    With `--all` each of them gets the same rate of its own.
    """
    has_rate = max_bytes_per_s is not None or max_records_per_s is not None
    how = {name: value for name, value in (("mode", mode), ("weight", weight), ("tier", tier)) if value is not None}
    if (lift and has_rate) or not (lift or has_rate or how):
        choice = "--max-bytes-per-s, --max-records-per-s, --mode, --weight or --tier, or --lift without a rate"
        raise usage("Say which rate.", f"Give {choice}.")
    limits: Document = {"max_bytes_per_s": None, "max_records_per_s": None} if lift else {}
    if max_bytes_per_s is not None:
        limits["max_bytes_per_s"] = _rate(max_bytes_per_s, parse_size, "--max-bytes-per-s")
    if max_records_per_s is not None:
        limits["max_records_per_s"] = _rate(max_records_per_s, parse_count, "--max-records-per-s")
    data: Document = {"reason": reason, "limits": limits | how}
    return _steer_some(connection, "throttle", recovery, every, data, sending, has_ended, yes=True)
