"""One chunk: what was read and written since the last commit, and its commit together with its receipts in one
transaction.

Exactness rests on the order of a commit: deliveries confirmed, receipts added and confirmed, topic ids asked again,
commit. Each id is asked for after the last record was read or written there, so an unchanged id means that the whole
chunk, receipts included, came from and went to the planned topics.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, Message

from recoveryd_jobs import errors, failpoints
from recoveryd_jobs.contract import DIGEST_FORM, JobSpec, LedgerHead, Receipt, TargetRun, Times, chunk_header, encode
from recoveryd_jobs.errors import JobError, Redo, raise_failed
from recoveryd_jobs.lane.heads import Heads, LedgerEnd
from recoveryd_jobs.lane.markers import Markers
from recoveryd_jobs.lane.record_copier import Delivered
from recoveryd_jobs.receipts import LaneLedger, Standing
from recoveryd_jobs.sinks.transactional import TransactionalTarget
from recoveryd_jobs.topics import NoAnswer, Topic

RECEIPT_BYTES_MAX = 4_000_000  # a chunk whose receipt is larger is done again in smaller ones
_COMMIT_MARGIN_S = 5.0


class SourcePart:
    """What one source partition contributed to the open chunk: [start, position) is explained by the four counts."""

    __slots__ = (
        "bytes",
        "copied",
        "delivered",
        "event_time_ms",
        "filtered",
        "lost",
        "position",
        "skipped",
        "start",
        "times",
    )

    def __init__(self, start: int) -> None:
        self.start = self.position = start
        self.copied = self.filtered = self.skipped = self.lost = self.bytes = 0
        self.delivered: dict[int, Delivered] = {}
        self.event_time_ms: int | None = None  # of the last record read
        self.times: Times | None = None  # of all records copied

    def skip_to(self, offset: int) -> None:
        """No visible record lies before `offset`."""
        if offset > self.position:
            self.skipped += offset - self.position
            self.position = offset

    def lose_to(self, offset: int) -> None:
        if offset > self.position:
            self.lost += offset - self.position
            self.position = offset


class Chunk:
    """The open chunk of a lane. A new, empty one is made after each commit; its transaction opens with its first
    record.
    """

    def __init__(self, standings: Mapping[int, Standing]) -> None:
        self.parts = {p: SourcePart(s.position) for p, s in standings.items()}
        self.records = 0
        self.bytes = 0
        self.opened_s: float | None = None

    @property
    def has_moved(self) -> bool:
        return any(p.position > p.start for p in self.parts.values())

    @property
    def event_times_ms(self) -> dict[int, int]:
        """Timestamp of the last record of each partition that gave one."""
        return {p: part.event_time_ms for p, part in self.parts.items() if part.event_time_ms is not None}

    def age_s(self, now_s: float) -> float:
        return 0.0 if self.opened_s is None else now_s - self.opened_s

    def touch(self, now_s: float) -> None:
        """Something was read: the age of the chunk counts from its first call."""
        if self.opened_s is None:
            self.opened_s = now_s

    def receipts(self, spec: JobSpec, lane: int, number: int) -> list[Receipt]:
        """One receipt per partition whose position moved. Raises Redo when deliveries do not prove at which offsets the
        records are.
        """
        return [
            Receipt(
                scope=spec.scope, recovery=spec.recovery, lane=lane, attempt=spec.attempt, chunk=number,
                partition=partition, start=part.start, stop=part.position,
                copied=part.copied, filtered=part.filtered, skipped=part.skipped, lost=part.lost, bytes=part.bytes,
                targets=tuple(_target_run(d) for _, d in sorted(part.delivered.items())),
                source_topic_id=spec.source.topic_id, target_topic_id=spec.target.topic_id,
                written_ms=time.time_ns() // 1_000_000, times=part.times,
            )
            for partition, part in sorted(self.parts.items()) if part.position > part.start
        ]  # fmt: skip

    def refused_record(self, spec: JobSpec) -> JobError | None:
        """The error that names the source offset of a record that the target refused for good, if deliveries (dense
        mode) tell which it was.
        """
        for partition, part in sorted(self.parts.items()):
            for to, delivered in sorted(part.delivered.items()):
                for number, error in delivered.failed:
                    code = errors.final_code(error)
                    if code is not None and delivered.sources:
                        where = f"source partition {partition} at offset {delivered.sources[number]}"
                        what = f"{spec.target.topic} partition {to} refuses the batch that begins with {where}"
                        return JobError(code, f"{what}: {error.str()}.")
        return None

    def check_delivered(self) -> None:
        """Raises Redo or Doubt when a record was not delivered."""
        for part in self.parts.values():
            for delivered in part.delivered.values():
                if delivered.failed:
                    raise_failed(delivered.failed[0][1])


def _target_run(delivered: Delivered) -> TargetRun:
    digest = "" if delivered.digest is None else delivered.digest.hex()
    return TargetRun(delivered.partition, delivered.count, delivered.runs(), digest, DIGEST_FORM)


class Committer:
    """Commits chunks of one lane."""

    def __init__(
        self,
        spec: JobSpec,
        lane: int,
        target: TransactionalTarget,
        source: Topic,
        written: Sequence[Topic],
        ledger_partition: int,
        heads: Heads,
        markers: Markers,
        end: LedgerEnd | None = None,
    ) -> None:
        self._spec = spec
        self._lane = lane
        self._target = target
        self._source = source
        self._written = written
        self._partition = ledger_partition
        self._heads = heads
        self._markers = markers
        self._end = end
        self._places: list[int] = []  # of what the open transaction has in the ledger

    def await_markers(self, obey: Callable[[], object]) -> None:
        """Until readers see what was committed; `obey` is called meanwhile, and may raise. Raises Doubt when they never
        will.
        """
        self._markers.wait(obey)

    def commit(self, chunk: Chunk, ledger: LaneLedger, waiting: Callable[[], None]) -> list[Receipt]:
        """Commit the chunk and return its receipts. After Redo or JobError the chunk was not committed; after Doubt
        nobody knows.

        `waiting` is called while a cluster does not answer, and may raise: the chunk was not committed then.
        """
        deadline_s = self._deadline_s()
        read = self._source.ask_id()  # the answer comes while records are delivered
        if self._target.is_open:
            self._target.flush(deadline_s)
        failpoints.hit("lane.after_flush")
        chunk.check_delivered()
        receipts = chunk.receipts(self._spec, self._lane, ledger.next_chunk)
        self._begin()
        self._produce(receipts)
        self._produce_head(self._heads.next(ledger, receipts, self._spec.attempt))
        failpoints.hit("lane.after_receipt_produced")
        self._target.flush(deadline_s)
        asked = [(self._source, read), *((topic, topic.ask_id()) for topic in self._written)]
        _check_topics(asked, deadline_s, waiting)
        failpoints.hit("lane.before_commit")
        self._target.commit(deadline_s)
        failpoints.hit("lane.after_commit")
        self._heads.committed(receipts)
        self._markers.committed(receipts, self._places)
        return receipts

    def keep_short(self, ledger: LaneLedger, committed_s: float, waiting: Callable[[], None]) -> bool:
        """For a lane that has nothing to commit, and no transaction with records open: write a head once others have
        put much on the ledger. True when it did. `committed_s`: when it last committed anything (monotonic). Raises as
        `commit`.
        """
        end = None if self._end is None else self._end.news(committed_s)
        head = None if end is None else self._heads.alone(ledger, end, self._spec.attempt)
        if head is None:
            return False
        deadline_s = self._deadline_s()
        self._begin()
        self._produce_head(head)
        self._target.flush(deadline_s)
        _check_topics([(topic, topic.ask_id()) for topic in self._written], deadline_s, waiting)
        self._target.commit(deadline_s)
        self._heads.committed([])
        self._markers.committed([], self._places)
        return True

    def _deadline_s(self) -> float:
        return time.monotonic() + max(_COMMIT_MARGIN_S, self._spec.transaction_timeout_ms / 1000.0)

    def _begin(self) -> None:
        """What is put on the ledger from now on is that of this transaction."""
        self._heads.dropped()
        self._places = []
        if not self._target.is_open:
            self._target.begin()

    def _produce(self, receipts: list[Receipt]) -> None:
        headers = [chunk_header(len(receipts))]
        for receipt in receipts:
            raw = encode(receipt)
            if len(raw) > RECEIPT_BYTES_MAX:
                raise Redo(f"the receipt would have {len(raw)} bytes", smaller=True)
            key = receipt.key.encode()
            self._target.send(self._spec.receipts_topic, raw, key, self._partition, self._on_receipt, headers)

    def _on_receipt(self, error: KafkaError | None, message: Message) -> None:
        self._heads.on_receipt(error, message)
        self._note_place(error, message)

    def _on_head(self, error: KafkaError | None, message: Message) -> None:
        self._heads.on_head(error, message)
        self._note_place(error, message)

    def _note_place(self, error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is None and offset is not None:
            self._places.append(offset)

    def _produce_head(self, head: LedgerHead | None) -> None:
        """Add the head to the transaction. One that is too large is left out: the receipts say the same."""
        if head is None:
            return
        raw = encode(head)
        if len(raw) <= RECEIPT_BYTES_MAX:
            self._target.send(self._spec.receipts_topic, raw, head.key.encode(), self._partition, self._on_head)


def _check_topics(asked: "Iterable[tuple[Topic, Future[Any]]]", deadline_s: float, waiting: Callable[[], None]) -> None:
    for topic, answer in asked:
        try:
            topic.check_id(deadline_s, waiting, answer)
        except NoAnswer as silence:
            raise Redo(f"no word whether the topic is still the same: {silence}") from None
