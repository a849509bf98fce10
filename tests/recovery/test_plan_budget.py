"""The plan says what it would get of the common budget if it began now, and how its traffic is counted."""

from dataclasses import replace
from itertools import count

import pytest

from recoveryd.kernel.states import State
from recoveryd.recovery.model import DomainBudget, Plan, PlannedBudget, PlannedTraffic
from recoveryd.recovery.spec import Limits
from recoveryd.replay.spec import TargetRef
from tests.builders.core import command, make_spec, make_verification
from tests.builders.live_world import MAX, MIN, LiveWorld
from tests.builders.world import World

_offsets = count(1)


def planned(world: World, recovery: str = "r2", **limits: object) -> Plan:
    spec = make_spec(dry_run=True, limits=Limits(**limits), target=TargetRef("flights.v3"))  # type: ignore[arg-type]
    world.feed(command("replay", recovery, offset=next(_offsets), spec=spec))
    found = world.recovery(recovery)
    assert (found.state, found.plan is not None) == (State.PLANNED, True)
    assert found.plan is not None
    return found.plan


def budget_of(world: World, recovery: str = "r2", **limits: object) -> PlannedBudget:
    found = planned(world, recovery, **limits).budget
    assert found is not None
    return found


@pytest.mark.scenario("S-RUN-2")
def test_it_has_offsets_the_range_of_its_time_a_budget_and_the_label_of_its_traffic() -> None:
    plan = planned(World())
    assert [(p.partition, p.start, p.stop) for p in plan.partitions] == [(0, 0, 100), (1, 0, 50)]
    assert plan.eta_seconds is not None
    assert plan.eta_seconds.hi is not None
    assert plan.eta_seconds.lo < plan.eta_seconds.mid < plan.eta_seconds.hi
    assert plan.budget == PlannedBudget("unlimited", None, None, None, why="no limit is asked for")
    assert plan.traffic == PlannedTraffic("replay", "flights.v3")


@pytest.mark.scenario("S-RUN-2")
def test_a_rate_that_is_asked_for_is_its_budget() -> None:
    found = budget_of(World(), max_bytes_per_s=5e6, max_records_per_s=70.0)
    assert (found.mode, found.bytes_per_s, found.max_records_per_s) == ("fixed", 5e6, 70.0)


@pytest.mark.scenario("S-RUN-2")
def test_beside_live_traffic_it_would_begin_at_the_floor() -> None:
    world = LiveWorld()
    world.live(70)
    found = budget_of(world)
    assert (found.mode, found.bytes_per_s, found.floor_bytes_per_s) == ("controller", MIN, MIN)
    assert (found.ceiling_bytes_per_s, found.shared_with) == (MAX, 0)
    assert found.domains == (DomainBudget("main", MIN),)


@pytest.mark.scenario("S-RUN-2")
def test_beside_others_it_would_get_its_share_of_what_there_is_now_and_its_hash_stays() -> None:
    world = LiveWorld()
    world.live(70)
    alone = planned(world, "r2")
    world.feed(command("replay", spec=make_spec(), offset=1_000))
    world.live(130)
    assert world.recovery().effective_bytes_per_s == MAX
    half, third = planned(world, "r3"), budget_of(world, "r4", weight=0.5)
    assert half.budget is not None
    assert (half.budget.bytes_per_s, half.budget.shared_with) == (MAX / 2, 1)
    assert half.budget.domains == (DomainBudget("main", MAX),)
    assert half.budget.why == "its share of main 4,000 B/s now, with 1 others"
    assert third.bytes_per_s == pytest.approx(MAX / 3, abs=0.1)
    assert half.hash == alone.hash
    assert world.recovery().effective_bytes_per_s == MAX, "a plan takes nothing from those that run"


def test_what_only_reads_has_a_budget_and_writes_no_traffic() -> None:
    world = World()
    world.feed(command("verify", "v1", spec=replace(make_verification(), dry_run=True)))
    plan = world.recovery("v1").plan
    assert plan is not None
    assert plan.traffic is None
    assert plan.budget is not None
