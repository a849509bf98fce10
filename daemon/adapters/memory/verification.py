"""Comparing what simulated lanes wrote with what they read, receipt by receipt."""

from collections.abc import Iterable

from daemon.adapters.memory.kafka import MemoryBroker
from daemon.adapters.receipts import key_prefix, newest_values
from spark_jobs.contract import Difference, JobSpec, Receipt, VerificationReport, decode, receipts_partition


def read_receipts(spec: JobSpec, target: MemoryBroker) -> list[Receipt]:
    """All receipts of the spec's recovery, by partition and start."""
    topic = target.topic(spec.receipts_topic)
    log = topic.log(receipts_partition(spec.recovery, len(topic.logs)))
    pairs = ((record.key, record.value) for record in log.read(log.start))
    values = newest_values(pairs, key_prefix(spec.scope, spec.recovery))
    return sorted((decode(Receipt, value) for value in values.values()), key=lambda r: (r.partition, r.start))


def verify(spec: JobSpec, source: MemoryBroker, target: MemoryBroker) -> VerificationReport:
    """Every receipt's records, record by record. `skipped` when the spec wants no verification."""
    receipts = read_receipts(spec, target)
    wanted = sum(r.copied for r in receipts)
    if spec.verify == "none":
        return VerificationReport("skipped", wanted, 0, "", why="verify is none")
    differences: list[Difference] = []
    found = 0
    for receipt in receipts:
        written = list(_written(spec, receipt, target))
        found += len(written)
        if written != source.topic(spec.source.topic).log(receipt.partition).read(receipt.start, receipt.stop):
            text = f"The target differs from [{receipt.start}, {receipt.stop})."
            differences.append(Difference(receipt.partition, receipt.start, receipt.stop, "digest", text))
    result = "mismatch" if differences else "match"
    return VerificationReport(result, wanted, found, "", tuple(differences[:100]))


def _written(spec: JobSpec, receipt: Receipt, target: MemoryBroker) -> Iterable[object]:
    for run in receipt.targets:
        log = target.topic(spec.target.topic).log(run.partition)
        for first, count in run.runs:
            yield from log.read(first, first + count)
