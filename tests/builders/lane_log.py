"""A source and a target in memory for the reading side of a lane: logs with holes, and a producer that keeps what was
sent.
"""

import random
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Message

from recoveryd_jobs.contract import ControlSpec, Directive, JobSpec, LaneSpec, Receipt, SourceSpec, TargetSpec
from recoveryd_jobs.fetching import Fetching
from recoveryd_jobs.lane.chunk import Chunk
from recoveryd_jobs.lane.chunk_filler import ChunkFiller
from recoveryd_jobs.lane.record_copier import Copier
from recoveryd_jobs.receipts import LaneLedger, fold
from recoveryd_jobs.sources.range_reader import End, Item, OutOfRange, Run
from recoveryd_jobs.topics import LogBounds

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Visible:
    """One record that a committed reader sees."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    time_ms: int
    headers: Headers = ()

    def message(self, topic: str) -> Message:
        return Message(
            topic=topic, partition=self.partition, offset=self.offset, key=self.key, value=self.value,
            headers=list(self.headers) or None, timestamp=(1, self.time_ms),
        )  # fmt: skip


@dataclass(slots=True)
class Log:
    """One source partition: what is visible of [start, high). Offsets that are missing were aborted, compacted away, or
    markers.
    """

    records: list[Visible]
    high: int
    start: int = 0

    def delete_before(self, offset: int) -> None:
        self.start = max(self.start, min(offset, self.high))
        self.records = [r for r in self.records if r.offset >= self.start]

    def cut_back_to(self, offset: int) -> None:
        self.high = max(self.start, min(offset, self.high))
        self.records = [r for r in self.records if r.offset < self.high]


@dataclass(slots=True)
class MemorySource:
    """Gives what a consumer gives, in batches that mix partitions by chance; `topic` questions are answered from the
    same logs.
    """

    logs: Mapping[int, Log]
    chance: random.Random
    positions: dict[int, int] = field(default_factory=dict)
    told: set[int] = field(
        default_factory=set
    )  # partitions whose end or trouble was told since they last gave a record
    queue_bytes: int = 100
    fetching: Fetching = field(default_factory=Fetching)
    deaf: set[int] = field(
        default_factory=set
    )  # partitions of which the consumer hears no more, until there is a new one

    @property
    def turn_bytes(self) -> int:
        return 2 * self.queue_bytes

    def assign(self, positions: Mapping[int, int]) -> None:
        self.positions = dict(positions)
        self.told.clear()
        self.deaf.clear()

    def move(self, partition: int, offset: int) -> None:
        self.positions[partition] = offset
        self.told.discard(partition)

    def drop(self, partition: int) -> None:
        self.positions.pop(partition, None)

    def resize(self, _queue_bytes: int, _positions: Mapping[int, int]) -> bool:
        return False

    def take(self, count_max: int, _wait_s: float) -> list[Item]:
        found: list[Item] = []
        left = count_max
        while left > 0 and (ready := [p for p in sorted(self.positions) if p not in self.told | self.deaf]):
            item = self._next(self.chance.choice(ready), self.chance.randint(1, left))
            found.append(item)
            left -= len(item.messages) if isinstance(item, Run) else 1
        return found

    def _next(self, partition: int, most: int) -> Item:
        log, at = self.logs[partition], self.positions[partition]
        if not log.start <= at <= log.high:
            self.told.add(partition)
            return OutOfRange(partition)
        records = [r for r in log.records if r.offset >= at][:most]
        if not records:
            self.told.add(partition)
            self.positions[partition] = log.high
            return End(partition, log.high)
        self.positions[partition] = records[-1].offset + 1
        return Run(partition, [r.message("source") for r in records])

    # What `recoveryd_jobs.topics.Topic` is asked; now and then the answer takes a while.
    def check_in_steps(self, _deadline_s: float) -> Generator["Future[Any]", None, int]:
        yield from self._silence()
        return len(self.logs)

    def bounds_in_steps(self, partitions: Sequence[int]) -> Generator["Future[Any]", None, dict[int, LogBounds]]:
        yield from self._silence()
        return {p: LogBounds(self.logs[p].start, self.logs[p].high, self.logs[p].high) for p in partitions}

    def _silence(self) -> Generator["Future[Any]", None, None]:
        for _ in range(self.chance.choice([0, 0, 1, 3])):
            yield Future()


@dataclass(slots=True)
class MemoryTarget:
    """Takes records as a transactional producer does; `commit` keeps them, `abort` leaves a hole like Kafka."""

    sent: list[Visible] = field(default_factory=list)
    open: list[Visible] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)

    @property
    def producer(self) -> "MemoryTarget":
        return self

    def produce(
        self, topic: str, value: Any, key: Any, partition: int, callback: Callable[..., None] | None, _on: Any,
        timestamp: int, headers: Any = None,
    ) -> None:  # fmt: skip
        offset = self.ends.get(partition, 0)
        self.ends[partition] = offset + 1
        record = Visible(partition, offset, key, value, timestamp, tuple(headers or ()))
        self.open.append(record)
        if callback is not None:
            callback(None, record.message(topic))

    def end(self, *, committed: bool) -> None:
        if committed:
            self.sent += self.open
        self.open = []
        self.ends = {p: end + 1 for p, end in self.ends.items()}  # the marker


def make_spec(lane: LaneSpec, window: tuple[int | None, int | None], target: Mapping[str, Any], **more: Any) -> JobSpec:
    return JobSpec(
        kind="replay", scope="test", recovery="r1", attempt=1, lanes=(lane,),
        source=SourceSpec("main", "source", "in", {}, *window),
        target=TargetSpec(**{"cluster": "main", "topic": "target", "topic_id": "out", "partitions": 3, "client": {}, **target}),
        control=ControlSpec({}, "directives", "progress"), receipts_topic="receipts",
        directive=Directive("r1", 1, 1, "run", 60_000), **more,
    )  # fmt: skip


class MemoryLane:
    """The reading side of one lane between those two: what `recoveryd_jobs.lane.loop` does, one step at a time."""

    def __init__(self, spec: JobSpec, logs: Mapping[int, Log], chance: random.Random) -> None:
        self.spec, self.lane = spec, spec.lanes[0]
        self.logs = logs
        self.source = MemorySource(logs, chance)
        self.target = MemoryTarget()
        self.receipts: list[Receipt] = []
        copier = Copier(spec, self.target, is_stamped=False)  # type: ignore[arg-type]
        self.intake = ChunkFiller(spec, self.lane, self.source, self.source, copier)  # type: ignore[arg-type]
        self.ledger = LaneLedger()
        self.chunk = Chunk({})
        self.restart()

    @property
    def is_over(self) -> bool:
        return not self.intake.unfinished or self.intake.is_capped or self.intake.loss is not None

    def restart(self) -> None:
        """As after a chunk that failed, or as a new attempt: from the receipts."""
        self.target.end(committed=False)
        self.ledger = fold(self.receipts, self.lane.partitions, self.lane.lane, "in", "out")
        self.chunk = Chunk(self.ledger.standings)
        self.intake.begin(self.chunk, self.ledger)

    def commit(self) -> None:
        if not self.chunk.has_moved:
            return
        made = self.chunk.receipts(self.spec, self.lane.lane, self.ledger.next_chunk)
        self.receipts += made
        self.target.end(committed=True)
        self.ledger = self.ledger.with_receipts(made)
        self.chunk = Chunk(self.ledger.standings)
        self.intake.adopt(self.chunk, self.ledger)
