"""A recovery that ends because of a loss counts every lost offset in its completeness, also those that no lane met
before.
"""

import pytest

from recoveryd.kernel.states import State, StopReason
from recoveryd.recovery.model import CompletenessRow, Recovery
from recoveryd.recovery.spec import CaughtUp
from recoveryd_jobs.contract import DriverHeartbeat
from tests.builders.core import command, make_spec
from tests.builders.world import World


def failed_by_a_loss(world: World) -> Recovery:
    """After five seconds at five records/s per partition, the lane of partition 0 meets a hole; the other lane has not
    come that far.
    """
    world.feed(command("replay", spec=make_spec(stop=CaughtUp()) if world.live_per_s else make_spec()))
    world.second(5)
    world.applications["r1"].alive = False
    world.feed(DriverHeartbeat("r1", 1, "failed", 1, None, "data_lost", "offsets [25, 40) of partition 0 are gone"))
    failed = world.run_until(State.FAILED)
    assert (failed.stop.reason, failed.error_code) == (StopReason.DATA_LOST, "RCV-3001")
    assert [(p.position, p.lost) for p in failed.progress.partitions] == [(r.stop, r.lost) for r in failed.completeness]
    return failed


@pytest.mark.parametrize(
    ("starts", "ends", "rows"),
    [
        ({0: 40, 1: 45}, {}, [(40, 15), (45, 20)]),
        ({0: 40, 1: 10}, {}, [(40, 15), (25, 0)]),
        ({0: 400, 1: 400}, {}, [(100, 75), (50, 25)]),  # past the pinned end: only the planned offsets are lost
        ({}, {0: 25, 1: 60}, [(100, 75), (25, 0)]),  # log truncated to the position
        (
            {},
            {0: 60, 1: 60},
            [(25, 0), (25, 0)],
        ),  # log truncated after the position: the offsets that remain there are not lost
        ({}, {}, [(25, 0), (25, 0)]),
    ],
    ids=["both holes", "one hole", "all gone", "cut back at the position", "cut back behind it", "nothing to see"],
)
def test_offsets_that_no_lane_met_are_found_by_a_look_at_the_source(
    starts: dict[int, int], ends: dict[int, int], rows: list[tuple[int, int]]
) -> None:
    world = World(speed=5)
    world.log_starts |= starts
    world.ends |= ends
    failed = failed_by_a_loss(world)
    assert list(failed.completeness) == [
        CompletenessRow(partition, 0, stop, 25, 0, 0, lost) for partition, (stop, lost) in enumerate(rows)
    ]
    assert sum(r.unexplained for r in failed.completeness) == 0


def test_a_recovery_that_follows_loses_what_lies_before_the_new_start() -> None:
    world = World(speed=5)
    world.live_per_s = 1
    world.log_starts |= {0: 40, 1: 45}
    assert [(r.stop, r.lost) for r in failed_by_a_loss(world).completeness] == [(40, 15), (45, 20)]


def test_a_source_that_cannot_be_looked_at_is_not_waited_for_for_ever() -> None:
    world = World(speed=5)
    world.feed(command("replay"))
    world.second(5)
    world.applications["r1"].alive = False
    world.feed(DriverHeartbeat("r1", 1, "failed", 1, None, "data_lost", "offsets [25, 40) of partition 0 are gone"))
    before_ms, world.sees_source = world.now_ms, False
    failed = world.run_until(State.FAILED)
    assert [(r.stop, r.lost) for r in failed.completeness] == [(25, 0), (25, 0)]
    assert world.now_ms - before_ms <= 20_000


@pytest.mark.parametrize("set_back_ms", [0, 3_600_000])
def test_the_table_is_the_same_when_the_daemon_starts_again_meanwhile(set_back_ms: int) -> None:
    world = World(speed=5)
    world.log_starts |= {0: 40, 1: 45}
    world.feed(command("replay"))
    world.second(5)
    world.applications["r1"].alive = False
    world.feed(DriverHeartbeat("r1", 1, "failed", 1, None, "data_lost", "offsets [25, 40) of partition 0 are gone"))
    world.now_ms -= set_back_ms
    world.restart_daemon()
    failed = world.run_until(State.FAILED, seconds=60)
    assert [(r.stop, r.lost) for r in failed.completeness] == [(40, 15), (45, 20)]
