"""Keeps the newest directive of one recovery available: a thread reads the directives topic from its beginning and then
follows it.

The lane calls `current()` in its loop, which never waits for Kafka. Newer means a higher attempt, then a higher
sequence. The time of receipt is this process's monotonic time, because a lease runs on the clock of its holder. What a
directive means is not decided here.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from recoveryd_jobs import errors
from recoveryd_jobs.clients import FOLLOWING_FETCH_WAIT_MS, QUICK_FETCH_WAIT_MS, make_reader, meet
from recoveryd_jobs.contract import ContractError, Directive, JobSpec, decode
from recoveryd_jobs.errors import JobError

_QUEUE_BYTES = 1024 * 1024
_STEP_S = 0.05
# How long a starting lane reads with short fetches; after that a reader with long ones follows the topic.
_QUICK_S = 2.0
_ASK_TIMEOUT_S = 5.0
_REFRESH_S = 10.0
_AGAIN_S = 1.0  # how long to wait before another client is made
_QUIET_S = 10.0  # how long nothing may come before the reader asks whether it hears all: a lease is renewed more often
_DEAF_S = 5.0  # how long a reader may leave out what is there
_BLIND_S = 30.0  # how long it may neither hear anything nor get an answer
_RENEWALS_MOST = 3  # how often both are doubled where new readers hear no more: a slow network needs longer
_CLOSE_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class Received:
    """A directive and when this process first saw it (monotonic seconds)."""

    directive: Directive
    at_s: float

    @property
    def rank(self) -> tuple[int, int]:
        return self.directive.attempt, self.directive.sequence


class _ToldEnd(NamedTuple):
    """Where the topic ended, as an answer at `told_s` said, which everything written before `asked_s` lies before."""

    end: int
    asked_s: float
    told_s: float


class Directives:
    """The newest directive for `spec.recovery`, beginning with the one in the spec. Reading starts at construction."""

    def __init__(self, spec: JobSpec, client_id: str) -> None:
        self._spec = spec
        self._client_id = client_id
        self._current = Received(spec.directive, time.monotonic())
        self._changed = threading.Condition()
        self._asked_s = self._fresh_s = 0.0  # when `refresh` was last called, and up to which call everything was read
        self._refused: KafkaError | None = None  # what was said since something was read
        self._position = 0  # where the next reader begins
        self._known: _ToldEnd | None = None  # what the reader has to come to
        self._sure_s = 0.0  # when it last came further, or surely had everything
        self._renewals = 0  # how often it was made anew since something was read
        self._closing = False
        self._thread = threading.Thread(target=self._follow, name="directives", daemon=True)
        self._thread.start()

    def current(self) -> Received:
        return self._current

    def is_superseded(self) -> bool:
        """True once a directive for a newer attempt was seen."""
        return self._current.directive.attempt > self._spec.attempt

    def wait(self, after: Received, timeout_s: float) -> Received:
        """The newest directive: as soon as it differs from `after`, or after `timeout_s`."""
        with self._changed:
            self._changed.wait_for(lambda: self._current is not after or self._closing, timeout_s)
        return self._current

    def refresh(self, timeout_s: float) -> bool:
        """Wait until everything written before this call was read; False when that takes longer than `timeout_s`."""
        with self._changed:
            self._asked_s = asked_s = time.monotonic()
            return (
                self._changed.wait_for(lambda: self._fresh_s >= asked_s or self._closing, timeout_s)
                and not self._closing
            )

    def await_word(self, deadline_s: float, waiting: Callable[[], object]) -> None:
        """Wait until everything written before this call was read: what was wanted at the launch may be long over.
        `waiting` is called again and again meanwhile, and may raise. Raises JobError without word until `deadline_s`
        (monotonic).
        """
        while not self.refresh(_REFRESH_S):
            waiting()
            if (refusal := self.refusal()) is not None:
                raise refusal
            if time.monotonic() >= deadline_s:
                topic = self._spec.control.directives_topic
                raise JobError("internal", f"The directives in {topic} could not be read in time.")

    def refusal(self) -> JobError | None:
        """Why nothing is read, where the cluster refuses it."""
        if self._refused is None:
            return None
        topic = self._spec.control.directives_topic
        told = errors.refusal(self._refused, "Read", topic)
        return JobError("not_authorised", f"{topic} cannot be read: {told}")

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(_CLOSE_TIMEOUT_S)

    def _follow(self) -> None:
        """Follow the topic: first with short fetches, because a starting lane waits for the end, then with long ones,
        which cost little.
        """
        quick_until_s = time.monotonic() + _QUICK_S
        self._read(QUICK_FETCH_WAIT_MS, lambda: self._fresh_s > 0 or time.monotonic() > quick_until_s)
        self._read(FOLLOWING_FETCH_WAIT_MS, lambda: False)

    def _read(self, fetch_wait_ms: int, is_over: Callable[[], bool]) -> None:
        """Read on until `is_over()` or closed. A client that cannot be made, as while its files are being replaced, is
        tried again: a lane without word of its daemon would end itself.
        """
        while not self._closing and not is_over():
            try:
                self._read_with_one(fetch_wait_ms, is_over)
            except KafkaException as raised:
                self._note(raised.args[0])
                with self._changed:
                    self._changed.wait_for(lambda: self._closing, _AGAIN_S)

    def _read_with_one(self, fetch_wait_ms: int, is_over: Callable[[], bool]) -> None:
        control = self._spec.control
        consumer = make_reader(control.client, self._client_id, _QUEUE_BYTES, fetch_wait_ms=fetch_wait_ms)
        try:
            meet(consumer, control.directives_topic)
            consumer.assign([TopicPartition(control.directives_topic, 0, self._position or OFFSET_BEGINNING)])
            self._known, self._sure_s = None, time.monotonic()
            while not self._closing and not is_over():
                self._step(consumer)
                if self._is_deaf():
                    self._renewals = min(self._renewals + 1, _RENEWALS_MOST)
                    return  # `_read` makes a new one
        finally:
            consumer.close()

    def _is_deaf(self) -> bool:
        """Whether the reader leaves out for long what the topic has, or cannot even ask. One that was assigned while a
        broker came back to itself may hear no more, and then no other assignment helps (librdkafka 2.16).
        """
        since_s, patience_s = self._sure_s, _BLIND_S
        if self._known is not None:
            since_s, patience_s = max(self._known.told_s, self._sure_s), _DEAF_S
        return time.monotonic() - since_s >= patience_s * 2.0**self._renewals

    def _step(self, consumer: Consumer) -> None:
        """Read what is there. If `refresh` was called, or nothing came for long, ask where the end is first."""
        is_asked = self._asked_s > self._fresh_s or time.monotonic() - self._sure_s >= _QUIET_S
        if self._known is None and is_asked:
            self._known = self._ask(consumer)
        before = self._position
        for message in consumer.consume(500, 0) or consumer.consume(1, _STEP_S):
            self._take(message)
        if self._position > before:
            self._sure_s, self._renewals = time.monotonic(), 0
        if self._known is not None and self._position >= self._known.end:
            with self._changed:
                self._fresh_s = self._known.asked_s
                self._changed.notify_all()
            self._known, self._sure_s = None, time.monotonic()

    def _take(self, message: Message) -> None:
        """Raises KafkaException where nothing is at the position any more: the next reader begins anew."""
        error, offset = message.error(), message.offset()
        self._note(error)
        if error is None:
            self._offer(message.value())
            self._position = max(self._position, (offset or 0) + 1)
        elif error.code() in errors.OUT_OF_RANGE:
            self._position = 0
            raise KafkaException(error)
        elif offset is not None and offset >= 0:
            self._position = max(self._position, offset)

    def _note(self, error: KafkaError | None) -> None:
        if error is None or error.code() == errors.END:
            self._refused = None
        elif errors.is_refusal(error):
            self._refused = error

    def _ask(self, consumer: Consumer) -> _ToldEnd | None:
        """Where the end is now; None without an answer."""
        asked_s, partition = self._asked_s, TopicPartition(self._spec.control.directives_topic, 0)
        try:
            found = consumer.get_watermark_offsets(partition, timeout=_ASK_TIMEOUT_S, cached=False)
        except KafkaException as error:
            self._note(error.args[0])
            return None
        return None if found is None else _ToldEnd(int(found[1]), asked_s, time.monotonic())

    def _offer(self, raw: object) -> None:
        if not isinstance(raw, bytes) or self._spec.recovery.encode() not in raw:
            return
        try:
            found = decode(Directive, raw)
        except ContractError:
            return  # written by another release: ignored, and if none follows the lease runs out
        mine = self._spec.directive.begun_at
        if found.begun_at != mine and -1 not in (found.begun_at, mine):
            return  # of an earlier recovery with this id; the topic holds its directives until it is compacted
        received = Received(found, time.monotonic())
        if found.recovery != self._spec.recovery or received.rank <= self._current.rank:
            return
        with self._changed:
            self._current = received
            self._changed.notify_all()
