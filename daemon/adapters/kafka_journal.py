"""The journal: what the one writer decided, in one Kafka transaction per round, and read back when a leader starts.

All calls run on one thread of its own: a transaction belongs to the producer as a whole, so no two may be under way. How a transaction can end is
told apart in `transactions`; how topics are folded stands in `journal_fold`; what records look like is `daemon.wire`'s.
"""

import asyncio
from collections.abc import Callable, Iterator

from daemon.adapters.journal_fold import TopicReader, fold_seen, fold_sequences, fold_status, kept_for_good
from daemon.adapters.kafka_client import Properties, make_admin, make_consumer
from daemon.adapters.transactions import Record, TransactionalWriter
from daemon.adapters.workers import Workers
from daemon.core.catalogue import Code
from daemon.errors import ClusterProblem
from daemon.ports import Folded, JournalBatch
from daemon.wire import events, jobs, status, watch_status
from daemon.wire.topics import TopicNames

_TRANSACTION_TIMEOUT_MS = 30_000
_COMMIT_DEADLINE_S = 30.0
_OPEN_DEADLINE_S = 60.0
_READ_DEADLINE_S = 120.0
_CLOSE_DEADLINE_S = 5.0


class KafkaJournal:
    """`properties` are librdkafka's of the cluster `main`. Opening it again is allowed and fences its own former self."""

    def __init__(self, properties: Properties, names: TopicNames, scope: str, now_ms: Callable[[], int]) -> None:
        self._properties = properties
        self._names = names
        self._scope = scope
        self._now_ms = now_ms
        self._thread = Workers("journal", 1)
        self._writer: TransactionalWriter | None = None

    async def open(self) -> Folded:
        """Fence, then fold. Raises `Fenced`, `ClusterProblem` (retriable ones may be tried again), or `RecoverydError` for a broken record."""
        return await self._thread.run(self._open)

    async def commit(self, batch: JournalBatch) -> None:
        """Raises `Fenced`, or `ClusterProblem`; after a retriable one the *same* batch may be committed again and lands once."""
        await self._thread.run(self._commit, batch)

    async def close(self) -> None:
        """Lets a commit that is under way finish for a few seconds; later than that, the next leader's fencing ends it."""
        writer, self._writer = self._writer, None
        if writer is not None:
            leaving = asyncio.ensure_future(self._thread.run(writer.close))
            await asyncio.wait([leaving], timeout=_CLOSE_DEADLINE_S)
        self._thread.close()

    def _open(self) -> Folded:
        if self._writer is not None and not self._writer.is_opening:
            self._writer.close()
            self._writer = None
        if self._writer is None:
            name = f"recoveryd.{self._scope}.journal"
            self._writer = TransactionalWriter(self._properties, name, _TRANSACTION_TIMEOUT_MS, _COMMIT_DEADLINE_S)
        self._writer.open(_OPEN_DEADLINE_S)
        consumer = make_consumer(self._properties)
        try:
            # Only now: before the fencing an older leader could still have written behind what we read.
            reader = TopicReader(make_admin(self._properties), consumer, _READ_DEADLINE_S)
            with kept_for_good():
                found = fold_status(reader.records(self._names.status))
                seen = fold_seen(reader.records(self._names.control, found.daemon.applied_control_offset + 1))
                sequences = fold_sequences(reader.records(self._names.directives))
        finally:
            consumer.close()
        return Folded(found.recoveries, found.daemon, seen, sequences, found.watches)

    def _commit(self, batch: JournalBatch) -> None:
        if self._writer is None or self._writer.is_opening:
            raise ClusterProblem("The journal is not open.", code=Code.INVARIANT_BROKEN, retriable=False)
        self._writer.write(list(make_records(batch, self._names, self._scope, self._now_ms())), batch)


def make_records(batch: JournalBatch, names: TopicNames, scope: str, now_ms: int) -> Iterator[Record]:
    """Everything a batch writes, in the order in which readers should meet it."""
    for letter in batch.dead_letters:
        yield _record(names.dlq, events.encode_dead_letter(letter, now_ms))
    for recovery in batch.changed:
        yield Record(names.status, *status.encode_status(recovery))
    for watch in batch.watches:
        yield Record(names.status, *watch_status.encode_watch(watch))
    if batch.daemon is not None:
        yield Record(names.status, *status.encode_daemon(batch.daemon))
    for directive in batch.directives:
        yield Record(names.directives, *jobs.encode_directive(directive))
    for answer in batch.answers:
        yield _record(names.events, events.encode_answer(answer, scope, now_ms))
    for notice in batch.notices:
        yield _record(names.events, events.encode_notice(notice, scope, now_ms))


def _record(topic: str, record: events.WireRecord) -> Record:
    return Record(topic, record.key, record.value, record.headers)
