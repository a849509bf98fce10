"""Reading the receipts of a recovery on its target cluster, after fencing its lanes when asked.

The receipts say what is done; this says when it is safe to believe that no more will come: once `init_transactions` answered for a lane's transactional
id, its open transaction is ended and its late writer shut out.
"""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import KafkaException, Message

from daemon.adapters.kafka_client import (
    Properties,
    make_admin,
    make_consumer,
    make_transactional_producer,
    problem,
    read_to,
)
from daemon.adapters.kafka_offsets import log_range
from daemon.adapters.receipts import add_up, key_prefix, newest_values
from daemon.adapters.topic_admin import describe
from daemon.adapters.workers import Workers
from daemon.core.catalogue import Code
from daemon.core.effects import ReadLedger
from daemon.core.events import LedgerRead
from daemon.errors import ClusterProblem
from spark_jobs.contract import receipts_partition, transactional_id

_ASK_S = 10.0
_FENCE_S = 30.0
_READ_S = 45.0  # chunks of other recoveries in the same partition hold the end for as long as they are open
_FENCERS = 8


class KafkaLedger:
    """`clusters`: librdkafka properties by name. `transaction_timeout_ms` is what lanes use as well; at most the broker's maximum."""

    def __init__(
        self,
        clusters: Mapping[str, Properties],
        receipts_topic: str,
        scope: str,
        transaction_timeout_ms: int = 60_000,
    ) -> None:
        self._clusters = {name: dict(properties) for name, properties in clusters.items()}
        self._topic = receipts_topic
        self._scope = scope
        self._transaction_timeout_ms = transaction_timeout_ms
        self._workers = Workers("ledger", 16)

    async def read(self, effect: ReadLedger) -> LedgerRead:
        """Raises `ClusterProblem`; retriable when a transaction hides the end of the ledger for too long."""
        return await self._workers.run(self._read, effect)

    def _read(self, effect: ReadLedger) -> LedgerRead:
        cluster = effect.plan.target.cluster
        if cluster not in self._clusters:
            raise ClusterProblem(f"There is no cluster named {cluster}.", code=Code.UNKNOWN_CLUSTER, retriable=False)
        properties = self._clusters[cluster]
        if effect.fence:
            self._fence(properties, effect)
        ledger = add_up(self._receipts(properties, effect.recovery), effect.plan)
        return LedgerRead(
            recovery=effect.recovery,
            attempt=effect.attempt,
            fenced=effect.fence,
            partitions=ledger.partitions,
            problems=ledger.problems,
            sequence=effect.sequence,
        )

    def _fence(self, properties: Properties, effect: ReadLedger) -> None:
        ids = [transactional_id(self._scope, effect.recovery, lane) for lane in range(len(effect.plan.lanes))]
        if not ids:
            return
        with ThreadPoolExecutor(min(len(ids), _FENCERS), thread_name_prefix="fence") as pool:
            for done in [pool.submit(fence, properties, name, self._transaction_timeout_ms) for name in ids]:
                done.result()

    def _receipts(self, properties: Properties, recovery: str) -> dict[bytes, bytes]:
        admin = make_admin(properties)
        shape = describe(admin, [self._topic], _ASK_S)[self._topic]
        if shape is None:
            raise ClusterProblem(f"{self._topic} does not exist.", code=Code.OWN_TOPIC_MISSING, retriable=False)
        partition = receipts_partition(recovery, shape.partitions)
        start, stop = log_range(admin, self._topic, partition, _ASK_S)
        if start >= stop:
            return {}
        consumer = make_consumer(properties)
        try:
            messages = read_to(consumer, self._topic, partition, start, stop, _READ_S)
            return newest_values((_pair(m) for m in messages), key_prefix(self._scope, recovery))
        finally:
            consumer.close()


def fence(properties: Properties, name: str, transaction_timeout_ms: int) -> None:
    """End the open transaction of a transactional id and shut out whoever holds it. Raises `ClusterProblem`."""
    producer = make_transactional_producer(properties, name, transaction_timeout_ms)
    give_up_s = time.monotonic() + _FENCE_S
    while True:
        try:
            producer.init_transactions(max(give_up_s - time.monotonic(), 0.1))
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() >= give_up_s:
                raise problem(error, f"fence {name}") from error
        else:
            producer.close()
            return


def _pair(message: Message) -> tuple[bytes | None, bytes | None]:
    key, value = message.key(), message.value()
    return (key.encode() if isinstance(key, str) else key), (value.encode() if isinstance(value, str) else value)
