"""CAUGHT_UP: zero lag of a following recovery is a predicate, never a number.

One evaluation holds when, for every planned partition: its lane was heard within two periods (or has returned, so that its position stays) and *before* the ends were asked for, the topic is still the
same one, and the durable position is within what live traffic produces in one chunk and one period (or within ten seconds of it). Absent is unknown, never
zero. The maximum over partitions counts, never a sum. K evaluations in a row that span enough time make a candidate a stop; a lag of up to three times what
counts does not end the row, but does not count.
"""

from collections.abc import Mapping
from dataclasses import dataclass

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
    """What one partition looked like: `holds` only if observed, fresh and near the head."""

    partition: int
    holds: bool
    why: str
    position: int = -1
    end: int = -1
    tolerance: float = 0.0

    @property
    def is_near(self) -> bool:
        """Known, fresh, and within three times of what is near enough to count."""
        return 0 <= self.position <= self.end and self.end - self.position <= LEAVE_FACTOR * self.tolerance


def evaluate_caught_up(
    recovery: Recovery, seen: Observed, history: SampleHistory, now_ms: int, params: Params
) -> Candidate | None:
    """The candidate after the newest sample: one more evaluation, a new one, or None when any clause is violated."""
    if recovery.state is not State.RUNNING or recovery.plan is None or not history.samples:
        return None
    sample = history.samples[-1]
    if sample.topic_id != recovery.plan.source.topic_id:
        return None
    if recovery.spec.source.partitions is None and sample.partitions > recovery.plan.source.partitions:
        return None  # partitions were added that nobody copies yet
    before = seen.candidate
    returned = returned_at(recovery, seen)
    clauses = [judge_partition(p.partition, seen, history, now_ms, params, returned) for p in recovery.plan.partitions]
    if not all(c.holds for c in clauses):
        # Not left, but not counted either, while every violated clause is a lag within the hysteresis.
        return before if all(c.holds or c.is_near for c in clauses) else None
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
    return Candidate(since, count, evidence)


def is_caught_up(candidate: Candidate | None, now_ms: int, params: Params) -> bool:
    """Enough evaluations in a row, spanning enough time."""
    return (
        candidate is not None
        and candidate.count >= params.caught_up_evaluations
        and now_ms - candidate.since_ms >= params.caught_up_span_ms
    )


def judge_partition(
    partition: int, seen: Observed, history: SampleHistory, now_ms: int, params: Params, returned: Mapping[int, int]
) -> CaughtUpClause:
    """Whether this partition is near the head. One whose lane has `returned`, because its part of a cap is used up, stays where it is: only at the very end."""
    sample = history.samples[-1]
    end = sample.high_watermark.get(partition)
    if end is None:
        return CaughtUpClause(partition, False, "the broker did not answer for it")
    if now_ms - sample.sampled_at_ms > 2 * params.sample_period_ms:
        return CaughtUpClause(partition, False, "the sample of the ends is old")
    if len(history.samples) > 1 and end < history.samples[-2].high_watermark.get(partition, 0):
        return CaughtUpClause(partition, False, "the end moved back")
    found = returned[partition] if partition in returned else _heard_position(partition, seen, sample, now_ms, params)
    if isinstance(found, str):
        return CaughtUpClause(partition, False, found)
    tolerance = max(float(params.caught_up_epsilon_records), _live_rate(partition, history) * _grace_ms(params))
    if partition in returned:
        tolerance = 0.0
    lag = end - found
    if lag < 0:
        return CaughtUpClause(partition, False, "the position lies past the end")
    return CaughtUpClause(partition, lag <= tolerance, f"lag {lag}", found, end, tolerance)


def _heard_position(partition: int, seen: Observed, sample: TopicSample, now_ms: int, params: Params) -> int | str:
    """The newest position heard before the ends were asked for; a later one would understate the lag."""
    for latest in seen.lanes.values():
        if all(p.partition != partition for p in latest.heartbeat.positions):
            continue
        heard = latest if latest.received_ms <= sample.sampled_at_ms else latest.before
        if heard is None or heard.received_ms > sample.sampled_at_ms:
            return "its lane was not heard before the ends were asked for"
        if now_ms - heard.received_ms > 2 * params.sample_period_ms:
            return "its lane was not heard lately"
        return next(
            (p.position for p in heard.heartbeat.positions if p.partition == partition), "its lane was not heard"
        )
    return "its lane was never heard"


def _live_rate(partition: int, history: SampleHistory) -> float:
    """Records per ms at the head over the last samples, 0 with fewer than three."""
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
