"""The conditions that end a running recovery by themselves. The first that holds wins; each has its own reason code."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State, StopReason
from recoveryd.live.budgets import Mode
from recoveryd.recovery.limits import floor_bytes_per_s, mode_of
from recoveryd.recovery.model import Allowance, Recovery
from recoveryd.recovery.observed import Observed
from recoveryd.recovery.params import Params
from recoveryd.recovery.spec import CaughtUp
from recoveryd.recovery.stops.caught_up import is_caught_up
from recoveryd.recovery.stops.conditions import IDLE_AFTER_MS, event_time, idle, retention_race
from recoveryd.recovery.stops.log_ends import head_states, wants_heads


@dataclass(frozen=True, slots=True)
class StopVerdict:
    """Stop for `reason`. `end`: the terminal state after the drain; `evidence`: the numbers that the rule saw; `code`:
    of an end that nobody wanted.
    """

    reason: StopReason
    end: State
    why: str
    mode: str | None = None
    evidence: Mapping[str, object] = field(default_factory=dict)
    code: Code | None = None


def judge(recovery: Recovery, seen: Observed, now_ms: int, params: Params) -> StopVerdict | None:
    """Why the recovery, whose lanes or verification run, must stop now; None to go on. A verification ends by its time
    alone. What is wrong with lanes or tasks, also that they stall, costs the attempt first
    (`recoveryd.recovery.lane_trouble`, `recoveryd.recovery.proof_trouble`).
    """
    late = timed_out(recovery, now_ms)
    if late is not None or recovery.is_proving:
        return late
    return (
        _caught_up(recovery, seen, now_ms, params)
        or _by_heads(recovery, seen, now_ms, params)
        or _retention_race(recovery, seen)
    )


def capped(recovery: Recovery) -> StopVerdict | None:
    """For a recovery whose lanes have all returned: whether, by the ledger, `max_records` or `max_bytes` is used up."""
    limits, progress = recovery.limits, recovery.progress
    if not Allowance(limits.max_records, limits.max_bytes).is_used_up(progress.records, progress.bytes):
        return None
    evidence = {
        "records": progress.records,
        "bytes": progress.bytes,
        "max_records": limits.max_records,
        "max_bytes": limits.max_bytes,
    }
    if limits.max_records is not None and progress.records >= limits.max_records:
        return StopVerdict(
            StopReason.MAX_RECORDS,
            State.STOPPED,
            f"{progress.records:,} records copied, the limit is {limits.max_records:,}",
            None,
            evidence,
        )
    return StopVerdict(
        StopReason.MAX_BYTES,
        State.STOPPED,
        f"{progress.bytes:,} bytes copied, the limit is {limits.max_bytes:,}",
        None,
        evidence,
    )


def timed_out(recovery: Recovery, now_ms: int) -> StopVerdict | None:
    """Whether the time that the command allows is over. It passes in a pause too."""
    return _deadline(recovery, now_ms) or _max_runtime(recovery, now_ms)


def _deadline(recovery: Recovery, now_ms: int) -> StopVerdict | None:
    deadline = recovery.limits.deadline_ms
    if deadline is None or now_ms < deadline:
        return None
    return StopVerdict(
        StopReason.DEADLINE,
        State.STOPPED,
        "the deadline of the command has come",
        None,
        {"deadline_ms": deadline, "now_ms": now_ms},
    )


def _max_runtime(recovery: Recovery, now_ms: int) -> StopVerdict | None:
    allowed, started = recovery.limits.max_runtime_ms, recovery.started_ms
    if allowed is None or started is None or now_ms - started < allowed:
        return None
    why = f"it ran {(now_ms - started) / 1000:.0f} s, the limit is {allowed / 1000:.0f} s"
    return StopVerdict(
        StopReason.MAX_RUNTIME, State.STOPPED, why, None, {"started_ms": started, "max_runtime_ms": allowed}
    )


def _caught_up(recovery: Recovery, seen: Observed, now_ms: int, params: Params) -> StopVerdict | None:
    if not isinstance(recovery.spec.source.stop, CaughtUp) or not is_caught_up(seen.candidate, now_ms, params):
        return None
    assert seen.candidate is not None
    span_s = (seen.candidate.counted_ms - seen.candidate.since_ms) / 1000
    why = (
        f"every partition was copied to where its live head had been {params.head_grace_ms / 1000:.0f} s before, in "
        f"{seen.candidate.count} evaluations over {span_s:.0f} s"
    )
    return StopVerdict(StopReason.ZERO_LAG, State.COMPLETED, why, "caught_up", seen.candidate.evidence)


def is_at_floor(recovery: Recovery, params: Params) -> bool:
    """Whether the controller holds it at its floor."""
    rate = recovery.effective_bytes_per_s
    is_controlled = mode_of(recovery.limits, recovery.spec, params) is Mode.CONTROLLED
    return is_controlled and rate is not None and rate <= floor_bytes_per_s(recovery, params)


def _by_heads(recovery: Recovery, seen: Observed, now_ms: int, params: Params) -> StopVerdict | None:
    """EVENT_TIME and IDLE, if the command sets these limits; not before lanes were heard and a durable position is
    known.
    """
    limits = recovery.limits
    if not wants_heads(recovery) or recovery.state is not State.RUNNING or not seen.lanes:
        return None
    heads, planned = (
        head_states(recovery, seen, now_ms, params),
        frozenset(p.partition for p in recovery.progress.partitions),
    )
    idle_ms = limits.idle_ms or IDLE_AFTER_MS
    found = None
    if limits.event_time_ms is not None:
        found = event_time(heads, planned, limits.event_time_ms, now_ms, idle_ms)
    if found is None and limits.idle_ms is not None:
        found = idle(heads, planned, max(seen.progress_ms, seen.adopted_ms), now_ms, idle_ms)
    if found is None:
        return None
    return StopVerdict(found.reason, State.STOPPED, found.why, None, found.evidence)


def _retention_race(recovery: Recovery, seen: Observed) -> StopVerdict | None:
    """Stop when two forecasts in a row say that retention will be faster.

    Not when a loss is allowed. Not when the record at the position is past retention already but the replay is faster
    than real time: the record is still there, since deletion waits for whole segments, and only going on can save it.
    """
    found = seen.forecast
    spec = recovery.spec
    if recovery.state is not State.RUNNING or spec.on_data_loss != "fail":
        return None
    if found is None:
        return None
    condition = retention_race(found, seen.track)
    if condition is None or (found.loss_in_s <= 0 and found.speed_up >= 1):
        return None
    return StopVerdict(condition.reason, State.STOPPED, condition.why, None, condition.evidence, Code.RETENTION_RACE)
