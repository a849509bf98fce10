"""Reads what a task of the proof has to read: both sides at the same time where they are compared as they are read,
else one after the other.

How far one side may read ahead of the other is bounded. Where each side waits for partitions that the other has not
come to, both pause those.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence

from confluent_kafka import Message

from recoveryd_jobs.contract import JobSpec
from recoveryd_jobs.digest import BLOCK, BLOCK_BYTES
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.selection import Selection
from recoveryd_jobs.verify.guest import Guest
from recoveryd_jobs.verify.ledger import ClaimedRun, ProofLedger
from recoveryd_jobs.verify.match import SOURCE, TARGET, Matches
from recoveryd_jobs.verify.plan import Asked, ProofPlan, ProofShare, cut_back, is_compared
from recoveryd_jobs.verify.reader import GROUP, WAIT_S, Listener, Place, Range, RangeReader
from recoveryd_jobs.verify.shown import Shown
from recoveryd_jobs.verify.sides import SourceSide, TargetSide

_LEAD_BYTES = 8 * 1024 * 1024
_GROUP_OFFSETS = 100_000  # of both sides together
_PIECE_BYTES = 2_000  # what an open digest costs without records
_RECORD_BYTES = 200  # what a record in it costs besides its bytes
_BYTES_GUESS = 1_000  # of a record, while nobody knows


class ShareReading:
    """Both sides of a share, read together where they are compared while they are read, else one after the other."""

    def __init__(
        self, spec: JobSpec, plan: ProofPlan, share: ProofShare, guest: Guest, ledger: ProofLedger, shown: Shown
    ) -> None:
        self._spec, self._plan, self._share, self._guest = spec, plan, share, guest
        self._ledger, self._shown = ledger, shown
        self._matches = Matches(shown.tell, shown.deny, compacted=plan.is_compacted) if is_compared(spec) else None
        selection = Selection(spec.source, spec.target, is_stamped=plan.is_stamped)
        self._asked = Asked(spec, SOURCE)
        self._sources = [r._replace(stop=end_of(plan, r, ledger)) for r in share.sources]
        wholes = {r.partition: r for r in self._sources}
        self._source_side = SourceSide(
            spec.recovery, selection, ledger, shown, wholes, self._matches,
            kept=bool(spec.receipts_topic), compacted=plan.is_compacted,
        )  # fmt: skip
        runs = (lambda r: ledger.runs(r.partition)) if spec.receipts_topic else _all_of(plan)
        self._target_side = TargetSide(
            spec.recovery, selection, ledger, shown, runs, self._matches,
            with_digest=spec.verify != "count", with_rows=spec.verify == "source",
        )  # fmt: skip

    def read(self) -> None:
        sources = [self._readable(r) for r in self._sources] if self._spec.verify == "source" else []
        with contextlib.ExitStack() as stack:
            source = self._reader(stack, 0, self._source_side) if sources else None
            target = self._reader(stack, 1, self._target_side) if self._share.targets else None
            if self._matches is not None and source is not None and target is not None:
                for pairs in _groups(sources, self._share.targets):
                    self._matches.begin(p for p, (here, there) in pairs.items() if here and there)
                    source.begin([here for here, _ in pairs.values() if here])
                    target.begin([there for _, there in pairs.values() if there])
                    self._step_both((source, target), self._matches)
            else:
                if source is not None:
                    source.read(sources, self._weight(SOURCE))
                if target is not None:
                    target.read(self._share.targets, self._weight(TARGET))

    def _weight(self, side: int) -> Callable[[Range], int]:
        """How many bytes the open digests of a range may hold: there is one for each pair that it is part of."""
        if self._spec.verify == "count":
            return lambda _range: 0
        is_spread, target = self._spec.target.mapping != "same", self._spec.target
        pairs = (target.partitions if side == SOURCE else len(self._plan.sources)) if is_spread else 1
        return lambda r: held_by_digests(r.stop - r.start, pairs)

    def _step_both(self, readers: tuple[RangeReader, RangeReader], matches: Matches) -> None:
        """Read next on the side of which fewer bytes wait for the other, so that few bytes wait."""
        while any(reader.is_open for reader in readers):
            count = self._guest.turn()
            self._hold_ahead(readers, matches)
            behind = TARGET if matches.lead[SOURCE] > matches.lead[TARGET] else SOURCE
            order = [side for side in (behind, 1 - behind) if readers[side].can_step]
            if len(order) == 2 and matches.lead[order[1]] > _LEAD_BYTES:
                order.pop()
            if not any(readers[side].step(count) for side in order):
                readers[order[0]].step(1, WAIT_S)

    def _hold_ahead(self, readers: tuple[RangeReader, RangeReader], matches: Matches) -> None:
        """When both sides are too far ahead, each in partitions that the other has not come to, neither reads more of
        these for now.
        """
        is_full = min(matches.lead) > _LEAD_BYTES
        for side, reader in enumerate(readers):
            if is_full or reader.held:
                ahead = matches.ahead(side)
                reader.hold(ahead if is_full else reader.held & ahead)

    def _readable(self, r: Range) -> Range:
        """The part of a range that the source still holds. Raises JobError where nothing else proves the rest."""
        log_start = self._plan.log_starts[r.partition]
        log_end = self._plan.log_end(r.partition, r.stop, self._asked)
        if not self._spec.receipts_topic:
            check_readable(self._spec, r.partition, r.start, log_start)
        if log_start > r.start:
            self._shown.readable_from[r.partition] = log_start
        stop = max(r.start, min(r.stop, log_end))
        if not self._ledger.calls_lost(r.partition, stop, r.stop, log_start):
            raise cut_back(self._spec.source.topic, r.partition, log_end, r.stop)
        return Range(r.partition, min(max(r.start, log_start), stop), stop)

    def _reader(self, stack: contextlib.ExitStack, which: int, listener: Listener) -> RangeReader:
        reader = open_reader(self._spec, which, self._guest, listener, self._shown.untimed)
        stack.callback(reader.close)
        return reader


def _groups(
    sources: Sequence[Range], targets: Sequence[Range]
) -> Iterator[dict[int, tuple[Range | None, Range | None]]]:
    """Both ranges of each partition, in groups that are read together; a large partition is alone."""
    here, there = ({r.partition: r for r in ranges} for ranges in (sources, targets))
    pairs = {p: (here.get(p), there.get(p)) for p in sorted(here.keys() | there.keys())}
    group: dict[int, tuple[Range | None, Range | None]] = {}
    offsets = 0
    for partition, pair in pairs.items():
        size = sum(r.stop - r.start for r in pair if r is not None)
        if group and (len(group) == GROUP or offsets + size > _GROUP_OFFSETS):
            yield group
            group, offsets = {}, 0
        group[partition] = pair
        offsets += size
    if group:
        yield group


def held_by_digests(offsets: int, pairs: int) -> int:
    """Bytes at most, but for records that are larger than most, of the open blocks of so many digests."""
    records = min(offsets, pairs * BLOCK)
    open_blocks = min(records * _BYTES_GUESS, pairs * BLOCK_BYTES) + records * _RECORD_BYTES
    return open_blocks + min(offsets, pairs) * _PIECE_BYTES


def end_of(plan: ProofPlan, ranged: Range, ledger: ProofLedger) -> int:
    """Where a range of the source ends that may end where its receipts end."""
    if ranged.partition not in plan.is_open:
        return ranged.stop
    held = max(ranged.start, ledger.position(ranged.partition) or ranged.start)
    return held if ranged.partition in plan.is_endless else min(ranged.stop, held)


def check_readable(spec: JobSpec, partition: int, start: int, log_start: int) -> None:
    """Raises JobError for deleted records of a source without receipts, which nothing else can prove."""
    if log_start > start:
        where = f"{spec.source.topic} partition {partition} begins at {log_start} now"
        raise JobError("data_lost", f"{where}, after the start {start} of the range, and there are no receipts.")


def _all_of(plan: ProofPlan) -> Callable[[Range], Iterator[ClaimedRun]]:
    """Without receipts and with equal partition numbers, the whole range of the target is claimed to come from the
    source partition of the same number, if there is one.
    """
    starts = {r.partition: r.start for r in plan.sources}
    return lambda r: iter(
        [ClaimedRun(r.start, r.stop - r.start, r.partition, starts[r.partition])] if r.partition in starts else []
    )


def open_reader(spec: JobSpec, which: int, guest: Guest, listener: Listener, untimed: list[int]) -> RangeReader:
    """A reader of the source (0) or the target (1). `untimed` counts, for each side, the records left out of a time
    window because they have no time.
    """
    topic, name = (spec.source, "source") if which == SOURCE else (spec.target, "target")
    place = Place(topic.client, topic.topic, name, Asked(spec, which))
    selection = Selection(spec.source, spec.target, is_stamped=False)
    if selection.window is not None and not spec.receipts_topic:
        listener = _Inside(listener, selection, which, untimed)
    return RangeReader(place, guest, listener, spec.stop_wait_ms / 1000.0)


class _Inside:
    """Passes on, of topics without receipts, the target's records whose time is inside the bounds; the source's side
    selects for itself.
    """

    def __init__(self, listener: Listener, selection: Selection, which: int, untimed: list[int]) -> None:
        self.begin, self.deleted, self.finish = listener.begin, listener.deleted, listener.finish
        self._feed, self._selection, self._which, self._untimed = listener.feed, selection, which, untimed

    def feed(self, partition: int, messages: list[Message]) -> int:
        self._untimed[self._which] += self._selection.untimed(messages)
        inside = self._selection.inside(messages) if self._which == TARGET else messages
        return self._feed(partition, inside) if inside else 0
