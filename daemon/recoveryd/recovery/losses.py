"""Which planned offsets the source no longer holds when a recovery ends because of a loss.

The lane that met the loss put it into its receipts. Other lanes may not have come that far, so the source is sampled
once more after the end began: in every partition, planned offsets from the position on that the source no longer holds
are lost as well.
"""

from collections.abc import Iterable
from dataclasses import replace

from recoveryd.kernel.states import StopReason
from recoveryd.live.events import TopicSample
from recoveryd.recovery.case import Case
from recoveryd.recovery.events import LedgerPartition


def awaits_look(case: Case) -> bool:
    """True while a sample of the source that is newer than the end is awaited, for a few sample periods at most."""
    stop = case.recovery.stop
    if stop is None or stop.reason is not StopReason.DATA_LOST or _newest_look(case) is not None:
        return False
    return case.now_ms - case.end_began_ms < case.params.looks_ms


def with_losses(case: Case, ledger: tuple[LedgerPartition, ...]) -> tuple[LedgerPartition, ...]:
    """The ledger of a recovery that ends because of a loss, with the losses that no lane has met yet."""
    look = _newest_look(case)
    if look is None:
        return ledger
    stops = {p.partition: p.stop for p in case.plan.partitions}
    return tuple(_with_loss(row, stops.get(row.partition, row.position), look) for row in ledger)


def _with_loss(row: LedgerPartition, stop: int | None, look: TopicSample) -> LedgerPartition:
    start, high = look.log_start.get(row.partition), look.high_watermark.get(row.partition)
    gone = row.position if start is None else max(row.position, start if stop is None else min(start, stop))
    if stop is not None and high is not None and high <= gone < stop:
        gone = stop  # the log was truncated: the planned offsets behind its end will never come
    return replace(row, position=gone, lost=row.lost + gone - row.position)


def _newest_look(case: Case) -> TopicSample | None:
    plan, stop = case.recovery.plan, case.recovery.stop
    if plan is None or stop is None or stop.reason is not StopReason.DATA_LOST:
        return None
    samples: Iterable[TopicSample] = reversed(case.source_history.samples)
    return next(
        (s for s in samples if s.sampled_at_ms >= case.end_began_ms and s.topic_id == plan.source.topic_id), None
    )
