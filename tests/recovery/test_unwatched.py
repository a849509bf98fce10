"""Recoveries in controller mode where nothing is protected: together they take no more of a cluster than the config
allows.
"""

from dataclasses import replace

import pytest

from recoveryd.kernel.states import State
from recoveryd.live.law.types import ControllerParams
from recoveryd.recovery.params import Params
from recoveryd.recovery.spec import Limits
from tests.builders.core import command, make_facts, make_spec
from tests.builders.live_world import LATENCY, MAX, MIN, LiveWorld, make_params
from tests.builders.world import PARAMS, World

MOST = 100_000_000.0
ALWAYS = replace(PARAMS, control=replace(PARAMS.control, default_mode="controller", max_bytes_per_s=MOST))
LEAST = ALWAYS.control.min_bytes_per_s
# Another cluster is protected, so nothing is divided between two of its steps.
ELSEWHERE = replace(
    ALWAYS,
    control=replace(ALWAYS.control, period_ms=10_000),
    live=replace(ALWAYS.live, domains={"other": ControllerParams(protections=(LATENCY,), period_ms=10_000)}),
)


def started(world: World, *limits: Limits) -> World:
    for number, each in enumerate(limits, start=1):
        spec = make_spec(limits=each)
        spec = replace(spec, target=replace(spec.target, topic=f"copy{number}"))
        world.feed(command("replay", f"r{number}", f"c{number}", offset=number, spec=spec))
    for number in range(1, len(limits) + 1):
        world.run_until(State.RUNNING, recovery_id=f"r{number}")
    world.second(12)
    return world


def rates(world: World, *numbers: int) -> list[float | None]:
    return [world.recovery(f"r{number}").effective_bytes_per_s for number in numbers]


def test_one_alone_has_its_ceiling() -> None:
    world = started(World(make_facts((0, 10_000_000)), ALWAYS), Limits())
    assert rates(world, 1) == [MOST]
    assert world.recovery().rule == "no protected cluster is touched: its own ceiling"


@pytest.mark.parametrize("most", [LEAST / 2, LEAST])
def test_one_that_may_have_no_more_than_the_floor_waits_for_no_division(most: float) -> None:
    world = started(World(make_facts((0, 10_000_000)), ALWAYS), Limits(max_bytes_per_s=most))
    assert rates(world, 1) == [most]
    assert world.recovery().rule == "no protected cluster is touched: its own ceiling"


def test_several_share_what_all_may_take_by_weight_and_ceiling_and_get_it_back() -> None:
    world = World(make_facts((0, 10_000_000)), ALWAYS)
    started(world, Limits(), Limits(weight=2.0), Limits(max_bytes_per_s=10_000_000.0))
    assert rates(world, 1, 2, 3) == pytest.approx([30_000_000.0, 60_000_000.0, 10_000_000.0])
    assert world.recovery("r2").rule.endswith("its part of control.max_bytes_per_s, which others have too")
    world.feed(command("stop", "r2", "c9", offset=9))
    world.run_until(State.STOPPED, recovery_id="r2")
    world.second(5)
    assert rates(world, 1, 3) == pytest.approx([90_000_000.0, 10_000_000.0])


def test_a_plan_says_the_part_that_it_would_have() -> None:
    world = started(World(make_facts((0, 10_000_000)), ALWAYS), Limits())
    for number, weight in enumerate((1.0, 3.0), start=2):
        spec = make_spec(dry_run=True, limits=Limits(weight=weight))
        spec = replace(spec, target=replace(spec.target, topic=f"copy{number}"))
        world.feed(command("replay", f"r{number}", f"c{number}", offset=number, spec=spec))
    budgets = [plan.budget for n in (1, 2, 3) if (plan := world.recovery(f"r{n}").plan) is not None]
    assert [(b.bytes_per_s, b.shared_with) for b in budgets if b] == [(MOST, 0), (MOST / 2, 1), (MOST * 3 / 4, 1)]
    assert budgets[1] is not None
    assert budgets[1].why.endswith("its part of control.max_bytes_per_s now, with 1 others")


def test_one_with_a_rate_of_its_own_mode_shares_nothing() -> None:
    world = World(make_facts((0, 10_000_000)), ALWAYS)
    started(world, Limits(), Limits(mode="fixed", max_bytes_per_s=70_000_000.0), Limits(mode="unlimited"))
    assert rates(world, 1, 2, 3) == [MOST, 70_000_000.0, None]


def most_together(world: World, seconds: int) -> float:
    """The most that recoveries may take together, now or at the end of one of these seconds: by the newest directive of
    each.
    """
    most = 0.0
    for second in range(seconds + 1):
        world.second(min(1, second))
        newest = {d.recovery: d for d in world.directives}
        most = max(most, sum(d.max_bytes_per_s for d in newest.values() if d.wanted == "run"))
    return most


@pytest.mark.parametrize("params", [ALWAYS, ELSEWHERE])
@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_a_throttle_tells_no_more_than_it_had_until_the_others_are_told_less(params: Params, weight: float) -> None:
    world = started(World(make_facts((0, 10_000_000)), params), Limits(), Limits())
    told = len(world.directives)
    world.feed(command("throttle", "r1", "c9", offset=9, weight=weight))
    assert [(d.recovery, d.max_bytes_per_s) for d in world.directives[told:]] == [("r1", MOST / 2)]
    assert most_together(world, 25) == pytest.approx(MOST)
    part = MOST * weight / (weight + 1.0)
    assert rates(world, 1, 2) == pytest.approx([part, MOST - part])


@pytest.mark.parametrize("params", [ALWAYS, ELSEWHERE])
def test_one_that_goes_on_begins_at_the_floor_since_others_have_its_part(params: Params) -> None:
    world = started(World(make_facts((0, 10_000_000)), params), Limits(), Limits())
    world.feed(command("pause", "r1", "c7", offset=7))
    world.run_until(State.PAUSED)
    world.second(12)
    assert rates(world, 2) == [MOST]
    world.feed(command("throttle", "r1", "c8", offset=8, weight=1.0))
    world.feed(command("resume", "r1", "c9", offset=9))
    assert most_together(world, 25) <= MOST + LEAST
    assert rates(world, 1, 2) == [MOST / 2, MOST / 2]


@pytest.mark.parametrize("params", [ALWAYS, ELSEWHERE])
@pytest.mark.parametrize("before", [Limits(mode="fixed", max_bytes_per_s=30e6), Limits(mode="unlimited")])
def test_one_that_comes_from_another_mode_begins_at_the_floor(params: Params, before: Limits) -> None:
    world = started(World(make_facts((0, 10_000_000)), params), before, Limits())
    assert rates(world, 2) == [MOST]
    world.feed(command("throttle", "r1", "c9", offset=9, mode="controller", max_bytes_per_s=None))
    assert most_together(world, 25) <= MOST + LEAST
    assert rates(world, 1, 2) == [MOST / 2, MOST / 2]


def test_one_that_starts_beside_another_is_launched_at_the_floor() -> None:
    world = started(World(make_facts((0, 10_000_000)), ELSEWHERE), Limits())
    spec = make_spec()
    spec = replace(spec, target=replace(spec.target, topic="other"))
    world.feed(command("replay", "r2", "c2", offset=2, spec=spec))
    assert most_together(world, 25) <= MOST + LEAST
    assert next(d for d in world.directives if d.recovery == "r2").max_bytes_per_s == LEAST
    assert rates(world, 1, 2) == [MOST / 2, MOST / 2]


def beside_a_protected_cluster(*ways: tuple[str, str]) -> LiveWorld:
    """`main` is protected, `dr` and `dr2` are not; recoveries r1, r2 ... from a cluster to another, in controller
    mode.
    """
    params = make_params()
    control = replace(params.control, default_mode="controller")
    world = LiveWorld(replace(params, control=control, clusters=frozenset({"main", "dr", "dr2"})))
    world.live(70)
    for number, (source, target) in enumerate(ways, start=1):
        spec = make_spec()
        written = replace(spec.target, cluster=target, topic=f"copy{number}")
        spec = replace(spec, source=replace(spec.source, cluster=source), target=written)
        world.feed(command("replay", f"r{number}", f"c{number}", offset=number, spec=spec))
    return world


def test_what_comes_from_a_protected_cluster_takes_a_part_of_the_other_one() -> None:
    world = beside_a_protected_cluster(("main", "dr"), ("dr", "dr2"), ("dr", "dr"))
    for _ in range(150):
        world.live(1)
        assert most_together(world, 0) <= MAX + 3 * MIN
        assert min(rates(world, 1, 2, 3)) > 0
    r1, r2, r3 = rates(world, 1, 2, 3)
    assert r1 >= MIN
    assert r2 == r3 == pytest.approx((MAX - r1) / 2)


def test_one_that_comes_from_a_protected_cluster_gets_its_part_of_the_other_one_at_most() -> None:
    world = beside_a_protected_cluster(("main", "dr"))
    world.live(150)
    assert rates(world, 1) == [MAX]
    spec = make_spec(limits=Limits(weight=3.0))
    spec = replace(spec, source=replace(spec.source, cluster="dr"), target=replace(spec.target, cluster="dr"))
    world.feed(command("replay", "r2", "c2", offset=2, spec=spec))
    for _ in range(10):
        world.live(1)
        assert most_together(world, 0) <= MAX + MIN
    assert rates(world, 1, 2) == pytest.approx([MAX / 4, MAX * 3 / 4])
    assert world.recovery().rule.startswith("its other cluster protects nothing: its part of control.max_bytes_per_s")
    world.feed(command("stop", "r2", "c9", offset=9))
    world.run_until(State.STOPPED, recovery_id="r2")
    world.live(60)
    assert rates(world, 1) == [MAX]


def test_a_plan_says_which_of_its_two_clusters_has_no_more_for_it() -> None:
    world = beside_a_protected_cluster(("main", "dr"), ("dr2", "dr"), ("dr2", "dr"), ("dr2", "dr"))
    world.live(150)
    spec = make_spec(dry_run=True)
    spec = replace(spec, target=replace(spec.target, cluster="dr", topic="copy9"))
    world.feed(command("replay", "r9", "c9", offset=9, spec=spec))
    plan = world.recovery("r9").plan
    assert plan is not None
    assert plan.budget is not None
    assert (plan.budget.bytes_per_s, plan.budget.shared_with) == (MAX / 5, 4)
    assert plan.budget.why == (
        "its other cluster protects nothing: its part of control.max_bytes_per_s now, with 4 others"
    )


def test_a_cluster_that_it_does_not_touch_is_all_for_others() -> None:
    world = beside_a_protected_cluster(("main", "main"), ("dr", "dr"), ("dr2", "dr2"))
    world.live(60)
    assert rates(world, 2, 3) == [MAX, MAX]
