"""The canary: one tiny record at a time to a topic of our own, to learn how long producers of live traffic wait for
their acknowledgement. Records go to all partitions in turn, so to each broker that leads one.

The time is the client library's own, from `produce` to the answer of the broker, so that a busy event loop of ours does
not look like a slow broker. A record that is not answered keeps its place: its age is the measurement, and it goes on
growing over clients that were given up, until one is answered. What says nothing about latency (no topic, no
permission) is no measurement at all.

Once a minute it looks who leads, beside the probes: partitions that were added get records too, and brokers that lead
none, and so are not measured, are told in the log.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from recoveryd.adapters.kafka.canary_leaders import SilentBrokers, look
from recoveryd.adapters.kafka.client import Properties, is_no_such_topic, make_admin, make_canary_producer, problem
from recoveryd.adapters.kafka.living_clients import version_of
from recoveryd.adapters.kafka.topic_admin import describe
from recoveryd.adapters.workers import Workers
from recoveryd.errors import ClusterProblem
from recoveryd.ports import Fate, Probe

_log = logging.getLogger("recoveryd.kafka")

_RECORD: Final = b"canary"
_GIVE_UP_S: Final = 30.0
_LOOK_S: Final = 3.0
_LOOK_AGAIN_S: Final = 10.0
_LEADERS_EVERY_S: Final = 60.0


@dataclass(slots=True)
class _Record:
    """One that was sent. `latency_s` is the library's, of a delivered one."""

    partition: int
    is_done: bool = False
    error: KafkaError | None = None
    latency_s: float = 0.0

    def told(self, error: KafkaError | None, message: Message) -> None:
        self.is_done, self.error = True, error
        if error is None:
            self.latency_s = float(message.latency() or 0.0)


class KafkaCanary:
    """Of one cluster. Connects at the first probe, and anew after a failure: librdkafka may go on asking an old leader
    for ever.
    """

    def __init__(self, cluster: str, properties: Properties, topic: str, give_up_s: float = _GIVE_UP_S) -> None:
        self._cluster = cluster
        self._properties = properties
        self._topic = topic
        self._give_up_s = give_up_s
        self._workers = Workers(f"canary-{cluster}", 1)
        self._producer: Producer | None = None
        self._partitions = 1
        self._sent = 0
        self._connected: set[int] = set()  # the first record to a partition also pays for connecting to its broker
        self._version = 0  # of the login that it was made with
        self._record: _Record | None = None
        self._unanswered_s: float | None = None  # when something was sent that nothing has answered since
        self._look_again_s = 0.0
        self._unusable = ""
        self._lookers = Workers(f"canary-leaders-{cluster}", 1)  # a look that takes long delays no record
        self._leaders_due_s = 0.0
        self._looking: asyncio.Future[None] | None = None
        self._silent = SilentBrokers()

    async def probe(self, wait_s: float) -> Probe:
        """See the port."""
        probe = await self._workers.run(self._probe, wait_s)
        self._look_at_leaders()
        return probe

    async def close(self) -> None:
        """See the port."""
        await self._workers.run(self._forget)

    def _look_at_leaders(self) -> None:
        """Begin a look when one is due and the last one is over."""
        producer, now_s = self._producer, time.monotonic()
        is_over = self._looking is None or self._looking.done()
        if producer is not None and is_over and now_s >= self._leaders_due_s:
            self._leaders_due_s = now_s + _LEADERS_EVERY_S
            self._looking = asyncio.ensure_future(self._lookers.run(self._take_leaders, producer))

    def _take_leaders(self, producer: Producer) -> None:
        """Raises nothing: without an answer records go where they went."""
        try:
            seen = look(producer, self._topic, _LOOK_S)
        except KafkaException:
            return  # the records themselves tell
        if seen is None or not seen.is_led:  # a record to a new one would wait for its leader, and look slow
            return
        if producer is self._producer:
            # Never fewer: a broker that has not heard yet tells of before, and a topic that was made anew refuses.
            self._partitions = max(self._partitions, seen.partitions)
        told = self._silent.told(seen)
        if told:
            _log.warning(
                "The canary on %s does not measure brokers that lead no partition of %s: %s. To mend it: %s",
                self._cluster,
                self._topic,
                ", ".join(map(str, told)),
                seen.mend(str(self._properties.get("bootstrap.servers", "HOST:PORT"))),
            )
        elif told is not None:
            _log.info("The canary on %s measures all brokers", self._cluster)

    def _probe(self, wait_s: float) -> Probe:
        if time.monotonic() < self._look_again_s:
            return Probe(Fate.UNUSABLE, None, self._unusable)
        try:
            if self._unanswered_s is None:
                self._unanswered_s = time.monotonic()
            if self._record is None:
                self._record = self._send()
            return self._await(self._record, time.monotonic() + wait_s)
        except ClusterProblem as reason:
            return self._failed(reason)
        except KafkaException as error:
            return self._failed(problem(error, f"write to {self._topic} on {self._cluster}", "Write", self._topic))

    def _send(self) -> _Record:
        """Raises `ClusterProblem`, KafkaException."""
        version = version_of(self._properties)
        if self._version != version:
            self._drop()
        if self._producer is None:
            self._version = version
            # Producing would have a broker that is allowed to create the topic do so, with settings of its own.
            shape = describe(make_admin(self._properties), [self._topic], _LOOK_S)[self._topic]
            if shape is None:
                raise self._no_topic()
            self._partitions, self._connected = max(1, shape.partitions), set()
            self._producer = make_canary_producer(self._properties, int(self._give_up_s * 1_000))
        record = _Record(partition=self._sent % self._partitions)
        self._sent += 1
        self._producer.produce(
            self._topic, value=_RECORD, key=_RECORD, partition=record.partition, on_delivery=record.told
        )
        return record

    def _await(self, record: _Record, give_up_s: float) -> Probe:
        assert self._producer is not None
        while not record.is_done and (left_s := give_up_s - time.monotonic()) > 0:
            self._producer.poll(left_s)
        is_first = record.partition not in self._connected
        self._connected.add(record.partition)
        if not record.is_done:
            return Probe(Fate.WAITING, self._age_s())
        self._record = None
        if record.error is None:
            self._unanswered_s = None
            return Probe(Fate.DELIVERED, None if is_first else record.latency_s)
        if is_no_such_topic(KafkaException(record.error)):
            raise self._no_topic()
        raise problem(record.error, f"write to {self._topic} on {self._cluster}", "Write", self._topic)

    def _failed(self, reason: ClusterProblem) -> Probe:
        """While the cluster may come back, its silence is what is measured."""
        if reason.retriable:
            age_s = self._age_s()
            self._drop()
            return Probe(Fate.GIVEN_UP, age_s, reason.message)
        self._forget()
        self._unusable, self._look_again_s = reason.message, time.monotonic() + _LOOK_AGAIN_S
        return Probe(Fate.UNUSABLE, None, reason.message)

    def _no_topic(self) -> ClusterProblem:
        text = f"{self._topic} does not exist on {self._cluster}; `recoveryctl topics apply` creates it."
        return ClusterProblem(text, retriable=False)

    def _age_s(self) -> float:
        return 0.0 if self._unanswered_s is None else time.monotonic() - self._unanswered_s

    def _drop(self) -> None:
        if self._producer is not None:
            self._producer.purge()
        self._producer, self._record = None, None

    def _forget(self) -> None:
        self._drop()
        self._unanswered_s, self._look_again_s = None, 0.0
