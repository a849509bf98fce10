"""CAUGHT_UP: whether a following recovery has zero lag, as a predicate over all partitions and several samples.

One evaluation holds when, for every planned partition: its lane was heard within two sample periods and *before* the
ends were asked for (or has returned, so that its position stays), the topic is still the same one, and the position has
reached where the log ended one grace ago, which is the time of one chunk and one period, of two chunks, or ten seconds,
whichever is longest. So all that is older is copied, however much came at once (`recoveryd.live.past_ends`).
A partition without data is unknown, never at zero lag. The one that is furthest behind counts, never a mean.
`caught_up_evaluations` in a row that span `caught_up_span_ms` are a stop. A position that is up to three graces behind,
or as many as the looks that are kept reach back, does not break the row, but does not count either.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from recoveryd.kernel.states import State
from recoveryd.live.events import TopicSample
from recoveryd.live.past_ends import end_before
from recoveryd.live.slice import SampleHistory
from recoveryd.recovery.lane_shares import returned_at
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.observed import Candidate, Observed
from recoveryd.recovery.params import LEAVE_FACTOR, Params


@dataclass(frozen=True, slots=True)
class CaughtUpClause:
    """One partition in one evaluation: `holds` only if observed, fresh and at or behind `wanted`, the end of one grace
    ago. `is_near`: known, fresh, and no more than three graces behind.
    """

    partition: int
    holds: bool
    why: str
    position: int = -1
    end: int = -1
    wanted: int = -1
    is_near: bool = False


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
        # While every partition is within the hysteresis, the row goes on without counting this evaluation.
        return before if all(c.is_near for c in clauses) else None
    if before is not None and before.sampled_ms == sample.sampled_at_ms:
        return before  # another topic was sampled
    count = before.count + 1 if before else 1
    since = before.since_ms if before else now_ms
    evidence = {
        "evaluations": count,
        "span_ms": now_ms - since,
        "grace_ms": params.head_grace_ms,
        "partitions": [
            {"partition": c.partition, "position": c.position, "end": c.end, "wanted": c.wanted} for c in clauses
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
    if end < _end_of_look_before(partition, history):
        return CaughtUpClause(partition, False, "the end moved back")
    if isinstance(found, str):
        return CaughtUpClause(partition, False, found)
    if found > end:
        return CaughtUpClause(partition, False, "the position lies past the end")
    wanted = end if stays else _wanted(partition, history, params, 1)
    holds = found >= wanted
    is_near = holds or (not stays and found >= _wanted(partition, history, params, LEAVE_FACTOR))
    return CaughtUpClause(partition, holds, f"lag {end - found}", found, end, wanted, is_near)


def _end_of_look_before(partition: int, history: SampleHistory) -> int:
    """By the last look before the newest that knows the partition; 0 = there is none."""
    looks = (s.high_watermark[partition] for s in reversed(history.samples[:-1]) if partition in s.high_watermark)
    return next(looks, 0)


def _wanted(partition: int, history: SampleHistory, params: Params, graces: int) -> int:
    return end_before(history, partition, graces * params.head_grace_ms, 2 * params.sample_period_ms)


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
