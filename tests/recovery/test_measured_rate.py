"""The measured speed of recoveries without a limit, which later plans use."""

from dataclasses import replace

import pytest

from recoveryd.kernel.states import State
from recoveryd.recovery.measured_rate import with_rate_of
from recoveryd.recovery.slice import RECOVERY
from recoveryd.recovery.spec import Limits
from tests.builders.core import command, make_facts, make_spec
from tests.builders.world import World


def running(limits: Limits) -> World:
    world = World(make_facts((10_000, 10_000)))
    world.feed(command("replay", spec=make_spec(limits=limits)))
    world.run_until(State.RUNNING)
    world.second(3)
    return world


def test_the_speed_of_an_unlimited_recovery_is_measured_whenever_a_lane_is_heard() -> None:
    world = running(Limits())
    first = world.state.of(RECOVERY).measured_bytes_per_s
    assert first is not None
    world.speed *= 10
    world.second(3)
    assert world.state.of(RECOVERY).measured_bytes_per_s > first
    world.feed(command("pause", "r1", "c2"))
    world.run_until(State.PAUSED)
    at_rest = world.state.of(RECOVERY).measured_bytes_per_s
    world.second(3)
    assert world.state.of(RECOVERY).measured_bytes_per_s == at_rest


@pytest.mark.parametrize("limits", [Limits(max_bytes_per_s=1e6), Limits(max_records_per_s=1e6)])
def test_the_speed_of_a_recovery_that_is_held_back_is_nobodys_measure(limits: Limits) -> None:
    assert running(limits).state.of(RECOVERY).measured_bytes_per_s is None


def test_a_tenth_of_the_difference_counts_and_a_rate_of_zero_not_at_all() -> None:
    recovery = running(Limits()).recovery()
    fast, still = (replace(recovery, progress=replace(recovery.progress, bytes_per_s=rate)) for rate in (4_000.0, 0.0))
    assert with_rate_of(fast, None) == 4_000.0
    assert with_rate_of(fast, 2_000.0) == 2_200.0
    assert with_rate_of(still, 2_000.0) == 2_000.0
    assert with_rate_of(None, 2_000.0) == 2_000.0
