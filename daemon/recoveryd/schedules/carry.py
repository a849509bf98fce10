"""Where the next run of an incremental replay starts: exactly where the last one ended, by partition.

A command says so with `source.from: {"schedule": "last_end"}`, and with `first` where its first run starts. The end is
taken from the record of the run once that is over, when its ledger was read: positions that were only heard of are not
used, since a record before them could be copied twice, or one behind them never. Behind a loss that nobody accepted, or
a copy that is not what its source holds, no run goes on by itself.
"""

from collections.abc import Mapping
from typing import Any, Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.times import format_time_ms
from recoveryd.recovery.model import PartitionProgress, Recovery
from recoveryd.schedules.model import LastEnd, Schedule
from recoveryd.schedules.spec import ScheduledCommand

MARK: Final = "schedule"
LAST_END: Final = "last_end"
FIRST: Final = "first"
DEFAULT_FIRST: Final = "earliest"


def is_incremental(command: ScheduledCommand) -> bool:
    """Whether its runs continue each other."""
    return is_mark(source_of(command.data).get("from"))


def is_from_the_beginning(command: ScheduledCommand) -> bool:
    """Whether its runs continue each other, and the first one begins with all that the source holds."""
    bound = source_of(command.data).get("from")
    return isinstance(bound, Mapping) and is_mark(bound) and bound.get(FIRST, DEFAULT_FIRST) == DEFAULT_FIRST


def is_mark(bound: object) -> bool:
    """Whether a bound stands for the end of the last run."""
    return isinstance(bound, Mapping) and MARK in bound


def source_of(data: Mapping[str, object]) -> Mapping[str, Any]:
    source = data.get("source")
    return source if isinstance(source, Mapping) else {}


def with_start(data: Mapping[str, object], last_end: LastEnd | None) -> dict[str, object]:
    """The data of the next run. Partitions that were added since are taken from their beginning. Of a first run that
    began at a time the time is kept: what the runs leave out must not depend on where one of them stopped.
    """
    source = source_of(data)
    bound = source.get("from")
    if not isinstance(bound, Mapping) or not is_mark(bound):
        return dict(data)
    start: object = bound.get(FIRST, DEFAULT_FIRST)
    made = dict(data)
    if last_end is not None:
        offsets = {str(partition): offset for partition, offset in sorted(last_end.offsets.items())}
        since = {} if last_end.since_ms is None else {"since": format_time_ms(last_end.since_ms)}
        start = {"offsets": offsets, "others": "earliest", "topic_id": last_end.topic_id, **since}
        made |= _pinned(data.get("target"), last_end.target_topic_id)
    return {**made, "source": {**source, "from": start}}


def _pinned(target: object, topic_id: str) -> dict[str, object]:
    """The target as it is meant: what the runs before copied is in no other topic of its name."""
    return {"target": {"topic_id": topic_id, **target}} if topic_id and isinstance(target, Mapping) else {}


def end_of(recovery: Recovery, before: LastEnd | None) -> LastEnd | None:
    """Where the next run starts after this one, which has ended. `before` when it was never begun: its plan may have
    waited for an approval that did not come.
    """
    plan = recovery.plan
    if plan is None or recovery.started_ms is None:
        return before
    known = before.offsets if before is not None and before.topic_id == plan.source.topic_id else {}
    reached = {row.partition: _copied_to(recovery, row) for row in recovery.progress.partitions}
    source, offsets = plan.source, {**known, **reached}
    return LastEnd(
        source.cluster, source.topic, source.topic_id, offsets, recovery.id, plan.target.topic_id, plan.from_time_ms
    )


def _copied_to(recovery: Recovery, row: PartitionProgress) -> int:
    """A loss ends the copy of its partition, so it lies right before the position; one that is accepted is passed."""
    return row.position if recovery.spec.on_data_loss == "continue" else row.position - row.lost


def barrier(code: str | None, recovery: Recovery | None) -> Code | None:
    """Why no run begins where this one ended unless somebody says so, None = the next one does. `code`: that of its
    end, or of its answer; `recovery`: what it began, if that is known.
    """
    if recovery is not None and not recovery.is_position_exact:
        return Code.LAST_END_UNKNOWN
    if recovery is not None and has_lost(recovery):
        return Code.DATA_LOST
    return Code(code) if code in {Code.SOURCE_CUT_BACK, Code.VERIFICATION_MISMATCH} else None


def has_lost(recovery: Recovery) -> bool:
    """Whether records of its range are gone, or its log was cut back, which its command did not accept."""
    if recovery.error_code == Code.DATA_LOST:
        return True
    return recovery.spec.on_data_loss != "continue" and any(row.lost for row in recovery.progress.partitions)


def continues(schedule: Schedule, command: ScheduledCommand) -> bool:
    """Whether runs of `command` go on where those of an ended schedule stopped: same source, same target."""
    before = schedule.spec.command
    if not (is_incremental(before) and is_incremental(command)):
        return False
    return all(place(before, side) == place(command, side) for side in ("source", "target"))


def place(command: ScheduledCommand, side: str) -> tuple[object, object]:
    """Cluster and topic of its `source` or `target`."""
    found = command.data.get(side)
    named = found if isinstance(found, Mapping) else {}
    return named.get("cluster", "main"), named.get("topic")
