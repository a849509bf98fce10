"""Recoveries in controller mode where nothing is protected: together they take no more of a cluster than the config
allows.
"""

from dataclasses import replace

import pytest

from recoveryd.kernel.states import State
from recoveryd.recovery.spec import Limits
from tests.builders.core import command, make_facts, make_spec
from tests.builders.world import PARAMS, World

MOST = 100_000_000.0
ALWAYS = replace(PARAMS, control=replace(PARAMS.control, default_mode="controller", max_bytes_per_s=MOST))


def started(world: World, *limits: Limits) -> World:
    for number, each in enumerate(limits, start=1):
        spec = make_spec(limits=each)
        spec = replace(spec, target=replace(spec.target, topic=f"copy{number}"))
        world.feed(command("replay", f"r{number}", f"c{number}", offset=number, spec=spec))
    for number in range(1, len(limits) + 1):
        world.run_until(State.RUNNING, recovery_id=f"r{number}")
    world.second(5)
    return world


def rates(world: World, *numbers: int) -> list[float | None]:
    return [world.recovery(f"r{number}").effective_bytes_per_s for number in numbers]


def test_one_alone_has_its_ceiling() -> None:
    world = started(World(make_facts((0, 10_000_000)), ALWAYS), Limits())
    assert rates(world, 1) == [MOST]
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


def test_one_with_a_rate_of_its_own_mode_shares_nothing() -> None:
    world = World(make_facts((0, 10_000_000)), ALWAYS)
    started(world, Limits(), Limits(mode="fixed", max_bytes_per_s=70_000_000.0), Limits(mode="unlimited"))
    assert rates(world, 1, 2, 3) == [MOST, 70_000_000.0, None]
