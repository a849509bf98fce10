"""Hearing the lanes and drivers: the progress topic, from a few seconds ago on, as core events.

Heartbeats are hints, so nothing here is exact: a record that cannot be read is counted and passed over, a lost
connection is waited out, and after a restart the next heartbeats, a second later, say everything again. One thread, no
group.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from recoveryd.adapters.kafka.client import FOLLOWING_FETCH_WAIT_MS, Properties, make_admin, make_consumer, problem
from recoveryd.adapters.kafka.living_clients import version_of
from recoveryd.adapters.kafka.offsets import LATEST, at_time, read_offsets
from recoveryd.adapters.kafka.reading import assign, is_passing, next_messages, pair_of
from recoveryd.adapters.kafka.topic_admin import describe
from recoveryd.errors import ClusterProblem, RecoverydError
from recoveryd.ports import Emit
from recoveryd.sight import ClusterSight
from recoveryd_jobs.contract import ContractError, DriverHeartbeat, LaneHeartbeat, LanePosition, decode_progress

# Two heartbeats: what lives is heard at once, and what died with the last daemon does not seem alive.
LOOK_BACK_MS = 2_000

_ASK_S = 10.0
_WAIT_S = 0.2
_AGAIN_S = 1.0
_CONNECTING_MS = 10_000  # getting through may take this long and is not counted against the look back
_CLOSE_S = 5.0
_POSITIONS, _AFTER_POSITIONS = b'"positions":[', b'],"why":'
_WORTH_BYTES = 2_000
# A living lane is heard each second, so this keeps what all that live have told. Their number bounds it: at most
# `limits.max_active_recoveries` times the task slots of a profile. The state has the same positions of each anyway.
_KNOWN_S = 60.0

_log = logging.getLogger("recoveryd.progress")


class _Told(NamedTuple):
    """The positions that a lane told last: as it wrote them, and as they were read. `at_s` by the monotonic clock."""

    text: bytes
    positions: tuple[LanePosition, ...]
    at_s: float


class KafkaProgressFeed:
    """`unreadable` counts records that were no heartbeat of this release."""

    def __init__(self, properties: Properties, topic: str, now_ms: Callable[[], int]) -> None:
        self._properties = properties
        self._topic = topic
        self._now_ms = now_ms
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._positions: dict[int, int] = {}
        self._started_ms = 0
        self._known: dict[bytes | None, _Told] = {}  # by key, that heard longest ago first
        self.unreadable = 0

    async def start(self, emit: Emit) -> None:
        """Returns at once; a cluster that does not answer is asked again each second. Once per instance."""
        if self._thread is None:
            self._started_ms = self._now_ms()
            self._thread = threading.Thread(target=self._run, args=(emit,), name="progress", daemon=True)
            self._thread.start()

    async def close(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _CLOSE_S)

    def _run(self, emit: Emit) -> None:
        while not self._stopping.is_set():
            try:
                self._follow(emit)
            except (RecoverydError, KafkaException) as error:
                _log.warning("Progress is not heard at the moment: %s", error)
                self._stopping.wait(_AGAIN_S)
            except Exception:  # noqa: BLE001  (a daemon that hears nothing any more would end healthy attempts)
                _log.exception("Progress reading failed and begins anew")
                self._stopping.wait(_AGAIN_S)

    def _follow(self, emit: Emit) -> None:
        starts = self._starts()
        # Where retention or a new topic took the position away, only what comes now is news.
        version = version_of(self._properties)
        consumer = make_consumer(
            self._properties, auto_offset_reset="latest", fetch_wait_max_ms=FOLLOWING_FETCH_WAIT_MS
        )
        try:
            assign(consumer, self._topic, starts, _ASK_S)
            self._positions = starts
            sight = ClusterSight()
            while not self._stopping.is_set() and version_of(self._properties) == version:
                self._hear(consumer, sight, emit)
                if sight.is_lost(time.monotonic()):
                    _log.warning("The client for progress has lost its brokers; another one is made.")
                    return
        finally:
            consumer.close()

    def _starts(self) -> dict[int, int]:
        """Where we left off, or a few seconds back, for each partition."""
        admin = make_admin(self._properties)
        shape = describe(admin, [self._topic], _ASK_S)[self._topic]
        if shape is None:
            raise ClusterProblem(f"{self._topic} does not exist.")
        since_ms = max(self._started_ms, self._now_ms() - _CONNECTING_MS) - LOOK_BACK_MS
        # In this order: a record that comes between the two is then found by its time, or lies behind the end.
        ends = read_offsets(admin, shape.keys, LATEST, _ASK_S)
        recent = read_offsets(admin, shape.keys, at_time(since_ms), _ASK_S)
        back = {p: recent[p] if recent[p] >= 0 else ends[p] for p in ends}
        return {p: max(back[p], min(self._positions.get(p, 0), max(ends[p], back[p]))) for p in ends}

    def _hear(self, consumer: Consumer, sight: ClusterSight, emit: Emit) -> None:
        for message in _newest(next_messages(consumer, _WAIT_S)):
            error = message.error()
            sight.note(error, time.monotonic())
            if error is None:
                self._pass_on(message, emit)
            elif error.code() != KafkaError._PARTITION_EOF and not is_passing(error):  # noqa: SLF001
                raise problem(error, f"read {self._topic}", "Read", self._topic)

    def _pass_on(self, message: Message, emit: Emit) -> None:
        self._positions[message.partition() or 0] = (message.offset() or 0) + 1
        key, value = pair_of(message)
        try:
            event = self._decode(key, value or b"")
        except ContractError as error:
            self.unreadable += 1
            if self.unreadable == 1:
                _log.warning("A progress record cannot be read (further ones are only counted): %s", error)
            return
        emit(event)

    def _decode(self, key: bytes | None, raw: bytes) -> LaneHeartbeat | DriverHeartbeat:
        """A lane of a thousand partitions says most of the time what it said a second ago: its positions are read again
        only when they changed.
        """
        start, stop = raw.find(_POSITIONS), raw.find(_AFTER_POSITIONS)
        told = raw[start + len(_POSITIONS) : stop]
        if start < 0 or stop < start or len(told) < _WORTH_BYTES or raw.find(_AFTER_POSITIONS, stop + 1) >= 0:
            return decode_progress(raw)
        known = self._known.pop(key, None)
        if known is not None and known.text == told:
            event = decode_progress(raw[: start + len(_POSITIONS)] + raw[stop:])
            if isinstance(event, LaneHeartbeat):
                event = replace(event, positions=known.positions)
        else:
            event = decode_progress(raw)
        if isinstance(event, LaneHeartbeat):
            self._remember(key, _Told(told, event.positions, time.monotonic()))
        return event

    def _remember(self, key: bytes | None, told: _Told) -> None:
        self._known[key] = told
        while self._known[oldest := next(iter(self._known))].at_s < told.at_s - _KNOWN_S:
            del self._known[oldest]


def _newest(messages: list[Message]) -> list[Message]:
    """The newest heartbeat of each lane, since older ones add nothing, and all other messages, in order."""
    last = {message.key(): at for at, message in enumerate(messages) if _is_of_lane(message)}
    return [m for at, m in enumerate(messages) if not _is_of_lane(m) or last[m.key()] == at]


def _is_of_lane(message: Message) -> bool:
    key = message.key()
    return message.error() is None and isinstance(key, bytes) and b"/lane/" in key
