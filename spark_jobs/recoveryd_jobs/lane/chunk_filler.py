"""Takes what the source gives into the open chunk: cuts it at the planned stop, counts it, copies it, and explains
every gap.

Each offset between start and position ends up in exactly one of copied, filtered, skipped or lost. An offset at or past
the stop is never produced. A partition is finished when its position reached the stop, whether records were there or
not. When the stop cannot be reached, this module finds out why: another producer's open transaction holds the last
stable offset, the log start moved past our position, the topic is another one now, or the consumer hears no more of it.
What is gone is accounted for in `recoveryd_jobs.lane.losses`.

Questions to the cluster are asked in steps, one per `take`, because the lane obeys directives between two of them.
Nothing is read meanwhile, but the open chunk may be committed, so code after a step must look up the chunk's parts
again.
"""

import math
import time
from bisect import bisect_left
from collections.abc import Mapping

from confluent_kafka import Message

from recoveryd_jobs import failpoints
from recoveryd_jobs.contract import JobSpec, LaneSpec, PartitionRange, spanning
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.lane.asking import Errand, SourceQuestions, go_on
from recoveryd_jobs.lane.chunk import Chunk, SourcePart
from recoveryd_jobs.lane.hearing import Hearing
from recoveryd_jobs.lane.held import Held
from recoveryd_jobs.lane.losses import Losses, check_open
from recoveryd_jobs.lane.record_copier import Copier, Room
from recoveryd_jobs.receipts import LaneLedger
from recoveryd_jobs.sources.range_reader import Damaged, End, Item, OutOfRange, Run, Source
from recoveryd_jobs.topics import Topic

BLOCKED_ASK_S = 2.0
TAIL_S = 5.0  # how long to look whether a used up cap leaves any record out
_SLOW = 6  # how many times as long where the source has not yet given all that it has
_LATE_S = 1.0

_offset_of = Message.offset


class ChunkFiller:
    """The reading side of one lane."""

    def __init__(self, spec: JobSpec, lane: LaneSpec, source: Source, topic: Topic, copier: Copier) -> None:
        self._spec = spec
        self._lane = lane
        self._source = source
        self._questions = SourceQuestions(topic)
        self._copier = copier
        self._chunk = Chunk({})
        self._room = Room()
        self._hearing = Hearing()
        self._asked_s = 0.0
        self._ends: set[int] = set()  # partitions with nothing more to read now
        self._held = Held(spec)
        self._looked_s = 0.0  # for how long it was read in vain since the cap was used up
        self._shows_more = False  # whether a record was seen that the cap leaves out
        self._passes_over = False  # whether records were read behind the cap that the time bounds leave out
        self.unfinished: dict[int, PartitionRange] = {}
        self._losses = Losses(spec, self._questions)
        self._is_checked = False  # whether what is gone of the range was accounted for
        # Partitions of which the broker has nothing at our position, and where it says that it cut them off.
        self._holes: dict[int, int | None] = {}
        self.fetched_s = -math.inf  # monotonic time when it last fetched further, and found nothing that readers see
        self._errand: Errand | None = None  # a question under way; `_errand_s`: since when
        self._errand_s = 0.0

    @property
    def is_capped(self) -> bool:
        """Whether the lane's share of the cap is used up, and leaves something out as far as is known. Records read
        after the last copied one do not count then.
        """
        return self._room.is_used_up and not self.seeks_end

    @property
    def seeks_end(self) -> bool:
        """Whether the cap is used up, and only records outside of the time bounds and offsets without any, as those of
        markers, are known yet to lie behind it: if that is all, the copy is whole.
        """
        if self._shows_more or not self._room.is_used_up or self.is_following:
            return False
        return self._looked_s < (TAIL_S if self.is_idle else _SLOW * TAIL_S)

    @property
    def is_free(self) -> bool:
        """Whether it reads on only to see whether anything is left, and has found nothing that counts for a rate."""
        return self.seeks_end and not self._passes_over

    @property
    def is_following(self) -> bool:
        """Whether some partition has no planned end."""
        return any(planned.stop is None for planned in self.unfinished.values())

    @property
    def is_idle(self) -> bool:
        """Whether every partition is read to the end of what is visible."""
        return len(self._ends) == len(self.unfinished)

    @property
    def is_unanswered(self) -> bool:
        """Whether the source has not answered a question for a while; nothing is read meanwhile."""
        return self._errand is not None and time.monotonic() - self._errand_s >= _LATE_S

    @property
    def is_deaf(self) -> bool:
        """Whether the source has more than the consumer gives, so that it may have to be made anew."""
        return bool(self._hearing.left_out)

    @property
    def blocked(self) -> Mapping[int, str]:
        """By partition, which transaction of somebody else keeps it from being read further."""
        return self._held.why

    @property
    def loss(self) -> JobError | None:
        """Why the lane has to end after the commit of the open chunk, which accounts for the loss."""
        return self._losses.why

    def begin(self, chunk: Chunk, ledger: LaneLedger) -> None:
        """Read on from the ledger into an empty `chunk`, dropping whatever was fetched, after checking that the range
        still exists.
        """
        self.adopt(chunk, ledger)
        self._ends.clear()
        self._held.begin()
        self._holes.clear()
        self._hearing.left_out.clear()
        self._is_checked, self._errand = False, None
        self._source.fetching.restart({})
        self._looked_s, self._shows_more, self._passes_over = 0.0, False, False
        self._losses.begin(ledger)

    def adopt(self, chunk: Chunk, ledger: LaneLedger) -> None:
        """Read on into a new chunk after the last one was committed."""
        self._chunk = self._losses.chunk = chunk
        standings = ledger.standings.values()
        allowance = Room(self._lane.max_records, self._lane.max_bytes)
        self._room = allowance.less(sum(s.copied for s in standings), sum(s.bytes for s in standings))
        self.unfinished = {
            r.partition: r
            for r in self._lane.partitions
            if r.stop is None or ledger.standings[r.partition].position < r.stop
        }

    def fetch_ahead(self, queue_bytes: int) -> None:
        """Fetch about this many bytes ahead. Call it between chunks only."""
        if self._source.resize(queue_bytes, self._positions()):
            self._on_assigned()

    def rest(self) -> None:
        """The lane was told to wait: drop the question under way; it is asked again afterwards, with a new deadline,
        and no wait for a transaction goes on meanwhile.
        """
        self._errand = None
        self._held.rest()

    def take(self, count_max: int, wait_s: float) -> tuple[int, int]:
        """(records, bytes) taken from the source now. Raises JobError, Redo, and what `Copier.copy` raises."""
        if self._ask_on(wait_s):
            return 0, 0
        began_s = time.monotonic()
        items = self._source.take(count_max, wait_s)
        now_s = time.monotonic()
        if not items:
            if self.seeks_end:
                self._looked_s += now_s - began_s
            else:
                self._look_around(now_s)
            return 0, 0
        failpoints.hit("lane.after_consume")
        self._chunk.touch(now_s)
        records = size = 0
        for item in items:
            if self.is_capped:
                break
            part, planned = self._chunk.parts.get(item.partition), self.unfinished.get(item.partition)
            if part is None or planned is None:
                continue
            self._hearing.heard(item.partition, now_s)
            count, some = self._on_item(item, part, planned)
            records, size = records + count, size + some
        self._hearing.took(size)
        self._looked_s += 0.0 if records else now_s - began_s
        self.fetched_s = -math.inf if records else self.fetched_s
        self._look_for_left_out(now_s, self._source.turn_bytes)
        return records, size

    def _positions(self) -> dict[int, int]:
        return {p: self._chunk.parts[p].position for p in self.unfinished}

    def _assign(self) -> None:
        self._source.assign(self._positions())
        self._on_assigned()

    def _on_assigned(self) -> None:
        self._hearing.assigned(self.unfinished, time.monotonic())
        self._ends.clear()

    def _on_item(self, item: Item, part: SourcePart, planned: PartitionRange) -> tuple[int, int]:
        taken = 0, 0
        if isinstance(item, Run):
            self._ends.discard(item.partition)
            self._held.release(item.partition)
            taken = self._on_run(item.messages, part, planned)
        elif isinstance(item, End):
            if planned.stop is None and item.offset > part.position:
                self._held.release(item.partition)
            part.skip_to(item.offset if planned.stop is None else min(item.offset, planned.stop))
            self._ends.add(item.partition)
            self._hearing.at_end(item.partition)
        elif isinstance(item, Damaged) and (stop := self._stop_before(item, part, planned)) is not None:
            part.skip_to(stop)
        else:
            self._on_trouble(item, part)
        if planned.stop is not None and part.position >= planned.stop:
            self._finish(item.partition)
        return taken

    def _stop_before(self, item: Damaged, part: SourcePart, planned: PartitionRange) -> int | None:
        """The planned stop, if it is sure that nothing lies between the last record and that."""
        stop = planned.stop
        if stop is None or item.offset < stop or not self._source.is_empty(item.partition, part.position, stop):
            return None
        return stop

    def _on_trouble(self, item: Item, part: SourcePart) -> None:
        if isinstance(item, OutOfRange) and item.cut_to is not None:
            check_open(item.partition, part, item.cut_to)
        if isinstance(item, OutOfRange | Damaged) and self._room.is_used_up:
            self._shows_more = True  # the cap leaves it out, so it is no loss
        elif isinstance(item, OutOfRange):
            self._holes[item.partition] = item.cut_to
        elif isinstance(item, Damaged):
            raise item.why

    def _on_run(self, messages: list[Message], part: SourcePart, planned: PartitionRange) -> tuple[int, int]:
        first, last = messages[0].offset(), messages[-1].offset()
        assert first is not None
        assert last is not None
        if first < part.position:
            raise JobError(
                "internal", f"Source partition {planned.partition} gave offset {first} after {part.position}."
            )
        reached_stop = planned.stop is not None and last >= planned.stop
        if reached_stop:
            messages = messages[: bisect_left(messages, planned.stop, key=_offset_of)]  # type: ignore[type-var]
        taken, cost = self._copy(messages, part, planned.partition) if messages else (0, 0)
        self._shows_more = self._shows_more or taken < len(messages)
        if reached_stop and taken == len(messages):
            assert planned.stop is not None
            part.skip_to(planned.stop)
        return taken, cost

    def _copy(self, messages: list[Message], part: SourcePart, partition: int) -> tuple[int, int]:
        """(records taken, bytes for the rate). The position moves behind the last record taken; records cut off by a
        cap count as never read.
        """
        if self._room.is_used_up:
            copied = self._copier.pass_over(messages)
            self._passes_over = True
        else:
            copied = self._copier.copy(partition, messages, part.delivered, self._room)
        if not copied.taken:
            return 0, 0
        last = messages[copied.taken - 1]
        stop = last.offset()
        assert stop is not None
        stop += 1
        part.event_time_ms = last.timestamp()[1]
        part.copied += copied.records
        part.filtered += copied.taken - copied.records
        part.skipped += stop - part.position - copied.taken
        part.bytes += copied.bytes
        part.times = spanning(part.times, copied.times)
        part.position = stop
        self._looked_s = 0.0
        self._chunk.records += copied.records
        self._chunk.bytes += copied.bytes
        self._room = self._room.less(copied.records, copied.bytes)
        return copied.taken, copied.cost

    def _finish(self, partition: int) -> None:
        self.unfinished.pop(partition, None)
        self._ends.discard(partition)
        self._held.release(partition)
        self._source.drop(partition)

    def _ask_on(self, wait_s: float) -> bool:
        """Wait up to `wait_s` for an answer that reading needs first; False when there is no such question."""
        if self._errand is None and not self._is_checked:
            self._send(self._check_range())
        elif self._errand is None and self._holes and not self._room.is_used_up:
            self._send(self._explain_holes())
        if self._errand is None:
            return False
        errand, self._errand = self._errand, None
        if not go_on(errand, wait_s):
            self._errand = errand
        return True

    def _send(self, errand: Errand) -> None:
        self._errand, self._errand_s = errand, time.monotonic()

    def _explain_holes(self) -> Errand:
        """The broker has nothing at our position: find out why, account for it, and read on behind the gap if that is
        allowed.
        """
        yield from self._questions.same_topic()
        bounds = yield from self._questions.bounds(sorted(self._holes))
        for partition, found in bounds.items():
            planned = self.unfinished.get(partition)
            if planned is not None:
                yield from self._losses.account(planned, found, self._holes.get(partition))
                position = self._chunk.parts[partition].position
                if planned.stop is not None and position >= planned.stop:
                    self._finish(partition)
                elif self.loss is None:
                    self._source.move(partition, position)
            self._holes.pop(partition, None)

    def _check_range(self) -> Errand:
        """Before reading: account for what is gone of the range already; what a used up cap leaves out is no loss."""
        bounds = yield from self._questions.bounds(list(self.unfinished))
        for partition, found in bounds.items():
            planned = self.unfinished.get(partition)
            if planned is None:
                continue
            if self._room.is_used_up:
                self._shows_more = self._shows_more or found.start > self._chunk.parts[partition].position
                continue
            yield from self._losses.account(planned, found)
            if planned.stop is not None and self._chunk.parts[partition].position >= planned.stop:
                self.unfinished.pop(partition, None)
        self._assign()
        self._is_checked = True

    def _look_around(self, now_s: float) -> None:
        """Nothing was read, and nothing that was fetched is left: find out whether the stop is blocked, and whether the
        source still answers, is still the same topic, and has nothing more.
        """
        bounded_ends = [p for p in self._ends if self.unfinished[p].stop is not None]
        if self._look_for_left_out(now_s):
            return
        if bounded_ends and now_s - self._asked_s >= BLOCKED_ASK_S:
            self._asked_s = now_s
            self._send(self._find_blocked(bounded_ends))

    def _look_for_left_out(self, now_s: float, fetched_bytes: int = 0) -> bool:
        """Ask about partitions that gave nothing for long; `fetched_bytes`: at most so many come of others before it is
        their turn. True when something is asked.
        """
        for partition in self._source.fetching.moved():
            self._hearing.heard(partition, now_s)
            self.fetched_s = self.fetched_s if self._chunk.has_moved else now_s
        if self._errand is not None:
            return False
        if self._hearing.left_out:
            is_long = self._hearing.is_long_left_out(now_s, fetched_bytes)
            if is_long:
                self._send(self._hear_again())
            return is_long
        quiet = self._hearing.quiet(self.unfinished, now_s)
        if quiet:
            self._send(self._find_left_out(quiet))
        return bool(quiet)

    def _find_left_out(self, partitions: list[int]) -> Errand:
        yield from self._questions.same_topic()
        bounds = yield from self._questions.bounds(partitions)
        positions = {p: at for p, at in self._positions().items() if p in bounds and bounds[p].stable > at}
        now_s = time.monotonic()
        self._hearing.found_left_out(positions, self.unfinished.keys() - self._ends, now_s)
        for partition, found in bounds.items():
            planned = self.unfinished.get(partition)
            if planned is not None and planned.stop is None:
                self._held.look(planned, found, self._chunk.parts[partition].position, now_s)

    def _hear_again(self) -> Errand:
        """The consumer leaves out what the source has: make it anew. It asks the source first, so that one that does
        not answer is not taken for a deaf consumer.
        """
        yield from self._questions.bounds(sorted(self._hearing.left_out))
        deaf = self._hearing.deaf(self._positions())
        if deaf:
            self._assign()
            self._hearing.renewed(deaf)
        self._hearing.left_out.clear()

    def _find_blocked(self, partitions: list[int]) -> Errand:
        yield from self._questions.same_topic()
        bounds = yield from self._questions.bounds(partitions)
        for partition, found in bounds.items():
            planned = self.unfinished.get(partition)
            if planned is None or planned.stop is None or partition not in self._ends:
                continue
            before = self._chunk.parts[partition].position
            yield from self._losses.account(planned, found)
            position = self._chunk.parts[partition].position
            if position >= planned.stop:
                self._finish(partition)
            elif position > before and self.loss is None:
                self._source.move(partition, position)  # what it fetched meanwhile may lie before
            elif found.stable < planned.stop:  # else the consumer will report the end, reached between the two queries
                self._held.hold(planned, found, time.monotonic())
