"""Two ways to pause: one keeps the Spark application, and goes on in it; the other lets it go, and starts another."""

from pathlib import Path

import pytest

from tests.e2e.asking import await_progress, copied
from tests.e2e.data import fill_plain
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e, pytest.mark.usefixtures("daemon")]

DEADLINE_S = 180.0


def starts(stack: Stack, run: str) -> list[int]:
    """The applications that worked for it, by the number of their attempt."""
    return sorted({report["attempt"] for _, report in stack.follower.heartbeats(run, driver=True)})


@pytest.mark.scenario("S-WIKI-C1c")
def test_a_warm_pause_costs_no_start_and_one_that_lets_the_application_go_costs_one(stack: Stack) -> None:
    run, source, target = "pauses", f"{stack.mark}-pauses", f"{stack.mark}-pauses-copy"
    fill_plain(stack.bootstrap, source, 2, 3_000)
    stack.control.replay(run, source, target, target_create=True, limits={"max_records_per_s": 100})
    stack.follower.wait_state(run, "running")
    pid = stack.follower.driver_pid(run, 1)
    await_progress(stack, run, 100)
    stack.control.command("pause", run)
    stack.follower.wait_state(run, "paused")
    held = copied(stack, target)
    stack.control.command("resume", run)
    await_progress(stack, run, held + 100)
    assert (starts(stack, run), stack.follower.driver_pid(run, 1)) == ([1], pid)

    stack.control.command("pause", run, {"reason": "for the night", "release": True})
    stack.follower.wait_state(run, "paused")
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), DEADLINE_S)
    assert starts(stack, run) == [1]
    held = copied(stack, target)
    stack.control.command("throttle", run, {"reason": "r", "limits": {"max_records_per_s": None}})
    stack.control.command("resume", run)
    stack.completed(run, DEADLINE_S)
    assert copied(stack, target) == 6_000 > held
    assert starts(stack, run) == [1, 2]
    assert stack.violations(run, source, target) == []


@pytest.mark.scenario("S-WIKI-C1c")
def test_a_pause_that_is_there_already_may_still_let_the_application_go(stack: Stack) -> None:
    run, source, target = "pauses-more", f"{stack.mark}-pauses-more", f"{stack.mark}-pauses-more-copy"
    fill_plain(stack.bootstrap, source, 2, 3_000)
    stack.control.replay(run, source, target, target_create=True, limits={"max_records_per_s": 100})
    stack.follower.wait_state(run, "running")
    pid = stack.follower.driver_pid(run, 1)
    stack.control.command("pause", run)
    stack.follower.wait_state(run, "paused")
    assert Path(f"/proc/{pid}").exists()
    stack.control.command("pause", run, {"reason": "for longer", "release": True})
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), DEADLINE_S)
    stack.control.command("stop", run)
    stack.follower.wait_state(run, "stopped")
