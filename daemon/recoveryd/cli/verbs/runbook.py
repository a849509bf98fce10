"""`recoveryctl runbook`: an application that stands still, in seven steps back to one that is verified; its one page;
and what becomes of what its shadow wrote.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from recoveryd.cli.failure import ExitCode, Failure, usage
from recoveryd.cli.options import Format, Output, Reason, option
from recoveryd.cli.render.output import show
from recoveryd.cli.render.showing import public
from recoveryd.cli.send.command import make_id
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import Id, connected
from recoveryd.cli.send.sending import Staying
from recoveryd.cli.send.values import ONCE, parse_pairs, parse_size, require_text, said_twice
from recoveryd.cli.status import Document
from recoveryd.cli.verbs.begin_workflow import NewId, PlanHash, PlanOnly, begin_workflow, steer_workflow
from recoveryd.cli.verbs.reprocess import OUTPUTS, parse_choices
from recoveryd.kernel.catalogue import Code

_group = typer.Typer(
    help="Seven steps from an application that stands still to one that is verified.", no_args_is_help=True
)
_PATHS = "auto, resume, restore_state, replay, shadow or escalate."
_MARK = "TOPIC:PARTITION=OFFSET"
_ONE_RANGE = "A runbook copies one range of a partition; begin another one for the other."
_NUMBER = re.compile(r"[0-9]{1,19}")


def add_to(app: typer.Typer) -> None:
    app.add_typer(_group, name="runbook", rich_help_panel="Start")


@_group.callback()
def _runbook() -> None:
    """Seven steps from an application that stands still to one that is verified."""


@_group.command("run")
@connected
def run_runbook(
    connection: Connection,
    unit: Annotated[str, typer.Argument(metavar="UNIT", help="A unit of the daemon's config.")],
    path: Annotated[str, option("--path", f"The way: {_PATHS}", "PATH", shows_default=True)] = "auto",
    savepoint: Annotated[str | None, option("--savepoint", "What restore_state begins with.", "NAME")] = None,
    outputs: Annotated[list[str] | None, option("--outputs", OUTPUTS, "TOPIC=POLICY")] = None,
    ranges: Annotated[
        list[str] | None,
        option("--range", "What replay and shadow copy; STOP itself is not copied.", "TOPIC:PARTITION=START-STOP"),
    ] = None,
    target: Annotated[
        str | None, option("--target", "The topic that replay writes, or that a shadow may be promoted to.", "TOPIC")
    ] = None,
    sink: Annotated[list[str] | None, option("--sink", "How far the sink goes in an input.", _MARK)] = None,
    state: Annotated[list[str] | None, option("--state", "How far a checkpoint goes in an input.", _MARK)] = None,
    checkpoint: Annotated[str | None, option("--checkpoint", "The id of that checkpoint.", "ID")] = None,
    error_topics: Annotated[
        list[str] | None, option("--error-topic", "A topic to which nothing may come meanwhile.", "TOPIC")
    ] = None,
    quotas: Annotated[
        list[str] | None,
        option("--quota", "Bytes per second that a client of anybody may read meanwhile.", "CLIENT_ID=SIZE"),
    ] = None,
    max_bytes_per_s: Annotated[
        str | None, option("--max-bytes-per-s", "How fast its replays copy at most, like 10MB.", "SIZE")
    ] = None,
    waive: Annotated[
        list[str] | None, option("--waive", "A gate that need not be green, and why.", "GATE=REASON")
    ] = None,
    hold: Annotated[
        str | None, option("--hold", "How long the gates of a shadow are green before it may be promoted.", "DURATION")
    ] = None,
    plan_only: PlanOnly = False,
    plan_hash: PlanHash = None,
    new_id: NewId = None,
    reason: Reason = None,
    *,
    sending: Staying,
) -> int:
    """Identify, confirm, choose, protect, execute, verify, close: one run that can be resumed, with one page."""
    require_text(
        {
            "--savepoint": savepoint,
            "--target": target,
            "--checkpoint": checkpoint,
            "--max-bytes-per-s": max_bytes_per_s,
            "--hold": hold,
        }
    )
    copied = _ranges(ranges)
    data: Document = {"reason": reason, "unit": unit, "path": path}
    more: Document = {
        "savepoint": savepoint,
        "outputs": parse_choices(outputs, "--outputs"),
        "topic": next(iter(copied), None),
        "ranges": next(iter(copied.values()), None),
        "target": target,
        "sink": _marks(sink, "--sink"),
        "state": _marks(state, "--state"),
        "checkpoint": checkpoint,
        "error_topics": error_topics,
        "quotas": {
            name: parse_size(rate, "--quota")
            for name, rate in parse_pairs(quotas, "--quota", "CLIENT_ID=SIZE", at_last=True).items()
        },
        "max_bytes_per_s": parse_size(max_bytes_per_s, "--max-bytes-per-s") if max_bytes_per_s else None,
        "waive": parse_pairs(waive, "--waive", "GATE=REASON"),
        "hold": hold,
    }
    data |= {name: value for name, value in more.items() if value}
    return begin_workflow(
        connection, "runbook", new_id or make_id(unit), data, sending, plan_only=plan_only, plan_hash=plan_hash
    )


@_group.command("show")
@connected
def show_runbook(connection: Connection, runbook: Id, output: Output = Format.TABLE) -> int:
    """The one page of a runbook: seen, decided, changed, verified, and what is open."""
    document = connection.backend.statuses().get(runbook)
    if document is None or document.get("workflow") != "runbook":
        raise Failure(Code.NO_SUCH_RECOVERY, f"There is no runbook {runbook}.", otherwise=ExitCode.NOT_FOUND)
    from recoveryd.cli.render.runbooks import runbook_page  # noqa: PLC0415

    show(public(document), output, lambda: runbook_page(document), [runbook])
    return ExitCode.DONE


@_group.command("promote")
@connected
def promote_shadow(connection: Connection, runbook: Id, reason: Reason = None, *, sending: Staying) -> int:
    """Copy what the shadow of a runbook wrote to its target, each record once."""
    return steer_workflow(connection, "promote", runbook, {"reason": reason}, sending)


@_group.command("discard")
@connected
def discard_shadow(connection: Connection, runbook: Id, reason: Reason = None, *, sending: Staying) -> int:
    """Delete what the shadow of a runbook wrote."""
    return steer_workflow(connection, "discard", runbook, {"reason": reason}, sending)


@_group.command("escalate")
@connected
def escalate_runbook(connection: Connection, runbook: Id, reason: Reason = None, *, sending: Staying) -> int:
    """End a runbook, and hand over what is known."""
    return steer_workflow(connection, "escalate", runbook, {"reason": reason}, sending)


def _places(texts: Iterable[str] | None, flag: str, form: str, once: str = ONCE) -> Iterator[tuple[str, str, str]]:
    """Topic, partition and what is said of it."""
    seen: set[tuple[str, str]] = set()
    for name, value in parse_pairs(texts, flag, form, once=once).items():
        topic, is_pair, written = name.rpartition(":")
        if not is_pair or not topic:
            raise _no_place(f"{flag} {name}={value}", flag, form)
        partition = str(_whole(written, flag, form))
        if (topic, partition) in seen:  # written in two ways, as 1 and 01
            raise said_twice(flag, f"{topic}:{partition}", once)
        seen.add((topic, partition))
        yield topic, partition, value


def _no_place(said: str, flag: str, form: str) -> Failure:
    return usage(f"{said} is not {form}.", f"Write {flag} {form}, once for each partition.")


def _whole(text: str, flag: str, form: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise _no_place(f"{flag} {text}", flag, form)
    return int(text)


def _marks(texts: list[str] | None, flag: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for topic, partition, value in _places(texts, flag, _MARK):
        found.setdefault(topic, {})[partition] = _whole(value, flag, _MARK)
    return found


def _ranges(texts: list[str] | None) -> dict[str, Any]:
    """One for each partition, as a runbook has them."""
    flag, form = "--range", "TOPIC:PARTITION=START-STOP"
    found: dict[str, dict[str, list[int]]] = {}
    for topic, partition, value in _places(texts, flag, form, _ONE_RANGE):
        start, dash, stop = value.partition("-")
        if not dash or not stop:
            raise _no_place(f"{flag} {topic}:{partition}={value}", flag, form)
        found.setdefault(topic, {})[partition] = [_whole(start, flag, form), _whole(stop, flag, form)]
    if len(found) > 1:
        raise usage(f"--range names {', '.join(found)}.", "A runbook copies ranges of one topic.")
    return found
