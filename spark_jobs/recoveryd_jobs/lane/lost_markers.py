"""Ends a transaction of ours that a broker forgot to end: abandoned records in the target without an abort marker.

A broker that comes back from a freeze may find a partition without a leader for a moment, take it for deleted, and drop
the marker of a transaction that it has just aborted (Kafka 4.3, TransactionMarkerChannelManager: "likely deleted
already and hence can be skipped"). The records then look like the beginning of this producer's next transaction on that
partition, and its commit marker would make them visible: duplicates. So before the first chunk after a doubt the lane
writes one record there and aborts: that marker ends the forgotten transaction too. No committed reader sees either.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from recoveryd_jobs.contract import JobSpec, LaneSpec, Receipt
from recoveryd_jobs.errors import Doubt, Redo
from recoveryd_jobs.sinks.transactional import TransactionalTarget
from recoveryd_jobs.topics import LogBounds, NoAnswer, Topic

_KEY = b"recoveryd: ends a transaction that lost its marker"


def target_partitions(spec: JobSpec, lane: LaneSpec) -> list[int]:
    """Every target partition that the lane may have written to."""
    if spec.target.mapping == "key_hash":
        return list(range(spec.target.partitions))
    return [r.partition for r in lane.partitions]


def left_open(
    bounds: dict[int, LogBounds], receipts: Iterable[Receipt], known: Mapping[int, int] = MappingProxyType({})
) -> list[int]:
    """Partitions with an open transaction, unless it is one of ours that a receipt calls committed.

    `known`: by target partition, where our records end by earlier receipts. A committed transaction that lost its
    commit marker is ended by the next chunk's marker; an abort would take its records away.
    """
    claimed: dict[int, int] = dict(known)
    for receipt in receipts:
        for run in receipt.targets:
            last = max((first + count for first, count in run.runs), default=0)
            claimed[run.partition] = max(claimed.get(run.partition, 0), last)
    return sorted(p for p, b in bounds.items() if b.stable < b.high and claimed.get(p, 0) <= b.stable)


def end_abandoned(
    target: TransactionalTarget,
    topic: Topic,
    partitions: Iterable[int],
    receipts: Iterable[Receipt],
    deadline_s: float,
    known: Mapping[int, int] = MappingProxyType({}),
) -> list[int]:
    """Call it right after `TransactionalTarget.open`, when no transaction of ours is open. Returns the partitions it
    wrote a marker to.

    Another producer's open transaction looks the same from outside; one more aborted record does it no harm. Raises
    Doubt when the target does not answer.
    """
    try:
        wanted = left_open(topic.bounds(partitions), receipts, known)
    except NoAnswer as silence:
        raise Doubt(f"what is open in the target: {silence}") from None
    if not wanted:
        return []
    target.begin()
    try:
        for partition in wanted:
            target.send(topic.name, b"", _KEY, partition)
        target.flush(deadline_s)
    except Redo as problem:
        raise Doubt(f"a lost marker cannot be written again: {problem}") from None
    target.abort()
    return wanted
