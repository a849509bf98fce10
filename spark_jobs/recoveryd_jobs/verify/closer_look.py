"""The closer look at segments of a pair of partitions where source and target differ: both sides are read again, record
by record. Where the source lost the beginning of a segment, what is left in the source must be the end of what the
target holds, and what was read of the segment before the loss must be its beginning. Where compaction took others, both
need only be a part of it, and what was read before and is gone now cannot be compared: the finding counts it.
"""

import time
from collections.abc import Iterator
from itertools import chain, islice

from confluent_kafka import Consumer, Message, TopicPartition

from recoveryd_jobs import errors
from recoveryd_jobs.clients import QUICK_FETCH_WAIT_MS, make_reader, meet
from recoveryd_jobs.contract import Difference, JobSpec
from recoveryd_jobs.digest import SequenceDigest
from recoveryd_jobs.errors import naming_side
from recoveryd_jobs.fetching import Fetching
from recoveryd_jobs.selection import Columns, Selection, size_without_headers
from recoveryd_jobs.sound_logs import is_harmless
from recoveryd_jobs.verify.differences import ComparedRecord, FoundDifference, differences, is_subsequence
from recoveryd_jobs.verify.guest import Guest
from recoveryd_jobs.verify.judge import Head, PairFinding, PairQuestion, Tail, gone_since
from recoveryd_jobs.verify.ledger import ProofLedger
from recoveryd_jobs.verify.match import SOURCE, TARGET
from recoveryd_jobs.verify.plan import Asked, ProofPlan
from recoveryd_jobs.verify.segments import SegmentWalk, segments
from recoveryd_jobs.verify.shown import DIFFERENCES_MAX, Pair, Shown
from recoveryd_jobs.verify.silence import Silence
from recoveryd_jobs.verify.spill import content_hash

_QUEUE_BYTES = 4 * 1024 * 1024
_WAIT_S = 0.1
_NAMES = "source", "target"

_WORDS = {
    "missing": "{n} of the source {are} not in the target.",
    "extra": "{n} of the target {are} not in the source.",
    "altered": "The record is another one in the target.",
    "reordered": "The record stands in another place of the target.",
}


class Look:
    """Answers the questions that one task got. Close it afterwards."""

    def __init__(self, spec: JobSpec, plan: ProofPlan, ledger: ProofLedger, guest: Guest) -> None:
        self._spec, self._plan, self._ledger, self._guest = spec, plan, ledger, guest
        self._selection = Selection(spec.source, spec.target, is_stamped=plan.is_stamped)
        self._asked = Asked(spec, SOURCE), Asked(spec, TARGET)
        self._readers: dict[int, Consumer] = {}  # by side
        self._fetching = Fetching(), Fetching()
        self._walks: dict[int, SegmentWalk] = {}  # by source partition, of which it has the last one

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()

    def answer(self, question: PairQuestion) -> PairFinding:
        """The differences of a pair. After DIFFERENCES_MAX of them it stops reading, and counts each further segment as
        one.
        """
        finding, pair, tails = PairFinding(), question.pair, {tail.start: tail for tail in question.tails}
        left = {*question.starts, *tails}
        for side in (SOURCE, TARGET) if not self._readers else ():
            self._readers[side] = self._reader(side)
        for head in question.heads:
            if head.room >= 0 and self._begins_with(pair, head):
                continue
            if self._plan.is_compacted and head.room > 0:  # others were compacted away before they were read
                finding.heads += head.records
            else:
                finding.differences.append(gone_since(pair, head.start))
        for start, stop in self._segments(pair[0], sorted(left)):
            left.discard(start)
            tail, read = tails.get(start), question.agreed.get(start)
            if tail is not None and self._is_held(pair, tail):
                continue
            if len(finding.differences) >= DIFFERENCES_MAX:
                finding.more += 1
            elif read is None or not self._is_compacted(
                question, (start, stop), finding, read, is_tail=tail is not None
            ):
                self._tell(pair, (start, stop), finding, tail)
        for start in sorted(left):  # only in the target: no part of the source's range begins there
            self._tell(pair, (start, start), finding)
        return finding

    def _reader(self, side: int) -> Consumer:
        place = (self._spec.source, self._spec.target)[side]
        with naming_side(_NAMES[side]):
            reader = make_reader(
                place.client, self._guest.client_id, _QUEUE_BYTES, fetch_wait_ms=QUICK_FETCH_WAIT_MS,
                fetching=self._fetching[side],
            )  # fmt: skip
            meet(reader, place.topic)
            return reader

    def _segments(self, partition: int, wanted: list[int]) -> Iterator[tuple[int, int]]:
        """Those that begin at a `wanted` offset. Questions about the pairs of a source partition follow each other, so
        one walk through its receipts, of which there may be millions, answers them all.
        """
        if partition not in self._walks:
            found = (
                segments(partition, planned.start, planned.stop, self._ledger, Shown(), kept=False)
                for planned in self._plan.sources
                if planned.partition == partition
            )
            self._walks = {partition: SegmentWalk(chain.from_iterable(found))}
        return chain.from_iterable(map(self._walks[partition].begin_at, wanted))

    def _is_held(self, pair: Pair, tail: Tail) -> bool:
        """Whether the last records of the segment in the target are those that were read in the source."""
        if tail.before < 0:
            return False
        digest, left = SequenceDigest(self._spec.recovery, pair[1]), tail.before
        for columns in self._stored_columns(pair, tail.start):
            rest = columns.after(left)
            left = max(0, left - len(columns.offsets))
            digest.extend(rest.keys, rest.values, rest.times, rest.headers)
        return (digest.count, digest.digest()) == (tail.records, tail.digest)

    def _begins_with(self, pair: Pair, head: Head) -> bool:
        """Whether the first records of the segment in the target are those that were read in the source."""
        digest, left = SequenceDigest(self._spec.recovery, pair[1]), head.records
        for columns in self._stored_columns(pair, head.start):
            first = columns.only([at < left for at in range(len(columns.offsets))])
            left -= len(first.offsets)
            digest.extend(first.keys, first.values, first.times, first.headers)
        return (left, digest.digest()) == (0, head.digest)

    def _is_compacted(
        self,
        question: PairQuestion,
        segment: tuple[int, int],
        finding: PairFinding,
        read: tuple[int, bytes],
        *,
        is_tail: bool,
    ) -> bool:
        """Whether compaction explains the difference: the target is what the receipt says, and what the source still
        has of the segment is a part of it. What the target holds before that may have been deleted otherwise, and was
        counted, if the source has only a tail. `read`: what the source had of it before, (records, digest).
        """
        if not self._plan.is_compacted:
            return False
        pair = question.pair
        now = SequenceDigest(self._spec.recovery, pair[1])
        part = is_subsequence(self._expected(pair, segment, now), self._stored(pair, segment))
        gone = max(0, read[0] - now.count)  # since then, by compaction or not
        keyless = part.keyless_inside if is_tail else part.keyless_inside + part.keyless_before
        if not part.is_whole or keyless > gone or (keyless and keyless > self._deleted(question, segment)):
            return False
        finding.taken += 0 if is_tail else part.more - gone
        if any(read[1]) and read != (now.count, now.digest()):
            finding.uncompared += gone or read[0]
        return True

    def _deleted(self, question: PairQuestion, segment: tuple[int, int]) -> int:
        """Offsets of the segment at which the log start has passed since they were read. Only there may a record be
        gone that has no key. Compaction takes such records too, but a compacted topic takes none: they are there only
        from before it was compacted, and a target with a record that lost its key must not be excused by them.
        """
        start, stop = segment
        read_from = max((to for since, to in question.cuts if since < stop), default=0)
        return max(0, min(self._asked[SOURCE].log_start(question.pair[0]), stop) - max(read_from, start))

    def _tell(self, pair: Pair, segment: tuple[int, int], finding: PairFinding, tail: Tail | None = None) -> None:
        """`tail`: what can be compared, when the source lost the beginning of the segment."""
        found = self._found(pair, segment, 0 if tail is None else max(0, tail.before), is_tail=tail is not None)
        room, before = max(0, DIFFERENCES_MAX - len(finding.differences)), len(finding.differences) + finding.more
        finding.differences += [_difference(pair, item) for item in islice(found, room)]
        finding.more += sum(1 for _ in found)
        if len(finding.differences) + finding.more == before:
            finding.differences.append(gone_since(pair, segment[0]))

    def _found(self, pair: Pair, segment: tuple[int, int], skipped: int, *, is_tail: bool) -> Iterator[FoundDifference]:
        """Without the first `skipped` records of the target. Where some of a tail are missing in the target, the first
        ones that are left there may be copies of what the source lost, so they are not called extra.
        """
        stored = islice(self._stored(pair, segment), skipped, None)
        if not is_tail or (first := next(stored, None)) is None:
            return differences(self._expected(pair, segment), stored)
        found = differences(self._expected(pair, segment), chain([first], stored))
        return (item for item in found if item.kind != "extra" or item.target != first.offset)

    def _expected(
        self, pair: Pair, segment: tuple[int, int], digest: SequenceDigest | None = None
    ) -> Iterator[ComparedRecord]:
        """`digest` gets all that is read."""
        partition, target = pair
        start, stop = segment[0], min(segment[1], self._plan.log_end(partition, segment[1], self._asked[SOURCE]))
        for messages in self._read(SOURCE, partition, start, stop):
            columns = self._read_columns(self._selection.expected(messages))
            to = self._selection.targets(partition, columns.keys, columns.offsets)
            chosen = columns if to is None else columns.only([t == target for t in to])
            if digest is not None:
                digest.extend(chosen.keys, chosen.values, chosen.times, chosen.headers)
            yield from compared(chosen)

    def _stored(self, pair: Pair, segment: tuple[int, int]) -> Iterator[ComparedRecord]:
        for columns in self._stored_columns(pair, segment[0]):
            yield from compared(columns)

    def _stored_columns(self, pair: Pair, start: int) -> Iterator[Columns]:
        """What the target holds of the segment that begins at `start`."""
        partition, target = pair
        ranges = (
            [(run.first, run.first + run.records) for run in self._ledger.runs_of(target, partition, start)]
            if self._spec.receipts_topic
            else [(0, 2**63 - 1)]
        )
        whole = next(r for r in self._plan.targets if r.partition == target)
        for first, stop in ((max(first, whole.start), min(stop, whole.stop)) for first, stop in ranges):
            for messages in self._read(TARGET, target, first, stop):
                inside = messages if self._spec.receipts_topic else self._selection.inside(messages)
                yield self._read_columns(self._selection.seen(inside))

    def _read_columns(self, columns: Columns) -> Columns:
        """Count their headers too, for the rate."""
        self._guest.took(0, columns.header_bytes, 0)
        return columns

    def _read(self, side: int, partition: int, start: int, stop: int) -> Iterator[list[Message]]:
        """The visible records of [start, stop); those that were deleted are left out."""
        topic, reader = (self._spec.source, self._spec.target)[side].topic, self._readers[side]
        with naming_side(_NAMES[side]):
            reader.assign([TopicPartition(topic, partition, start)])
        position, silence = start, Silence(self._spec.stop_wait_ms / 1000.0)
        self._fetching[side].restart({partition: start})
        while position < stop:
            count, before = self._guest.turn(), position
            asked_s = time.monotonic()
            with naming_side(_NAMES[side]):
                messages = reader.consume(count, 0) or reader.consume(1, _WAIT_S)
            silence.lasts(time.monotonic() - asked_s)
            good = [m for m in messages if m.error() is None]
            for message in messages if len(good) != len(messages) else ():
                position = self._after(message, side, partition, position, stop)
                if _is_out_of_range(message) and position < stop:
                    reader.assign([TopicPartition(topic, partition, position)])
            if good:
                position = max(position, (good[-1].offset() or 0) + 1)
                self._guest.took(len(good), size_without_headers(good), 0)
                inside = [m for m in good if (m.offset() or 0) < stop]
                if inside:
                    yield inside
            if position > before or self._fetches_on(side):
                silence.broken()
                continue
            if silence.is_too_long:
                raise self._asked[side].silence(partition, position, stop)
            if silence.wants_probe():
                self._asked[side].check()
            if silence.wants_new_client():
                reader.close()
                self._readers[side] = reader = self._reader(side)
                reader.assign([TopicPartition(topic, partition, position)])
        reader.unassign()

    def _fetches_on(self, side: int) -> bool:
        """Whether the client has fetched further, which is a step of work too."""
        if not self._fetching[side].moved():
            return False
        self._guest.took_aside(0)
        return True

    def _after(self, message: Message, side: int, partition: int, position: int, stop: int) -> int:
        """The reader's position after a record or another event."""
        error = message.error()
        if error is None:
            return max(position, (message.offset() or 0) + 1)
        if position >= stop:
            return position
        if error.code() == errors.END:
            return max(position, message.offset() or 0)
        place = (self._spec.source, self._spec.target)[side]
        left = TopicPartition(place.topic, partition, position)
        if is_harmless(message, place.client, self._guest.client_id, left, stop):
            return stop
        if _is_out_of_range(message):
            log_start = self._asked[side].log_start(partition)
            return min(log_start, stop) if log_start > position else stop
        if (final := errors.unreadable(error, _NAMES[side], message)) is not None:
            raise final
        return position


def _is_out_of_range(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() in errors.OUT_OF_RANGE


def compared(columns: Columns) -> Iterator[ComparedRecord]:
    headers = columns.headers or [None] * len(columns.offsets)
    for offset, key, value, at, row in zip(
        columns.offsets, columns.keys, columns.values, columns.times, headers, strict=True
    ):
        yield ComparedRecord(offset, content_hash(key, value, at, row), key is not None)


def _difference(pair: Pair, found: FoundDifference) -> Difference:
    return Difference(
        found.kind, pair[0], found.source, pair[1], found.target, found.count, sentence(found.kind, found.count)
    )


def sentence(kind: str, count: int) -> str:
    n, are = ("1 record", "is") if count == 1 else (f"{count} records", "are")
    return _WORDS[kind].format(n=n, are=are)
