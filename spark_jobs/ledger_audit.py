"""First half of the verification: do the receipts of a recovery fit together, and what do they promise about the target?

Shares no code with `spark_jobs.receipts`, which the lanes use: the ledger is read and folded a second time, from scratch. Apart from the reading it is
pure. What does not fit becomes a difference in the report and never an exception.
"""

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from confluent_kafka import OFFSET_BEGINNING, KafkaError, Message, TopicPartition

from spark_jobs.clients import QUICK_FETCH_WAIT_MS, make_reader
from spark_jobs.contract import Difference, JobSpec, PartitionRange, Receipt, decode, receipts_partition
from spark_jobs.errors import JobError

_PATIENCE_S = 120.0
_END = KafkaError._PARTITION_EOF  # noqa: SLF001  (the library's own codes begin with an underscore)


@dataclass(frozen=True, slots=True)
class Promise:
    """One receipt's records in one target partition: where they are said to be and what they hash to."""

    source_partition: int
    start: int  # of the receipt
    stop: int
    partition: int  # of the target
    count: int
    runs: tuple[tuple[int, int], ...]
    digest: str

    @property
    def name(self) -> str:
        return f"receipt [{self.start}, {self.stop}) of source partition {self.source_partition}"


def load(spec: JobSpec) -> list[Receipt]:
    """All committed receipts of the recovery, newest of each key. Raises JobError when the topic can not be read to its end in time."""
    client_id = f"recoveryd.{spec.recovery}.verifier"
    reader = make_reader(spec.target.client, client_id, 4 * 1024 * 1024, fetch_wait_ms=QUICK_FETCH_WAIT_MS)
    newest: dict[str, Receipt | None] = {}
    try:
        count = len(reader.list_topics(spec.receipts_topic, timeout=30.0).topics[spec.receipts_topic].partitions)
        home = TopicPartition(spec.receipts_topic, receipts_partition(spec.recovery, count), OFFSET_BEGINNING)
        end = _high_watermark(spec, client_id, home)
        reader.assign([home])
        position, give_up_s = 0, time.monotonic() + _PATIENCE_S
        while position < end:
            for message in reader.consume(2000, 0) or reader.consume(1, 0.5):
                offset = message.offset()
                if message.error() is None:
                    _keep(spec, message, newest)
                    position = (offset or 0) + 1
                elif message.error().code() == _END:  # type: ignore[union-attr]
                    position = max(position, offset or 0)
            if time.monotonic() > give_up_s:
                why = f"{spec.receipts_topic} partition {home.partition} can not be read past {position}, its end is {end}"
                raise JobError("stop_blocked", f"{why}: a foreign transaction holds it, or the broker does not answer.")
    finally:
        reader.close()
    return sorted((r for r in newest.values() if r is not None), key=lambda r: (r.partition, r.start))


def _high_watermark(spec: JobSpec, client_id: str, home: TopicPartition) -> int:
    """Where the log ends, open transactions included: a committed reader alone would stop before a foreign open one, and miss what is behind."""
    reader = make_reader(spec.target.client, client_id, 1024 * 1024, isolation="read_uncommitted")
    try:
        found = reader.get_watermark_offsets(TopicPartition(home.topic, home.partition), timeout=30.0, cached=False)
    finally:
        reader.close()
    if found is None:
        raise JobError("target_unavailable", f"The end of {spec.receipts_topic} is unknown: no answer.")
    return int(found[1])


def _keep(spec: JobSpec, message: Message, newest: dict[str, Receipt | None]) -> None:
    key, value = message.key(), message.value()
    scope, _, rest = (key or b"").decode("utf-8", "replace").partition("/")
    if scope == spec.scope and rest.startswith(f"{spec.recovery}/"):
        newest[rest] = None if value is None else decode(Receipt, value)


def promises(receipts: Iterable[Receipt]) -> list[Promise]:
    return [
        Promise(r.partition, r.start, r.stop, t.partition, t.count, t.runs, t.digest)
        for r in receipts
        for t in r.targets
    ]


def audit(receipts: list[Receipt], ranges: Iterable[PartitionRange], *, is_whole: bool) -> list[Difference]:
    """What is wrong with the ledger itself. `is_whole`: the receipts must reach each planned stop."""
    found: list[Difference] = []
    by_partition: dict[int, list[Receipt]] = defaultdict(list)
    for receipt in receipts:
        by_partition[receipt.partition].append(receipt)
    for planned in ranges:
        found += _audit_cover(planned, by_partition.pop(planned.partition, []), is_whole=is_whole)
    for partition, stray in by_partition.items():
        found.append(
            Difference(
                partition, stray[0].start, stray[-1].stop, "extra", f"Source partition {partition} is not in the plan."
            )
        )
    for receipt in receipts:
        found += _audit_sums(receipt)
    return found + _audit_runs(promises(receipts))


def _audit_cover(planned: PartitionRange, receipts: list[Receipt], *, is_whole: bool) -> list[Difference]:
    found, at, name = [], planned.start, f"source partition {planned.partition}"
    for receipt in receipts:
        if receipt.start > at:
            found.append(
                Difference(planned.partition, at, receipt.start, "missing", f"No receipt covers this part of {name}.")
            )
        elif receipt.start < at:
            found.append(
                Difference(planned.partition, receipt.start, at, "extra", f"Two receipts cover this part of {name}.")
            )
        at = max(at, receipt.stop)
    if planned.stop is not None and at > planned.stop:
        found.append(
            Difference(planned.partition, planned.stop, at, "extra", f"A receipt goes past the planned stop of {name}.")
        )
    if planned.stop is not None and at < planned.stop and is_whole:
        found.append(
            Difference(planned.partition, at, planned.stop, "missing", f"No receipt covers the end of {name}.")
        )
    return found


def _audit_sums(receipt: Receipt) -> list[Difference]:
    found = []
    explained = receipt.copied + receipt.filtered + receipt.skipped + receipt.lost
    if explained != receipt.stop - receipt.start:
        message = f"The receipt explains {explained} of {receipt.stop - receipt.start} offsets."
        found.append(Difference(receipt.partition, receipt.start, receipt.stop, "count", message))
    sent = sum(t.count for t in receipt.targets)
    if sent != receipt.copied:
        message = f"The receipt says {receipt.copied} copied and {sent} sent."
        found.append(Difference(receipt.partition, receipt.start, receipt.stop, "count", message))
    for target in receipt.targets:
        held = sum(count for _, count in target.runs)
        if held != target.count:
            message = (
                f"The receipt says {target.count} records in target partition {target.partition}, its runs hold {held}."
            )
            found.append(Difference(receipt.partition, receipt.start, receipt.stop, "count", message))
    return found


def _audit_runs(promised: list[Promise]) -> list[Difference]:
    """Runs of a source partition must ascend in its target partition (order is kept), and no two runs may overlap."""
    found = []
    last: dict[tuple[int, int], int] = {}
    for promise in promised:
        route = promise.source_partition, promise.partition
        for first, count in promise.runs:
            if first < last.get(route, 0):
                message = f"{promise.name}: its records stand before earlier ones of the same source partition."
                found.append(Difference(promise.partition, first, first + count, "extra", message))
            last[route] = max(last.get(route, 0), first + count)
    taken = sorted((p.partition, first, first + count, p.name) for p in promised for first, count in p.runs)
    for before, after in pairwise(taken):
        if before[0] == after[0] and after[1] < before[2] and before[3] != after[3]:
            message = f"{before[3]} and {after[3]} claim the same target offsets."
            found.append(Difference(after[0], after[1], min(before[2], after[2]), "extra", message))
    return found
