"""A renewal of a lease between two steps of the controllers says nothing that was taken back since the first."""

from dataclasses import replace

import pytest

from recoveryd.kernel.states import State
from recoveryd.live.slice import LIVE
from tests.builders.core import command
from tests.builders.live_world import MAX, MIN, LiveWorld, make_params

PERIOD_S = 20  # the lease is renewed each 8 s


def just_stepped(**limits: object) -> LiveWorld:
    """Copies at more than twice its floor, and the controllers have just decided."""
    params = make_params()
    controllers = {"main": replace(params.live.domains["main"], period_ms=PERIOD_S * 1_000)}
    control = replace(params.control, period_ms=PERIOD_S * 1_000)
    world = LiveWorld(replace(params, live=replace(params.live, domains=controllers), control=control))
    world.live(100)
    world.copying(**limits)
    world.live(30 * PERIOD_S)
    before = stepped_ms(world)
    while stepped_ms(world) == before:
        world.live(1)
    assert world.rate > 4 * MIN
    return world


def stepped_ms(world: LiveWorld) -> int:
    return world.state.of(LIVE).protecting.stepped_ms


def told_until_the_next_step(world: LiveWorld) -> list[float]:
    """The rates of all directives from now until the controllers decide again."""
    before, known = stepped_ms(world), len(world.directives)
    while stepped_ms(world) == before:
        world.live(1)
    rates = [d.max_bytes_per_s for d in world.directives[known:-1]]
    assert rates, "the lease was renewed"
    return rates


@pytest.mark.parametrize("mode", [None, "fixed"])
def test_a_new_limit_is_not_undone(mode: str | None) -> None:
    world = just_stepped()
    world.feed(command("throttle", max_bytes_per_s=2 * MIN, offset=1, **({"mode": mode} if mode else {})))
    assert world.directives[-1].max_bytes_per_s == 2 * MIN
    assert max(told_until_the_next_step(world)) <= 2 * MIN


def test_one_that_goes_on_after_a_pause_stays_at_its_floor() -> None:
    world = just_stepped()
    world.feed(command("pause", offset=1))
    world.run_until(State.PAUSED, seconds=5)
    world.feed(command("resume", command_id="c3", offset=2))
    assert world.rate == MIN
    assert max(told_until_the_next_step(world)) <= MIN


def test_what_was_lifted_waits_for_the_next_step() -> None:
    world = just_stepped(max_bytes_per_s=MAX / 4)
    held = world.rate
    world.feed(command("throttle", max_bytes_per_s=MAX, offset=1))
    assert max(told_until_the_next_step(world)) <= held
