"""Heads: one record that sums up a lane's ledger, so that a recovery of a million receipts starts, pauses and stops as
quickly as one of a thousand.

A head is written in the transaction of a chunk, once enough was put on the receipts topic since the last one, and in
that of the lane's last chunk: others may go on for long, and nobody has to look among their receipts for those of a
lane that has ended. A lane that has nothing to commit meanwhile writes one in a transaction of its own. Its offset
travels with heartbeats to the daemon and back with the next attempt; a reader without it reads all receipts. Nothing
depends on heads: the receipts say the same.
"""

import time
from collections.abc import Iterable

from confluent_kafka import KafkaError, Message

from recoveryd_jobs.contract import JobSpec, LedgerHead, LedgerRow, PartitionRange, Receipt
from recoveryd_jobs.lane.asking import Errand, go_on
from recoveryd_jobs.receipts import LaneLedger, Standing
from recoveryd_jobs.topics import NoAnswer, Topic

RECEIPTS_MAX = 2_000  # receipts of the lane between two heads; one with many runs counts as so many
OFFSETS_MAX = 50_000  # offsets of the topic's partition between two heads, receipts of others included
ASK_S = 60.0  # how often a lane that commits nothing asks how much others have put there


class Heads:
    """The heads of one lane. `offset` is that of the newest head that is surely committed, 0 = none."""

    def __init__(self, spec: JobSpec, lane: int, ranges: Iterable[PartitionRange], offset: int) -> None:
        self._spec, self._lane = spec, lane
        self._ranges = {r.partition: r for r in ranges}
        self._began = spec.receipts.start if spec.receipts is not None else 0
        self.offset = offset
        self._receipts = 0  # since the newest head, as `_count` counts them
        self._claimed: dict[int, int] = {}
        self._made: int | None = None  # offset of a head in the open chunk
        self._newest = 0  # offset of the last receipt

    def begin(self, head: LedgerHead | None, receipts: Iterable[Receipt], head_at: int) -> None:
        """Start from what was read: the head, if reading began at one, and all receipts after it. `head_at`: where the
        newest head lies that may be used, 0 = nowhere; whoever wrote it may have died before it told of it.
        """
        self._claimed = dict(head.claimed) if head is not None else {}
        self._made, self._receipts = None, 0
        self.offset = head_at
        for receipt in receipts:
            if receipt.lane == self._lane:
                self._receipts += _count([receipt])
                self._claim(receipt)

    @property
    def claimed(self) -> dict[int, int]:
        """Where the lane's committed records end, by target partition."""
        return self._claimed

    def next(self, ledger: LaneLedger, receipts: list[Receipt], attempt: int) -> LedgerHead | None:
        """The head to write with these receipts, None when none is due. `ledger` does not include them yet."""
        if self._spec.receipts is None:
            return None  # without a pinned place nobody knows where a reading that begins at a head must begin
        after = ledger.with_receipts(receipts)
        if not self._is_due(self._receipts + _count(receipts)) and not self._is_last(after):
            return None
        claimed = dict(self._claimed)
        for receipt in receipts:
            _claim(claimed, receipt)
        return self._head(after, claimed, attempt)

    def alone(self, ledger: LaneLedger, end: int, attempt: int) -> LedgerHead | None:
        """The head to write without a chunk, None when none is due. `end`: of the topic's partition."""
        if self._spec.receipts is None or end - (self.offset or self._began) < OFFSETS_MAX:
            return None
        return self._head(ledger, self._claimed, attempt)

    def _head(self, after: LaneLedger, claimed: dict[int, int], attempt: int) -> LedgerHead:
        return LedgerHead(
            scope=self._spec.scope,
            recovery=self._spec.recovery,
            lane=self._lane,
            attempt=attempt,
            next_chunk=after.next_chunk,
            rows=tuple(_row(p, self._ranges[p].start, s) for p, s in sorted(after.standings.items())),
            claimed=tuple(sorted(claimed.items())),
            source_topic_id=self._spec.source.topic_id,
            target_topic_id=self._spec.target.topic_id,
            written_ms=time.time_ns() // 1_000_000,
        )

    def _is_due(self, waits: int) -> bool:
        much = waits >= max(RECEIPTS_MAX, 10 * len(self._ranges))
        return much or self._newest - (self.offset or self._began) >= OFFSETS_MAX

    def _is_last(self, after: LaneLedger) -> bool:
        """Whether the lane has nothing left, while others may go on."""
        stops = {p: r.stop for p, r in self._ranges.items()}
        at_end = all(stop is not None and after.standings[p].position >= stop for p, stop in stops.items())
        return at_end and len(self._spec.lanes) > 1

    def on_receipt(self, error: KafkaError | None, message: Message) -> None:
        """Delivered, but not committed yet."""
        if error is None:
            self._newest = message.offset() or 0

    def on_head(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._made = message.offset()

    def committed(self, receipts: list[Receipt]) -> None:
        """The chunk with these receipts is committed, and so is the head in it."""
        if self._made is not None:
            self.offset, self._made, self._receipts = self._made, None, 0
        else:
            self._receipts += _count(receipts)
        for receipt in receipts:
            self._claim(receipt)

    def dropped(self) -> None:
        """The open chunk is not committed, or nobody knows."""
        self._made = None

    def _claim(self, receipt: Receipt) -> None:
        _claim(self._claimed, receipt)


class LedgerEnd:
    """The end of the lane's partition of the ledger, asked for now and then; nobody waits for the answer."""

    def __init__(self, topic: Topic, partition: int) -> None:
        self._topic, self._partition = topic, partition
        self._asked_s = time.monotonic()
        self._errand: Errand | None = None
        self._answers: list[int] = []

    def news(self, committed_s: float) -> int | None:
        """The end, once for each answer. It asks when nothing was asked or committed (monotonic) for a while."""
        now_s = time.monotonic()
        if self._errand is None:
            if now_s - max(self._asked_s, committed_s) < ASK_S:
                return None
            self._asked_s, self._errand = now_s, _ask_end(self._topic, self._partition, self._answers)
        if not go_on(self._errand, 0.0):
            return None
        self._errand = None
        return self._answers.pop() if self._answers else None


def _ask_end(topic: Topic, partition: int, answers: list[int]) -> Errand:
    """Apart from its class: a generator that held what holds it would be a cycle."""
    try:
        bounds = yield from topic.bounds_in_steps([partition])
    except NoAnswer:
        return  # it is asked again
    answers.append(bounds[partition].high)


def _count(receipts: Iterable[Receipt]) -> int:
    """Receipts, as a reader has work with them: keys spread one over a thousand target partitions, and each run of its
    records there is another thing to take apart.
    """
    return sum(max(1, sum(len(run.runs) for run in receipt.targets)) for receipt in receipts)


def _claim(claimed: dict[int, int], receipt: Receipt) -> None:
    for run in receipt.targets:
        last = max((first + count for first, count in run.runs), default=0)
        claimed[run.partition] = max(claimed.get(run.partition, 0), last)


def _row(partition: int, start: int, standing: Standing) -> LedgerRow:
    counts = standing.copied, standing.filtered, standing.skipped, standing.lost, standing.bytes
    return LedgerRow(partition, start, standing.position, *counts, standing.times)
