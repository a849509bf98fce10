"""Receipts over memory, added up by the same fold."""

from collections.abc import Mapping

from daemon.adapters.memory.kafka import MemoryBroker
from daemon.adapters.receipts import add_up, key_prefix, newest_values
from daemon.core.catalogue import Code
from daemon.core.effects import ReadLedger
from daemon.core.events import LedgerRead
from daemon.errors import ClusterProblem
from spark_jobs.contract import receipts_partition, transactional_id


class MemoryLedger:
    def __init__(self, brokers: Mapping[str, MemoryBroker], receipts_topic: str, scope: str) -> None:
        self._brokers = brokers
        self._topic = receipts_topic
        self._scope = scope

    async def read(self, effect: ReadLedger) -> LedgerRead:
        """Raises `ClusterProblem`, also when an open transaction hides the end: in memory nobody would end it while we wait."""
        broker = self._brokers.get(effect.plan.target.cluster)
        if broker is None:
            text = f"There is no cluster named {effect.plan.target.cluster}."
            raise ClusterProblem(text, code=Code.UNKNOWN_CLUSTER, retriable=False)
        if effect.fence:
            for lane in range(len(effect.plan.lanes)):
                broker.init_transactions(transactional_id(self._scope, effect.recovery, lane))
        topic = broker.topic(self._topic)
        log = topic.log(receipts_partition(effect.recovery, len(topic.logs)))
        if log.last_stable < log.high_watermark:
            raise ClusterProblem(f"Could not read {self._topic} to offset {log.high_watermark}")
        values = newest_values(
            ((r.key, r.value) for r in log.read(log.start)), key_prefix(self._scope, effect.recovery)
        )
        ledger = add_up(values, effect.plan)
        return LedgerRead(
            effect.recovery, effect.attempt, effect.fence, ledger.partitions, ledger.problems, effect.sequence
        )
