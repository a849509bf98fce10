"""What /metrics says of schedules that cannot fire, and of runs that were not done."""

import pytest

from recoveryd.kernel.events import CommandNotSent
from recoveryd.kernel.states import State
from tests.builders.core import BOOK
from tests.schedules.world import ScheduleWorld, at

DUE = at("2026-11-22T02:00:00")
REFUSED = CommandNotSent("nightly", "schedule:nightly:2026-11-22T02:00:00.000Z", "RCV-2012", "may not", True)
OVERDUE, RUN_ENDED = "recoveryd_schedule_overdue_seconds", "recoveryd_schedule_run_ended_timestamp_seconds"


def shown(world: ScheduleWorld, name: str) -> dict[tuple[str, ...], float]:
    return {s.labels: s.value for s in BOOK.gauges(world.state, world.now_ms) if s.metric.name == name}


def test_a_schedule_whose_command_cannot_be_sent_is_overdue_though_its_next_run_is_tomorrow() -> None:
    world = ScheduleWorld()
    world.refuses = REFUSED
    world.add("0 2 * * *")
    world.minutes(4)
    assert world.schedule().next_run_ms == at("2026-11-23T02:00:00")
    assert shown(world, OVERDUE) == {(): pytest.approx((world.now_ms - DUE) / 1000, abs=2)}
    world.refuses = None
    world.second(20)
    assert shown(world, OVERDUE) == {(): 0}


def test_so_it_is_where_the_schedule_was_ended_meanwhile() -> None:
    world = ScheduleWorld()
    world.refuses = REFUSED
    world.add("0 2 * * *")
    world.minutes(1)
    world.command("unschedule")
    world.minutes(3)
    assert (world.schedule().state, world.schedule().next_run_ms) == (State.STOPPED, None)
    assert shown(world, OVERDUE)[()] > 180


def test_a_run_that_begins_late_is_not_overdue() -> None:
    world = ScheduleWorld()
    world.add("0 2 * * *")
    world.refuses = REFUSED
    world.restart(down_s=7_200)
    world.second(5)
    assert world.schedule().run.control_offset < 0
    assert shown(world, OVERDUE)[()] <= 5


def test_when_runs_ended_is_known_also_to_a_daemon_that_begins_anew() -> None:
    world = ScheduleWorld()
    world.add("0 2 * * *", max_runtime="20s")
    assert shown(world, RUN_ENDED) == {}
    world.second(29)
    world.swallows = 1
    world.second(1)
    world.restart(down_s=60)
    world.second(10)
    ended_ms = world.schedule().last_run.ended_ms
    assert world.schedule().counts.refused == 1
    world.restart(down_s=5)
    assert shown(world, RUN_ENDED) == {("refused",): ended_ms / 1000}
