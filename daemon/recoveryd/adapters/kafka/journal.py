"""The journal: what the one writer decided, in one Kafka transaction per round, and read back when a leader starts.

All calls run on one thread of its own: a transaction belongs to the producer as a whole, so no two may be under way.
How a transaction can end is told apart in `transactions`, how a client that was shut out is replaced in
`journal_session`; how topics are folded stands in `journal_fold`; what records look like is `recoveryd.wire`'s.
"""

import asyncio
import os
import socket
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from recoveryd.adapters.kafka.client import Properties, make_admin, make_consumer
from recoveryd.adapters.kafka.control_reading import make_control_consumer
from recoveryd.adapters.kafka.journal_evidence import KafkaEvidence
from recoveryd.adapters.kafka.journal_fold import (
    TopicReader,
    fold_seen,
    fold_sequences,
    fold_status,
    give_back,
    kept_for_good,
    let_go,
)
from recoveryd.adapters.kafka.journal_session import JournalSession
from recoveryd.adapters.kafka.journal_stamps import LEADER_HEADER
from recoveryd.adapters.kafka.transactions import OutgoingKafkaRecord, TransactionalWriter
from recoveryd.adapters.workers import Workers
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.state import DaemonRecord
from recoveryd.ports import Folded, JournalBatch
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.wire import events
from recoveryd.wire.codec import Codec
from recoveryd.wire.status_topic import StatusTopic, encode_daemon
from recoveryd.wire.topics import TopicNames
from recoveryd_jobs.contract import encode

_TRANSACTION_TIMEOUT_MS = 30_000
_COMMIT_DEADLINE_S = 30.0
_OPEN_DEADLINE_S = 60.0
_READ_PATIENCE_S = 120.0  # in silence, of each topic: a long control topic may take as long as it does
_CLOSE_DEADLINE_S = 5.0


class KafkaJournal:
    """`properties` are librdkafka's, of the cluster `main`, and `access` says the same for other clients. It may be
    opened again, which fences its earlier client.
    """

    def __init__(
        self,
        properties: Properties,
        names: TopicNames,
        scope: str,
        status: StatusTopic,
        codec: Codec,
        now_ms: Callable[[], int],
        access: Callable[[], ClientAccess],
    ) -> None:
        self._properties = properties
        self._names = names
        self._scope = scope
        self._status = status
        self._codec = codec
        self._now_ms = now_ms
        self._thread = Workers("journal", 1)
        self._writer_id = f"recoveryd.{scope}.journal"
        self._leader = f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:12]}"
        evidence = KafkaEvidence(properties, access, names, self._leader, self._writer_id)
        self._session = JournalSession(
            self._make_writer, evidence, (names.status, 0), _OPEN_DEADLINE_S, _COMMIT_DEADLINE_S
        )
        self._daemon = DaemonRecord()

    async def open(self) -> Folded:
        """Fence, then fold. Raises `Fenced`, `ClusterProblem` (retriable ones may be tried again), or `RecoverydError`
        for a broken record.
        """
        return await self._thread.run(self._open)

    async def commit(self, batch: JournalBatch) -> None:
        """Raises `Fenced`, or `ClusterProblem`; after a retriable one the *same* batch may be committed again and lands
        once.
        """
        await self._thread.run(self._commit, batch)

    async def close(self) -> None:
        """Gives a commit under way a few seconds to finish; after that, the next leader's fencing ends it."""
        leaving = asyncio.ensure_future(self._thread.run(self._session.close))
        await asyncio.wait([leaving], timeout=_CLOSE_DEADLINE_S)
        self._thread.close()
        let_go()

    def _make_writer(self) -> TransactionalWriter:
        return TransactionalWriter(
            self._properties, self._writer_id, self._names.status, _TRANSACTION_TIMEOUT_MS, _COMMIT_DEADLINE_S
        )

    def _open(self) -> Folded:
        self._session.open()
        admin = make_admin(self._properties)
        with (
            closing(make_consumer(self._properties)) as own,
            closing(make_control_consumer(self._properties)) as control,
        ):
            # Only now: before the fencing an older leader could still have written behind what we read.
            reader = TopicReader(admin, own, _READ_PATIENCE_S)
            with kept_for_good():
                found = fold_status(self._status, reader.records(self._names.status))
                commands = TopicReader(admin, control, _READ_PATIENCE_S).commands(
                    self._names.control, found.daemon.applied_control_offset + 1
                )
                seen = fold_seen(self._codec, commands)
                sequences = fold_sequences(reader.records(self._names.directives))
        give_back()
        self._daemon = found.daemon
        return Folded(found.nouns, found.daemon, seen, sequences)

    def _commit(self, batch: JournalBatch) -> None:
        if not self._session.is_open:
            raise ClusterProblem("The journal is not open.", code=Code.INVARIANT_BROKEN, retriable=False)

        def make(must_mark: bool) -> Sequence[OutgoingKafkaRecord]:
            whole = replace(batch, daemon=batch.daemon or self._daemon) if must_mark else batch
            return list(make_records(whole, self._status, self._names, self._scope, self._now_ms(), self._leader))

        self._session.write(make, batch)
        self._daemon = batch.daemon or self._daemon


def make_records(
    batch: JournalBatch, status: StatusTopic, names: TopicNames, scope: str, now_ms: int, leader: str = ""
) -> Iterator[OutgoingKafkaRecord]:
    """Everything a batch writes, in the order in which readers should meet it. `leader` is the mark that goes with a
    `_daemon` record.
    """
    for letter in batch.dead_letters:
        yield _record(names.dlq, events.encode_dead_letter(letter, now_ms))
    for gone in batch.forgotten:
        yield OutgoingKafkaRecord(names.status, gone.encode(), None)
        yield OutgoingKafkaRecord(names.directives, gone.encode(), None)
    for noun in batch.changed:
        yield OutgoingKafkaRecord(names.status, *status.encode(noun))
    if batch.daemon is not None:
        marks = ((LEADER_HEADER, leader.encode()),) if leader else ()
        yield OutgoingKafkaRecord(names.status, *encode_daemon(batch.daemon), marks)
    for directive in batch.directives:
        yield OutgoingKafkaRecord(names.directives, directive.recovery.encode(), encode(directive))
    for answer in batch.answers:
        yield _record(names.events, events.encode_answer(answer, scope, now_ms))
    for notice in batch.notices:
        yield _record(names.events, events.encode_notice(notice, scope, now_ms))


def _record(topic: str, record: events.WireRecord) -> OutgoingKafkaRecord:
    return OutgoingKafkaRecord(topic, record.key, record.value, record.headers)
