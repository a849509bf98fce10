"""What each side of the proof shows, as one digest per receipt and pair of partitions. Fed with what readers see; no I/O but the task's own ledger file.

A pair is (source partition, target partition), a segment what one receipt covers of it. Segments only say where to cut: every record that a reader of the
source sees belongs to exactly one segment, also where no receipt is, and every record that a reader of the target sees belongs to a claimed run or is
extra. So when all segments of a pair agree and stand in order, the pair agrees, whatever the receipts say. What they say is compared with what was seen.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import Message

from spark_jobs.contract import Difference
from spark_jobs.digest import SequenceDigest
from spark_jobs.proof_ledger import Claim, ClaimedRun, ProofLedger
from spark_jobs.proof_reader import Range
from spark_jobs.selection import Columns, Selection

DIFFERENCES_MAX = 100
ROW = struct.Struct("<qq16s")  # start of the segment, records, digest

_offset_of = Message.offset
Pair = tuple[int, int]


@dataclass(slots=True)
class Shown:
    """What one task saw. `sources`, `targets`: rows of segments per pair, in order. `dissent`: (pair, start) where a receipt says something else of its
    records in the target than what stands there.
    """

    sources: dict[Pair, bytearray] = field(default_factory=dict)
    targets: dict[Pair, bytearray] = field(default_factory=dict)
    dissent: set[tuple[Pair, int]] = field(default_factory=set)
    undigested: set[tuple[Pair, int]] = field(default_factory=set)  # where a receipt has no digest to prove anything by
    differences: list[Difference] = field(default_factory=list)
    differences_more: int = 0
    selected: int = 0  # source records in the rows
    promised: int = 0  # records that receipts call copied, where the source is not read again
    claimed: int = 0  # target records in the rows
    extra: dict[int, int] = field(default_factory=dict)
    extra_runs: list[tuple[int, int, int]] = field(default_factory=list)  # target partition, first offset, records
    vanished: int = 0  # offsets that receipts call filtered and compaction took since
    lost: int = 0  # offsets that receipts call lost, and that are not readable
    readable_from: dict[int, int] = field(default_factory=dict)  # source partitions that begin later than the range
    unread: dict[int, int] = field(default_factory=dict)  # offsets of these that receipts do not call lost

    def differ(self, difference: Difference) -> None:
        if len(self.differences) < DIFFERENCES_MAX:
            self.differences.append(difference)
        else:
            self.differences_more += 1


class Segment(NamedTuple):
    start: int
    stop: int
    claim: Claim | None


def segments(
    partition: int, start: int, stop: int, ledger: ProofLedger, shown: Shown, *, kept: bool
) -> Iterator[Segment]:
    """[start, stop) of a source partition, cut where receipts begin and end; what is wrong with the receipts themselves goes to `shown`. `kept`: there should be some."""
    at = start
    for claim in ledger.claims(partition):
        _audit_sums(partition, claim, ledger, shown)
        if claim.start > at:
            count = min(claim.start, stop) - at
            _differ(shown, partition, at, count, f"No receipt covers the {count} offsets from here.")
            yield Segment(at, claim.start, None)
        if claim.start < at:
            _differ(
                shown,
                partition,
                claim.start,
                at - claim.start,
                "The receipt that begins here covers offsets that another one covers.",
            )
        if claim.stop > stop:
            _differ(
                shown,
                partition,
                max(stop, claim.start),
                claim.stop - max(stop, claim.start),
                "A receipt goes past the end of the range.",
            )
        if claim.stop > max(at, claim.start):
            yield Segment(max(at, claim.start), claim.stop, claim)
        at = max(at, claim.stop)
    if at < stop:
        if kept:
            _differ(shown, partition, at, stop - at, f"No receipt covers the {stop - at} offsets from here to the end.")
        yield Segment(at, stop, None)


def _differ(shown: Shown, partition: int, start: int, count: int, message: str) -> None:
    shown.differ(Difference("ledger", partition, start, None, None, count, message))


def _audit_sums(partition: int, claim: Claim, ledger: ProofLedger, shown: Shown) -> None:
    explained, count = claim.copied + claim.filtered + claim.skipped + claim.lost, claim.stop - claim.start
    if explained != count:
        _differ(shown, partition, claim.start, count, f"The receipt explains {explained} of {count} offsets.")
    said, held = ledger.sent(partition, claim.start)
    if said != claim.copied:
        _differ(shown, partition, claim.start, count, f"The receipt says {claim.copied} copied and {said} sent.")
    if said != held:
        _differ(shown, partition, claim.start, count, f"The receipt says {said} sent, its runs hold {held}.")


class _Piece:
    """Records of one segment that go to one target partition."""

    __slots__ = ("digest", "records")

    def __init__(self, digest: SequenceDigest | None) -> None:
        self.digest = digest
        self.records = 0

    def take(self, columns: Columns) -> None:
        self.records += len(columns.offsets)
        if self.digest is not None:
            self.digest.extend(columns.keys, columns.values, columns.times, columns.headers)

    def row(self, start: int) -> bytes:
        return ROW.pack(start, self.records, b"" if self.digest is None else self.digest.digest())


class SourceSide:
    """Takes what readers of the source see. `starts`: where ranges begin of which the first part is not there to be read.

    `kept`: somebody kept receipts, so they must cover all. `compacted`: records may have gone since they were copied.
    """

    def __init__(
        self,
        recovery: str,
        selection: Selection,
        ledger: ProofLedger,
        shown: Shown,
        starts: Mapping[int, int],
        *,
        kept: bool,
        compacted: bool,
    ) -> None:
        self._recovery, self._selection, self._ledger, self._shown = recovery, selection, ledger, shown
        self._starts, self._kept, self._compacted = starts, kept, compacted
        self._segments: dict[int, Iterator[Segment]] = {}
        self._current: dict[int, Segment | None] = {}
        self._pieces: dict[int, dict[int, _Piece]] = {}
        self._seen: dict[int, int] = {}

    def begin(self, ranged: Range) -> None:
        partition = ranged.partition
        start = min(ranged.start, self._starts.get(partition, ranged.start))
        self._segments[partition] = segments(partition, start, ranged.stop, self._ledger, self._shown, kept=self._kept)
        self._pieces[partition], self._seen[partition] = {}, 0
        self._current[partition] = next(self._segments[partition], None)

    def feed(self, partition: int, messages: list[Message]) -> None:
        offsets: list[int] = list(map(_offset_of, messages))  # type: ignore[arg-type]
        at = 0
        while at < len(offsets):
            segment = self._current[partition]
            if segment is None:
                return  # past the range: nobody's
            cut = bisect_left(offsets, segment.stop, at)
            if cut > at:
                self._take(partition, messages[at:cut] if cut - at < len(offsets) else messages)
                at = cut
            if cut < len(offsets):
                self._close(partition, segment)

    def deleted(self, partition: int, log_start: int) -> None:
        """The range is not whole any more: its segments that begin before `log_start` and are not closed yet get no row."""
        self._shown.readable_from[partition] = log_start

    def finish(self, partition: int) -> None:
        while (segment := self._current[partition]) is not None:
            self._close(partition, segment)

    def _take(self, partition: int, messages: list[Message]) -> None:
        self._seen[partition] += len(messages)
        columns = self._selection.expected(messages)
        if not columns.offsets:
            return
        to = self._selection.targets(partition, columns.keys, columns.offsets)
        if to is None:
            self._piece(partition, partition).take(columns)
            return
        for target in set(to):
            self._piece(partition, target).take(columns.only([t == target for t in to]))

    def _piece(self, partition: int, target: int) -> _Piece:
        pieces = self._pieces[partition]
        if target not in pieces:
            pieces[target] = _Piece(SequenceDigest(self._recovery, target))
        return pieces[target]

    def _close(self, partition: int, segment: Segment) -> None:
        pieces, seen = self._pieces[partition], self._seen[partition]
        shown, readable_from = self._shown, self._shown.readable_from.get(partition, 0)
        if segment.start < readable_from:
            lost = 0 if segment.claim is None else segment.claim.lost
            shown.lost += lost
            gone = min(segment.stop, readable_from) - segment.start
            shown.unread[partition] = shown.unread.get(partition, 0) + max(0, gone - lost)
        else:
            selected = 0
            for target, piece in pieces.items():
                shown.sources.setdefault((partition, target), bytearray()).extend(piece.row(segment.start))
                selected += piece.records
            shown.selected += selected
            if segment.claim is not None:
                self._audit(partition, segment, segment.claim, seen, selected)
        self._pieces[partition], self._seen[partition] = {}, 0
        self._current[partition] = next(self._segments[partition], None)

    def _audit(self, partition: int, segment: Segment, claim: Claim, seen: int, selected: int) -> None:
        """Is what the receipt calls copied, filtered, skipped and lost what a reader of its range sees?"""
        said, count = claim.copied + claim.filtered, segment.stop - segment.start
        if seen > said:
            hidden = f"{seen - said} readable records skipped or lost"
            message = f"The receipt calls {hidden}: it says {claim.skipped} skipped, {claim.lost} lost."
            _differ(self._shown, partition, segment.start, count, message)
        elif seen < said and not self._compacted:
            message = (
                f"The receipt says {claim.copied} copied and {claim.filtered} filtered, only {seen} records are there."
            )
            _differ(self._shown, partition, segment.start, count, message)
        elif seen == said and selected != claim.copied:
            message = f"The receipt says {claim.copied} copied, {selected} of its records are inside the bounds."
            _differ(self._shown, partition, segment.start, count, message)
        else:
            self._shown.vanished += max(0, claim.filtered - (seen - selected))


class _Cursor:
    """Where the check of one target partition stands among its claimed runs."""

    __slots__ = ("next", "open", "run", "runs", "taken")

    def __init__(self, runs: Iterator[ClaimedRun]) -> None:
        self.runs = runs
        self.run: ClaimedRun | None = next(runs, None)
        self.open: dict[int, tuple[int, _Piece]] = {}  # source partition: (start of its segment, what was seen of it)
        self.taken = 0  # end of the runs so far


class TargetSide:
    """Takes what readers of the target see. `runs` tells what is claimed of a range, in order. `with_digest` False = counts only."""

    def __init__(
        self,
        recovery: str,
        selection: Selection,
        ledger: ProofLedger,
        shown: Shown,
        runs: Callable[[Range], Iterator[ClaimedRun]],
        *,
        with_digest: bool,
    ) -> None:
        self._recovery, self._selection, self._ledger, self._shown = recovery, selection, ledger, shown
        self._runs, self._with_digest = runs, with_digest
        self._cursors: dict[int, _Cursor] = {}

    def begin(self, ranged: Range) -> None:
        target = ranged.partition
        cursor = self._cursors[target] = _Cursor(self._runs(ranged))
        if cursor.run is not None:
            self._enter(target, cursor, cursor.run)

    def feed(self, target: int, messages: list[Message]) -> None:
        cursor = self._cursors[target]
        offsets: list[int] = list(map(_offset_of, messages))  # type: ignore[arg-type]
        at = 0
        while at < len(offsets):
            run = cursor.run
            low = len(offsets) if run is None else bisect_left(offsets, run.first, at)
            self._extra(target, offsets[at:low])
            if run is None or low == len(offsets):
                return
            at = bisect_left(offsets, run.first + run.records, low)
            if at > low:
                piece = cursor.open[run.source][1]
                piece.take(self._columns(messages[low:at] if at - low < len(offsets) else messages))
            if at < len(offsets):
                self._advance(target, cursor)

    def finish(self, target: int) -> None:
        cursor = self._cursors.pop(target)
        while cursor.run is not None:
            self._advance(target, cursor)
        for source in list(cursor.open):
            self._close(target, cursor, source)

    def deleted(self, partition: int, log_start: int) -> None:
        """What is gone from the target is missing there; its claims find too few records."""

    def _columns(self, messages: list[Message]) -> Columns:
        if self._with_digest:
            return self._selection.seen(messages)
        return Columns(messages, [], [], [], None)

    def _advance(self, target: int, cursor: _Cursor) -> None:
        """On to the next run. What another run claimed already is not counted twice: the rest of a run behind it is taken."""
        while True:
            if cursor.run is not None:
                cursor.taken = max(cursor.taken, cursor.run.first + cursor.run.records)
            cursor.run = run = next(cursor.runs, None)
            if run is None:
                return
            self._enter(target, cursor, run)
            if run.first >= cursor.taken:
                return
            stop = run.first + run.records
            message = (
                f"Receipt {run.start} of source partition {run.source} claims records that another receipt claims."
            )
            self._shown.differ(
                Difference(
                    "ledger", run.source, run.start, target, run.first, min(stop, cursor.taken) - run.first, message
                )
            )
            if stop > cursor.taken:
                cursor.run = run._replace(first=cursor.taken, records=stop - cursor.taken)
                return

    def _enter(self, target: int, cursor: _Cursor, run: ClaimedRun) -> None:
        known = cursor.open.get(run.source)
        if known is not None and known[0] == run.start:
            return
        if known is not None:
            self._close(target, cursor, run.source)
            if run.start < known[0]:
                message = f"Records of source partition {run.source} from {run.start} on stand behind those from {known[0]} on."
                self._shown.differ(
                    Difference("reordered", run.source, run.start, target, run.first, run.records, message)
                )
        digest = SequenceDigest(self._recovery, target) if self._with_digest else None
        cursor.open[run.source] = run.start, _Piece(digest)

    def _close(self, target: int, cursor: _Cursor, source: int) -> None:
        start, piece = cursor.open.pop(source)
        row = piece.row(start)
        self._shown.targets.setdefault((source, target), bytearray()).extend(row)
        self._shown.claimed += piece.records
        claimed, place = self._ledger.digest(source, target, start), ((source, target), start)
        if claimed is None:
            return
        if claimed.records != piece.records or (self._with_digest and not row.endswith(claimed.digest)):
            self._shown.dissent.add(place)
        elif self._with_digest and not claimed.digest:
            self._shown.undigested.add(place)

    def _extra(self, target: int, offsets: list[int]) -> None:
        if not offsets:
            return
        shown = self._shown
        shown.extra[target] = shown.extra.get(target, 0) + len(offsets)
        last = shown.extra_runs[-1] if shown.extra_runs else None
        if (
            last is not None
            and last[0] == target
            and last[1] + last[2] == offsets[0]
            and offsets[-1] - offsets[0] == len(offsets) - 1
        ):
            shown.extra_runs[-1] = target, last[1], last[2] + len(offsets)
            return
        first = previous = offsets[0]
        for offset in [*offsets[1:], -1]:
            if offset != previous + 1:
                if len(shown.extra_runs) < DIFFERENCES_MAX:
                    shown.extra_runs.append((target, first, previous - first + 1))
                first = offset
            previous = offset
