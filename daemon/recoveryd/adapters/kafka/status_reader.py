"""The outside's view of a running recoveryd: write a control record, read status and events. For the command line and
for tests.

Everything here any Kafka client could do; nothing needs the daemon's own rights. Blocking. What is read is committed;
"now" is the last stable offset, so a transaction that is open at this moment is not waited for. Records are handed on
as parsed JSON, unjudged: an older or newer daemon may have written them.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.client import (
    FOLLOWING_FETCH_WAIT_MS,
    NOT_AUTHORISED,
    Properties,
    make_admin,
    make_consumer,
    make_producer,
    problem,
)
from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, at_time, read_offsets
from recoveryd.adapters.kafka.reading import assign, next_messages, pair_of, read_range, unreadable
from recoveryd.errors import ClusterProblem, PerhapsWritten
from recoveryd.wire.topics import ONLY_PARTITION, TopicNames

Document = dict[str, Any]

_ASK_S = 30.0
_READ_S = 60.0
_SEND_S = 30.0
_LOOK_S = 0.5
_POLL_S = 0.1
_REFUSED = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.POLICY_VIOLATION})


@dataclass(frozen=True, slots=True)
class SentRecord:
    """Where a record landed, and when by the broker's clock (None = it did not say)."""

    offset: int | None
    broker_ms: int | None


@dataclass(frozen=True, slots=True)
class Expected:
    """A command whose answer is awaited: its id, what it is about, and where it lies (None = nobody said). The id alone
    names none: another user, or a script that uses one id for two commands, has it too.
    """

    command_id: str
    subject: str
    offset: int | None


class StatusReader:
    """`properties`: librdkafka's, of the cluster `main`. One thread at a time. Every method raises `ClusterProblem`."""

    def __init__(self, properties: Properties, names: TopicNames) -> None:
        self._properties = dict(properties)
        self._names = names
        self._admin: AdminClient = make_admin(properties)
        self._producer: Producer | None = None
        self._events_before: int | None = None  # where answers to what this reader sent can begin

    def write(self, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]] = ()) -> SentRecord:
        """Write a control record; returns once all in-sync replicas have it. Raises `PerhapsWritten` where it may be
        there all the same.
        """
        if self._events_before is None:
            # The high watermark: what was written before we sent is no answer to it, committed already or not.
            self._events_before = read_offsets(self._admin, [(self._names.events, 0)], LATEST, _ASK_S)[0]
        if self._producer is None:
            self._producer = make_producer(self._properties, int(_SEND_S * 1000))
        told: list[tuple[KafkaError | None, Message]] = []
        try:
            self._producer.produce(
                self._names.control,
                value=value,
                key=key,
                partition=ONLY_PARTITION,
                headers=list(headers) or None,
                on_delivery=lambda error, message: told.append((error, message)),
            )
        except KafkaException as error:
            raise problem(error, f"write to {self._names.control}", "Write", self._names.control) from error
        give_up_s = time.monotonic() + _SEND_S + 1.0
        while not told and time.monotonic() < give_up_s:
            self._producer.poll(_POLL_S)  # in short pieces: a signal is heard between them only
        if not told:
            raise PerhapsWritten(f"Could not write to {self._names.control}: no answer within {_SEND_S:.0f} s")
        failure, message = told[0]
        if failure is not None:
            raise self._unwritten(failure)
        time_ms = message.timestamp()[1]
        return SentRecord(message.offset(), time_ms if time_ms > 0 else None)

    def _unwritten(self, failure: KafkaError) -> ClusterProblem:
        """Only of what a broker refused is known that it is not there: an answer that was lost, or came too late, may
        have been a yes.
        """
        found = problem(failure, f"write to {self._names.control}", "Write", self._names.control)
        if failure.code() in NOT_AUTHORISED or failure.code() in _REFUSED:
            return found
        return PerhapsWritten(found.message, retriable=found.retriable)

    def await_answers(self, asked: Sequence[Expected], timeout_s: float) -> Iterator[tuple[Expected, Document]]:
        """The answer to each, as they come; ends once all are there, or when the time is over.

        Looks at events since this reader first sent something, or from now on when it did not.
        """
        left = list(asked)
        if not left:
            return
        start = self._events_before if self._events_before is not None else self._ends(self._names.events)[1]
        give_up_s = time.monotonic() + timeout_s
        for event in self._tail(self._names.events, start, min(_LOOK_S, timeout_s)):
            one = None if event is None else next((one for one in left if is_answer(event[1], one)), None)
            if event is not None and one is not None:
                left.remove(one)
                yield one, event[1]
            if not left or (event is None and time.monotonic() >= give_up_s):
                return

    def statuses(self) -> dict[str, Document]:
        """The newest status of every recovery by id, as of now."""
        newest: dict[bytes, bytes] = {}
        for key, value in self._pairs(self._names.status):
            newest.pop(key, None)
            if value is not None:
                newest[key] = value
        documents = {key.decode(errors="replace"): _parse(value) for key, value in newest.items()}
        return {key: document for key, document in documents.items() if document is not None and key != "_daemon"}

    def status(self, recovery: str) -> Document | None:
        """The newest status of one recovery; only its last record is parsed."""
        newest = None
        for key, value in self._pairs(self._names.status):
            if key == recovery.encode():
                newest = value
        return None if newest is None else _parse(newest)

    def follow(self, recovery: str) -> Iterator[Document | None]:
        """The status as of now (None when there is none), then each change, without end; None about each half second in
        between.
        """
        end = self._ends(self._names.status)[1]
        yield self.status(recovery)
        wanted = recovery.encode()
        for record in self._tail(self._names.status, end, _LOOK_S):
            if record is None:
                yield None
            elif record[0] == wanted:
                yield record[1]

    def follow_all(self) -> Iterator[Document | None]:
        """Every status as of now, then each change of any, without end; None about each half second in between."""
        end = self._ends(self._names.status)[1]
        yield from self.statuses().values()
        for record in self._tail(self._names.status, end, _LOOK_S):
            yield None if record is None or record[0] == b"_daemon" else record[1]

    def read_events(self, recovery: str | None = None, since_ms: int | None = None) -> list[Document]:
        """Events as of now, oldest first; of one recovery, and from a time on, when given."""
        wanted = None if recovery is None else recovery.encode()
        found = [
            _parse(value)
            for key, value in self._pairs(self._names.events, since_ms)
            if value is not None and wanted in {None, key}
        ]
        return [document for document in found if document is not None]

    def close(self) -> None:
        if self._producer is not None:
            self._producer.flush(1.0)
            self._producer = None

    def _ends(self, topic: str, since_ms: int | None = None) -> tuple[int, int]:
        """(first offset to read, last stable offset) of partition 0."""
        key = [(topic, 0)]
        end = read_offsets(self._admin, key, LATEST, _ASK_S, committed=True)[0]
        if since_ms is None:
            return read_offsets(self._admin, key, EARLIEST, _ASK_S)[0], end
        start = read_offsets(self._admin, key, at_time(since_ms), _ASK_S)[0]
        return (end if start < 0 else start), end

    def _pairs(self, topic: str, since_ms: int | None = None) -> Iterator[tuple[bytes, bytes | None]]:
        for message in read_range(self._properties, topic, 0, self._ends(topic, since_ms), _READ_S):
            yield _pair(message)

    def _tail(self, topic: str, start: int, look_s: float) -> Iterator[tuple[bytes, Document] | None]:
        """Records from `start` on for ever, with None whenever none came for `look_s`."""
        consumer = make_consumer(self._properties, fetch_wait_max_ms=FOLLOWING_FETCH_WAIT_MS)
        try:
            assign(consumer, topic, {0: start}, _ASK_S)
            idle_since_s = time.monotonic()
            while True:
                for message in _good(next_messages(consumer, min(look_s, 0.1)), topic):
                    key, value = _pair(message)
                    document = None if value is None else _parse(value)
                    if document is not None:
                        yield key, document
                if time.monotonic() - idle_since_s >= look_s:
                    idle_since_s = time.monotonic()
                    yield None
        finally:
            consumer.close()


def is_answer(event: Document, asked: Expected) -> bool:
    """Whether an event is the answer to this very record; where one of both does not know its offset, to a command of
    this id about the same.
    """
    is_of = event.get("causationid") == asked.command_id
    if not (is_of and str(event.get("type", "")).startswith("io.recoveryd.event.command_")):
        return False
    data = event.get("data")
    offset = data.get("control_offset") if isinstance(data, dict) else None
    if asked.offset is None or not isinstance(offset, int) or offset < 0:
        return bool(event.get("subject") == asked.subject)
    return offset == asked.offset


def _good(messages: Sequence[Message], topic: str) -> Iterator[Message]:
    for message in messages:
        error = message.error()
        if error is None:
            yield message
        elif (final := unreadable(message, topic)) is not None:
            raise final


def _pair(message: Message) -> tuple[bytes, bytes | None]:
    key, value = pair_of(message)
    return key or b"", value


def _parse(value: bytes) -> Document | None:
    """The JSON object in a record; None for anything else, which is not ours to judge."""
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
