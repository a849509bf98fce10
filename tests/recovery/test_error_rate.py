"""A recovery that fails again and again ends because of its rate of failures, even if each attempt makes a little
progress.
"""

from dataclasses import replace

import pytest

from recoveryd.kernel.states import State, StopReason
from recoveryd.recovery.stops.error_rate import HOUR_MS, too_many, with_failures
from recoveryd_jobs.contract import LaneHeartbeat
from tests.builders.core import command, make_facts
from tests.builders.world import PARAMS, World

EACH_30_S = replace(PARAMS, max_failures_per_hour=4, backoff_max_ms=1_000)


@pytest.mark.parametrize(
    ("attempts_ms", "chunks_ms", "why"),
    [
        ((), {}, None),
        ((1, 2), {}, None),
        ((1, 2, 3), {}, "3 attempts failed within an hour, 3 are too many"),
        ((-HOUR_MS, 2, 3), {}, None),  # an hour is over
        ((), {0: (1,), 1: (2, 3)}, "2 chunks of lane 1 failed within an hour, 2 are too many"),
        ((), {0: (1,), 1: (1,)}, None),  # each lane is judged alone: the sum over lanes does not count
    ],
)
def test_what_is_too_many(attempts_ms: tuple[int, ...], chunks_ms: dict[int, tuple[int, ...]], why: str | None) -> None:
    assert too_many(attempts_ms, chunks_ms, 10, 3, 2) == why


def test_only_what_the_rule_needs_is_remembered() -> None:
    assert with_failures((0, 5), 1, HOUR_MS, 3) == (5, HOUR_MS)
    assert with_failures((5, 6), 10**9, HOUR_MS, 3) == (HOUR_MS,) * 3
    assert with_failures((5,), -1, HOUR_MS, 3) == (5,)


def test_attempts_that_get_on_a_little_and_die_end_the_recovery_by_their_rate() -> None:
    world = World(make_facts((10**6, 10**6)), EACH_30_S)
    world.feed(command("replay"))
    for _ in range(8):
        world.second(20)
        world.applications["r1"].alive = False
        world.second(10)
    failed = world.run_until(State.FAILED)
    assert (failed.state, failed.stop.reason, failed.error_code) == (State.FAILED, StopReason.ERROR_RATE, "RCV-3043")
    assert "4 attempts failed within an hour" in failed.why
    assert failed.progress.records > 0
    assert sum(r.unexplained for r in failed.completeness) == 0


def test_the_rate_is_counted_over_restarts_of_the_daemon() -> None:
    world = World(make_facts((10**6, 10**6)), EACH_30_S)
    world.feed(command("replay"))
    for _ in range(4):
        world.second(20)
        world.restart_daemon()
        world.second(10)
        world.applications["r1"].alive = False
    assert world.run_until(State.FAILED).stop.reason is StopReason.ERROR_RATE


def test_failures_far_apart_are_survived() -> None:
    world = World(make_facts((10**6, 10**6)), EACH_30_S, speed=1)
    world.feed(command("replay"))
    for _ in range(8):
        world.second(10)
        world.applications["r1"].alive = False
        world.second(10)
        world.now_ms += HOUR_MS
    assert world.recovery().attempt.number >= 8
    assert world.recovery().state in {State.STARTING, State.RUNNING}


def test_chunks_that_a_lane_begins_again_and_again_end_the_recovery() -> None:
    world = World(make_facts((10**6, 10**6)), replace(PARAMS, max_failed_chunks_per_hour=5))
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    for failed_chunks in (1, 1, 3, 4):
        world.feed(LaneHeartbeat("r1", 1, 0, 1, "copying", True, 1.0, 1.0, (), "", failed_chunks=failed_chunks))
    assert world.recovery().state is State.RUNNING
    world.feed(LaneHeartbeat("r1", 1, 0, 1, "copying", True, 1.0, 1.0, (), "", failed_chunks=5))
    failed = world.run_until(State.FAILED)
    assert (failed.stop.reason, "5 chunks of lane 0" in failed.why) == (StopReason.ERROR_RATE, True)
