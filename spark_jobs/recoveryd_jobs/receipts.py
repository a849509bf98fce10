"""The ledger of a recovery: reads its receipts, and folds them into where each partition stands.

Receipts are committed together with the records they describe, so they alone say what is done; group offsets and
heartbeats do not count. A lane reads them only after `init_transactions`, up to the high watermark of that moment: the
last stable offset could hide newer receipts behind a dead writer's open transaction. Receipts that do not fit together
are an error, never repaired. The proof has a reader of its own on purpose.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from recoveryd_jobs import errors
from recoveryd_jobs.clients import (
    ASK_TIMEOUT_S,
    COMMITTED_END,
    QUICK_FETCH_WAIT_MS,
    START,
    UNCOMMITTED_END,
    make_admin,
    make_reader,
    meet,
    start_offset_query,
)
from recoveryd_jobs.contract import (
    ContractError,
    JobSpec,
    LedgerHead,
    PartitionRange,
    Receipt,
    ReceiptsHome,
    Times,
    decode,
    head_key,
    receipts_partition,
    spanning_copied,
)
from recoveryd_jobs.errors import Doubt, JobError
from recoveryd_jobs.shared.leaders import learn_leaders
from recoveryd_jobs.sound_logs import is_harmless

_STEP_S = 0.2
_BATCH = 1000
_QUEUE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Standing:
    """The sum of the receipts of one source partition. `position` = end of the last one, or the planned start."""

    position: int
    copied: int = 0
    filtered: int = 0
    skipped: int = 0
    lost: int = 0
    bytes: int = 0
    times: Times | None = None

    def plus(self, receipt: Receipt) -> "Standing":
        return Standing(
            receipt.stop,
            self.copied + receipt.copied,
            self.filtered + receipt.filtered,
            self.skipped + receipt.skipped,
            self.lost + receipt.lost,
            self.bytes + receipt.bytes,
            spanning_copied((self.copied, self.times), (receipt.copied, receipt.times)),
        )


@dataclass(frozen=True, slots=True)
class LaneLedger:
    """All receipts of a lane, folded. `next_chunk` counts over all attempts; `newest_attempt` is 0 without receipts."""

    standings: Mapping[int, Standing] = field(default_factory=dict)
    next_chunk: int = 0
    newest_attempt: int = 0

    def with_receipts(self, receipts: Iterable[Receipt]) -> "LaneLedger":
        """The ledger after a chunk of this lane was committed."""
        standings, newest = dict(self.standings), self.newest_attempt
        for receipt in receipts:
            standings[receipt.partition] = standings[receipt.partition].plus(receipt)
            newest = max(newest, receipt.attempt)
        return LaneLedger(standings, self.next_chunk + 1, newest)


def fold(
    receipts: Iterable[Receipt],
    ranges: Iterable[PartitionRange],
    lane: int,
    source_id: str,
    target_id: str,
    head: LedgerHead | None = None,
    newest_attempt: int = 0,
) -> LaneLedger:
    """Fold receipts; with `head`, only those after it. `newest_attempt`: of receipts that are not given. Raises
    JobError: `topic_recreated` for other topic ids, `ledger_broken` when receipts do not follow each other from the
    planned start, or end before what the journal knows as copied (going on from there would copy records twice).
    """
    planned = {r.partition: r for r in ranges}
    standings = {p: Standing(r.start) for p, r in planned.items()}
    next_chunk, newest = 0, newest_attempt
    if head is not None:
        if (head.source_topic_id, head.target_topic_id) != (source_id, target_id):
            raise JobError("topic_recreated", f"The head {head.key} speaks of other topics than the plan.")
        standings = _standings(head, planned)
        next_chunk, newest = head.next_chunk, max(newest, head.attempt)
    for receipt in sorted(receipts, key=lambda r: (r.partition, r.start)):
        newest = max(newest, receipt.attempt)
        if receipt.lane == lane:
            next_chunk = max(next_chunk, receipt.chunk + 1)
        if receipt.partition not in planned or (
            head is not None and receipt.stop <= standings[receipt.partition].position
        ):
            continue
        _check(receipt, standings[receipt.partition].position, planned[receipt.partition])
        if (receipt.source_topic_id, receipt.target_topic_id) != (source_id, target_id):
            raise JobError("topic_recreated", f"Receipt {receipt.key} speaks of other topics than the plan.")
        standings[receipt.partition] = standings[receipt.partition].plus(receipt)
    for partition, standing in standings.items():
        if standing.position < planned[partition].journaled:
            known = planned[partition].journaled
            raise JobError(
                "ledger_broken",
                f"Receipts of partition {partition} end at {standing.position}, but it was copied to {known}: some "
                "are gone.",
            )
    return LaneLedger(standings, next_chunk, newest)


def _standings(head: LedgerHead, planned: Mapping[int, PartitionRange]) -> dict[int, Standing]:
    """Raises JobError when the head describes other ranges."""
    rows = {row.partition: row for row in head.rows}
    for partition, wanted in planned.items():
        row = rows.get(partition)
        if row is None or row.start != wanted.start:
            raise JobError(
                "ledger_broken", f"The head {head.key} does not know partition {partition} from {wanted.start} on."
            )
    return {
        p: Standing(r.position, r.copied, r.filtered, r.skipped, r.lost, r.bytes, r.times)
        for p, r in rows.items()
        if p in planned
    }


def _check(receipt: Receipt, position: int, planned: PartitionRange) -> None:
    if receipt.start != position:
        raise JobError(
            "ledger_broken", f"Receipt {receipt.key} begins at {receipt.start}, the one before ended at {position}."
        )
    if receipt.stop <= receipt.start or (planned.stop is not None and receipt.stop > planned.stop):
        raise JobError("ledger_broken", f"Receipt {receipt.key} ends at {receipt.stop}, outside of the planned range.")
    counts = receipt.copied, receipt.filtered, receipt.skipped, receipt.lost
    if min(*counts, receipt.bytes) < 0:
        raise JobError("ledger_broken", f"Receipt {receipt.key} has a negative count.")
    parts = sum(counts)
    if parts != receipt.stop - receipt.start:
        raise JobError(
            "ledger_broken", f"Receipt {receipt.key} explains {parts} of {receipt.stop - receipt.start} offsets."
        )


@dataclass(frozen=True, slots=True)
class FoundReceipt:
    """`partition` of the topic. `receipts`: those of the lane, and any others that speak of its partitions; with
    `head`, only those after it. `seen_to`: the offset of the last receipt or head of the lane; one before the first
    offset that was read where there is none. `head_at`: the offset of the lane's newest head among what was read, also
    where all receipts were; 0 = none. `newest_attempt`: of all receipts that were read, whatever their lane.
    """

    partition: int
    receipts: list[Receipt]
    head: LedgerHead | None = None
    seen_to: int = -1
    head_at: int = 0
    newest_attempt: int = 0


class _Kept:
    """What a lane needs of the ledger, kept as it comes: others may have put millions of receipts there."""

    def __init__(self, spec: JobSpec, lane: int) -> None:
        self._lane = lane
        self._prefix = f"{spec.scope}/{spec.recovery}/".encode()
        self._head_key = head_key(spec.scope, spec.recovery, lane).encode()
        self._partitions = {r.partition for each in spec.lanes if each.lane == lane for r in each.partitions}
        self._receipts: dict[bytes, tuple[int, Receipt]] = {}  # by key, the newest; in order of their offsets
        self._unreadable: dict[bytes, ContractError] = {}
        self._head: tuple[int, bytes] | None = None
        self._newest_attempt = 0

    def take(self, message: Message) -> None:
        key, value, offset = message.key(), message.value(), message.offset() or 0
        if key == self._head_key:
            self._head = (offset, value) if isinstance(value, bytes) else None
        elif isinstance(key, bytes) and key.startswith(self._prefix):
            self._receipts.pop(key, None)
            self._unreadable.pop(key, None)
            if isinstance(value, bytes):
                self._take_receipt(key, value, offset)

    def _take_receipt(self, key: bytes, value: bytes, offset: int) -> None:
        try:
            receipt = decode(Receipt, value)
        except ContractError as error:
            self._unreadable[key] = error
            return
        self._newest_attempt = max(self._newest_attempt, receipt.attempt)
        if receipt.lane == self._lane or receipt.partition in self._partitions:
            self._receipts[key] = offset, receipt

    def head(self) -> LedgerHead | None:
        """None when there is none or it cannot be read, and then all receipts are read."""
        try:
            return None if self._head is None else decode(LedgerHead, self._head[1])
        except ContractError:
            return None

    def found(self, partition: int, start: int, head: LedgerHead | None) -> FoundReceipt:
        """Raises ContractError for a receipt that cannot be read."""
        for error in self._unreadable.values():
            raise error
        head_at = 0 if self._head is None else self._head[0]
        of_lane = [offset for offset, receipt in self._receipts.values() if receipt.lane == self._lane]
        if head is not None:
            of_lane.append(head_at)
        receipts = [receipt for _, receipt in self._receipts.values()]
        return FoundReceipt(partition, receipts, head, max(of_lane, default=start - 1), head_at, self._newest_attempt)


def read(
    spec: JobSpec,
    client_id: str,
    waiting: Callable[[str], None],
    lane: int = 0,
    begin: int = 0,
    end: int | None = None,
) -> FoundReceipt:
    """The receipts of this recovery up to the current high watermark, or up to `end`, in the order of the topic: all,
    or only those after the lane's head when one is found from offset `begin` on.

    `waiting` is told why it takes long, and may raise to end the wait. Raises JobError: `ledger_broken` for a missing
    topic or receipts that are gone or unreadable, `stop_blocked` when another producer's transaction hides the end for
    longer than `stop_wait_ms`. Raises Doubt when the cluster does not answer, or answers and gives no records.
    """
    consumer = make_reader(spec.target.client, client_id, _QUEUE_BYTES, fetch_wait_ms=QUICK_FETCH_WAIT_MS)
    try:
        meet(consumer, spec.receipts_topic)
        home = spec.receipts
        partition = _partition(consumer, spec) if home is None else home.partition
        start, high = _ask(spec, client_id, partition, START, UNCOMMITTED_END)
        if home is not None:
            _check_bounds(home, start, high)
            high = high if end is None else end
            start = max(home.start, begin if begin < high else 0)
        kept = _Kept(spec, lane)
        consumer.assign([TopicPartition(spec.receipts_topic, partition, start)])
        _collect(consumer, spec, client_id, partition, (start, high), waiting, kept)
        head = kept.head() if home is not None and start > home.start else None
        if home is not None and head is None and start > home.start:
            start, kept = home.start, _Kept(spec, lane)
            consumer.assign([TopicPartition(spec.receipts_topic, partition, start)])
            _collect(consumer, spec, client_id, partition, (start, high), waiting, kept)
    finally:
        consumer.close()
    try:
        return kept.found(partition, start, head)
    except ContractError as error:
        raise JobError("ledger_broken", f"A receipt of {spec.recovery} cannot be read: {error}.") from None


def _partition(consumer: Consumer, spec: JobSpec) -> int:
    try:
        topic = consumer.list_topics(spec.receipts_topic, timeout=ASK_TIMEOUT_S).topics[spec.receipts_topic]
    except KafkaException as error:
        _raise_final(error.args[0], spec)
        raise Doubt(f"no metadata from the target cluster: {error.args[0].str()}") from None
    if topic.error is not None or not topic.partitions:
        raise JobError("ledger_broken", f"The receipts topic {spec.receipts_topic} is missing: {topic.error}.")
    return receipts_partition(spec.recovery, len(topic.partitions))


def _check_bounds(home: ReceiptsHome, start: int, high: int) -> None:
    """Raises when records of the topic were deleted or cut off since the plan: they may have been receipts of this
    recovery.
    """
    where = f"{home.topic} partition {home.partition}"
    if start > home.start:
        why = f"Receipts were deleted from {where}: it begins at {start}, those of this recovery at {home.start}."
        raise JobError("ledger_broken", why)
    if high < home.start:
        raise JobError(
            "ledger_broken", f"{where} was cut back: it ends at {high}, and ended at {home.start} when planned."
        )


def _ask(spec: JobSpec, client_id: str, partition: int, *queries: str) -> list[int]:
    """Offsets of the receipts topic: START, COMMITTED_END or UNCOMMITTED_END, as asked. Raises as `read` does."""
    wanted = TopicPartition(spec.receipts_topic, partition)
    admin = make_admin(spec.target.client, client_id)  # held until the answers are there
    try:
        learn_leaders(admin, spec.receipts_topic, ASK_TIMEOUT_S)
    except KafkaException as error:
        _raise_final(error.args[0], spec)
        raise Doubt(f"no metadata from the target cluster: {error.args[0].str()}") from None
    answers = [start_offset_query(admin, [wanted], which)[wanted] for which in queries]
    try:
        return [int(answer.result(ASK_TIMEOUT_S + 1.0).offset) for answer in answers]
    except KafkaException as error:
        _raise_final(error.args[0], spec)
        raise Doubt(f"the end of {spec.receipts_topic} is unknown: {error.args[0].str()}") from None
    except TimeoutError:
        raise Doubt(f"the end of {spec.receipts_topic} is unknown: no answer") from None


def _collect(
    consumer: Consumer,
    spec: JobSpec,
    client_id: str,
    partition: int,
    bounds: tuple[int, int],
    waiting: Callable[[str], None],
    kept: _Kept,
) -> None:
    """Hand everything within `bounds` over to `kept`."""
    (position, high), moved_s = bounds, time.monotonic()
    while position < high:
        for message in consumer.consume(_BATCH, 0) or consumer.consume(1, _STEP_S):
            error, offset = message.error(), message.offset()
            if error is not None and error.code() != errors.END:
                left = TopicPartition(spec.receipts_topic, partition, position)
                if _is_behind(message, error, spec, client_id, left, high):
                    position = high
                    break
                continue
            assert offset is not None
            position, moved_s = max(position, offset + (error is None)), time.monotonic()
            if error is None:
                kept.take(message)
        if position < high:
            why = f"reads receipts: partition {partition} at {position} of {high}"
            waiting(why)
            if time.monotonic() - moved_s > spec.stop_wait_ms / 1000.0:
                [stable] = _ask(spec, client_id, partition, COMMITTED_END)
                if stable > position:  # so nothing hides it from readers
                    raise Doubt(f"{spec.receipts_topic} partition {partition} gives nothing at {position} of {stable}")
                raise JobError(
                    "stop_blocked",
                    f"A foreign transaction holds {spec.receipts_topic} partition {partition} at {position}, its end "
                    f"is {high}.",
                )


def _is_behind(
    message: Message, error: KafkaError, spec: JobSpec, client_id: str, left: TopicPartition, high: int
) -> bool:
    """Whether an error harms nobody, as nothing lies between `left` and `high`. Raises if it is final otherwise."""
    if is_harmless(message, spec.target.client, client_id, left, high):
        return True
    _raise_final(error, spec, f"partition {left.partition} at {left.offset}")
    if (final := errors.unreadable(error, "target", message)) is not None:
        raise final
    return False


def _raise_final(error: KafkaError, spec: JobSpec, where: str = "") -> None:
    if error.code() in errors.OUT_OF_RANGE:
        raise JobError("ledger_broken", f"{spec.receipts_topic} {where} holds nothing any more: receipts were deleted.")
    code = errors.final_code(error)
    if code is not None:
        told = errors.refusal(error, "Read", spec.receipts_topic)
        raise JobError(code, f"{spec.receipts_topic} cannot be read: {told}")
