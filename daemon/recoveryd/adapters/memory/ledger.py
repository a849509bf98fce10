"""Receipts over memory, added up by the same fold."""

from collections.abc import Callable, Mapping

from recoveryd.adapters.kafka.receipts import add_up, key_prefix, made_again, misplaced, newest_values, nothing_found
from recoveryd.adapters.memory.kafka import MemoryBroker, MemoryRecord
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.recovery.effects import ForgetRecoveries, ReadLedger
from recoveryd.recovery.events import LedgerRead
from recoveryd_jobs.contract import receipts_partition, transactional_id


class MemoryLedger:
    def __init__(self, brokers: Mapping[str, MemoryBroker], receipts_topic: str, scope: str) -> None:
        self._brokers = brokers
        self._topic = receipts_topic
        self._scope = scope

    async def read(self, effect: ReadLedger, moved: Callable[[], None] = lambda: None) -> LedgerRead:  # noqa: ARG002  (memory is read at once)
        """Raises `ClusterProblem`, also when an open transaction hides the end: in memory nobody would end it while we
        wait.
        """
        broker = self._brokers.get(effect.plan.target.cluster)
        if broker is None:
            text = f"There is no cluster named {effect.plan.target.cluster}."
            raise ClusterProblem(text, code=Code.UNKNOWN_CLUSTER, retriable=False)
        if effect.fence:
            for lane in range(len(effect.plan.lanes)):
                broker.init_transactions(transactional_id(self._scope, effect.recovery, lane))
        home = effect.plan.receipts
        topic = broker.topic(self._topic if home is None else home.topic)
        wrong = "" if home is None else made_again(home, topic.topic_id)
        if not wrong:
            log = topic.log(receipts_partition(effect.recovery, len(topic.logs)) if home is None else home.partition)
            wrong = "" if home is None else misplaced(home, log.start, log.high_watermark)
        if wrong:
            ledger = nothing_found(effect.plan, wrong)
            return LedgerRead(
                effect.recovery, effect.attempt, effect.fence, ledger.partitions, ledger.problems, effect.sequence
            )
        if log.last_stable < log.high_watermark:
            raise ClusterProblem(f"Could not read {self._topic} to offset {log.high_watermark}")
        values = newest_values(
            ((r.key, r.value) for r in log.read(log.start if home is None else home.start)),
            key_prefix(self._scope, effect.recovery),
        )
        ledger = add_up(values, effect.plan, effect.positions)
        return LedgerRead(
            effect.recovery, effect.attempt, effect.fence, ledger.partitions, ledger.problems, effect.sequence
        )

    async def forget(self, effect: ForgetRecoveries) -> None:
        broker = self._brokers.get(effect.cluster)
        if broker is None:
            return
        for ended in effect.recoveries:
            home, prefix = ended.receipts, key_prefix(self._scope, ended.id)
            topic = None if home is None else broker.find(home.topic)
            if home is None or topic is None or topic.topic_id != home.topic_id:
                continue
            log = topic.log(home.partition)
            kept = newest_values(((r.key, r.value) for r in log.read(home.start)), prefix)
            broker.append(home.topic, [MemoryRecord(key, None) for key in kept], home.partition)
