"""Comparing what simulated lanes wrote with what they read, receipt by receipt, or two pinned ranges that nobody of
ours copied.
"""

from collections.abc import Iterable

from recoveryd.adapters.kafka.receipts import key_prefix, newest_values
from recoveryd.adapters.memory.kafka import MemoryBroker
from recoveryd_jobs.contract import (
    Difference,
    JobSpec,
    Receipt,
    ReceiptsHome,
    Verification,
    decode,
    receipts_partition,
)


def receipts_home(spec: JobSpec, target: MemoryBroker) -> ReceiptsHome:
    """The pinned place; for a plan of a release that pinned none the one that release would find."""
    if spec.receipts is not None:
        return spec.receipts
    topic = target.topic(spec.receipts_topic)
    width = len(topic.logs)
    return ReceiptsHome(topic.name, topic.topic_id, receipts_partition(spec.recovery, width), width)


def read_receipts(spec: JobSpec, target: MemoryBroker) -> list[Receipt]:
    """All receipts of the spec's recovery, by partition and start."""
    home = receipts_home(spec, target)
    pairs = ((record.key, record.value) for record in target.topic(home.topic).log(home.partition).read(home.start))
    values = newest_values(pairs, key_prefix(spec.scope, spec.recovery))
    return sorted((decode(Receipt, value) for value in values.values()), key=lambda r: (r.partition, r.start))


def verify(spec: JobSpec, source: MemoryBroker, target: MemoryBroker) -> Verification:
    """Every receipt's records, or the ranges of the spec, record by record. `skipped` when the spec wants no
    verification.
    """
    if not spec.receipts_topic:
        return _compare(spec, source, target)
    receipts = read_receipts(spec, target)
    wanted = sum(r.copied for r in receipts)
    if spec.verify == "none":
        return Verification("skipped", wanted, 0, "", why="verify is none")
    differences: list[Difference] = []
    found = 0
    for receipt in receipts:
        written = list(_written(spec, receipt, target))
        found += len(written)
        if written != source.topic(spec.source.topic).log(receipt.partition).read(receipt.start, receipt.stop):
            text = f"The target differs from [{receipt.start}, {receipt.stop})."
            differences.append(Difference("altered", receipt.partition, receipt.start, message=text))
    result = "mismatch" if differences else "match"
    ends = {p: log.high_watermark for p, log in enumerate(target.topic(spec.target.topic).logs)}
    return Verification(result, wanted, found, "", tuple(differences[:100]), scope="source", target_ends=ends)


def _compare(spec: JobSpec, source: MemoryBroker, target: MemoryBroker) -> Verification:
    """Partition by partition; of what differs in one, the first place is told."""
    ranges = {p.partition: p for lane in spec.lanes for p in lane.partitions}
    starts = dict(spec.target.starts)
    differences, wanted, found = [], 0, 0
    for partition, stop in spec.target.stops:
        log, planned = target.topic(spec.target.topic).log(partition), ranges.get(partition)
        written = log.read(starts.get(partition, 0), stop)
        expected = (
            [] if planned is None else source.topic(spec.source.topic).log(partition).read(planned.start, planned.stop)
        )
        wanted, found = wanted + len(expected), found + len(written)
        if written != expected:
            kind = "missing" if len(written) < len(expected) else "extra" if len(written) > len(expected) else "altered"
            text = f"Partition {partition} holds {len(written)} records, of {len(expected)} in the source."
            differences.append(Difference(kind, partition, None, partition, None, message=text))
    result, ends = "mismatch" if differences else "match", dict(spec.target.stops)
    return Verification(result, wanted, found, "", tuple(differences[:100]), scope="source", target_ends=ends)


def _written(spec: JobSpec, receipt: Receipt, target: MemoryBroker) -> Iterable[object]:
    for run in receipt.targets:
        log = target.topic(spec.target.topic).log(run.partition)
        for first, count in run.runs:
            yield from log.read(first, first + count)
