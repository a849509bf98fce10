"""Reads committed records of chosen partitions, and says exactly how far it got.

Progress is a position, never a count of records: aborted records, transaction markers and compacted records leave
offsets that never come. What `take` returns is in order per partition: runs of records, the end of a partition (nothing
visible lies before that offset, up to the last stable offset), or an error. What the lane does about it is not decided
here: a damaged batch harms nobody whose range ends before it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from recoveryd_jobs import errors, sound_logs
from recoveryd_jobs.clients import FETCH_BYTES, make_reader, meet
from recoveryd_jobs.contract import SourceSpec
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.fetching import Fetching
from recoveryd_jobs.pacing import fetch_sizes, turn_bytes

RESIZE_FACTOR = 8
# What the client (2.16) says when a new leader's log lacks what the one before it gave. Only its text tells.
_CUT = re.compile(r"log truncation detected at .*: broker end offset is (\d+)")

_error_of = Message.error
# never None on what a consumer returns
_partition_of: Callable[[Message], int] = Message.partition  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Run:
    """At least one record, all of one partition, in offset order. Only visible records: the gaps between them hold
    none.
    """

    partition: int
    messages: list[Message]


@dataclass(frozen=True, slots=True)
class End:
    """No visible record of the partition lies between the last one and `offset`."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """The broker has nothing at the requested offset: deleted, cut off, or another topic of the same name. `cut_to`:
    where the broker says that it cut its log off, below what it gave before; whatever lies there now is something else.
    """

    partition: int
    cut_to: int | None = None


@dataclass(frozen=True, slots=True)
class Damaged:
    """A batch cannot be read, as `why` says. It comes after everything before it; what comes next is no truth about the
    log. It may begin elsewhere than at `offset`, which may be damaged too.
    """

    partition: int
    offset: int
    why: JobError


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error after which the client library goes on trying by itself."""

    partition: int
    error: KafkaError


Item = Run | End | OutOfRange | Damaged | Trouble


class Source:
    """One consumer on some partitions of the source topic, so many at first. `queue_bytes`: about what it fetches
    ahead. Not thread-safe.
    """

    def __init__(self, spec: SourceSpec, client_id: str, queue_bytes: int, partitions: int = 1) -> None:
        self._spec = spec
        self._topic = spec.topic
        self._client_id = client_id
        self.queue_bytes = queue_bytes
        self._was_assigned = False
        self.fetching = Fetching()
        self._consumer = self._made(partitions)

    def _made(self, partitions: int) -> Consumer:
        self._partitions = partitions
        answer_bytes, each_bytes = fetch_sizes(self.queue_bytes, partitions)
        return make_reader(
            self._spec.client,
            self._client_id,
            self.queue_bytes,
            fetch_bytes=min(each_bytes, FETCH_BYTES),
            answer_bytes=answer_bytes,
            fetching=self.fetching,
        )

    @property
    def turn_bytes(self) -> int:
        """How many bytes of other partitions it may give before each that it hears had its turn."""
        return turn_bytes(self.queue_bytes, self._partitions)

    def resize(self, queue_bytes: int, positions: Mapping[int, int]) -> bool:
        """Fetch about `queue_bytes` ahead from now on. That needs a new consumer at `positions`, so small changes are
        ignored. True when it changed.
        """
        if self.queue_bytes < queue_bytes * RESIZE_FACTOR and queue_bytes < self.queue_bytes * RESIZE_FACTOR:
            return False
        self.queue_bytes = queue_bytes
        self._was_assigned = True  # the consumer has the old size
        self.assign(positions)
        return True

    def connect(self) -> None:
        """Find the topic's leaders, so that the first `assign` starts to fetch at once."""
        meet(self._consumer, self._topic)

    def assign(self, positions: Mapping[int, int]) -> None:
        """Drop everything fetched and read these partitions from these offsets: with a new consumer, but for the first
        time. One that is assigned while a broker comes back to itself may hear no more of a partition, and then no
        other assignment helps (librdkafka 2.16).
        """
        if self._was_assigned:
            self._consumer.close()
            self._consumer = self._made(len(positions))
            self.connect()
        self._was_assigned = True
        self.fetching.begin(positions)
        self._consumer.assign([TopicPartition(self._topic, p, at) for p, at in positions.items()])

    def move(self, partition: int, offset: int) -> None:
        """Go on at another offset of one partition."""
        self.drop(partition)
        self.fetching.begin({partition: offset})
        self._consumer.incremental_assign([TopicPartition(self._topic, partition, offset)])

    def drop(self, partition: int) -> None:
        """Read no more of this partition; records already fetched may still come once."""
        self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])

    def take(self, count_max: int, wait_s: float) -> list[Item]:
        """What is there now, up to `count_max` records; when nothing is, wait for the first item up to `wait_s`
        seconds.
        """
        messages = self._consumer.consume(count_max, 0)
        if not messages:
            messages = self._consumer.consume(1, wait_s) if wait_s > 0 else []
        if not messages:
            return []
        if any(map(_error_of, messages)):
            return list(_with_errors(messages))
        return list(_runs(messages))

    def is_empty(self, partition: int, start: int, stop: int) -> bool:
        """Whether it is sure that [start, stop) holds no record, for a log that is damaged somewhere behind `start`."""
        place = TopicPartition(self._topic, partition, start)
        return sound_logs.is_empty(self._spec.client, self._client_id, place, stop)

    def close(self) -> None:
        self._consumer.close()


def _runs(messages: list[Message]) -> Iterator[Run]:
    partitions: list[int] = list(map(_partition_of, messages))
    first = partitions[0]
    if partitions.count(first) == len(partitions):
        yield Run(first, messages)
        return
    at = 0
    for partition, group in groupby(partitions):
        stop = at + sum(1 for _ in group)
        yield Run(partition, messages[at:stop])
        at = stop


def _with_errors(messages: Iterable[Message]) -> Iterator[Item]:
    plain: list[Message] = []
    for message in messages:
        error = message.error()
        if error is None:
            plain.append(message)
            continue
        if plain:
            yield from _runs(plain)
            plain = []
        yield _item(message, error)
    if plain:
        yield from _runs(plain)


def _item(message: Message, error: KafkaError) -> Item:
    """Raises JobError for an error that is final."""
    partition = message.partition()
    assert partition is not None
    if error.code() == errors.END:
        offset = message.offset()
        assert offset is not None
        return End(partition, offset)
    if error.code() in errors.OUT_OF_RANGE:
        cut = _CUT.search(error.str())
        return OutOfRange(partition, None if cut is None else int(cut.group(1)))
    if (final := errors.unreadable(error, "source", message)) is not None:
        if not errors.is_damaged(message):
            raise final
        return Damaged(partition, message.offset() or 0, final)
    return Trouble(partition, error)
