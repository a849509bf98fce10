"""Rows 2, 3 and 20: two daemons for one control topic, a leader that was frozen and continues, and clocks that are an
hour off.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.asking import lane_progress
from tests.e2e.case import SLOW_RECORDS_PER_S, NewCase
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e, pytest.mark.faults]

HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def nobody_leads_afterwards(stack: Stack) -> Iterator[None]:
    """Otherwise a test that fails would take the lead from the daemons of the next one."""
    yield
    stack.kill_daemons()


@pytest.mark.wide(
    "tests/faults/test_two_daemons.py::test_row_2_a_leader_frozen_past_its_session_wakes_fenced_and_does_nothing"
)
def test_row_3_of_two_daemons_one_leads_and_the_other_takes_over_when_it_dies(stack: Stack, new_case: NewCase) -> None:
    both = [stack.daemon(name, lead=False) for name in ("three-a", "three-b")]
    wait_for(lambda: any(d.is_leader() for d in both), 60)
    for each in both:
        each.await_alive()
    case = new_case()
    case.start()
    case.copying()
    [leader] = wait_for(lambda: [d for d in both if d.is_leader()], 60)
    [standby] = [d for d in both if d is not leader]
    wait_for(lambda: "standby" in standby.get("/readyz")[1], 60)
    leader.kill()
    standby.await_leader()
    done = case.finish()
    assert done["attempt"] == 1
    assert len(stack.follower.answers(done["command"]["id"])) == 1
    assert standby.terminate() == 0


def test_row_2_a_leader_frozen_past_its_session_wakes_fenced_and_does_nothing(stack: Stack, new_case: NewCase) -> None:
    frozen = stack.daemon("two-a")
    standby = stack.daemon("two-b", lead=False)
    standby.await_alive()
    case = new_case()
    case.start()
    case.copying()
    frozen.freeze()
    commands = [stack.control.command("pause", case.recovery), stack.control.command("resume", case.recovery)]
    standby.await_leader()
    answers = [stack.follower.wait_answer(command)["type"] for command in commands]
    assert answers == ["io.recoveryd.event.command_accepted.v1"] * 2
    version = stack.follower.wait_state(case.recovery, "running")["version"]
    frozen.thaw()
    assert frozen.await_exit(30) == 70
    assert "RCV-5001" in frozen.tail()
    done = case.finish()
    standby.await_leader()
    assert done["attempt"] == 1
    assert [len(stack.follower.answers(command)) for command in commands] == [1, 1]
    versions = [s["version"] for s in stack.follower.statuses(case.recovery)]
    assert versions == sorted(versions), "nobody wrote an older state over a newer one"
    assert done["version"] > version
    assert standby.terminate() == 0


@pytest.mark.wide(
    "tests/faults/test_two_daemons.py::test_row_20_a_clock_that_is_set_while_the_daemon_leads_changes_nothing_about_a_running_copy"
)
def test_row_20_a_clock_that_jumps_two_hours_back_changes_nothing_about_a_running_copy(
    stack: Stack, new_case: NewCase
) -> None:
    ahead = stack.daemon("ahead", environment={"RECOVERYD_CLOCK_OFFSET_MS": str(HOUR_MS)})
    case = new_case()
    case.start()
    case.copying()
    stack.control.command("pause", case.recovery)
    paused = stack.follower.wait_state(case.recovery, "paused")
    ahead.terminate()
    behind = stack.daemon("behind", environment={"RECOVERYD_CLOCK_OFFSET_MS": str(-HOUR_MS)})
    stack.control.command("resume", case.recovery)
    done = case.finish()
    assert done["attempt"] == 1
    assert done["updated"] < paused["updated"], "the second daemon's clock really was behind"
    fresh = new_case()
    fresh.start(records_per_s=None)
    fresh.judge()
    behind.terminate()


def test_row_20_a_clock_that_is_set_while_the_daemon_leads_changes_nothing_about_a_running_copy(
    stack: Stack, new_case: NewCase, tmp_path: Path
) -> None:
    """Forward by an hour, then back by two: each time the same daemon begins anew with the new time. A lease lasts
    until it does, also on a busy machine, and no longer.
    """
    offset = tmp_path / "offset"
    offset.write_text("0")
    lasting = {"lease": {"ttl": "30s"}}
    daemon = stack.daemon("set", environment={"RECOVERYD_CLOCK_OFFSET_MS": f"@{offset}"}, settings=lasting)
    case = new_case()
    case.start()
    case.copying()

    def newest() -> int:
        return max(h["directive_sequence"] for _, h in stack.follower.heartbeats(case.recovery, driver=False))

    for number, by_ms in enumerate((HOUR_MS, -HOUR_MS), 1):
        set_clock(offset, by_ms)
        await_led_anew(stack, number)
        daemon.await_leader()
        before = newest()
        stack.follower.wait(lambda: newest() > before, 60, "a lease of the daemon with the new clock")  # noqa: B023
        case.copying(lane_progress(stack, case.recovery)[-1][1] + 200)
    lanes = stack.follower.heartbeats(case.recovery, driver=False)
    assert not [h for _, h in lanes if h["state"] in {"paused", "leaseless"}]
    (began_s, first), *_, (ended_s, last) = lane_progress(stack, case.recovery)
    assert last - first <= 1.5 * SLOW_RECORDS_PER_S * (ended_s - began_s), "the rate was held"
    assert case.finish()["attempt"] == 1
    assert daemon.is_running()
    daemon.terminate()


def set_clock(file: Path, offset_ms: int) -> None:
    """The daemon may read at any moment, so the file is replaced."""
    new = file.with_suffix(".new")
    new.write_text(str(offset_ms))
    new.replace(file)


def await_led_anew(stack: Stack, times: int) -> None:
    def has_led_anew() -> bool:
        told = [e["data"]["why"] for e in stack.follower.events(kind="leader_changed")]
        return sum("the clock of the daemon was set" in why for why in told) >= times

    stack.follower.wait(has_led_anew, 60, f"the {times}. clock that was set")
