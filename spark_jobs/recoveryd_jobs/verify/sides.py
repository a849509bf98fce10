"""What each side of the proof sees of each receipt's records, per pair of partitions. Fed by readers; no I/O but the
task's own ledger file.

A pair is (source partition, target partition); a segment is what one receipt covers of it. Segments only say where to
cut: every record that a reader of the source sees belongs to exactly one segment, even where there is no receipt, and
every record that a reader of the target sees belongs to a claimed run or is extra. So when all segments of a pair agree
and are in order, the pair agrees, whatever the receipts say. What they say is compared with what was seen.

Where partitions keep their number, a task has both sides and compares them as they are read (`match`). Where keys
choose the partition, each side yields a digest per segment and pair, and another task compares those.
"""

import hashlib
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from confluent_kafka import Message

from recoveryd_jobs.contract import Difference
from recoveryd_jobs.digest import SequenceDigest
from recoveryd_jobs.selection import Columns, Selection
from recoveryd_jobs.verify.ledger import ClaimedRun, ProofLedger, ReceiptClaim
from recoveryd_jobs.verify.match import SOURCE, TARGET, Matches, PairMatch
from recoveryd_jobs.verify.reader import Range
from recoveryd_jobs.verify.segments import Segment, segments
from recoveryd_jobs.verify.shown import DIFFERENCES_MAX, ROW, Shown, no_verdict

_DIGEST_SIZE = 16

_offset_of = Message.offset


class _Piece:
    """Records of one segment, or of what can be read of it, that go to one target partition."""

    __slots__ = ("digest", "expected", "records")  # `expected`: in all its runs, 0 = unknown

    def __init__(self, digest: SequenceDigest | None, expected: int = 0) -> None:
        self.digest, self.expected = digest, expected
        self.records = 0

    def take(self, columns: Columns) -> None:
        self.records += len(columns.offsets)
        if self.digest is not None:
            self.digest.extend(columns.keys, columns.values, columns.times, columns.headers)

    def settle(self) -> None:
        """No more records are expected, so nothing but their sum is kept."""
        if self.digest is not None:
            self.digest.settle()

    def row(self, start: int) -> bytes:
        return ROW.pack(start, self.records, b"" if self.digest is None else self.digest.digest())


class SourceSide:
    """Takes what readers of the source see.

    `matches`: where a partition's selected records are compared; None = by digests. `wholes`: by partition, the range
    of which some of the beginning or the end cannot be read; at the end is only what receipts call lost. `kept`: the
    copy has receipts, so they must cover everything. `compacted`: records may have disappeared since they were copied.
    """

    def __init__(
        self,
        recovery: str,
        selection: Selection,
        ledger: ProofLedger,
        shown: Shown,
        wholes: Mapping[int, Range],
        matches: Matches | None,
        *,
        kept: bool,
        compacted: bool,
    ) -> None:
        self._recovery, self._selection, self._ledger, self._shown = recovery, selection, ledger, shown
        self._wholes, self._matches, self._kept, self._compacted = wholes, matches, kept, compacted
        self._segments: dict[int, Iterator[Segment]] = {}
        self._current: dict[int, Segment | None] = {}
        self._pieces: dict[int, dict[int, _Piece]] = {}
        self._seen: dict[int, int] = {}
        self._lost: dict[int, tuple[int, int]] = {}  # [from, to) that cannot be read because the log was cut back
        self._rest: dict[int, int] = {}  # of what was seen of a segment: the records after what is gone of it

    def begin(self, ranged: Range) -> None:
        partition = ranged.partition
        whole = self._wholes.get(partition, ranged)
        start, self._lost[partition] = min(ranged.start, whole.start), (ranged.stop, whole.stop)
        self._segments[partition] = segments(partition, start, whole.stop, self._ledger, self._shown, kept=self._kept)
        if start < self._readable_from(partition):
            self._shown.cut.setdefault(partition, []).append((start, self._readable_from(partition)))
        self._open_next(partition)

    def _open_next(self, partition: int) -> None:
        self._pieces[partition], self._seen[partition], self._rest[partition] = {}, 0, 0
        self._current[partition] = next(self._segments[partition], None)

    def feed(self, partition: int, messages: list[Message]) -> int:
        offsets: list[int] = list(map(_offset_of, messages))  # type: ignore[arg-type]
        at = header_bytes = 0
        while at < len(offsets):
            segment = self._current[partition]
            if segment is None:
                break  # after the range
            cut = bisect_left(offsets, segment.stop, at)
            if cut > at:
                header_bytes += self._take(partition, messages[at:cut] if cut - at < len(offsets) else messages)
                at = cut
            if cut < len(offsets):
                self._close(partition, segment)
        return header_bytes

    def deleted(self, partition: int, position: int, log_start: int) -> None:
        """Segments that were not read whole get no row, only a tail of what can still be read after `log_start`. What
        was read between two losses of one segment has no known place in it, so it is counted and not compared.
        """
        if not self._kept:
            raise no_verdict(partition, log_start)
        while (segment := self._current[partition]) is not None and segment.stop <= position:
            self._close(partition, segment)
        if segment is not None and not self._is_cut(partition):
            self._keep_heads(partition, segment)
        elif (dropped := sum(piece.records for piece in self._pieces[partition].values())) > 0:
            self._shown.uncompared[partition] = self._shown.uncompared.get(partition, 0) + dropped
        self._shown.readable_from[partition] = log_start
        if segment is not None:
            self._shown.cut.setdefault(partition, []).append((segment.start, log_start))
            self._pieces[partition], self._rest[partition] = {}, 0

    def _keep_heads(self, partition: int, segment: Segment) -> None:
        """Of records that were not compared as they were read, what sums them up."""
        for target, piece in self._pieces[partition].items():
            if piece.digest is not None and piece.records:
                self._shown.heads.setdefault((partition, target), bytearray()).extend(piece.row(segment.start))

    def finish(self, partition: int) -> None:
        while (segment := self._current[partition]) is not None:
            self._close(partition, segment)
        if (match := self._match(partition, partition)) is not None:
            match.finish(SOURCE)

    def _match(self, partition: int, target: int) -> PairMatch | None:
        return None if self._matches is None else self._matches.of(partition, target)

    def _take(self, partition: int, messages: list[Message]) -> int:
        """Returns the bytes of the headers."""
        self._seen[partition] += len(messages)
        self._rest[partition] += len(messages)
        columns = self._selection.expected(messages)
        if not columns.offsets:
            return 0
        to = self._selection.targets(partition, columns.keys, columns.offsets)
        if to is None:
            self._piece(partition, partition).take(columns)
            segment, match = self._current[partition], self._match(partition, partition)
            if match is not None and segment is not None and not self._is_cut(partition):
                match.feed(SOURCE, segment.start, columns)
        else:
            for target, part in columns.split(to):
                self._piece(partition, target).take(part)
        return columns.header_bytes

    def _piece(self, partition: int, target: int) -> _Piece:
        pieces = self._pieces[partition]
        if target not in pieces:
            is_matched = self._matches is not None and not self._is_cut(partition)
            pieces[target] = _Piece(None if is_matched else SequenceDigest(self._recovery, target))
        return pieces[target]

    def _is_cut(self, partition: int) -> bool:
        """Whether a part of the current segment cannot be read any more."""
        segment = self._current[partition]
        return segment is not None and segment.start < self._readable_from(partition)

    def _readable_from(self, partition: int) -> int:
        return self._shown.readable_from.get(partition, 0)

    def _close(self, partition: int, segment: Segment) -> None:
        if self._is_cut(partition):
            self._close_cut(partition, segment)
        else:
            self._close_whole(partition, segment)
        self._open_next(partition)

    def _close_whole(self, partition: int, segment: Segment) -> None:
        selected = 0
        for target, piece in self._pieces[partition].items():
            row, match = piece.row(segment.start), self._match(partition, target)
            if match is None:
                self._shown.tell((partition, target), SOURCE, row)
            else:
                match.close(SOURCE, segment.start, row)
            selected += piece.records
        self._shown.selected += selected
        self._shown.lost += self._lost_of(partition, segment)
        if segment.claim is not None:
            self._audit(partition, segment, segment.claim, self._seen[partition], selected)

    def _close_cut(self, partition: int, segment: Segment) -> None:
        shown, readable_from = self._shown, self._readable_from(partition)
        lost = 0 if segment.claim is None else segment.claim.lost
        shown.lost += lost
        gone = min(segment.stop, readable_from) - segment.start
        unread = gone + self._lost_of(partition, segment) - lost
        shown.unread[partition] = shown.unread.get(partition, 0) + max(0, unread)
        selected = 0
        for target, piece in self._pieces[partition].items():
            shown.tails.setdefault((partition, target), bytearray()).extend(piece.row(segment.start))
            selected += piece.records
        shown.selected += selected
        if segment.claim is not None:
            self._audit_cut(partition, segment, segment.claim, gone, selected)

    def _lost_of(self, partition: int, segment: Segment) -> int:
        """How many offsets of the segment cannot be read because the log was cut back."""
        start, stop = self._lost[partition]
        return max(0, min(segment.stop, stop) - max(segment.start, start))

    def _audit(self, partition: int, segment: Segment, claim: ReceiptClaim, seen: int, selected: int) -> None:
        """Compare what the receipt calls copied, filtered, skipped and lost with what a reader of its range saw."""
        said, count = claim.copied + claim.filtered, segment.stop - segment.start
        if seen > said:
            hidden = f"{seen - said} readable records skipped or lost"
            message = f"The receipt calls {hidden}: it says {claim.skipped} skipped, {claim.lost} lost."
            self._shown.doubt_receipt(partition, segment.start, count, message)
        elif seen < said and not self._compacted:
            message = (
                f"The receipt says {claim.copied} copied and {claim.filtered} filtered, only {seen} records are there."
            )
            self._shown.doubt_receipt(partition, segment.start, count, message)
        elif seen == said and selected != claim.copied:
            message = f"The receipt says {claim.copied} copied, {selected} of its records are inside the bounds."
            self._shown.doubt_receipt(partition, segment.start, count, message)

    def _audit_cut(self, partition: int, segment: Segment, claim: ReceiptClaim, gone: int, selected: int) -> None:
        """The same for a segment whose first `gone` offsets cannot be read any more; `selected` are records after
        these. The receipt may call copied or filtered what can be read, and at most one record for each offset that is
        gone.
        """
        seen, rest = self._seen[partition], self._rest[partition]
        said, count = claim.copied + claim.filtered, segment.stop - segment.start
        if seen > said:
            self._audit(partition, segment, claim, seen, selected)
        elif selected > claim.copied or rest - selected > claim.filtered:
            message = (
                f"The receipt says {claim.copied} copied and {claim.filtered} filtered; of what can still be read "
                f"{selected} records are inside the bounds and {rest - selected} are not."
            )
            self._shown.doubt_receipt(partition, segment.start, count, message)
        elif rest < said - gone and not self._compacted:
            message = (
                f"The receipt says {claim.copied} copied and {claim.filtered} filtered. {gone} of its offsets cannot be "
                f"read any more, and after them are only {rest} records."
            )
            self._shown.doubt_receipt(partition, segment.start, count, message)


class _Cursor:
    """How far the check of one target partition got in its claimed runs."""

    __slots__ = ("extra_at", "extra_stop", "folds", "open", "run", "runs", "taken")

    def __init__(self, runs: Iterator[ClaimedRun]) -> None:
        self.runs = runs
        self.run: ClaimedRun | None = next(runs, None)
        self.open: dict[int, tuple[int, _Piece]] = {}  # source partition: (start of its segment, records seen of it)
        self.folds: dict[int, Any] = {}  # source partition: digest of the rows so far
        self.taken = 0  # where the runs so far end
        self.extra_at: int | None = None  # where the newest run that nobody claims is listed, None = it is not
        self.extra_stop = -1  # where that run ends


class TargetSide:
    """Takes what readers of the target see. `runs` yields the claimed runs of a range, in order. `with_digest` False =
    records are only counted.

    `matches`: where records are compared as they are read. `with_rows`: another task compares digests of the rest.
    """

    def __init__(
        self,
        recovery: str,
        selection: Selection,
        ledger: ProofLedger,
        shown: Shown,
        runs: Callable[[Range], Iterator[ClaimedRun]],
        matches: Matches | None,
        *,
        with_digest: bool,
        with_rows: bool,
    ) -> None:
        self._recovery, self._selection, self._ledger, self._shown = recovery, selection, ledger, shown
        self._runs, self._matches, self._with_digest, self._with_rows = runs, matches, with_digest, with_rows
        self._cursors: dict[int, _Cursor] = {}

    def begin(self, ranged: Range) -> None:
        target = ranged.partition
        cursor = self._cursors[target] = _Cursor(self._runs(ranged))
        if cursor.run is not None:
            self._enter(target, cursor, cursor.run)

    def feed(self, target: int, messages: list[Message]) -> int:
        cursor = self._cursors[target]
        offsets: list[int] = list(map(_offset_of, messages))  # type: ignore[arg-type]
        at = header_bytes = 0
        while at < len(offsets):
            run = cursor.run
            low = len(offsets) if run is None else bisect_left(offsets, run.first, at)
            self._extra(target, offsets[at:low])
            if run is None or low == len(offsets):
                break
            at = bisect_left(offsets, run.first + run.records, low)
            if at > low:
                start, piece = cursor.open[run.source]
                columns = self._columns(messages[low:at] if at - low < len(offsets) else messages)
                header_bytes += columns.header_bytes
                piece.take(columns)
                if piece.records == piece.expected:
                    piece.settle()  # it stays open until the next segment of its source partition comes
                if (match := self._match(run.source, target)) is not None:
                    match.feed(TARGET, start, columns)
            if at < len(offsets):
                self._advance(target, cursor)
        return header_bytes

    def finish(self, target: int) -> None:
        cursor = self._cursors.pop(target)
        while cursor.run is not None:
            self._advance(target, cursor)
        for source in list(cursor.open):
            self._close(target, cursor, source)
        self._shown.folds |= {(source, target): fold.digest() for source, fold in cursor.folds.items()}
        if (match := self._match(target, target)) is not None:
            match.finish(TARGET)

    def _match(self, source: int, target: int) -> PairMatch | None:
        return None if self._matches is None else self._matches.of(source, target)

    def deleted(self, partition: int, position: int, log_start: int) -> None:
        """Nothing to do: records gone from the target are missing there, and their claims find too few records."""

    def _columns(self, messages: list[Message]) -> Columns:
        if self._with_digest:
            return self._selection.seen(messages)
        return Columns(messages, [], [], [], None)

    def _advance(self, target: int, cursor: _Cursor) -> None:
        """Go on to the next run. Of a run that overlaps earlier ones only the rest is taken, so that no record counts
        twice.
        """
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
                message = (
                    f"Records of source partition {run.source} from {run.start} on stand behind those from "
                    f"{known[0]} on."
                )
                self._shown.differ(
                    Difference("reordered", run.source, run.start, target, run.first, run.records, message)
                )
        digest = SequenceDigest(self._recovery, target) if self._with_digest else None
        cursor.open[run.source] = run.start, _Piece(digest, self._ledger.held(target, run.source, run.start))

    def _close(self, target: int, cursor: _Cursor, source: int) -> None:
        start, piece = cursor.open.pop(source)
        row, match = piece.row(start), self._match(source, target)
        if match is not None:
            match.close(TARGET, start, row)
        elif self._with_rows:
            self._shown.tell((source, target), TARGET, row)
        cursor.folds.setdefault(source, hashlib.sha256()).update(row)
        self._shown.claimed += piece.records
        claimed = self._ledger.digest(source, target, start)
        if claimed is None:
            return
        differs = claimed.digest not in (b"", row[-_DIGEST_SIZE:])
        if claimed.records != piece.records or (self._with_digest and differs):
            self._shown.dissent.setdefault((source, target), array("q")).append(start)
        elif self._with_digest and not claimed.digest:
            self._shown.undigested.setdefault((source, target), array("q")).append(start)

    def _extra(self, target: int, offsets: list[int]) -> None:
        if not offsets:
            return
        shown, cursor = self._shown, self._cursors[target]
        shown.extra[target] = shown.extra.get(target, 0) + len(offsets)
        for first, count in _runs_of(offsets):
            if first == cursor.extra_stop and cursor.extra_at is not None:
                _, began, known = shown.extra_runs[cursor.extra_at]
                shown.extra_runs[cursor.extra_at] = target, began, known + count
            elif first != cursor.extra_stop and len(shown.extra_runs) < DIFFERENCES_MAX:
                cursor.extra_at = len(shown.extra_runs)
                shown.extra_runs.append((target, first, count))
            elif first != cursor.extra_stop:
                cursor.extra_at = None
                shown.extra_runs_more += 1
            cursor.extra_stop = first + count


def _runs_of(offsets: list[int]) -> Iterator[tuple[int, int]]:
    """(first offset, how many) of each row of offsets without a gap."""
    first = previous = offsets[0]
    for offset in [*offsets[1:], -1]:
        if offset != previous + 1:
            yield first, previous - first + 1
            first = offset
        previous = offset
