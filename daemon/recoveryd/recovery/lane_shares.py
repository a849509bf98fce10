"""Who works what: partitions to lanes (once, in the plan), parts of the rate to lanes (again with each directive), and parts of the caps.

A cap is one of the recovery, but a lane can only count its own copies. So each has an allowance, and the allowances add up to the cap. They stay as they are
over all attempts, because positions between two readings of the ledger are hearsay; only when every lane has returned and the ledger was read, what some
could not use is shared out among those that still have records. Lanes that follow never return by themselves, so `recoveryd.recovery.capping` says when they have to.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from recoveryd.recovery.model import Allowance, PlannedPartition, Progress, Recovery
from recoveryd.recovery.observed import Observed

FOLLOWING_WEIGHT = 1  # a lane that follows the head has no known end
NOTHING_SAMPLED: Mapping[int, int] = MappingProxyType({})
_GUESSED_RECORD_BYTES = 1024


def assign_lanes(partitions: tuple[PlannedPartition, ...], task_slots: int) -> tuple[tuple[int, ...], ...]:
    """Partitions with work, spread over at most `task_slots` lanes, largest first onto the lightest lane.

    More lanes than slots would leave some unstarted, which must not happen when following; so all partitions move at once.
    """
    busy = [p for p in partitions if p.stop is None or p.stop > p.start]
    lanes: list[list[PlannedPartition]] = [[] for _ in range(min(max(1, task_slots), len(busy)))]
    for item in sorted(busy, key=lambda p: (-_weight(p), p.partition)):
        min(lanes, key=lambda lane: (sum(_weight(p) for p in lane), len(lane))).append(item)
    return tuple(tuple(sorted(p.partition for p in lane)) for lane in lanes)


def _weight(partition: PlannedPartition) -> int:
    end = partition.high_watermark if partition.stop is None else partition.stop
    return max(1, end - partition.start)


def lane_shares(recovery: Recovery, observed: Observed) -> Mapping[int, float]:
    """Part of the recovery's rate per lane: by what is left to copy, so that lanes end together; a finished lane gets nothing."""
    plan = recovery.plan
    if plan is None or not plan.lanes:
        return {}
    positions = {p.partition: p for p in recovery.progress.partitions}
    left: dict[int, int] = {}
    for lane, members in enumerate(plan.lanes):
        heard = observed.lanes.get(lane)
        if heard and heard.heartbeat.state == "done":
            left[lane] = 0
        elif plan.is_following:
            left[lane] = FOLLOWING_WEIGHT
        else:
            left[lane] = sum(_left(positions[m].stop, positions[m].position) for m in members if m in positions)
    total = sum(left.values())
    if total == 0:
        return {lane: 1 / len(left) for lane in left}
    return {lane: round(n / total, 6) for lane, n in left.items()}


def allowances(recovery: Recovery) -> tuple[Allowance, ...]:
    """What each lane may copy: in proportion to what the plan gives it, equally when following, or as it was shared out again."""
    plan = recovery.plan
    if plan is None or recovery.allowances:
        return recovery.allowances
    planned = {p.partition: p for p in plan.partitions}
    weights = [0 if plan.is_following else sum(_weight(planned[m]) for m in lane) for lane in plan.lanes]
    return _shared(recovery.limits.max_records, recovery.limits.max_bytes, weights)


def shared_out_again(recovery: Recovery, ends: Mapping[int, int] = NOTHING_SAMPLED) -> tuple[Allowance, ...]:
    """The allowances when every lane has returned and positions are exact: what was copied, and a part of the rest for those with records left.

    `ends`: the newest end of each partition, for lanes that follow. () when no lane returned because of its allowance: another one would end the same way.
    """
    plan, limits, progress = recovery.plan, recovery.limits, recovery.progress
    if plan is None:
        return ()
    by_number = {p.partition: p for p in progress.partitions}
    lanes = [[by_number[m] for m in lane] for lane in plan.lanes]
    copied = [(sum(p.copied for p in lane), sum(p.bytes for p in lane)) for lane in lanes]
    weights = [sum(FOLLOWING_WEIGHT if p.stop is None else _left(p.stop, p.position) for p in lane) for lane in lanes]
    before = allowances(recovery)
    if not any(left and before[n].is_used_up(*copied[n]) for n, left in enumerate(weights)):
        return ()
    rest_records = None if limits.max_records is None else limits.max_records - progress.records
    rest_bytes = None if limits.max_bytes is None else limits.max_bytes - progress.bytes
    parts = _shared(rest_records, rest_bytes, weights)
    if plan.is_following and ends:
        behind = [sum(_left(ends.get(p.partition), p.position) for p in lane) for lane in lanes]
        parts = _by_need(rest_records, rest_bytes, behind, _record_bytes(progress))
    return tuple(
        Allowance(
            None if more.records is None else records + more.records, None if more.bytes is None else size + more.bytes
        )
        for (records, size), more in zip(copied, parts, strict=True)
    )


def returned_at(recovery: Recovery, observed: Observed) -> Mapping[int, int]:
    """Of a following recovery: positions of partitions whose lane has returned, because its part of a cap is used up.

    A daemon that became leader since did not hear its last word, so the counts say it too. Of a lane that runs they are behind, never ahead.
    """
    plan = recovery.plan
    if (
        plan is None
        or not plan.is_following
        or (recovery.limits.max_records, recovery.limits.max_bytes) == (None, None)
    ):
        return {}
    rows = {p.partition: p for p in recovery.progress.partitions}
    found: dict[int, int] = {}
    for number, (members, allowed) in enumerate(zip(plan.lanes, allowances(recovery), strict=True)):
        heard = observed.lanes.get(number)
        copied, size = sum(rows[m].copied for m in members), sum(rows[m].bytes for m in members)
        if heard.heartbeat.state == "done" if heard is not None else allowed.is_used_up(copied, size):
            found |= {m: rows[m].position for m in members}
    return found


def _by_need(records: int | None, size: int | None, behind: Sequence[int], record_bytes: int) -> tuple[Allowance, ...]:
    """To lanes that follow: first what each is behind its head, then equal parts, so that a trickle does not cost an attempt for each record."""
    wanted_bytes = [count * record_bytes for count in behind]
    return tuple(map(Allowance, fill_up(records, behind), fill_up(size, wanted_bytes)))


def _record_bytes(progress: Progress) -> int:
    return -(-progress.bytes // progress.records) if progress.records else _GUESSED_RECORD_BYTES


def _shared(records: int | None, size: int | None, weights: Sequence[int]) -> tuple[Allowance, ...]:
    return tuple(map(Allowance, share_out(records, weights), share_out(size, weights)))


def share_out(total: int | None, weights: Sequence[int]) -> list[int | None]:
    """Whole parts of `total` in proportion to the weights (equal when all are 0) that add up to it exactly; all None without a total."""
    if total is None:
        return [None] * len(weights)
    used = list(weights) if any(weights) else [1] * len(weights)
    whole = sum(used)
    parts = [total * weight // whole for weight in used]
    # What rounding left over goes to the largest remainders, the first lanes first among equals.
    order = sorted(range(len(used)), key=lambda i: (-(total * used[i] % whole), i))
    for i in order[: total - sum(parts)]:
        parts[i] += 1
    return list(parts)


def fill_up(total: int | None, needs: Sequence[int]) -> list[int | None]:
    """Whole parts of `total` that add up to it: what each needs and an equal part of the rest, or in proportion to the needs when there is too little."""
    if total is None or total < sum(needs):
        return share_out(total, needs)
    equal = share_out(total - sum(needs), [1] * len(needs))
    return [need + (more or 0) for need, more in zip(needs, equal, strict=True)]


def _left(stop: int | None, position: int) -> int:
    return 0 if stop is None else max(0, stop - position)
