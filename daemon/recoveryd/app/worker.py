"""Faust's worker, set up for control records, and what is done differently from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import faust
from aiokafka import errors
from aiokafka.protocol.commit import OffsetFetchRequest
from faust.tables.manager import TableManager
from faust.tables.recovery import RebalanceAgain, Recovery
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport
from faust.types import TP
from faust.types.transports import ConsumerT

from recoveryd.app.credentials import REQUEST_TIMEOUT_S

# A client that asks for no records for this long leaves its group for good. A standby never asks, since it has no
# partition, and a leader does not while it waits for its journal. Nobody else is told this time.
_POLL_INTERVAL_S: Final = 10 * 365 * 86_400.0


@dataclass(frozen=True, slots=True)
class FeedConfig:
    """`brokers` as host:port; `credentials` is Faust's object or None; `instance_id` makes the daemon a static member
    of the group (a fixed name per node). `tuning`: more arguments of Faust.
    """

    brokers: tuple[str, ...]
    topic: str
    group: str
    work_dir: Path
    session_timeout_s: float = 10.0
    heartbeat_interval_s: float = 3.0
    request_timeout_s: float = REQUEST_TIMEOUT_S
    commit_interval_s: float = 1.0
    instance_id: str | None = None
    credentials: Any = None
    tuning: Mapping[str, Any] = field(default_factory=dict)


def make_app(config: FeedConfig) -> faust.App:
    """A worker that is not started yet. For the reasons of the settings see `recoveryd.app.feed`."""
    request_timeout_s = max(config.request_timeout_s, config.session_timeout_s)  # Faust refuses to start with less
    app = faust.App(
        config.group,
        broker=[f"kafka://{broker}" for broker in config.brokers],
        broker_credentials=config.credentials,
        env_prefix="RECOVERYD_FAUST_",  # other variables of the environment would override these arguments
        autodiscover=False,
        web_enabled=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        datadir=config.work_dir / "faust",
        broker_session_timeout=config.session_timeout_s,
        broker_heartbeat_interval=config.heartbeat_interval_s,
        broker_request_timeout=request_timeout_s,
        producer_request_timeout=request_timeout_s,
        broker_commit_interval=config.commit_interval_s,
        broker_max_poll_interval=_POLL_INTERVAL_S,
        broker_max_poll_records=500,
        stream_buffer_maxsize=256,
        stream_wait_empty=True,
        consumer_auto_offset_reset="earliest",
        consumer_group_instance_id=config.instance_id,
        TableManager=_NoTables,
        **config.tuning,
    )
    app.transport = _CalmTransport(app.conf.broker_consumer, app)
    return app


def coordinator_of(app: faust.App) -> Any:
    """The client's side of the group, of which Faust tells only when something is assigned. Raises `ConsumerNotStarted`
    before the worker has started.
    """
    consumer: Any = app.consumer
    return consumer._thread._ensure_consumer()._coordinator  # noqa: SLF001


class _NoTables(TableManager):
    """Faust waits a second for tables to be declared before it joins the group. There are none, and the wait would
    delay a take-over.
    """

    async def sleep(self, _seconds: Any) -> None:
        await super().sleep(0)

    @property
    def recovery(self) -> Recovery:
        if self._recovery is None:
            self._recovery = _PatientRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery


class _PatientRecovery(Recovery):
    """After each rebalance Faust asks for the group's position before it lets records in again. When the broker does
    not answer within the request timeout, Faust takes that for its own stop: the worker stays in the group, but
    nothing lets records in any more, after no later rebalance either. Here such a wait ends with the answer, the next
    rebalance, or the worker.

    An answer that comes when the next rebalance has begun, and before its partitions are known, would let in records
    that the rebalance keeps out. It counts as the rebalance.
    """

    async def _wait(self, coro: Any, timeout: Any = None) -> None:  # noqa: ASYNC109  (as in Faust)
        del timeout
        rebalances = self.app.rebalancing_count
        await super()._wait(coro)
        if self.app.rebalancing_count != rebalances:
            raise RebalanceAgain


class _CalmConsumer(Consumer):
    """Every few seconds Faust looks whether records get stuck, which it only logs. Where the client has no position
    just then (its own is not on the topic any more, or its group's broker is slow to tell), that look breaks down and
    takes the worker with it. `CommitWatch` and `DeliveryWatch` notice what gets stuck.
    """

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Look at nothing."""

    def _new_consumer_thread(self) -> AIOKafkaConsumerThread:
        return _AttentiveThread(self, loop=self.loop, beacon=self.beacon)


class _AttentiveThread(AIOKafkaConsumerThread):
    """A broker that just started, or just took over the group, answers that it cannot tell positions yet. The client
    overlooks that answer and takes the group for one without a position, so that the whole topic would come again. And
    the worker breaks down where a commit has to wait while the partition goes.
    """

    async def on_start(self) -> None:
        await super().on_start()
        coordinator: Any = self._ensure_consumer()._coordinator  # noqa: SLF001
        send = coordinator._send_req  # noqa: SLF001

        async def send_and_look(request: Any) -> Any:
            answer = await send(request)
            code = getattr(answer, "error_code", 0) if isinstance(request, OffsetFetchRequest) else 0
            if code:
                coordinator.coordinator_dead()  # asks anew who it is
                raise errors.for_code(code)  # and the caller asks again, unless it is for good
            return answer

        coordinator._send_req = send_and_look  # noqa: SLF001

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        return not self.assignment().isdisjoint(offsets) and await super()._commit(offsets)


class _CalmTransport(Transport):
    Consumer: ClassVar[type[ConsumerT]] = _CalmConsumer
