"""What the proof has to read, pinned once by the driver, and shared out to tasks."""

import time
from dataclasses import dataclass, replace

from confluent_kafka import KafkaException

from spark_jobs.contract import JobSpec, PartitionRange
from spark_jobs.errors import JobError
from spark_jobs.proof_reader import Range
from spark_jobs.topics import Bounds, NoAnswer, Topic

PATIENCE_S = 120.0
_CUT_BACK_AFTER_S = 10.0
_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class ProofPlan:
    """`sources`: the planned ranges as far as they can end; where `is_open`, the ledger says where. `log_starts` of the source, `offsets` on both sides."""

    sources: tuple[Range, ...]
    targets: tuple[Range, ...]
    log_starts: dict[int, int]
    is_stamped: bool
    is_compacted: bool
    is_open: frozenset[int]

    @property
    def offsets(self) -> int:
        return sum(r.stop - r.start for r in (*self.sources, *self.targets))


@dataclass(frozen=True, slots=True)
class ProofShare:
    """What one task reads."""

    task: int
    tasks: int
    sources: tuple[Range, ...] = ()
    targets: tuple[Range, ...] = ()

    @property
    def offsets(self) -> int:
        return sum(r.stop - r.start for r in (*self.sources, *self.targets))


def pair_up(plan: ProofPlan, tasks: int, *, is_spread: bool) -> list[ProofShare]:
    """Shares that hold both sides of what they compare: partitions of the same number, or everything in one when keys choose the partition."""
    if is_spread:
        return [ProofShare(0, 1, plan.sources, plan.targets)]
    targets = {r.partition: r for r in plan.targets}
    count = max(1, min(tasks, len(plan.sources)))
    pairs = sorted(plan.sources, key=lambda r: r.start - r.stop)
    alone = tuple(r for r in plan.targets if r.partition not in {s.partition for s in plan.sources})
    return [
        ProofShare(
            n,
            count,
            tuple(pairs[n::count]),
            (*(targets[r.partition] for r in pairs[n::count]), *(alone if n == 0 else ())),
        )
        for n in range(count)
    ]


def make_topics(spec: JobSpec) -> tuple[Topic, Topic]:
    client_id = f"recoveryd.{spec.recovery}.verifier"
    return Topic(spec.source, "source", client_id), Topic(spec.target, "target", client_id)


def check_topics(topics: tuple[Topic, ...]) -> None:
    """Raises JobError when a topic is another one than planned, or nobody answers."""
    for topic, code in zip(topics, ("source_unavailable", "target_unavailable"), strict=True):
        try:
            topic.check_id(time.monotonic() + PATIENCE_S)
        except NoAnswer as silence:
            raise JobError(code, f"No answer from the cluster: {silence}.") from None


def make_plan(spec: JobSpec, *, is_whole: bool) -> ProofPlan:
    """`is_whole`: every lane came to the end of its range; else a range ends where its receipts do. Raises JobError."""
    source, target = make_topics(spec)
    check_topics((source, target))
    ranges = [r for lane in spec.lanes for r in lane.partitions]
    numbers = [r.partition for r in ranges]
    to = numbers if spec.target.mapping == "same" else list(range(spec.target.partitions))
    if spec.target.stops:  # a range of the target was planned: all of it is looked at
        to = [partition for partition, _ in spec.target.stops]
    try:
        source_bounds = _source_bounds(source, ranges) if spec.verify == "source" else {}
        target_bounds = _bounds(target, to, "target_unavailable")
        is_stamped = target.settings().is_stamped
        is_compacted = spec.verify == "source" and source.settings().is_compacted
    except KafkaException as raised:
        raise JobError("target_unavailable", f"The topics can not be described: {raised.args[0].str()}.") from None
    starts, stops = dict(spec.target.starts), dict(spec.target.stops)
    return ProofPlan(
        sources=tuple(_source_range(r, source_bounds.get(r.partition)) for r in ranges),
        targets=tuple(_target_range(p, b, starts, stops) for p, b in sorted(target_bounds.items())),
        log_starts={p: b.start for p, b in source_bounds.items()},
        is_stamped=is_stamped,
        is_compacted=is_compacted,
        is_open=frozenset(r.partition for r in ranges if r.stop is None or not is_whole),
    )


def _source_range(planned: PartitionRange, bounds: Bounds | None) -> Range:
    end = planned.stop if planned.stop is not None else planned.start if bounds is None else bounds.high
    return Range(planned.partition, planned.start, max(planned.start, end))


def _target_range(partition: int, bounds: Bounds, starts: dict[int, int], stops: dict[int, int]) -> Range:
    start = max(bounds.start, starts.get(partition, bounds.start))
    return Range(partition, start, max(start, stops.get(partition, bounds.high)))


def _source_bounds(source: Topic, ranges: list[PartitionRange]) -> dict[int, Bounds]:
    """A broker that just started may not know its high watermark yet: ask for a while before believing that the log is shorter."""
    deadline_s = time.monotonic() + _CUT_BACK_AFTER_S
    while True:
        found = _bounds(source, [r.partition for r in ranges], "source_unavailable")
        short = [r for r in ranges if r.stop is not None and found[r.partition].high < r.stop]
        if not short:
            return found
        if time.monotonic() >= deadline_s:
            number, stop, high = short[0].partition, short[0].stop, found[short[0].partition].high
            raise JobError(
                "data_lost", f"{source.name} partition {number} ends at {high}, before {stop}: it was cut back."
            )
        time.sleep(_PAUSE_S)


def _bounds(topic: Topic, partitions: list[int], code: str) -> dict[int, Bounds]:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return topic.bounds(partitions) if partitions else {}
        except NoAnswer as silence:
            if time.monotonic() >= deadline_s:
                raise JobError(code, f"No answer from the cluster: {silence}.") from None
            time.sleep(_PAUSE_S)


def share_out(plan: ProofPlan, tasks: int, *, with_sources: bool) -> list[ProofShare]:
    """Ranges for each task, the heaviest first, so that tasks end at about the same time. At least one task, for the ledger's sake."""
    items = [(r, False) for r in plan.targets] + [(r, True) for r in plan.sources if with_sources]
    count = max(1, min(tasks, len(items)))
    shares, weights = [ProofShare(n, count) for n in range(count)], [0] * count
    for item, is_source in sorted(items, key=lambda i: i[0].start - i[0].stop):
        at = weights.index(min(weights))
        weights[at] += item.stop - item.start
        share = shares[at]
        shares[at] = (
            replace(share, sources=(*share.sources, item))
            if is_source
            else replace(share, targets=(*share.targets, item))
        )
    return shares
