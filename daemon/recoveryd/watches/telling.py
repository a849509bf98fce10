"""What a watch tells about itself: progress, the sentence `why`, and the evidence of its end. Plain data, bounded."""

from collections.abc import Sequence

from recoveryd.kernel.numbers import finite
from recoveryd.watches.judge import Clause
from recoveryd.watches.known import Span
from recoveryd.watches.model import WatchedPartition, WatchProgress

_LISTED_MOST = 50


def make_progress(clauses: Sequence[Clause], evaluations: int) -> WatchProgress:
    lags = [c.lag for c in clauses if c.lag is not None]
    seconds = [c.lag_s for c in clauses if c.lag_s is not None]
    known = sum(1 for c in clauses if c.is_known)
    return WatchProgress(
        lag_records=sum(lags) if clauses and len(lags) == len(clauses) else None,
        lag_seconds=finite(max(seconds)) if clauses and len(seconds) == len(clauses) else None,
        coverage=known / len(clauses) if clauses else 0.0,
        evaluations=evaluations,
        done=sum(1 for c in clauses if c.holds),
        planned=len(clauses),
        partitions=tuple(
            WatchedPartition(c.topic, c.partition, c.position, c.end, c.wanted, c.verdict.value, c.holds)
            for c in _worst([c for c in clauses if not c.holds])
        ),
    )


def say_progress(clauses: Sequence[Clause]) -> str:
    """One sentence: for how many partitions the condition holds, and why not for the worst of the others."""
    waiting = [c for c in clauses if not c.holds]
    if not clauses:
        return "no partition was seen yet"
    if not waiting:
        return f"all {len(clauses)} partitions are where they are wanted; it has to stay so"
    worst = _worst(waiting)[0]
    place = f"{worst.topic} partition {worst.partition}"
    return f"{len(clauses) - len(waiting)} of {len(clauses)} partitions are where they are wanted; {place}: {worst.why}"


def make_evidence(clauses: Sequence[Clause], span: Span | None) -> dict[str, object]:
    """The numbers that the rule saw."""
    evidence: dict[str, object] = {"partitions_judged": len(clauses)}
    if span is not None:
        evidence |= {"evaluations": span.count, "span_ms": span.counted_ms - span.since_ms}
    rows = [
        {"topic": c.topic, "partition": c.partition, "position": c.position, "end": c.end, "lag_records": c.lag}
        | ({} if c.wanted is None else {"wanted": c.wanted})
        for c in _worst(clauses)
    ]
    return {**evidence, "partitions": rows}


def _worst(clauses: Sequence[Clause]) -> list[Clause]:
    """Unknown ones first, then those with the most left; bounded."""
    return sorted(clauses, key=lambda c: (c.lag is not None, -_left(c), c.topic, c.partition))[:_LISTED_MOST]


def _left(clause: Clause) -> int:
    if clause.wanted is not None and clause.position is not None:
        return clause.wanted - clause.position
    return clause.lag or 0
