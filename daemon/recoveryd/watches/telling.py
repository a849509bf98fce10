"""What a watch tells about itself: progress, the sentence `why`, and the evidence of its end. Plain data, bounded."""

from collections.abc import Sequence

from recoveryd.kernel.numbers import finite
from recoveryd.watches.clauses import Clause, ClauseSum, worst_of
from recoveryd.watches.known import Span
from recoveryd.watches.model import WatchedPartition, WatchProgress


def make_progress(found: ClauseSum, evaluations: int) -> WatchProgress:
    return WatchProgress(
        lag_records=found.lag if found.planned else None,
        lag_seconds=finite(found.lag_s) if found.planned else None,
        coverage=found.known / found.planned if found.planned else 0.0,
        evaluations=evaluations,
        done=found.done,
        planned=found.planned,
        partitions=tuple(
            WatchedPartition(c.topic, c.partition, c.position, c.end, c.wanted, c.verdict.value, c.holds)
            for c in found.waiting
        ),
    )


def say_progress(found: ClauseSum) -> str:
    """One sentence: for how many partitions the condition holds, and why not for the worst of the others."""
    if not found.planned:
        return "no partition was seen yet"
    if not found.waiting:
        return f"all {found.planned} partitions are where they are wanted; it has to stay so"
    worst = found.waiting[0]
    place = f"{worst.topic} partition {worst.partition}"
    return f"{found.done} of {found.planned} partitions are where they are wanted; {place}: {worst.why}"


def make_evidence(clauses: Sequence[Clause], span: Span | None) -> dict[str, object]:
    """The numbers that the rule saw."""
    evidence: dict[str, object] = {"partitions_judged": len(clauses)}
    if span is not None:
        evidence |= {"evaluations": span.count, "span_ms": span.counted_ms - span.since_ms}
    rows = [
        {"topic": c.topic, "partition": c.partition, "position": c.position, "end": c.end, "lag_records": c.lag}
        | ({} if c.wanted is None else {"wanted": c.wanted})
        for c in worst_of(clauses)
    ]
    return {**evidence, "partitions": rows}
