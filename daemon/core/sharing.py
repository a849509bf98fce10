"""Who works what: partitions to lanes (once, in the plan) and parts of the rate to lanes (again with each directive)."""

from collections.abc import Mapping

from daemon.core.model import PlannedPartition, Recovery
from daemon.core.observed import Observed

FOLLOWING_WEIGHT = 1  # a lane that follows the head has no known end


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


def _left(stop: int | None, position: int) -> int:
    return 0 if stop is None else max(0, stop - position)
