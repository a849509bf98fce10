"""What each lane gets: its partitions (once, in the plan), its part of the rate (again with each directive), and its
part of the caps (`max_records`, `max_bytes`).

A cap is for the whole recovery, but a lane can only count its own copies. So each lane has an allowance, and the
allowances add up to the cap. They do not change between attempts, because positions between two readings of the ledger
are not exact. Only when every lane has returned and the ledger was read, what some lanes did not use is shared out
among those that still have records. Lanes that follow the live head never return by themselves, so
`recoveryd.recovery.capping` decides when they have to.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from recoveryd.recovery.model import Allowance, PartitionProgress, PlannedPartition, Progress, Recovery
from recoveryd.recovery.observed import Observed

FOLLOWING_WEIGHT = 1  # a lane that follows the head has no known end
NOTHING_SAMPLED: Mapping[int, int] = MappingProxyType({})
_GUESSED_RECORD_BYTES = 1024
_EQUALLY = 10  # one part in so many of the rate is shared out equally
_STEPS = 10**9  # shares are whole steps, rounded down, so that together they never exceed the rate


def assign_lanes(partitions: tuple[PlannedPartition, ...], task_slots: int) -> tuple[tuple[int, ...], ...]:
    """Partitions with work, spread over at most `task_slots` lanes, largest first onto the lightest lane.

    With more lanes than slots some would not start, which must not happen when following. So every lane runs from the
    start.
    """
    busy = [p for p in partitions if p.stop is None or p.stop > p.start]
    lanes: list[list[int]] = [[] for _ in range(min(max(1, task_slots), len(busy)))]
    lightest = [(0, 0, number) for number in range(len(lanes))]  # a heap of (weight, partitions, lane)
    for item in sorted(busy, key=lambda p: (-_weight(p), p.partition)):
        weight, count, number = lightest[0]
        heapq.heapreplace(lightest, (weight + _weight(item), count + 1, number))
        lanes[number].append(item.partition)
    return tuple(tuple(sorted(lane)) for lane in lanes)


def _weight(partition: PlannedPartition) -> int:
    end = partition.high_watermark if partition.stop is None else partition.stop
    return max(1, end - partition.start)


def worker_shares(recovery: Recovery, observed: Observed) -> Mapping[int, float]:
    """The part of the rate of each lane, or of each task while it is compared."""
    return reader_shares(observed) if recovery.is_proving else lane_shares(recovery, observed)


def lane_shares(recovery: Recovery, observed: Observed) -> Mapping[int, float]:
    """Each lane's part of the recovery's rate, by what it has left to copy, so that large lanes end together; a
    finished lane gets nothing.

    A tenth is shared out equally, so that a small lane is not kept waiting by a large one. Nothing is lost by that: the
    small lane ends sooner, and its part goes to the others.
    """
    plan = recovery.plan
    if plan is None or not plan.lanes:
        return {}
    positions = {p.partition: p for p in recovery.progress.partitions}
    left: dict[int, int] = {}
    following = plan.is_following  # looks at all partitions
    for lane, members in enumerate(plan.lanes):
        heard = observed.lanes.get(lane)
        if heard and heard.heartbeat.state == "done":
            left[lane] = 0
        elif following:
            left[lane] = FOLLOWING_WEIGHT
        else:
            left[lane] = sum(_left(positions[m].stop, positions[m].position) for m in members if m in positions)
    if not any(left.values()):
        left = dict.fromkeys(left, 1)
    return _by_what_is_left(left)


def reader_shares(observed: Observed) -> Mapping[int, float]:
    """The same of the tasks of a verification, by the offsets that each has left to read, as heard; those that were not
    heard yet are not in it. A task that is not done gets a part also when it has read everything: it may read records a
    second time.
    """
    beats = {task: heard.heartbeat for task, heard in observed.readers.items()}
    return _by_what_is_left(
        {
            task: 0 if beat.state == "done" else max(1, beat.offsets_to_verify - beat.verified_offsets)
            for task, beat in beats.items()
        }
    )


def _by_what_is_left(left: Mapping[int, int]) -> Mapping[int, float]:
    total, working = sum(left.values()), sum(n > 0 for n in left.values())
    return {number: _steps(n, total, working) / _STEPS if n else 0.0 for number, n in left.items()}


def _steps(left: int, total: int, working: int) -> int:
    return (_EQUALLY - 1) * _STEPS * left // (_EQUALLY * total) + _STEPS // (_EQUALLY * working)


def allowances(recovery: Recovery) -> tuple[Allowance, ...]:
    """What each lane may copy: in proportion to its part of the plan, equally when following, or as the caps were
    shared out again.
    """
    plan = recovery.plan
    if plan is None or recovery.allowances:
        return recovery.allowances
    planned = {p.partition: p for p in plan.partitions}
    following = plan.is_following  # looks at all partitions
    weights = [0 if following else sum(_weight(planned[m]) for m in lane) for lane in plan.lanes]
    return _shared(recovery.limits.max_records, recovery.limits.max_bytes, weights)


def shared_out_again(recovery: Recovery, ends: Mapping[int, int] = NOTHING_SAMPLED) -> tuple[Allowance, ...]:
    """New allowances, once every lane has returned and positions are exact: what each has copied, plus a part of the
    rest for lanes with records left.

    `ends`: the newest end of each partition, for lanes that follow. () when no lane returned because of its allowance:
    new allowances would change nothing.
    """
    plan, limits, progress = recovery.plan, recovery.limits, recovery.progress
    if plan is None:
        return ()
    by_number = {p.partition: p for p in progress.partitions}
    lanes = [[by_number[m] for m in lane] for lane in plan.lanes]
    copied = [_copied(lane) for lane in lanes]
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
    """Positions of the partitions of a following recovery whose lane has returned because its part of a cap is used up.

    A daemon that became leader later did not hear the lane's last heartbeat, so the counts are used too. For a running
    lane the counts may be behind, but never ahead.
    """
    plan = recovery.plan
    has_cap = recovery.limits.max_records is not None or recovery.limits.max_bytes is not None
    if plan is None or not has_cap or not plan.is_following:  # the last one looks at all partitions
        return {}
    rows = {p.partition: p for p in recovery.progress.partitions}
    found: dict[int, int] = {}
    for number, (members, allowed) in enumerate(zip(plan.lanes, allowances(recovery), strict=True)):
        heard = observed.lanes.get(number)
        copied = _copied(rows[m] for m in members)
        if heard.heartbeat.state == "done" if heard is not None else allowed.is_used_up(*copied):
            found |= {m: rows[m].position for m in members}
    return found


def returned_early(recovery: Recovery, observed: Observed) -> int | None:
    """The first lane of a following recovery that said it has returned, although its part of a cap is not used up by
    what it copied. One that follows does so only when it is told to.
    """
    done = sorted(number for number, heard in observed.lanes.items() if heard.heartbeat.state == "done")
    plan = recovery.plan
    if plan is None or not done or not plan.is_following:  # the last one looks at all partitions
        return None
    rows, allowed = {p.partition: p for p in recovery.progress.partitions}, allowances(recovery)
    early = (n for n in done if not allowed[n].is_used_up(*_copied(rows[m] for m in plan.lanes[n])))
    return next(early, None)


def _copied(lane: Iterable[PartitionProgress]) -> tuple[int, int]:
    """Records and bytes."""
    rows = list(lane)
    return sum(p.copied for p in rows), sum(p.bytes for p in rows)


def _by_need(records: int | None, size: int | None, behind: Sequence[int], record_bytes: int) -> tuple[Allowance, ...]:
    """Allowances of lanes that follow: first as much as each is behind the head, then equal parts, so that records
    which arrive slowly do not cost an attempt each.
    """
    wanted_bytes = [count * record_bytes for count in behind]
    return tuple(map(Allowance, fill_up(records, behind), fill_up(size, wanted_bytes)))


def _record_bytes(progress: Progress) -> int:
    return -(-progress.bytes // progress.records) if progress.records else _GUESSED_RECORD_BYTES


def _shared(records: int | None, size: int | None, weights: Sequence[int]) -> tuple[Allowance, ...]:
    return tuple(map(Allowance, share_out(records, weights), share_out(size, weights)))


def share_out(total: int | None, weights: Sequence[int]) -> list[int | None]:
    """Whole parts of `total` in proportion to the weights (equal when all are 0) that add up to it exactly; all None
    without a total.
    """
    if total is None:
        return [None] * len(weights)
    used = list(weights) if any(weights) else [1] * len(weights)
    whole = sum(used)
    parts = [total * weight // whole for weight in used]
    # The rest after rounding goes to the largest remainders, and among equal ones to the first lanes.
    order = sorted(range(len(used)), key=lambda i: (-(total * used[i] % whole), i))
    for i in order[: total - sum(parts)]:
        parts[i] += 1
    return list(parts)


def fill_up(total: int | None, needs: Sequence[int]) -> list[int | None]:
    """Whole parts of `total` that add up to it: what each needs plus an equal part of the rest, or in proportion to the
    needs when `total` is too small.
    """
    if total is None or total < sum(needs):
        return share_out(total, needs)
    equal = share_out(total - sum(needs), [1] * len(needs))
    return [need + (more or 0) for need, more in zip(needs, equal, strict=True)]


def _left(stop: int | None, position: int) -> int:
    return 0 if stop is None else max(0, stop - position)
