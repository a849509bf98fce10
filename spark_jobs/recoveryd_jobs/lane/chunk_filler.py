"""Takes what the source gives and makes it part of the open chunk: cut at the planned stop, counted, copied, and every gap explained.

Each offset between start and position ends up in exactly one of copied, filtered, skipped or lost. An offset at or past the stop is never produced. A
partition is finished when its position reached the stop, whether records were there or not. When the stop can not be reached, the reason is found out
here: a foreign transaction that holds the last stable offset, a log start that moved past us, a topic that is another one now.

A loss is accounted for before it is judged: also where it ends the recovery, the receipts cover what is gone, and a log that was cut back is read to its
end first.
"""

import time
from bisect import bisect_left

from confluent_kafka import Message

from recoveryd_jobs import failpoints
from recoveryd_jobs.contract import JobSpec, LaneSpec, PartitionRange
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.lane.chunk import Chunk, SourcePart
from recoveryd_jobs.lane.record_copier import Copier, Room
from recoveryd_jobs.receipts import LaneLedger
from recoveryd_jobs.sources.range_reader import End, Item, OutOfRange, Run, Source
from recoveryd_jobs.topics import LogBounds, NoAnswer, Topic

SOURCE_PATIENCE_S = 120.0  # how long a source that does not answer is waited for
CUT_BACK_AFTER_S = 10.0  # how long a high watermark below the plan may last after a broker's restart
_PAUSE_S = 0.5
BLOCKED_ASK_S = 2.0
_PROBE_S = 20.0
_LOSS_WORDS = 1_500

_offset_of = Message.offset


class ChunkFiller:
    """Reading side of one lane."""

    def __init__(self, spec: JobSpec, lane: LaneSpec, source: Source, topic: Topic, copier: Copier) -> None:
        self._spec = spec
        self._lane = lane
        self._source = source
        self._topic = topic
        self._copier = copier
        self._chunk = Chunk({})
        self._room = Room()
        self._heard_s = time.monotonic()
        self._asked_s = 0.0
        self._ends: dict[int, float] = {}  # partitions with nothing more to read now, and since when
        self.unfinished: dict[int, PartitionRange] = {}
        self.blocked: dict[int, str] = {}  # partition: why it can not reach its stop
        self._losses: list[str] = []  # those that the recovery does not allow

    @property
    def is_capped(self) -> bool:
        """The lane's share of the allowance is used up: nothing that was read behind the last copied record counts."""
        return self._room.is_used_up

    @property
    def is_following(self) -> bool:
        """Some partition has no planned end."""
        return any(planned.stop is None for planned in self.unfinished.values())

    @property
    def is_idle(self) -> bool:
        """Every partition stands at the end of what is visible."""
        return len(self._ends) == len(self.unfinished)

    @property
    def loss(self) -> JobError | None:
        """Why the lane has to end once the open chunk, which accounts for the loss, is committed."""
        return JobError("data_lost", " ".join(self._losses)[:_LOSS_WORDS]) if self._losses else None

    def begin(self, chunk: Chunk, ledger: LaneLedger) -> None:
        """Read on from the ledger into an empty `chunk`, forgetting whatever was fetched. Checks that the range is still there."""
        self.adopt(chunk, ledger)
        self._ends.clear()
        self.blocked.clear()
        self._losses.clear()
        self._check_ledger(ledger)
        self._check_range()
        self._source.assign({p: chunk.parts[p].position for p in self.unfinished})
        self._heard_s = time.monotonic()

    def adopt(self, chunk: Chunk, ledger: LaneLedger) -> None:
        """Go on reading into a new chunk after the last one was committed."""
        self._chunk = chunk
        standings = ledger.standings.values()
        allowance = Room(self._lane.max_records, self._lane.max_bytes)
        self._room = allowance.less(sum(s.copied for s in standings), sum(s.bytes for s in standings))
        self.unfinished = {
            r.partition: r
            for r in self._lane.partitions
            if r.stop is None or ledger.standings[r.partition].position < r.stop
        }

    def fetch_ahead(self, queue_bytes: int) -> None:
        """Fetch about this much before it is needed. To be called between chunks."""
        if self._source.resize(queue_bytes, {p: self._chunk.parts[p].position for p in self.unfinished}):
            self._ends.clear()

    def take(self, count_max: int, wait_s: float) -> tuple[int, int]:
        """(records, bytes) taken from the source now. Raises JobError, and what copying raises."""
        items = self._source.take(count_max, wait_s)
        now_s = time.monotonic()
        if not items:
            self._look_around(now_s)
            return 0, 0
        failpoints.hit("lane.after_consume")
        self._heard_s = now_s
        self._chunk.touch(now_s)
        records = size = 0
        for item in items:
            if self.is_capped:
                break
            part, planned = self._chunk.parts.get(item.partition), self.unfinished.get(item.partition)
            if part is None or planned is None:
                continue
            count, some = self._on_item(item, part, planned, now_s)
            records, size = records + count, size + some
        return records, size

    def _on_item(self, item: Item, part: SourcePart, planned: PartitionRange, now_s: float) -> tuple[int, int]:
        taken = 0, 0
        if isinstance(item, Run):
            self._ends.pop(item.partition, None)
            self.blocked.pop(item.partition, None)
            taken = self._on_run(item.messages, part, planned)
        elif isinstance(item, End):
            part.skip_to(item.offset if planned.stop is None else min(item.offset, planned.stop))
            self._ends.setdefault(item.partition, now_s)
        elif isinstance(item, OutOfRange):
            self._on_out_of_range(part, planned)
        if planned.stop is not None and part.position >= planned.stop:
            self._finish(item.partition)
        return taken

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
        taken = cost = 0
        if messages:
            taken, cost = self._copy(messages, part, planned.partition)
        if reached_stop and taken == len(messages):
            assert planned.stop is not None
            part.skip_to(planned.stop)
        return taken, cost

    def _copy(self, messages: list[Message], part: SourcePart, partition: int) -> tuple[int, int]:
        """(records taken, what they cost). The position stands behind the last one taken; what a cap left out was never read."""
        copied = self._copier.copy(partition, messages, part.delivered, self._room)
        last = messages[copied.taken - 1]
        stop = last.offset()
        assert stop is not None
        stop += 1
        part.event_time_ms = last.timestamp()[1]
        part.copied += copied.records
        part.filtered += copied.taken - copied.records
        part.skipped += stop - part.position - copied.taken
        part.bytes += copied.bytes
        part.position = stop
        self._chunk.records += copied.records
        self._chunk.bytes += copied.bytes
        self._room = self._room.less(copied.records, copied.bytes)
        return copied.taken, copied.cost

    def _finish(self, partition: int) -> None:
        self.unfinished.pop(partition, None)
        self._ends.pop(partition, None)
        self.blocked.pop(partition, None)
        self._source.drop(partition)

    def _on_out_of_range(self, part: SourcePart, planned: PartitionRange) -> None:
        """The broker has nothing at our position: find out why, account for it, and read on behind the hole if that is allowed."""
        self._topic_answers()
        self._account(part, planned, self._ask([planned.partition])[planned.partition])
        if self.loss is None and (planned.stop is None or part.position < planned.stop):
            self._source.move(planned.partition, part.position)

    def _check_ledger(self, ledger: LaneLedger) -> None:
        """An attempt that ended by a loss may not have been heard: the receipts still know."""
        for partition, standing in ledger.standings.items():
            if standing.lost and self._spec.on_data_loss != "continue":
                where = f"{self._spec.source.topic} partition {partition}"
                self._losses.append(f"{standing.lost} offsets of {where} before {standing.position} are gone.")

    def _check_range(self) -> None:
        """Before reading: what of the range is gone already?"""
        bounds = self._ask(list(self.unfinished))
        for partition, planned in list(self.unfinished.items()):
            part = self._chunk.parts[partition]
            self._account(part, planned, bounds[partition])
            if planned.stop is not None and part.position >= planned.stop:
                self.unfinished.pop(partition)

    def _account(self, part: SourcePart, planned: PartitionRange, bounds: LogBounds) -> None:
        """Put into the open chunk what can not be read any more, if anything. Raises JobError for a loss that no row can hold."""
        stop = planned.stop
        if bounds.start > part.position:
            gone = bounds.start if stop is None else min(bounds.start, stop)
            self._lose(part, planned, gone, "were deleted from the log start")
        wanted = part.position if stop is None else stop  # how far the log has to reach
        if bounds.high >= wanted or bounds.high > part.position:
            return  # what is there is read first
        bounds = self._ask_until_high(planned, wanted)
        if bounds.high >= wanted or bounds.high > part.position:
            return
        if stop is not None:
            self._lose(part, planned, stop, f"are beyond the end {bounds.high}: the log was cut back")
        else:
            where = f"{self._spec.source.topic} partition {planned.partition}"
            raise JobError(
                "data_lost", f"{where} ends at {bounds.high}, before the position {part.position}: it was cut back."
            )

    def _lose(self, part: SourcePart, planned: PartitionRange, stop: int, how: str) -> None:
        where = f"{self._spec.source.topic} partition {planned.partition}"
        if self._spec.on_data_loss != "continue":
            self._losses.append(f"Offsets [{part.position}, {stop}) of {where} {how}.")
        part.lose_to(stop)
        self._chunk.touch(time.monotonic())

    def _ask_until_high(self, planned: PartitionRange, wanted: int) -> LogBounds:
        """A broker that just started may not know its high watermark yet: ask for a while before believing that the log is shorter."""
        deadline_s = time.monotonic() + CUT_BACK_AFTER_S
        while True:
            self._topic_answers()
            bounds = self._ask([planned.partition])[planned.partition]
            if bounds.high >= wanted or time.monotonic() >= deadline_s:
                return bounds
            time.sleep(_PAUSE_S)

    def _ask(self, partitions: list[int]) -> dict[int, LogBounds]:
        deadline_s = time.monotonic() + SOURCE_PATIENCE_S
        while True:
            try:
                return self._topic.bounds(partitions)
            except NoAnswer as silence:
                if time.monotonic() >= deadline_s:
                    raise JobError("source_unavailable", f"The source does not answer: {silence}.") from None
                time.sleep(_PAUSE_S)

    def _look_around(self, now_s: float) -> None:
        """Nothing came. Is the stop blocked, is the source still there, is it still the same?"""
        bounded_ends = [p for p in self._ends if self.unfinished[p].stop is not None]
        if bounded_ends and now_s - self._asked_s >= BLOCKED_ASK_S:
            self._asked_s = now_s
            self._find_blocked(bounded_ends, now_s)
        elif now_s - self._heard_s >= _PROBE_S and now_s - self._asked_s >= _PROBE_S:
            self._asked_s = now_s
            self._topic_answers()

    def _topic_answers(self) -> None:
        try:
            self._topic.check_id(time.monotonic() + SOURCE_PATIENCE_S)
        except NoAnswer as silence:
            raise JobError("source_unavailable", f"The source does not answer: {silence}.") from None

    def _find_blocked(self, partitions: list[int], now_s: float) -> None:
        self._topic_answers()
        bounds = self._ask(partitions)
        for partition in partitions:
            planned, part, found = self.unfinished[partition], self._chunk.parts[partition], bounds[partition]
            stop = planned.stop
            assert stop is not None
            self._account(part, planned, found)
            if part.position >= stop:
                self._finish(partition)
                continue
            if found.stable >= stop:
                continue  # the end was reached between two answers; the consumer will say so
            why = (
                f"a foreign transaction holds {self._spec.source.topic} partition {partition}: "
                f"last stable offset {found.stable}, high watermark {found.high}, stop {stop}"
            )
            self.blocked[partition] = why
            if now_s - self._ends[partition] > self._spec.stop_wait_ms / 1000.0:
                raise JobError("stop_blocked", f"After {self._spec.stop_wait_ms // 1000} s {why}.")
