"""What the proof has to read, fixed once by the driver and divided among tasks."""

import functools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from recoveryd_jobs.contract import JobSpec, PartitionRange
from recoveryd_jobs.errors import JobError, naming_side
from recoveryd_jobs.topics import LogBounds, NoAnswer, Topic
from recoveryd_jobs.verify.match import SOURCE, TARGET
from recoveryd_jobs.verify.reader import Range

PATIENCE_S = 120.0
_CUT_BACK_AFTER_S = 10.0
_MARKER_AFTER_S = 5.0
_PAUSE_S = 0.5
_NAMED_MAX = 5
T = TypeVar("T")
STAMPED = "the target stamps records with the time they land: times were not compared"


@dataclass(frozen=True, slots=True)
class ProofPlan:
    """`sources`: the planned ranges, as far as they can end; those in `is_open` end where their receipts end, and those
    in `is_endless` have no other end: here they go as far as their log, or nowhere where it was not asked. `log_starts`
    are the source's. `log_ends`: of logs that end before their range does, as after an unclean election, or whose range
    has no end: what lies after it must be lost by all receipts.

    `targets`: of an exclusive target, all partitions that got something, even those that the copy does not write to.
    `beside`: by partition of a shared target that the copy does not write to, how many offsets others wrote.
    `width`: how many partitions the target had; for a verification, when it was planned. `added`: by partition that the
    target got since a verification was planned, how many offsets it holds. `uncopied`: by partition that the source got
    since the plan, how many offsets it holds that a copy of all partitions lacks.
    """

    sources: tuple[Range, ...]
    targets: tuple[Range, ...]
    log_starts: dict[int, int]
    is_stamped: bool
    is_compacted: bool
    is_open: frozenset[int]
    beside: dict[int, int] = field(default_factory=dict)
    width: int = 0
    added: dict[int, int] = field(default_factory=dict)
    uncopied: dict[int, int] = field(default_factory=dict)
    log_ends: dict[int, int] = field(default_factory=dict)
    is_endless: frozenset[int] = frozenset()

    @property
    def offsets(self) -> int:
        return sum(r.stop - r.start for r in (*self.sources, *self.targets))

    @property
    def target_ends(self) -> dict[int, int]:
        return {r.partition: r.stop for r in self.targets}

    def log_end(self, partition: int, stop: int, asked: "Asked") -> int:
        """Where the source's log ends, if that is before `stop`, the end of its range; else `stop` or more. Where only
        receipts tell the end of the range, the log is asked again whether it is shorter. Raises JobError.
        """
        end = self.log_ends.get(partition, stop)
        return asked.log_end(partition, stop) if end < stop and partition in self.is_endless else end

    @property
    def notes(self) -> list[str]:
        """What the verdict does not cover, for its readers."""
        notes = [STAMPED] if self.is_stamped else []
        if self.beside:
            who = f"others wrote to {len(self.beside)} partitions that the copy does not write to"
            notes.append(f"{who}: {_listed(self.beside)}")
        if self.added:
            notes.append(f"not compared, because the target got it after the plan: {_listed(self.added)}")
        if self.uncopied:
            notes.append(f"not copied, because the source got it too late: {_listed(self.uncopied)}")
        return notes


def _listed(offsets: Mapping[int, int]) -> str:
    return ", ".join(f"{n} offsets in partition {p}" for p, n in sorted(offsets.items())[:_NAMED_MAX])


@dataclass(frozen=True, slots=True)
class ProofShare:
    """What one task reads. The tasks from `first` up to `tasks` read at the same time; no two of a proof have the same
    number.
    """

    task: int
    tasks: int
    sources: tuple[Range, ...] = ()
    targets: tuple[Range, ...] = ()
    first: int = 0

    @property
    def offsets(self) -> int:
        return sum(r.stop - r.start for r in (*self.sources, *self.targets))


def make_topics(spec: JobSpec) -> tuple[Topic, Topic]:
    return _make_topic(spec, SOURCE), _make_topic(spec, TARGET)


def _make_topic(spec: JobSpec, side: int) -> Topic:
    client_id = f"recoveryd.{spec.recovery}.verifier"
    place, name = (spec.source, "source") if side == SOURCE else (spec.target, "target")
    with naming_side(name):
        return Topic(place, name, client_id)


def check_topics(topics: tuple[Topic, ...]) -> None:
    """Raises JobError when a topic is another one than planned, or the cluster does not answer."""
    for topic in topics:
        _check(topic)


def _check(topic: Topic) -> None:
    _ask(topic, topic.check_id)


def _width(topic: Topic) -> int:
    """By all brokers: a partition that is left out here would be read by nobody."""
    return _ask(topic, topic.width)


def _ask(topic: Topic, question: Callable[[float], T]) -> T:
    """`question` takes the deadline."""
    try:
        with topic.naming():
            return question(time.monotonic() + PATIENCE_S)
    except NoAnswer as silence:
        raise topic.unanswered(silence) from None


class Asked:
    """The topic of one side while it is read. It has clients of its own, made at the first question."""

    def __init__(self, spec: JobSpec, side: int) -> None:
        self._topic = functools.cache(lambda: _make_topic(spec, side))

    def log_start(self, partition: int) -> int:
        """Raises JobError when the cluster does not answer, or the topic is gone."""
        return _bounds(self._topic(), [partition])[partition].start

    def log_end(self, partition: int, stop: int) -> int:
        """The high watermark, asked for until it is at `stop` or for a while. Raises as `log_start`."""
        wanted = [PartitionRange(partition, 0, stop)]
        return _bounds_up_to(self._topic(), wanted)[partition].high

    def check(self) -> None:
        """Raises JobError when the topic is another one or gone, or the cluster does not answer."""
        _check(self._topic())

    def silence(self, partition: int, position: int, stop: int) -> JobError:
        """Why nothing comes from [position, stop) any more. Raises as `log_start`."""
        return explain_silence(self._topic(), partition, position, stop)


def make_plan(spec: JobSpec, *, is_whole: bool) -> ProofPlan:
    """`is_whole`: every lane came to the end of its range; otherwise a range ends where its receipts end. Raises
    JobError.
    """
    source, target = make_topics(spec)
    check_topics((source, target))
    width = _width(target) if spec.receipts_topic else spec.target.partitions
    ranges = [r for lane in spec.lanes for r in lane.partitions]
    numbers = [r.partition for r in ranges]
    to = numbers if spec.target.mapping == "same" else list(range(spec.target.partitions))
    if spec.target.stops:  # a range of the target was planned: read all of it
        to = [partition for partition, _ in spec.target.stops]
    source_bounds = _source_bounds(spec, source, ranges) if spec.verify == "source" else {}
    target_bounds = _target_bounds(target, spec, list(range(width)) if spec.receipts_topic else to)
    is_stamped = _ask(target, target.settings).is_stamped
    is_compacted = spec.verify == "source" and _ask(source, source.settings).is_compacted
    starts, stops = dict(spec.target.starts), dict(spec.target.stops)
    found = {p: _target_range(p, b, starts, stops) for p, b in sorted(target_bounds.items())}
    beside = {p: r.stop - r.start for p, r in found.items() if p not in to and r.stop > r.start}
    if spec.target.exclusive:
        to, beside = [*to, *beside], {}
    return ProofPlan(
        sources=tuple(_source_range(r, source_bounds.get(r.partition)) for r in ranges),
        targets=tuple(found[p] for p in sorted(to)),
        log_starts={p: b.start for p, b in source_bounds.items()},
        is_stamped=is_stamped,
        is_compacted=is_compacted,
        is_open=frozenset(r.partition for r in ranges if r.stop is None or not is_whole),
        beside=beside,
        width=width,
        log_ends={r.partition: source_bounds[r.partition].high for r in _loose(ranges, source_bounds)},
        is_endless=frozenset(r.partition for r in ranges if r.stop is None),
    )


def look_again(spec: JobSpec, plan: ProofPlan) -> ProofPlan:
    """Once both sides are read: the plan for what was added since, with nothing to read but partitions of a target of
    our own. Others are named. Raises JobError.
    """
    known = spec.source.partitions
    uncopied = _offsets(_added(spec, SOURCE, known)) if known else {}
    rest = replace(plan, sources=(), targets=(), uncopied=uncopied)
    if not spec.receipts_topic and len(dict(spec.target.stops)) < plan.width:
        return rest  # a part of the target is compared, to which no partition can be added
    found = _added(spec, TARGET, plan.width)
    if not spec.receipts_topic:
        return replace(rest, added=_offsets(found))
    if spec.target.exclusive:
        return replace(rest, targets=found)
    return replace(rest, beside=plan.beside | _offsets(found))


def _added(spec: JobSpec, side: int, width: int) -> tuple[Range, ...]:
    """What lies in partitions that the topic has now, besides the first `width`."""
    topic = _make_topic(spec, side)
    bounds = _bounds(topic, list(range(width, _width(topic))))
    return tuple(Range(p, b.start, b.high) for p, b in sorted(bounds.items()) if b.high > b.start)


def _offsets(ranges: Iterable[Range]) -> dict[int, int]:
    return {r.partition: r.stop - r.start for r in ranges}


def share_rest(rest: ProofPlan, tasks: int) -> list[ProofShare]:
    """The task that reads what `look_again` found, after the other `tasks`. Nothing where there is nothing to read."""
    return [ProofShare(tasks, tasks + 1, (), rest.targets, tasks)] if rest.targets else []


def _source_range(planned: PartitionRange, bounds: LogBounds | None) -> Range:
    end = planned.stop if planned.stop is not None else planned.start if bounds is None else bounds.high
    return Range(planned.partition, planned.start, max(planned.start, end))


def _target_range(partition: int, bounds: LogBounds, starts: dict[int, int], stops: dict[int, int]) -> Range:
    start = max(bounds.start, starts.get(partition, bounds.start))
    return Range(partition, start, max(start, stops.get(partition, bounds.high)))


def _short(ranges: Iterable[PartitionRange], bounds: Mapping[int, LogBounds]) -> list[PartitionRange]:
    """The ranges that go past the end of their log."""
    return [r for r in ranges if r.stop is not None and r.partition in bounds and bounds[r.partition].high < r.stop]


def _loose(ranges: Iterable[PartitionRange], bounds: Mapping[int, LogBounds]) -> list[PartitionRange]:
    """Those, and the ranges that have no end."""
    return [*_short(ranges, bounds), *(r for r in ranges if r.stop is None and r.partition in bounds)]


def cut_back(topic: str, partition: int, end: int, stop: int) -> JobError:
    """The error for a log that ends before the range does."""
    return JobError("data_lost", f"{topic} partition {partition} ends at {end}, before {stop}: it was cut back.")


def explain_silence(topic: Topic, partition: int, position: int, stop: int) -> JobError:
    """The error for a reader that comes no further than `position`, though it is to read up to `stop`. Only where
    readers may see no more is it somebody's transaction; else the broker may give more later. Raises JobError when the
    cluster does not answer, or the topic is gone.
    """
    bounds = _bounds_up_to(topic, [PartitionRange(partition, 0, stop)])[partition]
    if bounds.high < stop:
        return cut_back(topic.name, partition, bounds.high, stop)
    where = f"{topic.name} partition {partition} cannot be read past {position}, what is to be read ends at {stop}"
    if bounds.stable < stop and position >= bounds.stable:
        return JobError("stop_blocked", f"{where}: a foreign transaction that began at {bounds.stable} is open.")
    return JobError(topic.unavailable, f"{where}: the broker does not give what it has.")


def _source_bounds(spec: JobSpec, source: Topic, ranges: list[PartitionRange]) -> dict[int, LogBounds]:
    """Only receipts can say that the loss of an end is known."""
    found = _bounds_up_to(source, ranges)
    if (short := _short(ranges, found)) and not spec.receipts_topic:
        number, stop = short[0].partition, short[0].stop
        assert stop is not None
        raise cut_back(source.name, number, found[number].high, stop)
    return found


def _bounds_up_to(topic: Topic, ranges: list[PartitionRange]) -> dict[int, LogBounds]:
    """Ask for a while before believing that a log is shorter than its range: a broker that just started may not know
    its high watermark yet.
    """
    deadline_s = time.monotonic() + _CUT_BACK_AFTER_S
    while True:
        found = _bounds(topic, [r.partition for r in ranges])
        if not _short(ranges, found) or time.monotonic() >= deadline_s:
            return found
        time.sleep(_PAUSE_S)


def _target_bounds(target: Topic, spec: JobSpec, partitions: list[int]) -> dict[int, LogBounds]:
    """Of a target of our own with the marker of its last transaction, which the broker writes after it said that it is
    committed: else that would look as if it came after the copy. Whoever else holds a transaction open there is waited
    for when it is read. Raises JobError for a log that ends before what was planned to be read of it.
    """
    planned = [PartitionRange(p, 0, stop) for p, stop in spec.target.stops]
    if short := _short(planned, ends := _bounds_up_to(target, planned)):
        number, stop = short[0].partition, dict(spec.target.stops)[short[0].partition]
        raise cut_back(target.name, number, ends[number].high, stop)
    deadline_s = time.monotonic() + _MARKER_AFTER_S
    while True:
        found = _bounds(target, partitions)
        is_owned = bool(spec.receipts_topic) and spec.target.exclusive
        if not is_owned or all(b.stable == b.high for b in found.values()) or time.monotonic() >= deadline_s:
            return found
        time.sleep(_PAUSE_S)


def _bounds(topic: Topic, partitions: list[int]) -> dict[int, LogBounds]:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            with topic.naming():
                return topic.bounds(partitions) if partitions else {}
        except NoAnswer as silence:
            if time.monotonic() >= deadline_s:
                raise topic.unanswered(silence) from None
            time.sleep(_PAUSE_S)


def share_out(spec: JobSpec, plan: ProofPlan, tasks: int) -> list[ProofShare]:
    """Ranges for each task, the largest assigned first, so that tasks end at about the same time. At least one task,
    because receipts are checked in any case.

    A task that compares has both sides: partitions of the same number, or everything where keys chose the partition and
    there are no receipts. Otherwise each side yields digests, and any task can take any range.
    """
    if spec.target.mapping == "same":
        items = [_Item((r,), ()) for r in plan.sources] if is_compared(spec) else []
        paired = {r.partition: r for r in plan.targets}
        items = [i._replace(targets=tuple(t for r in i.sources if (t := paired.pop(r.partition, None)))) for i in items]
        items += [_Item((), (r,)) for r in paired.values()]
    elif is_spilled(spec):
        items = [_Item(plan.sources, plan.targets)]
    else:
        items = [_Item((), (r,)) for r in plan.targets]
        items += [_Item((r,), ()) for r in plan.sources if spec.verify == "source"]
    count = max(1, min(tasks, len(items)))
    shares, weights = [ProofShare(n, count) for n in range(count)], [0] * count
    for item in sorted(items, key=lambda i: -i.weight):
        at = weights.index(min(weights))
        weights[at] += item.weight
        share = shares[at]
        shares[at] = replace(share, sources=(*share.sources, *item.sources), targets=(*share.targets, *item.targets))
    return shares


def is_spilled(spec: JobSpec) -> bool:
    """Whether the proof has to keep each record, or each key, on disk."""
    return spec.compare == "latest" or (spec.target.mapping != "same" and not spec.receipts_topic)


def is_compared(spec: JobSpec) -> bool:
    """Whether a task compares both sides of its partitions itself."""
    return is_spilled(spec) or (spec.verify == "source" and spec.target.mapping == "same")


def is_apart(spec: JobSpec) -> bool:
    """Whether the two sides of a pair are read by different tasks, so that rows of all segments have to be compared."""
    return spec.verify == "source" and not is_compared(spec)


class _Item(NamedTuple):
    """Ranges that must be in one task."""

    sources: tuple[Range, ...]
    targets: tuple[Range, ...]

    @property
    def weight(self) -> int:
        return sum(r.stop - r.start for r in (*self.sources, *self.targets))
