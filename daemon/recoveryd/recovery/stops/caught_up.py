"""CAUGHT_UP: whether a following recovery has zero lag, as a predicate over all partitions and several samples.

One evaluation holds when, for every planned partition: its lane was heard within two sample periods and *before* the
ends were asked for (or has returned, so that its position stays), the topic is still the same one, and the lag is at
most the tolerance, which is what live traffic produces in one chunk and one period, or in ten seconds if that is more.
A partition without data is unknown, never at zero lag. The maximum over partitions counts, never a sum.
`caught_up_evaluations` in a row that span `caught_up_span_ms` are a stop. A lag of up to three times the tolerance does
not break the row, but does not count either.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from recoveryd.kernel.states import State
from recoveryd.live.events import TopicSample
from recoveryd.live.slice import SampleHistory
from recoveryd.recovery.lane_shares import returned_at
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.observed import Candidate, Observed
from recoveryd.recovery.params import Params

LEAVE_FACTOR = 3.0


@dataclass(frozen=True, slots=True)
class CaughtUpClause:
    """One partition in one evaluation: `holds` only if observed, fresh and near the head. `tolerance` in records."""

    partition: int
    holds: bool
    why: str
    position: int = -1
    end: int = -1
    tolerance: float = 0.0

    @property
    def is_near(self) -> bool:
        """Whether it is known, fresh, and within three times the tolerance."""
        return 0 <= self.position <= self.end and self.end - self.position <= LEAVE_FACTOR * self.tolerance


def evaluate_caught_up(
    recovery: Recovery, seen: Observed, history: SampleHistory, now_ms: int, params: Params
) -> Candidate | None:
    """The candidate after the newest sample: with one more evaluation, or None when a clause is violated."""
    if recovery.state is not State.RUNNING or recovery.plan is None or not history.samples:
        return None
    sample = history.samples[-1]
    if sample.topic_id != recovery.plan.source.topic_id:
        return None
    if recovery.spec.source.partitions is None and sample.partitions > recovery.plan.source.partitions:
        return None  # partitions were added that nobody copies yet
    before = seen.candidate
    returned = returned_at(recovery, seen)
    planned = [p.partition for p in recovery.plan.partitions]
    clauses = list(judge_partitions(planned, seen, history, now_ms, params, returned))
    if not all(c.holds for c in clauses):
        # While every violated clause is a lag within the hysteresis, the row goes on without counting this evaluation.
        return before if all(c.holds or c.is_near for c in clauses) else None
    if before is not None and before.sampled_ms == sample.sampled_at_ms:
        return before  # another topic was sampled
    count = before.count + 1 if before else 1
    since = before.since_ms if before else now_ms
    evidence = {
        "evaluations": count,
        "span_ms": now_ms - since,
        "partitions": [
            {"partition": c.partition, "position": c.position, "end": c.end, "tolerance": round(c.tolerance, 1)}
            for c in clauses
        ],
    }
    return Candidate(since, count, evidence, now_ms, sample.sampled_at_ms)


def is_caught_up(candidate: Candidate | None, now_ms: int, params: Params) -> bool:
    """Whether there were enough evaluations in a row over enough time, and the last one that held was not long ago."""
    return (
        candidate is not None
        and candidate.count >= params.caught_up_evaluations
        and candidate.counted_ms - candidate.since_ms >= params.caught_up_span_ms
        and now_ms - candidate.counted_ms <= 2 * params.sample_period_ms
    )


def judge_partitions(
    partitions: Iterable[int],
    seen: Observed,
    history: SampleHistory,
    now_ms: int,
    params: Params,
    returned: Mapping[int, int],
) -> Iterator[CaughtUpClause]:
    """Of each partition, whether it is near the head. If its lane has `returned`, because its part of a cap is used up,
    it must be at the very end, since its position stays.
    """
    heard = _heard_positions(seen, history.samples[-1], now_ms, params)
    held = frozenset[int]().union(*(latest.held for latest in seen.lanes.values()))
    for partition in partitions:
        found = returned.get(partition, heard.get(partition, "its lane was never heard"))
        clause = _judge(partition, found, history, now_ms, params, stays=partition in returned)
        is_kept = partition in held and not clause.holds
        yield replace(clause, why=f"{clause.why}, held by a foreign transaction") if is_kept else clause


def _judge(
    partition: int, found: int | str, history: SampleHistory, now_ms: int, params: Params, *, stays: bool
) -> CaughtUpClause:
    sample = history.samples[-1]
    end = sample.high_watermark.get(partition)
    if end is None:
        return CaughtUpClause(partition, False, "the broker did not answer for it")
    if now_ms - sample.sampled_at_ms > 2 * params.sample_period_ms:
        return CaughtUpClause(partition, False, "the sample of the ends is old")
    if len(history.samples) > 1 and end < history.samples[-2].high_watermark.get(partition, 0):
        return CaughtUpClause(partition, False, "the end moved back")
    if isinstance(found, str):
        return CaughtUpClause(partition, False, found)
    tolerance = 0.0 if stays else _live_rate(partition, history) * _grace_ms(params)
    lag = end - found
    if lag < 0:
        return CaughtUpClause(partition, False, "the position lies past the end")
    return CaughtUpClause(partition, lag <= tolerance, f"lag {lag}", found, end, tolerance)


def _heard_positions(seen: Observed, sample: TopicSample, now_ms: int, params: Params) -> dict[int, int | str]:
    """By partition: the newest position heard before the ends were asked for (a later one would understate the lag), or
    a sentence why there is none.
    """
    found: dict[int, int | str] = {}
    for latest in seen.lanes.values():
        heard = latest if latest.received_ms <= sample.sampled_at_ms else latest.before
        missing, positions = "its lane was not heard", dict[int, int]()
        if heard is None or heard.received_ms > sample.sampled_at_ms:
            missing = "its lane was not heard before the ends were asked for"
        elif now_ms - heard.received_ms > 2 * params.sample_period_ms:
            missing = "its lane was not heard lately"
        else:
            positions = {p.partition: p.position for p in heard.heartbeat.positions}
        for told in latest.heartbeat.positions:
            found.setdefault(told.partition, positions.get(told.partition, missing))
    return found


def _live_rate(partition: int, history: SampleHistory) -> float:
    """Records per ms that arrive at the head, over the last samples; 0 with fewer than three."""
    samples = [s for s in history.samples if partition in s.high_watermark]
    if len(samples) < 3:
        return 0.0
    first, last = samples[0], samples[-1]
    elapsed = last.sampled_at_ms - first.sampled_at_ms
    return (
        max(0.0, (last.high_watermark[partition] - first.high_watermark[partition]) / elapsed) if elapsed > 0 else 0.0
    )


def _grace_ms(params: Params) -> float:
    return max(params.chunk_max_ms + params.sample_period_ms, 2 * params.chunk_max_ms, 10_000)
