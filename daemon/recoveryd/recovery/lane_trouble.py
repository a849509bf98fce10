"""Each lane is judged by itself: one that fell silent, hears no directives, or makes no progress, costs the attempt
even while the others move. Then the copy as a whole: it may stand still although no lane of it is to blame.

This is for lanes of a running copy only (`recoveryd.recovery.proof_trouble` is for a verification). A lane that was
never heard may wait for a free slot of Spark; that is an error only when following the live head, because then no slot
ever becomes free.

A lane that waits for a transaction of somebody else says so itself after `attempts.stop_wait`, and names it. That says
more than that nothing moved, so such a lane is not judged before; and one that follows its source for ever may wait as
long as that takes. One that follows stands still while nothing comes, so its time counts from the last sample that
showed nothing left for it (`at_their_ends`).

One that only its rate keeps waiting says so, so that the controller's floor excuses nobody. What a lane cannot say is
that brokers keep it to its rate (`slow_ms`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from recoveryd.kernel.states import State
from recoveryd.live.slice import SampleHistory
from recoveryd.recovery.lane_shares import lane_shares, returned_at
from recoveryd.recovery.model import PartitionProgress, Recovery
from recoveryd.recovery.observed import Heard, Observed
from recoveryd.recovery.params import Params
from recoveryd.recovery.spec import Never
from recoveryd.recovery.stops.auto_stop import is_at_floor

SILENT, DEAF, STALLED, MISSING, UNHEARD = "silent", "deaf", "stalled", "missing", "unheard"
_SAY_THEMSELVES = frozenset({"starting", "blocked"})  # states in which a lane may wait for a transaction of others
_AT_ONCE_BYTES = 16 * 1024 * 1024  # as much as a lane asks a broker for at once
SAYING_MS = 60_000  # what waits for one begins to do so a little later than the clock that judges it


@dataclass(frozen=True, slots=True)
class LaneTrouble:
    """`kind` is one of those above. `lane` None: the copy, or the proof, as a whole. `at`: where it stalled, as the sum
    of its durable positions or the offsets that the proof has passed.
    """

    lane: int | None
    kind: str
    why: str
    at: int = 0


def lane_trouble(
    recovery: Recovery, seen: Observed, history: SampleHistory, now_ms: int, params: Params
) -> LaneTrouble | None:
    """The first lane that is in trouble, or the copy as a whole; None if nothing is wrong, or if the whole application
    is silent, which is not judged here: it may be the daemon that heard nothing.
    """
    plan, driver = recovery.plan, seen.driver
    if now_ms - seen.heard_ms > params.heartbeat_timeout_ms:
        return None
    if not seen.lanes:
        return _none(recovery, seen, now_ms, params)
    if plan is None or (driver is not None and driver.phase not in {"starting", "lanes"}):
        return None
    returned = returned_at(recovery, seen)
    for number, partitions in enumerate(plan.lanes):
        heard = seen.lanes.get(number)
        if heard is None and returned.keys() & set(partitions):
            continue  # it has returned, and an earlier daemon heard so
        if heard is None:
            found = _missing(recovery, seen, number, now_ms, params)
        else:
            found = silent_or_deaf(heard, "lane", now_ms, params)
            found = found or _stalled(recovery, seen, heard, partitions, history, now_ms, params)
        if found is not None:
            return found
    return _all_stalled(recovery, seen, history, now_ms, params)


def _none(recovery: Recovery, seen: Observed, now_ms: int, params: Params) -> LaneTrouble | None:
    """The driver sends heartbeats but no lane starts: a session or workers hang at their start."""
    waited_ms = now_ms - max(recovery.attempt.started_at_ms, seen.adopted_ms)
    if seen.driver is None or seen.driver.phase not in {"starting", "lanes"} or waited_ms <= params.stall_after_ms:
        return None
    return LaneTrouble(None, MISSING, f"no lane of it started in {waited_ms / 60_000:.0f} min")


def _missing(recovery: Recovery, seen: Observed, number: int, now_ms: int, params: Params) -> LaneTrouble | None:
    since_ms = max(recovery.attempt.started_at_ms, seen.adopted_ms)
    if recovery.plan is None or not recovery.plan.is_following or now_ms - since_ms <= params.launch_timeout_ms:
        return None
    waited_s = (now_ms - since_ms) / 1000
    if seen.adopted_ms:  # it may have started, and returned when an earlier daemon told it to: no failure
        why = f"lane {number} was not heard in {waited_s:.0f} s since the daemon's restart, others were"
        return LaneTrouble(number, UNHEARD, why)
    return LaneTrouble(number, MISSING, f"lane {number} did not start in {waited_s:.0f} s, others did")


def silent_or_deaf(heard: Heard, worker: str, now_ms: int, params: Params) -> LaneTrouble | None:
    """Whether nothing was heard of this `worker` (lane or task), or it hears nothing: it rests, as told long ago or
    without a lease, while others act on what was said since. One that said it is done may be silent.
    """
    told = heard.heartbeat
    silent_ms = now_ms - heard.received_ms
    if told.state != "done" and silent_ms > params.heartbeat_timeout_ms:
        why = f"nothing was heard of {worker} {told.lane} for {silent_ms / 1000:.0f} s"
        return LaneTrouble(told.lane, SILENT, why)
    deaf_ms = now_ms - heard.deaf_ms if heard.deaf_ms else 0
    if deaf_ms > params.heartbeat_timeout_ms:
        why = f"{worker} {told.lane} has not heard for {deaf_ms / 1000:.0f} s what the others are told"
        return LaneTrouble(told.lane, DEAF, why)
    return None


def _stalled(
    recovery: Recovery,
    seen: Observed,
    heard: Heard,
    partitions: tuple[int, ...],
    history: SampleHistory,
    now_ms: int,
    params: Params,
) -> LaneTrouble | None:
    """Nothing of the lane became durable for long, although it has records left and may copy them."""
    idle_ms = heard.idle_ms(now_ms)
    if recovery.state is not State.RUNNING or heard.heartbeat.state == "done" or idle_ms < params.stall_after_ms:
        return None
    members = frozenset(partitions)
    rows = [r for r in recovery.progress.partitions if r.partition in members]
    left = _left(rows, history)
    if left == 0 or idle_ms < _patience_ms(recovery, seen, [heard], rows, history, params):
        return None
    lane = heard.heartbeat.lane
    why = f"lane {lane} made nothing durable for {idle_ms / 60_000:.0f} min although {left} records are left for it"
    return LaneTrouble(lane, STALLED, why, sum(r.position for r in rows))


def at_their_ends(recovery: Recovery, seen: Observed, history: SampleHistory, now_ms: int) -> dict[str, object]:
    """What the newest sample changes of `seen`: which lanes of a copy that follows have nothing left, and whether
    none has. What is held counts as nothing where it may be held for ever. An end that was not told, or is that of
    another topic of the name, shows nothing: brokers that do not answer are what lanes hang at.
    """
    plan, newest, is_endless = recovery.plan, history.newest, isinstance(recovery.spec.source.stop, Never)
    if plan is None or newest is None or newest.topic_id != plan.source.topic_id:
        return {}
    ends = newest.high_watermark
    behind = {r.partition for r in recovery.progress.partitions if not _has_nothing_left(r, ends)}
    lanes, held = dict(seen.lanes), frozenset[int]()
    for number, heard in seen.lanes.items():
        passed = heard.held if is_endless else frozenset[int]()
        held |= passed
        if not behind.intersection(plan.lanes[number]) - passed:
            lanes[number] = replace(heard, ended_ms=now_ms)
    return {"lanes": lanes} | ({} if behind - held else {"ended_ms": now_ms})


def _has_nothing_left(row: PartitionProgress, ends: Mapping[int, int]) -> bool:
    stop = ends.get(row.partition) if row.stop is None else row.stop
    return stop is not None and row.position >= stop


def _left(rows: Sequence[PartitionProgress], history: SampleHistory) -> int:
    ends = history.samples[-1].high_watermark if history.samples else {}
    stops = [ends.get(r.partition, r.position) if r.stop is None else r.stop for r in rows]
    return sum(max(0, stop - r.position) for r, stop in zip(rows, stops, strict=True))


def _all_stalled(
    recovery: Recovery, seen: Observed, history: SampleHistory, now_ms: int, params: Params
) -> LaneTrouble | None:
    """Nothing at all became durable for long: lanes with records left did not start, or said that they are done."""
    left, idle_ms = recovery.progress.lag_records, seen.idle_ms(now_ms)
    may_copy = recovery.state is State.RUNNING and seen.progress_ms > 0 and left != 0
    if not may_copy or idle_ms < params.stall_after_ms:
        return None
    rows, lanes = recovery.progress.partitions, list(seen.lanes.values())
    if not any(heard.held for heard in lanes):
        idle_ms = min(idle_ms, now_ms - max(heard.held_ms for heard in lanes))
    if idle_ms < _patience_ms(recovery, seen, lanes, rows, history, params):
        return None
    why = f"no durable position moved for {idle_ms / 60_000:.0f} min although {left} records are left"
    return LaneTrouble(None, STALLED, why, sum(r.position for r in rows))


def _patience_ms(
    recovery: Recovery,
    seen: Observed,
    lanes: Sequence[Heard],
    rows: Sequence[PartitionProgress],
    history: SampleHistory,
    params: Params,
) -> float:
    """For how long these lanes, with these partitions, may make nothing durable."""
    held = frozenset[int]().union(*(heard.held for heard in lanes))
    is_held = bool(held) and _left([r for r in rows if r.partition not in held], history) == 0
    if is_held and isinstance(recovery.spec.source.stop, Never):
        return math.inf
    shares = lane_shares(recovery, seen)
    slow = slow_ms(recovery, (shares.get(heard.heartbeat.lane, 0.0) for heard in lanes), params)
    if is_held or any(heard.heartbeat.state in _SAY_THEMSELVES for heard in lanes):
        return max(params.stall_after_ms, params.stop_wait_ms, slow) + SAYING_MS
    return max(params.stall_after_ms, slow)


def slow_ms(recovery: Recovery, shares: Iterable[float], params: Params) -> float:
    """How long whoever has the least of these `shares` of the rate, 0 = none, takes at the controller's floor for what
    is fetched at once: brokers that keep it to its rate answer as late as that.
    """
    if not is_at_floor(recovery, params):
        return 0.0
    least = (recovery.effective_bytes_per_s or 0.0) * min((share for share in shares if share > 0), default=1.0)
    return _AT_ONCE_BYTES * 1000 / least if least > 0 else math.inf
