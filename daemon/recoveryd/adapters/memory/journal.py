"""The journal over memory: the same records, the same folds, the same fencing."""

from collections.abc import Callable

from recoveryd.adapters.kafka.journal import make_records
from recoveryd.adapters.kafka.journal_fold import fold_seen, fold_sequences, fold_status
from recoveryd.adapters.memory.kafka import MemoryBroker, MemoryFenced, MemoryRecord
from recoveryd.errors import ClusterProblem, Fenced
from recoveryd.kernel.catalogue import Code
from recoveryd.ports import ControlRecord, Folded, JournalBatch
from recoveryd.wire.codec import Codec
from recoveryd.wire.status_topic import StatusTopic
from recoveryd.wire.topics import TopicNames


class MemoryJournal:
    """`broker` must have the own topics. Two journals of one scope over one broker fence each other."""

    def __init__(
        self,
        broker: MemoryBroker,
        names: TopicNames,
        scope: str,
        status: StatusTopic,
        codec: Codec,
        now_ms: Callable[[], int],
    ) -> None:
        self._broker = broker
        self._names = names
        self._scope = scope
        self._status = status
        self._codec = codec
        self._now_ms = now_ms
        self._id = f"recoveryd.{scope}.journal"
        self._epoch = 0

    async def open(self) -> Folded:
        self._epoch = self._broker.init_transactions(self._id)
        found = fold_status(self._status, self._read(self._names.status))
        commands = self._read(self._names.control, with_open=True)
        applied = [r for r in commands if r.offset <= found.daemon.applied_control_offset]
        seen = fold_seen(self._codec, applied)
        sequences = fold_sequences(self._read(self._names.directives))
        return Folded(found.nouns, found.daemon, seen, sequences)

    async def commit(self, batch: JournalBatch) -> None:
        if not self._epoch:
            raise ClusterProblem("The journal is not open.", code=Code.INVARIANT_BROKEN, retriable=False)
        now_ms = self._now_ms()
        made = make_records(batch, self._status, self._names, self._scope, now_ms)
        records = [(r.topic, 0, MemoryRecord(r.key, r.value, now_ms, r.headers)) for r in made]
        try:
            self._broker.write(self._id, self._epoch, records)
        except MemoryFenced as error:
            raise Fenced(f"The journal {error} has another writer.") from error

    async def close(self) -> None:
        self._epoch = 0

    def _read(self, topic: str, *, with_open: bool = False) -> list[ControlRecord]:
        log = self._broker.topic(topic).log(0)
        records = log.records[log.start :] if with_open else log.read(log.start)
        return [
            ControlRecord(0, max(0, log.start) + i, r.timestamp_ms, r.key, r.value, r.headers)
            for i, r in enumerate(records)
        ]
