"""One interface to set up and inspect what is behind the ports, in memory and on a real broker, so that one suite can
test both.

What it writes and reads goes around the adapters under test, by plain clients.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from recoveryd.adapters.kafka.clusters import KafkaClusters
from recoveryd.adapters.kafka.command_sender import KafkaCommandSender
from recoveryd.adapters.kafka.control_log import KafkaControlLog
from recoveryd.adapters.kafka.fact_gathering import Expectations
from recoveryd.adapters.kafka.journal import KafkaJournal
from recoveryd.adapters.kafka.leader_answers import LeaderAnswers
from recoveryd.adapters.kafka.ledger import KafkaLedger
from recoveryd.adapters.kafka.progress import KafkaProgressFeed
from recoveryd.adapters.memory import (
    MemoryBroker,
    MemoryClusters,
    MemoryCommandSender,
    MemoryControlLog,
    MemoryJournal,
    MemoryLedger,
    MemoryProgressFeed,
    MemoryRecord,
)
from recoveryd.adapters.memory.kafka import MemoryFenced, MemoryLog
from recoveryd.ports import Clusters, CommandSender, ControlLog, Journal, Ledger, ProgressFeed
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.wire.topics import TopicNames, own_topics
from recoveryd_sandbox.topics import make_topics
from tests.builders.core import CODEC, STATUS
from tests.e2e.clients import met
from tests.e2e.log_reader import PASSING, await_markers, insist

EXPECTATIONS = Expectations({"default": 3}, lambda: (5e6, "measured"))
_DEADLINE_S = 120.0


class LaneFenced(Exception):  # noqa: N818
    """A lane's transactional id has another holder."""


class Harness(Protocol):
    names: TopicNames
    scope: str

    def journal(self) -> Journal: ...
    def clusters(self, *, reachable: bool = True) -> Clusters: ...
    def ledger(self) -> Ledger: ...
    def progress(self) -> ProgressFeed: ...
    def control_log(self) -> ControlLog: ...
    def commands(self) -> CommandSender: ...
    def now_ms(self) -> int: ...

    def create(self, topic: str, partitions: int = 1, **configs: str) -> str:
        """The id of the new topic."""
        ...

    def delete(self, topic: str) -> None: ...

    def widen(self, topic: str, partitions: int) -> None: ...

    def write(self, topic: str, records: Sequence[MemoryRecord], partition: int = 0) -> None: ...

    def read(self, topic: str, partition: int = 0) -> list[MemoryRecord]:
        """All committed records."""
        ...

    def truncate(self, topic: str, before: int, partition: int = 0) -> None: ...

    def open_lane(self, transactional_id: str) -> Callable[[str, int, Sequence[MemoryRecord]], None]:
        """Take the transactional id. The returned function writes records to a topic's partition in one transaction, or
        raises `LaneFenced`.
        """
        ...

    @contextmanager
    def open_transaction(self, topic: str, partition: int = 0, record: MemoryRecord | None = None) -> Iterator[None]:
        """A foreign transaction with one record, open inside the block and aborted at its end."""
        ...

    def deliver(self) -> None:
        """Deliver what was written to the progress topic, where this does not happen by itself."""
        ...

    def close(self) -> None: ...


class MemoryHarness:
    def __init__(self, prefix: str) -> None:
        self.names, self.scope = TopicNames(prefix), prefix.strip("-")
        self.broker = MemoryBroker()
        self._feeds: list[MemoryProgressFeed] = []
        MemoryClusters({"main": self.broker}, self.names, EXPECTATIONS, self.now_ms).apply_own_topics()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def journal(self) -> MemoryJournal:
        return MemoryJournal(self.broker, self.names, self.scope, STATUS, CODEC, self.now_ms)

    def clusters(self, *, reachable: bool = True) -> MemoryClusters:
        broker = self.broker
        if not reachable:
            broker = MemoryBroker()
            broker.is_reachable = False
        return MemoryClusters({"main": broker}, self.names, EXPECTATIONS, self.now_ms)

    def ledger(self) -> MemoryLedger:
        return MemoryLedger({"main": self.broker}, self.names.receipts, self.scope)

    def progress(self) -> MemoryProgressFeed:
        self._feeds.append(MemoryProgressFeed(self.broker, self.names.progress, self.now_ms))
        return self._feeds[-1]

    def control_log(self) -> MemoryControlLog:
        return MemoryControlLog(self.broker, self.names.control)

    def commands(self) -> MemoryCommandSender:
        return MemoryCommandSender(self.broker, self.names.control, CODEC)

    def create(self, topic: str, partitions: int = 1, **configs: str) -> str:
        return self.broker.create(topic, partitions, {k.replace("_", "."): v for k, v in configs.items()}).topic_id

    def delete(self, topic: str) -> None:
        self.broker.delete(topic)

    def widen(self, topic: str, partitions: int) -> None:
        logs = self.broker.topic(topic).logs
        logs += [MemoryLog() for _ in range(partitions - len(logs))]

    def write(self, topic: str, records: Sequence[MemoryRecord], partition: int = 0) -> None:
        self.broker.append(topic, records, partition)

    def read(self, topic: str, partition: int = 0) -> list[MemoryRecord]:
        log = self.broker.topic(topic).log(partition)
        return log.read(log.start)

    def truncate(self, topic: str, before: int, partition: int = 0) -> None:
        self.broker.topic(topic).log(partition).start = before

    def open_lane(self, transactional_id: str) -> Callable[[str, int, Sequence[MemoryRecord]], None]:
        epoch = self.broker.init_transactions(transactional_id)

        def write(topic: str, partition: int, records: Sequence[MemoryRecord]) -> None:
            try:
                self.broker.write(transactional_id, epoch, [(topic, partition, r) for r in records])
            except MemoryFenced as error:
                raise LaneFenced from error

        return write

    @contextmanager
    def open_transaction(self, topic: str, partition: int = 0, record: MemoryRecord | None = None) -> Iterator[None]:
        log = self.broker.topic(topic).log(partition)
        log.held_at = log.high_watermark
        log.records.append(record or MemoryRecord(b"foreign", b"never committed", self.now_ms()))
        yield
        log.records.pop()
        log.held_at = None

    def deliver(self) -> None:
        for feed in self._feeds:
            feed.deliver()

    def close(self) -> None:
        """Nothing to do: nothing is left behind."""


class KafkaHarness:
    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.names, self.scope = TopicNames(prefix), prefix.strip("-")
        self.properties = {"bootstrap.servers": bootstrap}
        self.admin = AdminClient(self.properties)
        self._producer = Producer(self.properties)
        self._prefix = prefix
        wanted = [NewTopic(t.name, t.partitions, 1, config=dict(t.configs)) for t in own_topics(self.names)]
        self._create(wanted)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def journal(self) -> KafkaJournal:
        access = ClientAccess(self.properties["bootstrap.servers"])
        return KafkaJournal(self.properties, self.names, self.scope, STATUS, CODEC, self.now_ms, lambda: access)

    def clusters(self, *, reachable: bool = True) -> KafkaClusters:
        properties = self.properties if reachable else {"bootstrap.servers": "127.0.0.1:1"}
        leaders = LeaderAnswers({"main": ClientAccess(properties["bootstrap.servers"])})
        return KafkaClusters({"main": properties}, self.names, EXPECTATIONS, self.now_ms, leader_answers=leaders)

    def ledger(self) -> KafkaLedger:
        accesses = {"main": ClientAccess(self.properties["bootstrap.servers"])}
        return KafkaLedger({"main": self.properties}, self.names.receipts, self.scope, accesses=accesses)

    def progress(self) -> KafkaProgressFeed:
        return KafkaProgressFeed(self.properties, self.names.progress, self.now_ms)

    def control_log(self) -> KafkaControlLog:
        return KafkaControlLog(self.properties, self.names.control)

    def commands(self) -> KafkaCommandSender:
        return KafkaCommandSender(self.properties, self.names.control, CODEC)

    def create(self, topic: str, partitions: int = 1, **configs: str) -> str:
        self._create([NewTopic(topic, partitions, 1, config={k.replace("_", "."): v for k, v in configs.items()})])
        return self._topic_id(topic)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(_DEADLINE_S)
        self._await(lambda: topic not in self.admin.list_topics(timeout=60).topics)

    def widen(self, topic: str, partitions: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(_DEADLINE_S)
        self._await(lambda: len(self.admin.list_topics(topic, timeout=60).topics[topic].partitions) == partitions)
        self._await(lambda: self._is_led(topic))

    def write(self, topic: str, records: Sequence[MemoryRecord], partition: int = 0) -> None:
        failures: list[KafkaError] = []
        for record in records:
            self._produce(self._producer, topic, partition, record, failures)
        assert self._producer.flush(_DEADLINE_S) == 0
        assert failures == []

    def read(self, topic: str, partition: int = 0, *, settled: bool = True) -> list[MemoryRecord]:
        """`settled`: once no transaction there is undecided; a commit is answered before its markers are in the log."""
        if settled:
            await_markers(self.properties["bootstrap.servers"], topic)
        consumer = Consumer(self.properties | {"group.id": "harness", "enable.partition.eof": True})
        consumer.list_topics(
            topic, timeout=_DEADLINE_S
        )  # what is assigned before it is connected waits for a timer of a second
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[MemoryRecord] = []
        try:
            for message in iter(lambda: consumer.poll(_DEADLINE_S), None):
                if message.error() is not None and message.error().code() in PASSING:
                    continue
                if message.error() is not None:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    return found
                headers = tuple(message.headers() or ())
                found.append(MemoryRecord(message.key(), message.value(), message.timestamp()[1], headers))
        finally:
            consumer.close()
        raise AssertionError(f"{topic} could not be read")

    def truncate(self, topic: str, before: int, partition: int = 0) -> None:
        wanted = TopicPartition(topic, partition, before)
        insist(lambda: next(iter(self.admin.delete_records([wanted]).values())).result(_DEADLINE_S))

    def open_lane(self, transactional_id: str) -> Callable[[str, int, Sequence[MemoryRecord]], None]:
        producer = self._transactional(transactional_id)
        producer.init_transactions(_DEADLINE_S)

        def write(topic: str, partition: int, records: Sequence[MemoryRecord]) -> None:
            try:
                producer.begin_transaction()
                for record in records:
                    self._produce(producer, topic, partition, record, [])
                producer.commit_transaction(_DEADLINE_S)
            except KafkaException as error:
                if error.args[0].fatal():
                    raise LaneFenced from error
                raise

        return write

    @contextmanager
    def open_transaction(self, topic: str, partition: int = 0, record: MemoryRecord | None = None) -> Iterator[None]:
        producer = self._transactional(f"{self._prefix}foreign")
        producer.init_transactions(_DEADLINE_S)
        producer.begin_transaction()
        record = record or MemoryRecord(b"foreign", b"never committed", self.now_ms())
        self._produce(producer, topic, partition, record, [])
        assert producer.flush(_DEADLINE_S) == 0
        yield
        producer.abort_transaction(_DEADLINE_S)

    def deliver(self) -> None:
        """Nothing to do: it arrives by itself."""

    def close(self) -> None:
        mine = [name for name in self.admin.list_topics(timeout=60).topics if name.startswith(self._prefix)]
        for done in self.admin.delete_topics(mine).values() if mine else ():
            done.result(_DEADLINE_S)

    def _create(self, topics: list[NewTopic]) -> None:
        make_topics(self.admin, topics, _DEADLINE_S)
        self._await(lambda: all(self._is_led(topic.topic) for topic in topics))

    def _is_led(self, topic: str) -> bool:
        """Whether all partitions have a leader. Asked by name: a run's broker comes to have thousands of topics."""
        partitions = self.admin.list_topics(topic, timeout=60).topics[topic].partitions
        return bool(partitions) and all(p.leader >= 0 for p in partitions.values())

    def _topic_id(self, topic: str) -> str:
        asked = TopicCollection([topic])
        return str(insist(lambda: self.admin.describe_topics(asked)[topic].result(_DEADLINE_S)).topic_id)

    def _transactional(self, transactional_id: str) -> Producer:
        config = self.properties | {"transactional.id": transactional_id, "transaction.timeout.ms": 600_000}
        return met(Producer(config))

    @staticmethod
    def _produce(producer: Producer, topic: str, partition: int, record: MemoryRecord, failures: list[Any]) -> None:
        producer.produce(
            topic,
            value=record.value,
            key=record.key,
            partition=partition,
            timestamp=record.timestamp_ms,
            headers=list(record.headers) or None,
            on_delivery=lambda error, _message: failures.append(error) if error else None,
        )

    @staticmethod
    def _await(condition: Callable[[], bool]) -> None:
        give_up_s = time.monotonic() + _DEADLINE_S
        while not condition():
            assert time.monotonic() < give_up_s, "the broker did not settle"
            time.sleep(0.02)
