"""Two ways to pause: one keeps the Spark application, and goes on in it; the other lets it go, and starts another."""

from pathlib import Path

import pytest

from tests.e2e.asking import await_progress, copied
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import fill_plain
from tests.e2e.log_reader import read_log
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
    stack.control.replay(run, source, target, target_create=True, limits={"max_records_per_s": 40})
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


@pytest.fixture(scope="module")
def rests(stack: Stack, daemon: DaemonProcess) -> str:
    """A replay that is paused; another one, `ended`, is over."""
    assert daemon.is_running()
    run, source, target = "pauses-more", f"{stack.mark}-pauses-more", f"{stack.mark}-pauses-more-copy"
    fill_plain(stack.bootstrap, source, 2, 3_000)
    stack.control.replay(run, source, target, target_create=True, limits={"max_records_per_s": 40})
    stack.control.replay("ended", source, f"{target}-2", stop={"offset": 20}, target_create=True)
    await_progress(stack, run, 100)
    stack.control.command("pause", run)
    stack.follower.wait_state(run, "paused")
    stack.completed("ended", DEADLINE_S)
    return run


@pytest.mark.scenario("S-WIKI-C1c")
def test_a_pause_that_is_there_already_may_still_let_the_application_go(stack: Stack, rests: str) -> None:
    pid = stack.follower.driver_pid(rests, 1)
    assert Path(f"/proc/{pid}").exists()
    stack.control.command("pause", rests, {"reason": "for longer", "release": True})
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), DEADLINE_S)


def left_of(stack: Stack, daemon: DaemonProcess, run: str) -> dict[str, int]:
    """How many keys of it are in Kafka, by topic, each with a value as its newest record, and how many folders
    it has.
    """
    scope = stack.prefix.rstrip(".")
    prefixes: dict[str, tuple[str, list[bytes]]] = {
        "status": (f"{stack.prefix}status.v1", []),
        "directives": (f"{stack.prefix}directives.v1", []),
        "receipts": (stack.receipts_topic, [f"{scope}/{run}/".encode(), f"{scope}/{run}#".encode()]),
    }
    found = {}
    for what, (topic, begin) in prefixes.items():
        newest = {r.key or b"": r.value for records in read_log(stack.bootstrap, topic).values() for r in records}
        mine = [key for key in newest if key == run.encode() or key.startswith(tuple(begin))]
        found[what] = sum(newest[key] is not None for key in mine)
    return found | {"folders": len(list((daemon.work / run).glob("[0-9]*")))}


def test_what_ended_is_forgotten_in_time_with_all_that_was_its_own_and_what_rests_stays(
    stack: Stack, daemon: DaemonProcess, rests: str
) -> None:
    before = left_of(stack, daemon, rests)
    assert min(before.values()) >= 1
    assert min(left_of(stack, daemon, "ended").values()) >= 1
    daemon.terminate()
    with stack.running(name="forgets", settings={"limits": {"keep_terminal": "1s"}}) as forgetting:
        wait_for(
            lambda: set(left_of(stack, daemon, "ended").values()) == {0},
            60,
            lambda: str(left_of(stack, daemon, "ended")),
        )
        assert forgetting.status("ended") is None
        assert forgetting.recovery(rests)["state"] == "paused"
        assert left_of(stack, daemon, rests) == before
        stack.control.command("stop", rests)
        stack.follower.wait_state(rests, "stopped")
        # Nothing else goes on in this daemon then.
        wait_for(
            lambda: set(left_of(stack, daemon, rests).values()) == {0}, 60, lambda: str(left_of(stack, daemon, rests))
        )
