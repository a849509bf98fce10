"""What pause, stop and the next attempt wait for: reading the ledger of one recovery of a thousand and of a million
receipts, next to ten million of others; and what the proof does with each of them.

The receipts and heads are those of one lane with 500 records per chunk, written in bulk; they are read by the daemon's
reader and by the lanes'. The proof is given them without a broker.
"""

import asyncio
import functools
import itertools
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, Message, Producer

from bench.bed import Bed
from bench.result import Report, Row, Sample
from recoveryd.adapters.kafka.ledger import KafkaLedger
from recoveryd.recovery.effects import ReadLedger
from recoveryd.recovery.model import Plan, PlannedPartition, PlannedTopic
from recoveryd_jobs import contract, receipts
from recoveryd_jobs.contract import ReceiptsHome
from recoveryd_jobs.lane.heads import OFFSETS_MAX, RECEIPTS_MAX
from recoveryd_jobs.verify.ledger import ProofLedger
from recoveryd_jobs.verify.plan import ProofPlan
from recoveryd_jobs.verify.reader import Range
from recoveryd_jobs.verify.shown import Shown
from recoveryd_jobs.verify.tasks import audit_only

NAME = "ledger"
FEW, MANY, OTHERS = 1_000, 1_000_000, 10_000_000
_CHUNK = 500
FLAT = 1.5
_DEEPER = 3.0  # trees of a thousand times as many rows
_DEADLINE_S = 600.0


def measure(bed: Bed, repeat: int, *, quick: bool) -> list[Report]:
    scale = 100 if quick else 1
    few, many = (_Ledger(bed, own // (scale if own > FEW else 1), OTHERS // scale) for own in (FEW, MANY))
    rows = []
    for what, ask in (
        ("daemon reads the ledger (pause, stop)", _Ledger.daemon_s),
        ("a lane reads its ledger (start)", _Ledger.lane_s),
    ):
        small, large = (Sample(tuple(ask(ledger) * 1000 for _ in range(repeat)), "ms") for ledger in (few, many))
        rows.append(Row(f"{what}, {many.own:,} receipts", large, f"{few.own:,} receipts", small, ratio_at_most=FLAT))
    whole = Sample((many.daemon_s(with_head=False) * 1000,), "ms")
    rows.append(Row(f"the same {many.own:,} receipts without a head known (daemon)", whole))
    short, long = Sample(tuple(_proof_us(few.own) for _ in range(repeat)), "us"), Sample((_proof_us(many.own),), "us")
    what = f"the proof takes a receipt of {many.own:,} apart and looks at it"
    rows.append(Row(what, long, f"of {few.own:,}", short, ratio_at_most=_DEEPER))
    note = f"in one partition with {many.others:,} receipts of others, half of them before the recovery was planned"
    bed.delete(few.topic)
    bed.delete(many.topic)
    return [Report("Ledger of a long recovery", tuple(rows), (note,))]


class Filler:
    """Writes receipts in bulk."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        self._topic, self._partition = topic, partition
        self._producer = Producer({
            "bootstrap.servers": bootstrap, "linger.ms": 50, "compression.type": "lz4",
            "queue.buffering.max.messages": 500_000,
        })  # fmt: skip

    def put(
        self, key: bytes, value: bytes, on_delivery: Callable[[KafkaError | None, Message], None] | None = None
    ) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, key, self._partition, on_delivery=on_delivery)
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def flush(self) -> None:
        if self._producer.flush(_DEADLINE_S):
            raise RuntimeError("the receipts topic could not be filled")


class _Ledger:
    """A receipts topic of one partition, filled."""

    def __init__(self, bed: Bed, own: int, others: int) -> None:
        self.own, self.others = own, others
        self.topic = bed.unique("bench.receipts")
        self._client = {"bootstrap.servers": bed.bootstrap}
        self._id = bed.create(self.topic, 1, {"cleanup.policy": "compact"})
        self._filler = Filler(bed.bootstrap, self.topic, 0)
        self._head = 0
        self._fill()

    def daemon_s(self, *, with_head: bool = True) -> float:
        ledger = KafkaLedger({"main": self._client}, self.topic, "bench")
        heads = (self._head,) if with_head and self._head else ()
        began_s = time.monotonic()
        found = asyncio.run(ledger.read(ReadLedger("rx", 1, self._plan(), fence=False, ledger_from=heads)))
        took_s = time.monotonic() - began_s
        assert (found.problems, found.partitions[0].position) == ((), self.own * _CHUNK)
        return took_s

    def lane_s(self) -> float:
        spec = self._spec()
        began_s = time.monotonic()
        found = receipts.read(spec, "bench", lambda _why: None, 0, self._head)
        ledger = receipts.fold(found.receipts, spec.lanes[0].partitions, 0, "s", "t", head=found.head)
        took_s = time.monotonic() - began_s
        assert ledger.standings[0].position == self.own * _CHUNK
        return took_s

    def _fill(self) -> None:
        foreign = contract.encode(_receipt("other", 0))
        for number in range(self.others // 2):
            self._filler.put(b"bench/other/0/%d" % number, foreign)
        every, since, lay = max(1, self.others // 2 // self.own), 0, 0
        for number in range(self.own):
            receipt = _receipt("rx", number)
            self._filler.put(receipt.key.encode(), contract.encode(receipt))
            since, lay = since + 1, lay + 1 + every
            if since >= RECEIPTS_MAX or lay >= OFFSETS_MAX:
                since = lay = 0
                end = (number + 1) * _CHUNK
                rows = (contract.LedgerRow(0, 0, end, copied=end, bytes=end),)
                head = contract.LedgerHead("bench", "rx", 0, 1, number + 1, rows, (), "s", "t")
                self._filler.put(head.key.encode(), contract.encode(head), self._on_head)
            for other in range(every):
                self._filler.put(b"bench/other/1/%d" % (number * every + other), foreign)
        self._filler.flush()

    def _on_head(self, _error: KafkaError | None, message: Message) -> None:
        self._head = message.offset() or 0

    def _plan(self) -> Plan:
        end = self.own * _CHUNK
        return Plan(
            hash="", source=PlannedTopic("main", "s", "s", 1), target=PlannedTopic("main", "t", "t", 1),
            partitions=(PlannedPartition(0, 0, end),), lanes=((0,),), from_time_ms=None, to_time_ms=None,
            records_at_most=end,
            bytes_at_most=end, eta_seconds=None, create_target=False, create_configs={}, findings=(), pinned_at_ms=0,
            receipts=ReceiptsHome(self.topic, self._id, 0, 1, self.others // 2),
        )  # fmt: skip

    def _spec(self) -> contract.JobSpec:
        lane = contract.LaneSpec(0, (contract.PartitionRange(0, 0, self.own * _CHUNK),))
        return contract.JobSpec(
            "replay", "bench", "rx", 2, (lane,), contract.SourceSpec("main", "s", "s", self._client),
            contract.TargetSpec("main", "t", "t", 1, self._client), contract.ControlSpec(self._client, "", ""),
            self.topic,
            contract.Directive("rx", 2, 1, "run", 60_000),
            receipts=contract.ReceiptsHome(self.topic, self._id, 0, 1, self.others // 2),
        )  # fmt: skip


def _proof_us(own: int) -> float:
    """The time for each of so many receipts of one partition, once they are read."""
    ledger, whole = ProofLedger(), Range(0, 0, own * _CHUNK)
    try:
        for number in range(own):
            receipt = _receipt("rx", number)
            ledger.put(0, receipt.start, contract.encode(receipt))
        began_s, shown = time.monotonic(), Shown()
        ledger.settle()
        ledger.index()
        target = Range(0, 0, own * (_CHUNK + 1))
        plan = ProofPlan((whole,), (target,), {}, is_stamped=False, is_compacted=False, is_open=frozenset())
        audit_only(plan, [whole], ledger, shown, lambda: None)
        took_s = time.monotonic() - began_s
    finally:
        ledger.close()
    assert (shown.promised, shown.differences) == (own * _CHUNK, [])
    return took_s * 1e6 / own


def _receipt(recovery: str, number: int) -> contract.Receipt:
    run = contract.TargetRun(0, _CHUNK, ((number * (_CHUNK + 1), _CHUNK),), f"{number:032x}")
    start = number * _CHUNK
    return contract.Receipt(
        "bench", recovery, 0, 1, number, 0, start, start + _CHUNK, _CHUNK, 0, 0, 0, _CHUNK, (run,), "s", "t", 1
    )


_numbers = itertools.count()


@functools.cache
def _foreign() -> bytes:
    return contract.encode(_receipt("other", 0))


def foreign_receipt(scope: str) -> tuple[bytes, bytes]:
    """Key and value of another recovery's receipt, a new one each time."""
    return b"%s/other/0/%d" % (scope.encode(), next(_numbers)), _foreign()
