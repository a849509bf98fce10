"""Lanes that copy in virtual time: one call is one second of work, one chunk, one heartbeat.

A simulation of what `spark_jobs` does, as far as the daemon can notice: receipts in the data's transaction, positions
taken from receipts, directives obeyed, a newer holder of the transactional id shuts an older one out.
"""

from recoveryd.adapters.memory.kafka import MemoryBroker, MemoryRecord
from recoveryd.adapters.memory.verification import read_receipts, receipts_home
from recoveryd_jobs.contract import (
    Directive,
    JobSpec,
    LaneHeartbeat,
    LanePosition,
    LaneSpec,
    PartitionRange,
    Receipt,
    TargetRun,
    encode,
    spanning,
    transactional_id,
)


class MemoryLane:
    """Holds the lane's transactional id from its making on. `is_ended` once it will do nothing more."""

    def __init__(self, spec: JobSpec, lane: LaneSpec, source: MemoryBroker, target: MemoryBroker) -> None:
        self._spec = spec
        self._lane = lane
        self._source = source
        self._target = target
        self._id = transactional_id(spec.scope, spec.recovery, lane.lane)
        self._epoch = target.init_transactions(self._id)
        receipts = read_receipts(spec, target)
        self._positions = {r.partition: _position(r, receipts) for r in lane.partitions}
        self._chunk = 1 + max((r.chunk for r in receipts if r.lane == lane.lane), default=-1)
        self.is_ended = False

    def work(self, directive: Directive, now_ms: int, records_per_s: int) -> LaneHeartbeat:
        """A second of it. Raises `MemoryFenced` when another holds the lane."""
        share = directive.shares.get(self._lane.lane, 1.0 / len(self._spec.lanes))
        copied = self._copy(int(records_per_s * share), now_ms) if directive.wanted == "run" else 0
        is_done = all(p.stop is not None and p.position >= p.stop for p in self._positions.values())
        self.is_ended = is_done or directive.wanted in {"stop", "verify", "exit"}
        state = "done" if self.is_ended else "paused" if directive.wanted == "pause" else "copying"
        return LaneHeartbeat(
            recovery=self._spec.recovery,
            attempt=self._spec.attempt,
            lane=self._lane.lane,
            directive_sequence=directive.sequence,
            state=state,
            chunk_open=False,
            records_per_s=float(copied),
            bytes_per_s=0.0,
            positions=tuple(self._positions.values()),
            why="ended" if self.is_ended else "",
            sent_ms=now_ms,
        )

    def _copy(self, allowed: int, now_ms: int) -> int:
        """One chunk over the lane's partitions: records and receipts together, or nothing."""
        batch: list[tuple[str, int, MemoryRecord]] = []
        moved = dict(self._positions)
        copied = 0
        for partition, position in self._positions.items():
            log = self._source.topic(self._spec.source.topic).log(partition)
            records = log.read(position.position, position.stop)[: max(0, allowed - copied)]
            if not records:
                continue
            receipt = self._make_receipt(position, records, now_ms)
            batch += [(self._spec.target.topic, partition, record) for record in records]
            batch.append(self._receipt_record(receipt))
            moved[partition] = _after(position, receipt)
            copied += len(records)
        if batch:
            self._target.write(self._id, self._epoch, batch)
            self._positions, self._chunk = moved, self._chunk + 1
        return copied

    def _make_receipt(self, position: LanePosition, records: list[MemoryRecord], now_ms: int) -> Receipt:
        first = self._target.topic(self._spec.target.topic).log(position.partition).high_watermark
        return Receipt(
            scope=self._spec.scope,
            recovery=self._spec.recovery,
            lane=self._lane.lane,
            attempt=self._spec.attempt,
            chunk=self._chunk,
            partition=position.partition,
            start=position.position,
            stop=position.position + len(records),
            copied=len(records),
            filtered=0,
            skipped=0,
            lost=0,
            bytes=sum(record.size_bytes for record in records),
            targets=(TargetRun(position.partition, len(records), ((first, len(records)),)),),
            source_topic_id=self._spec.source.topic_id,
            target_topic_id=self._spec.target.topic_id,
            written_ms=now_ms,
            times=spanning(*((record.timestamp_ms,) * 2 for record in records)),
        )

    def _receipt_record(self, receipt: Receipt) -> tuple[str, int, MemoryRecord]:
        home = receipts_home(self._spec, self._target)
        return (
            home.topic,
            home.partition,
            MemoryRecord(receipt.key.encode(), encode(receipt), receipt.written_ms),
        )


def _position(planned: PartitionRange, receipts: list[Receipt]) -> LanePosition:
    position = LanePosition(planned.partition, planned.start, planned.stop, "waiting")
    for receipt in receipts:
        if receipt.partition == planned.partition:
            position = _after(position, receipt)
    return position


def _after(position: LanePosition, receipt: Receipt) -> LanePosition:
    return LanePosition(
        partition=position.partition,
        position=receipt.stop,
        stop=position.stop,
        state="done" if position.stop is not None and receipt.stop >= position.stop else "copying",
        copied=position.copied + receipt.copied,
        filtered=position.filtered + receipt.filtered,
        skipped=position.skipped + receipt.skipped,
        lost=position.lost + receipt.lost,
        bytes=position.bytes + receipt.bytes,
    )
