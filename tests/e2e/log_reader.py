"""Reads Kafka logs for the history checker, by position and never by record count.

It uses nothing of the product, because it is a part of the product's judge. A range is done when the reader's position
reached its end, because its tail may be transaction markers, aborted or compacted; with read_committed the reader
waits, with a deadline, until the last stable offset is there.
"""

import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.e2e.clients import client

T = TypeVar("T")
Header = tuple[str, bytes | None]
Content = tuple[bytes | None, bytes | None, tuple[Header, ...], int]

# Errors that a client may get while a broker restarts or a topic is created; asking again later gives another answer.
PASSING = frozenset({
    KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.REQUEST_TIMED_OUT, KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.OFFSET_NOT_AVAILABLE, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT,
    KafkaError._NOENT,  # no leader is known, as of a broker that stood still
})  # fmt: skip
QUIET: Final[dict[str, str | int | float | bool]] = {"log_level": 0}  # many of these tests take brokers away
_MAKES_NO_TOPIC: Final[dict[str, bool]] = {"allow.auto.create.topics": False}  # by being asked for it
_POLL_S = 0.05
_KNOWN_S = 2.0
_BATCH_RECORDS = 5_000
_ADMIN_TIMEOUT_S = 120.0
_MEET_TIMEOUT_S = 120.0


class ReadTimeoutError(AssertionError):
    """A log could not be read to its end in time; the message says where each partition stands."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a reader sees it. `time_ms` is -1 when the record has none."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    time_ms: int
    is_log_append_time: bool = False

    @property
    def content(self) -> Content:
        """Everything that a copy must keep, comparable and hashable."""
        return (self.key, self.value, self.headers, self.time_ms)


def offsets(bootstrap: str, topic: str, *, end: bool, committed: bool = False) -> dict[int, int]:
    """Log starts, or (with `end`) high watermarks, or (also `committed`) last stable offsets, of all partitions,
    however long leaders are not known, as for a new topic or a restarted broker.
    """
    return insist(lambda: _offsets(bootstrap, topic, end=end, committed=committed))


def insist(ask: Callable[[], T]) -> T:
    """The answer of a cluster, which is asked again while what it says is an error that passes."""
    give_up_at_s = time.monotonic() + _ADMIN_TIMEOUT_S
    while True:
        try:
            return ask()
        except KafkaException as raised:
            if raised.args[0].code() not in PASSING or time.monotonic() > give_up_at_s:
                raise
            time.sleep(_POLL_S)


def _offsets(bootstrap: str, topic: str, *, end: bool, committed: bool) -> dict[int, int]:
    admin = _admin(bootstrap)
    known = admin.list_topics(topic, timeout=_ADMIN_TIMEOUT_S).topics[topic]
    if known.error is not None:  # of several brokers this one may not know it yet
        raise KafkaException(known.error)
    spec = OffsetSpec.latest() if end else OffsetSpec.earliest()
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    asked = {TopicPartition(topic, p): spec for p in known.partitions}
    futures = admin.list_offsets(asked, isolation_level=level, request_timeout=_ADMIN_TIMEOUT_S)
    return {tp.partition: future.result(_ADMIN_TIMEOUT_S).offset for tp, future in futures.items()}


def is_known(bootstrap: str, topic: str) -> bool:
    """Whether the topic exists; of several brokers the one that is asked may know it only a moment later. Asked by its
    name, since a run's broker comes to have thousands of topics.
    """
    give_up_at_s = time.monotonic() + _KNOWN_S
    while _admin(bootstrap).list_topics(topic, timeout=_ADMIN_TIMEOUT_S).topics[topic].error is not None:
        if time.monotonic() > give_up_at_s:
            return False
        time.sleep(_POLL_S)
    return True


@functools.lru_cache(maxsize=4)
def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({**client(bootstrap), **QUIET, **_MAKES_NO_TOPIC})


def forget_clients() -> None:
    """Call after a broker is gone for good: a cached client would go on trying to reach it, and log that."""
    _admin.cache_clear()


def await_markers(bootstrap: str, topic: str) -> None:
    """Waits until no transaction on the topic is undecided. An abort or commit is answered before its markers are in
    the log, so ends that are read earlier are too low.
    """
    give_up_at_s = time.monotonic() + _ADMIN_TIMEOUT_S
    while undecided(bootstrap, topic):
        assert time.monotonic() < give_up_at_s, f"a transaction on {topic} stays open"
        time.sleep(_POLL_S)


def undecided(bootstrap: str, topic: str) -> list[int]:
    """The partitions on which a transaction is undecided."""
    stable = offsets(
        bootstrap, topic, end=True, committed=True
    )  # asked for first, so it is no higher; a new partition may be in the other only
    return [p for p, end in offsets(bootstrap, topic, end=True).items() if stable.get(p) != end]


def whole_log(bootstrap: str, topic: str) -> dict[int, tuple[int, int]]:
    """[log start, high watermark) of each partition."""
    ends = offsets(bootstrap, topic, end=True)
    return {p: (start, ends[p]) for p, start in offsets(bootstrap, topic, end=False).items()}


def read_log(
    bootstrap: str,
    topic: str,
    ranges: Mapping[int, tuple[int, int]] | None = None,
    *,
    committed: bool = True,
    deadline_s: float = 180.0,
) -> dict[int, list[Record]]:
    """Records of [start, end) per partition in offset order; without `ranges` the whole log as it is now.

    Offsets below the log start are skipped silently (the broker no longer has them). Raises `ReadTimeoutError`.
    """
    wanted = dict(whole_log(bootstrap, topic) if ranges is None else ranges)
    found: dict[int, list[Record]] = {p: [] for p in wanted}
    for record in _scan(bootstrap, topic, wanted, committed=committed, give_up_at_s=time.monotonic() + deadline_s):
        found[record.partition].append(record)
    return found


def make_reader(bootstrap: str, *, committed: bool, fetch_wait_ms: int = 10) -> Consumer:
    """A consumer without a group, with an event when its position reached the end of what it may see.

    An end after transaction markers is noticed only when a fetch comes back empty. Callers that wait only for records
    may let the broker hold a fetch for longer.
    """
    return Consumer(
        {
            **client(bootstrap),
            **QUIET,
            "group.id": "history-checker",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "auto.offset.reset": "earliest",
            "allow.auto.create.topics": False,
            "check.crcs": True,
            "fetch.wait.max.ms": fetch_wait_ms,
        }
    )


def assign(reader: Consumer, where: Iterable[TopicPartition]) -> None:
    """Read from these offsets on. The reader looks up the topics first, because partitions assigned to a client that is
    not connected yet wait for a timer of a second.
    """
    where = list(where)
    with contextlib.suppress(KafkaException):  # the broker may be away; the reader goes on trying by itself
        for topic in {at.topic for at in where}:
            reader.list_topics(topic, timeout=_MEET_TIMEOUT_S)
    reader.assign(where)


def to_record(message: Any) -> Record:
    kind, time_ms = message.timestamp()
    headers = tuple((name, value) for name, value in (message.headers() or ()))
    return Record(
        message.partition(), message.offset(), message.key(), message.value(), headers, time_ms,
        is_log_append_time=kind == TIMESTAMP_LOG_APPEND_TIME,
    )  # fmt: skip


def _scan(
    bootstrap: str, topic: str, wanted: Mapping[int, tuple[int, int]], *, committed: bool, give_up_at_s: float
) -> Iterator[Record]:
    open_at = {p: start for p, (start, end) in wanted.items() if start < end}
    if not open_at:
        return
    reader = make_reader(bootstrap, committed=committed)
    try:
        assign(reader, (TopicPartition(topic, p, start) for p, start in open_at.items()))
        while open_at:
            if time.monotonic() > give_up_at_s:
                raise ReadTimeoutError(
                    f"{topic}: still open at {open_at}, wanted {dict(wanted)}, committed={committed}"
                )
            for message in reader.consume(_BATCH_RECORDS, timeout=_POLL_S):
                yield from _take(message, wanted, open_at)
    finally:
        reader.close()


def _take(message: Any, wanted: Mapping[int, tuple[int, int]], open_at: dict[int, int]) -> Iterator[Record]:
    """The record, if it lies in its range; moves the partition's position, and closes the partition once it is read."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        if error.retriable() or error.code() in PASSING:
            return
        raise AssertionError(f"reading {message.topic()}: {error}")
    partition, offset = message.partition(), message.offset()
    if partition not in open_at:
        return
    if error is None and offset < wanted[partition][1]:
        yield to_record(message)
    open_at[partition] = offset + 1 if error is None else offset
    if open_at[partition] >= wanted[partition][1]:
        del open_at[partition]
