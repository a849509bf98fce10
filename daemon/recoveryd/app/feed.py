"""The Faust worker: it brings control records and tells whether this daemon leads. No rule about recovery lives here,
and Faust is known in this folder only; `worker` sets it up.

The feed acknowledges records itself. They go into the inbox as they come, so that many share one journal transaction,
and each is acknowledged only when the journal holds what it caused, strictly in order and from one task: Faust commits
up to the first gap it sees, and acknowledgements in order leave none. A wrong committed position loses nothing either,
because the intake goes by the journal's position.
"""

import asyncio
import contextlib
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, cast

import faust
import structlog
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.commit import OffsetCommitRequest
from faust import Stream
from faust.types import TP, EventT, StreamT

from recoveryd.app.credentials import forget_token, take_login
from recoveryd.app.tolerant_fetch import readable_headers, tolerate_any_batch
from recoveryd.app.worker import FeedConfig, coordinator_of, make_app
from recoveryd.errors import ClusterProblem, OwnTopicProblem, RecoverydError
from recoveryd.failpoints import hit
from recoveryd.kernel.catalogue import Code
from recoveryd.ports import ControlRecord
from recoveryd.runtime import ControlIntake
from recoveryd.settings.kafka_properties import ClientAccess

log = structlog.stdlib.get_logger(__name__)

UNACKED_AT_MOST: Final = 10_000
# A commit that waits out a request, then looks for the group's broker and for who leads what, each with a time-out of
# its own, is late and not stalled. Nothing hurries: what is not committed only comes again after a restart.
STALLED_AFTER_S: Final = 300.0
WATCH_EVERY_S: Final = 1.0


class Leadership(Protocol):
    """What the feed tells: that the control partition comes (`assigned`), goes (`revoked`) or went to another daemon
    (`passed_over`), and, just before it goes, that the group took this daemon for dead (`expelled`). It joins again
    only when `expelled` has returned.

    `waits_for_journal` says that the broker does not answer other questions either, so that missing commits mean
    nothing.
    """

    @property
    def waits_for_journal(self) -> bool: ...

    def assigned(self) -> None: ...

    def passed_over(self) -> None: ...

    def revoked(self) -> None: ...

    async def expelled(self) -> None: ...


class Feed:
    """Runs the worker."""

    def __init__(self, config: FeedConfig, intake: ControlIntake, leadership: Leadership) -> None:
        self._config = config
        self._leadership = leadership
        self._has_joined = self._is_expelled = False
        self._partition = TP(config.topic, 0)
        self._intake = intake
        tolerate_any_batch(partial(_call_soon, asyncio.get_running_loop(), intake.look_again))
        self._app = make_app(config)
        self._unacked: asyncio.Queue[tuple[EventT[Any], asyncio.Future[None]]] = asyncio.Queue(UNACKED_AT_MOST)
        self._acked_offset = -1
        self._acked_s = 0.0
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._acking: asyncio.Task[None] | None = None
        topic = self._app.topic(config.topic, key_serializer="raw", value_serializer="raw")
        self._app.agent(topic, name="control", concurrency=1)(self._deliver)
        self._app.on_partitions_assigned.connect(self._on_assigned, weak=False)
        self._app.on_partitions_revoked.connect(self._on_revoked, weak=False)

    async def start(self) -> None:
        """Join the group. Records come from now on. Raises `ClusterProblem` where the brokers went away just before."""
        self._acking = asyncio.create_task(self._acknowledge())
        try:
            await self._app.start()
        except KafkaConnectionError as error:
            raise ClusterProblem(f"No broker answered when the group was to be joined: {error}") from error
        self._has_joined = True

    async def stop(self, timeout_s: float) -> None:
        """Commit what is acknowledged and leave the group; gives up after `timeout_s`, for instance when no broker
        answers.
        """
        if self._acking is not None:
            self._acking.cancel()
        if self._is_expelled:
            return  # the group has no such member, and the worker would join once more before it stops
        with warnings.catch_warnings(action="ignore"):
            # Records not acknowledged yet come again; waiting for them could take for ever.
            self._app.conf.stream_wait_empty = False
        try:
            await asyncio.wait_for(self._app.stop(), timeout_s)
        except TimeoutError:
            log.warning("the group could not be left in time", timeout_s=timeout_s)

    def take_login(self, access: ClientAccess) -> None:
        """Connect as this user, and with what these files hold, from now on. Present connections stay as they are.

        Faust hands a login to its clients once, and the clients to their connections, so theirs is replaced.
        """
        consumer = getattr(self._app.consumer, "_thread", None)
        holders = (getattr(consumer, "_consumer", None), getattr(self._app.producer, "_producer", None))
        clients = (getattr(holder, "_client", None) or getattr(holder, "client", None) for holder in holders)
        take_login(self._config.credentials, access, [client for client in clients if client is not None])

    def forget_token(self) -> None:
        """Somebody asks for all secrets to be read again: a token that was revoked shall not be offered any more."""
        forget_token(self._config.credentials)

    async def watch(self) -> None:
        """Run until cancelled. Raises `RecoverydError` when the worker broke down or its commits stall, which only a
        restart mends.
        """
        crashed = asyncio.ensure_future(self._app.wait_until_stopped())
        watch = CommitWatch(STALLED_AFTER_S)
        try:
            while True:
                await asyncio.wait({crashed, self._failed}, timeout=WATCH_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
                if self._failed.done():
                    self._failed.result()
                if crashed.done():
                    raise RecoverydError(Code.INVARIANT_BROKEN, f"The Faust worker stopped: {self._app.crash_reason!r}")
                if self._has_joined and (error := coordinator_of(self._app)._pending_exception) is not None:  # noqa: SLF001
                    raise RecoverydError(Code.INVARIANT_BROKEN, f"The group's client has given up: {error!r}")
                committed = self._app.monitor.tp_committed_offsets.get(self._partition)
                now_s, is_silent = time.monotonic(), self._leadership.waits_for_journal
                if watch.is_stalled(self._acked_offset, self._acked_s, committed, now_s, is_silent=is_silent):
                    raise RecoverydError(Code.COMMITS_STALLED)
        finally:
            crashed.cancel()

    async def _deliver(self, stream: StreamT[Any]) -> None:
        async for event in cast("Stream[Any]", stream).noack().events():
            try:
                self._check_width({event.message.partition})
                hit("agent.before_inbox")
                await self._unacked.put((event, await self._intake.accept(_record(event))))
            except Exception as problem:  # an exception that leaves an agent would skip the record
                log.exception("a control record could not be taken in", offset=event.message.offset)
                self._fail(problem)
                await asyncio.Event().wait()

    def _fail(self, problem: Exception) -> None:
        if not self._failed.done():
            self._failed.set_exception(problem)

    def _check_width(self, partitions: set[int]) -> None:
        """Offsets of another partition would be taken for those of the one that is read. Raises `OwnTopicProblem`."""
        if more := partitions - {self._partition.partition}:
            width = f"{max(more) + 1} or more"
            text = f"{self._config.topic} has partitions={width}, it must be 1."
            raise OwnTopicProblem([text], code=Code.OWN_TOPIC_WRONG)

    async def _on_assigned(self, _app: Any, /, *partitions: set[TP], **_: Any) -> None:
        assigned = set[TP]().union(*partitions)
        try:
            self._check_width({tp.partition for tp in assigned if tp.topic == self._config.topic})
        except OwnTopicProblem as problem:
            self._fail(problem)
            return
        if self._partition in assigned:
            self._leadership.assigned()
        else:
            self._leadership.passed_over()

    async def _on_revoked(self, _app: Any, /, *partitions: set[TP], **_: Any) -> None:
        """The worker joins the group again when this returns."""
        if self._partition not in set().union(*partitions):
            return
        if _is_no_member(self._app):
            self._is_expelled = True
            await self._leadership.expelled()
            self._is_expelled = False
        self._leadership.revoked()

    async def _acknowledge(self) -> None:
        while True:
            event, done = await self._unacked.get()
            await asyncio.wait({done})
            hit("agent.after_journal")
            event.ack()
            self._acked_offset, self._acked_s = event.message.offset, time.monotonic()


class CommitWatch:
    """Tells a stall (records are acknowledged, but the committed offset stays) from quiet (nothing to commit)."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._committed: int | None = None
        self._moved_s: float | None = None
        self._late_s: float | None = None  # when an acknowledgement was first seen that came well after that

    def is_stalled(
        self, acked_offset: int, acked_s: float, committed: int | None, now_s: float, *, is_silent: bool = False
    ) -> bool:
        """Call it about once a second. `committed` is the next offset the group would start at, None = none yet.

        While `is_silent`, and for `patience_s` afterwards, nothing is a stall: a broker that stood still takes commits
        late.
        """
        has_moved = committed != self._committed or self._moved_s is None or acked_offset + 1 <= (committed or 0)
        if has_moved or self._moved_s is None or is_silent:
            self._committed, self._moved_s, self._late_s = committed, now_s, None
        # A silent broker stops acknowledgements and commits alike. Only an acknowledgement well after the last commit
        # shows a stall, and only once it had the time to be committed: the commit of the one before may be lost with a
        # membership, and nothing else comes for long.
        if self._late_s is None and acked_s - self._moved_s >= self._patience_s / 2:
            self._late_s = now_s
        is_late = self._late_s is not None and now_s - self._late_s >= self._patience_s / 2
        return is_late and now_s - self._moved_s >= self._patience_s


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(function)


def _is_no_member(app: faust.App) -> bool:
    """Whether the group took this worker for dead, which its client then knows by having no generation of the group."""
    return bool(coordinator_of(app).generation == OffsetCommitRequest.DEFAULT_GENERATION_ID)


def _record(event: EventT[Any]) -> ControlRecord:
    message = event.message
    headers: Any = message.headers or ()
    pairs = readable_headers(headers.items() if isinstance(headers, dict) else headers)
    return ControlRecord(
        partition=message.partition,
        offset=message.offset,
        broker_ms=round(message.timestamp * 1000),
        key=message.key,
        value=message.value,
        headers=pairs,
    )
