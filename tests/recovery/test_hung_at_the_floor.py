"""A lane, or a task of the proof, that hangs is found also where the controller holds the recovery at its floor; one
that its rate keeps waiting, as it says itself, or as brokers see to, is not taken for one.
"""

from dataclasses import replace

import pytest

from recoveryd.kernel.states import State
from recoveryd.live.law.types import ControllerParams
from recoveryd.live.params import ControlParams
from recoveryd.recovery.params import Params
from recoveryd_jobs.contract import LaneHeartbeat
from tests.builders.core import command
from tests.builders.live_world import LATENCY, LiveWorld, make_params
from tests.builders.world import Application
from tests.recovery.test_lane_shares import Paced

STALL_S = 100


def at_most(most: float, floor: float = 1e6) -> Params:
    """The config's floor, and the most that all may take; what hangs is found after STALL_S."""
    made = make_params()
    controllers = {"main": ControllerParams(protections=(LATENCY,), most_bytes_per_s=most)}
    return replace(
        made,
        live=replace(made.live, domains=controllers),
        control=ControlParams(max_bytes_per_s=most, min_bytes_per_s=floor),
        stall_after_ms=STALL_S * 1_000,
        stop_wait_ms=STALL_S * 1_000,
    )


class Saying(LiveWorld):
    """Its lanes and tasks say that only their rate keeps them waiting, if `is_throttled`."""

    is_throttled = False

    def _heartbeat(self, app: Application, lane: int, state: str) -> LaneHeartbeat:
        return replace(super()._heartbeat(app, lane, state), throttled=self.is_throttled)

    def _reader(self, app: Application, task: int, state: str) -> LaneHeartbeat:
        told = super()._reader(app, task, state)
        return replace(told, throttled=self.is_throttled, verified_offsets=1, verified_records=1)


def capped(bytes_per_s: float) -> Saying:
    """A cap below the configured floor is ceiling and floor in one."""
    world = Saying(at_most(1e8))
    world.copying(max_bytes_per_s=bytes_per_s)
    assert world.rate == bytes_per_s
    return world


def test_a_lane_that_hangs_below_a_small_cap_is_found() -> None:
    world = capped(5e5)
    world.applications["r1"].stuck.add(0)
    world.live(STALL_S - 5)
    assert world.recovery().attempt.number == 1
    world.live(15)
    assert "lane 0 made nothing durable" in world.recovery().attempt.last_error
    assert world.run_until(State.RUNNING).attempt.number == 2


def test_lanes_that_wait_for_their_rate_there_are_not() -> None:
    world = capped(5e5)
    world.applications["r1"].stuck |= {0, 1}
    world.is_throttled = True
    world.live(3 * STALL_S)
    assert (world.recovery().state, world.recovery().attempt.number) == (State.RUNNING, 1)


@pytest.mark.parametrize(("bytes_per_s", "after_s"), [(5e5, STALL_S), (1e5, 336), (5e4, 672)])
def test_brokers_that_keep_lanes_to_a_small_rate_may_take_as_long_as_one_answer_needs(
    bytes_per_s: float, after_s: int
) -> None:
    """16 MiB for each of two lanes, of which they say nothing: they wait for the answer."""
    world = capped(bytes_per_s)
    world.applications["r1"].stuck |= {0, 1}
    world.live(after_s - 10)
    assert world.recovery().attempt.number == 1
    world.live(20)
    assert "made nothing durable" in world.recovery().attempt.last_error


class PacedBesideLive(Paced, LiveWorld):
    """Lanes with real pacers, held by a controller."""


def test_one_record_in_several_minutes_is_no_fault() -> None:
    world = PacedBesideLive(at_most(100.0, floor=0.5))
    world.live(70)
    world.latency_s = lambda: 0.5
    world.feed(command("replay"))
    world.live(1_000)
    recovery = world.recovery()
    assert (recovery.state, recovery.attempt.number) in {(State.RUNNING, 1), (State.PAUSED, 1)}


@pytest.mark.parametrize("is_throttled", [True, False])
def test_a_proof_that_hangs_below_a_small_cap_is_found_unless_its_rate_keeps_it_waiting(is_throttled: bool) -> None:
    world = Saying(at_most(1e8))
    world.copying(max_bytes_per_s=5e5)
    world.is_throttled, world.verify_s, world.speed = is_throttled, 100_000, 1_000_000
    world.run_until(State.VERIFYING)
    world.live(STALL_S + 40)
    assert world.recovery().attempt.number == 1
    world.live(40)
    assert world.recovery().attempt.number == (1 if is_throttled else 2)
