"""Second half of the verification: read the target where the receipts say the records are, and compare count, order and content.

Runs after the lanes, in the same application, spread over tasks by target partition. It reads what a read_committed reader of the target sees, so other
writers between our runs do not matter; they are counted and named. Differences are values in the report; an exception means that there is no verdict.
"""

import hashlib
import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from spark_jobs import ledger_audit
from spark_jobs.clients import make_reader, meet
from spark_jobs.contract import Difference, JobSpec, VerificationReport
from spark_jobs.digest import SequenceDigest
from spark_jobs.errors import JobError
from spark_jobs.ledger_audit import Promise
from spark_jobs.topics import Bounds, NoAnswer, Topic

DIFFERENCES_MAX = 100
_PATIENCE_S = 120.0
_QUEUE_BYTES = 32 * 1024 * 1024
_BATCH = 10_000
_WAIT_S = 0.2
_END = KafkaError._PARTITION_EOF  # noqa: SLF001  (the library's own codes begin with an underscore)


@dataclass(frozen=True, slots=True)
class VerifyPlan:
    """What the ledger promises, and what is wrong with the ledger itself. `load` = records per target partition."""

    source_records: int
    load: dict[int, int]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Share:
    """What one task found: records seen in our runs, digests by (target partition, first offset), and records of others between our runs."""

    records: int = 0
    digests: list[tuple[int, int, str]] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    foreign: dict[int, int] = field(default_factory=dict)


def read_plan(spec: JobSpec, *, is_whole: bool) -> VerifyPlan:
    receipts = ledger_audit.load(spec)
    ranges = [r for lane in spec.lanes for r in lane.partitions]
    load: dict[int, int] = {}
    for promise in ledger_audit.promises(receipts):
        load[promise.partition] = load.get(promise.partition, 0) + promise.count
    lost = sum(r.lost for r in receipts)
    notes = (f"{lost} offsets were lost in the source",) if lost else ()
    differences = ledger_audit.audit(receipts, ranges, is_whole=is_whole)
    return VerifyPlan(sum(r.copied for r in receipts), load, tuple(differences), notes)


def split_plan(plan: VerifyPlan, tasks: int) -> list[tuple[int, ...]]:
    """Target partitions for each task, the heaviest first, so that tasks end at about the same time."""
    shares: list[list[int]] = [[] for _ in range(max(1, min(tasks, len(plan.load))))]
    weights = [0] * len(shares)
    for partition, count in sorted(plan.load.items(), key=lambda item: -item[1]):
        lightest = weights.index(min(weights))
        shares[lightest].append(partition)
        weights[lightest] += count
    return [tuple(share) for share in shares if share]


def verify_share(spec: JobSpec, partitions: Sequence[int]) -> Share:
    """Verify these target partitions. Raises JobError when the target can not be read, or is another topic now."""
    client_id = f"recoveryd.{spec.recovery}.verifier"
    topic = Topic(spec.target, "target", client_id)
    share = Share()
    try:
        topic.check_id(time.monotonic() + _PATIENCE_S)
        is_stamped = topic.settings().is_stamped
        bounds = topic.bounds(partitions)
        promised = ledger_audit.promises(ledger_audit.load(spec))
        for partition in partitions:
            mine = [p for p in promised if p.partition == partition]
            check = PartitionCheck(spec, partition, mine, share, is_stamped=is_stamped)
            _read(spec, client_id, bounds[partition], check)
        topic.check_id(time.monotonic() + _PATIENCE_S)
    except NoAnswer as silence:
        raise JobError("target_unavailable", f"The target does not answer: {silence}.") from None
    except KafkaException as raised:
        raise JobError("target_unavailable", f"The target can not be read: {raised.args[0].str()}.") from None
    return share


def _read(spec: JobSpec, client_id: str, bounds: Bounds, check: "PartitionCheck") -> None:
    """Feed `check` with all visible records of the promised runs, as far as the log reaches."""
    partition, start, stop = check.partition, max(check.first, bounds.start), min(check.stop, bounds.high)
    consumer: Consumer = make_reader(spec.target.client, client_id, _QUEUE_BYTES)
    try:
        meet(consumer, spec.target.topic)
        consumer.assign([TopicPartition(spec.target.topic, partition, start)])
        position, moved_s = start, time.monotonic()
        while position < stop:
            messages = consumer.consume(_BATCH, 0) or consumer.consume(1, _WAIT_S)
            good = [m for m in messages if m.error() is None]
            if good:
                check.feed(good)
                position = (good[-1].offset() or 0) + 1
            for error, offset in ((m.error(), m.offset()) for m in messages if len(good) != len(messages)):
                if error is not None and error.code() == _END:
                    position = max(position, offset or 0)
                elif error is not None and not error.retriable():
                    raise KafkaException(error)
            if messages:
                moved_s = time.monotonic()
            elif time.monotonic() - moved_s > spec.stop_wait_ms / 1000.0:
                held = f"{spec.target.topic} partition {partition} can not be read past {position}, our records end at {stop}"
                raise JobError(
                    "stop_blocked", f"{held}: a foreign transaction holds it, or the broker does not answer."
                )
        check.finish()
    finally:
        consumer.close()


class _Claim:
    """One promise while it is being checked."""

    __slots__ = ("digest", "missing", "promise", "seen")

    def __init__(self, promise: Promise, digest: SequenceDigest | None) -> None:
        self.promise = promise
        self.digest = digest
        self.seen = 0
        self.missing: list[tuple[int, int]] = []


class PartitionCheck:
    """Compares the records of one target partition, fed in offset order, with what was promised for it."""

    def __init__(
        self, spec: JobSpec, partition: int, promised: Iterable[Promise], share: Share, *, is_stamped: bool
    ) -> None:
        self.partition = partition
        self._share = share
        self._is_stamped = is_stamped
        with_digest = spec.verify == "digest"
        claims = [_Claim(p, SequenceDigest(spec.recovery, partition) if with_digest else None) for p in promised]
        self._runs = sorted(
            ((first, first + count, c) for c in claims for first, count in c.promise.runs), key=lambda r: r[:2]
        )
        self._claims = claims
        self._at = 0  # index of the run that comes next
        self._next = self._runs[0][0] if self._runs else 0  # next offset expected in it

    @property
    def first(self) -> int:
        return self._runs[0][0] if self._runs else 0

    @property
    def stop(self) -> int:
        return max((stop for _, stop, _ in self._runs), default=0)

    def feed(self, messages: list[Message]) -> None:
        offsets: list[int] = [m.offset() for m in messages]  # type: ignore[misc]
        at = 0
        while at < len(offsets) and self._at < len(self._runs):
            first, stop, claim = self._runs[self._at]
            low = bisect_left(offsets, first, at)
            high = bisect_left(offsets, stop, low)
            self._count_foreign(low - at)
            self._take(claim, messages[low:high], offsets[low:high])
            at = high
            if high < len(offsets) or offsets[-1] >= stop - 1:
                self._close_run(stop, claim)

    def finish(self) -> None:
        """No more records come: what is still open is missing. Judges every promise."""
        while self._at < len(self._runs):
            _, stop, claim = self._runs[self._at]
            self._close_run(stop, claim)
        for claim in self._claims:
            self._judge(claim)

    def _take(self, claim: _Claim, messages: list[Message], offsets: list[int]) -> None:
        if not messages:
            return
        if offsets[0] != self._next or offsets[-1] - offsets[0] + 1 != len(offsets):
            for offset in offsets:
                if offset > self._next:
                    claim.missing.append((self._next, offset))
                self._next = offset + 1
        self._next = offsets[-1] + 1
        claim.seen += len(messages)
        if claim.digest is not None:
            times = [0] * len(messages) if self._is_stamped else [m.timestamp()[1] for m in messages]
            keys, values = [m.key() for m in messages], [m.value() for m in messages]
            claim.digest.extend(keys, values, times, [m.headers() for m in messages])  # type: ignore[misc]

    def _close_run(self, stop: int, claim: _Claim) -> None:
        if self._next < stop:
            claim.missing.append((self._next, stop))
        self._at += 1
        if self._at < len(self._runs):
            self._next = self._runs[self._at][0]

    def _count_foreign(self, count: int) -> None:
        if count:
            self._share.foreign[self.partition] = self._share.foreign.get(self.partition, 0) + count

    def _judge(self, claim: _Claim) -> None:
        promise, share = claim.promise, self._share
        share.records += claim.seen
        made = "" if claim.digest is None else claim.digest.hex()
        if promise.runs:
            share.digests.append((self.partition, promise.runs[0][0], made))
        for start, stop in claim.missing[:DIFFERENCES_MAX]:
            message = f"{promise.name}: {stop - start} of its records are not in the target."
            share.differences.append(Difference(self.partition, start, stop, "missing", message))
        if claim.digest is not None and not claim.missing and made != promise.digest:
            start, stop = promise.runs[0][0], promise.runs[-1][0] + promise.runs[-1][1]
            message = f"{promise.name}: content or order differs, digest is {made}, expected {promise.digest or 'one'}."
            share.differences.append(Difference(self.partition, start, stop, "digest", message))


def combine(spec: JobSpec, plan: VerifyPlan, shares: Iterable[Share]) -> VerificationReport:
    """The verdict over the ledger and all target partitions."""
    shares = list(shares)
    differences = [*plan.differences, *(d for s in shares for d in s.differences)]
    whole = hashlib.blake2b(digest_size=16)
    for partition, first, digest in sorted(entry for s in shares for entry in s.digests):
        whole.update(f"{partition}/{first}/{digest};".encode())
    notes = list(plan.notes)
    foreign = {p: n for s in shares for p, n in s.foreign.items()}
    if foreign and spec.target.exclusive:
        parts = ", ".join(f"{n} in partition {p}" for p, n in sorted(foreign.items()))
        notes.append(f"others wrote to the target between our records: {parts}")
    if len(differences) > DIFFERENCES_MAX:
        notes.append(f"{len(differences)} differences, the first {DIFFERENCES_MAX} are listed")
    return VerificationReport(
        result="mismatch" if differences else "match",
        source_records=plan.source_records,
        target_records=sum(s.records for s in shares),
        digest=whole.hexdigest() if spec.verify == "digest" else "",
        differences=tuple(differences[:DIFFERENCES_MAX]),
        why="; ".join(notes),
    )
