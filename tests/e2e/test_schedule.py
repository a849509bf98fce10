"""A schedule on a real broker: runs that continue each other under live traffic, while the daemon is killed in a run
and between two.

A run may take minutes, so that a busy machine has started an application long before its deadline. Nobody waits for
that: the daemons have clocks that are put forward, the first to just before the schedule is due, the next to just
before the deadline.
"""

import time
from datetime import datetime
from typing import Any

import pytest

from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import LiveProducer, fill_plain
from tests.e2e.follower import Document
from tests.e2e.log_reader import read_log
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.e2e]

PARTITIONS = 2
COLD_EACH = 12_000
LIVE_PER_S = 100.0
EVERY_S, RUN_S = 300, 290  # a run is over before the next one is due
BEFORE_DUE_S, BEFORE_DEADLINE_S = 20, 30
SETTINGS = {"faust": {"instance_id": "one"}}  # the group knows the next daemon as the same member


def daemon_at(stack: Stack, name: str, time_s: float, least_s: float = 0.0) -> tuple[DaemonProcess, float]:
    """A daemon whose clock says so when it is started, and by how much that is ahead: `least_s` at least, since no
    clock goes back.
    """
    ahead_s = max(least_s, time_s - time.time())
    return daemon_ahead(stack, name, ahead_s), ahead_s


def daemon_ahead(stack: Stack, name: str, ahead_s: float) -> DaemonProcess:
    environment = {"RECOVERYD_CLOCK_OFFSET_MS": str(int(1_000 * ahead_s))}
    return stack.daemon(name, settings=SETTINGS, environment=environment)


def fired(stack: Stack, count: int) -> list[Document]:
    """The events of this many firings, once they are there."""
    return stack.follower.wait(
        lambda: found if len(found := of_kind(stack, "schedule_fired")) >= count else None,
        2 * EVERY_S,
        f"{count} firings",
    )


def of_kind(stack: Stack, kind: str) -> list[Document]:
    return stack.follower.events(subject="nightly", kind=kind)


def ended(stack: Stack, count: int) -> Document:
    """The schedule once this many of its runs are over."""
    stack.follower.wait(lambda: len(of_kind(stack, "schedule_run_ended")) >= count, 2 * EVERY_S, f"{count} ended runs")
    stack.follower.catch_up()
    found = stack.follower.status("nightly")
    assert found is not None
    return found


@pytest.mark.scenario("S-WIKI-5", "S-WIKI-5a", "S-WIKI-6")
def test_runs_continue_each_other_over_kill_9_and_a_deadline_survives_it(stack: Stack) -> None:
    source, target = f"{stack.mark}-in", f"{stack.mark}-out"
    fill_plain(stack.bootstrap, source, PARTITIONS, COLD_EACH)
    replay: dict[str, Any] = {
        "source": {"topic": source, "from": {"schedule": "last_end"}, "to": "latest"},
        "target": {"topic": target, "create": True, "on_existing": "append"},
        "limits": {"max_records_per_s": 200},  # so that a run comes to its deadline
    }
    data = {
        "cron": f"*/{EVERY_S // 60} * * * *",
        "max_runtime": f"{RUN_S}s",
        "command": {"verb": "replay", "data": replay},
    }
    with LiveProducer(stack.bootstrap, source, PARTITIONS, LIVE_PER_S):
        due_s = (time.time() // EVERY_S + 1) * EVERY_S
        first, ahead_s = daemon_at(stack, "s1", due_s - BEFORE_DUE_S)
        answer = stack.follower.wait_answer(stack.control.command("schedule", "nightly", data))
        assert answer["type"] == "io.recoveryd.event.command_accepted.v1", answer
        firing = fired(stack, 1)[0]["data"]
        run, due_s = firing["recovery"], datetime.fromisoformat(firing["due"]).timestamp()
        stack.follower.wait_state(run, {"starting", "running"}, 60)
        first.kill()
        second, ahead_s = daemon_at(stack, "s2", due_s + RUN_S - BEFORE_DEADLINE_S, ahead_s)
        over = ended(stack, 1)
        recovery = stack.follower.wait_state(run, "stopped")
        last = over["schedule"]["last_run"]
        assert (last["recovery"], last["outcome"], recovery["state"]) == (run, "stopped", "stopped")
        assert recovery["stop"]["reason"] in {"deadline", "max_runtime"}
        assert recovery["limits"]["requested"]["deadline"] == last["deadline"]
        reached = over["schedule"]["last_end"]["offsets"]
        assert reached == {str(row["partition"]): row["position"] for row in recovery["progress"]["partitions"]}
        second.kill()
        third = daemon_ahead(stack, "s3", ahead_s)
        following = fired(stack, 2)[1]["data"]["recovery"]
        stack.follower.wait_state(following, {"starting", "running"}, 60)
        stack.follower.wait_answer(stack.control.command("unschedule", "nightly", {}))
        stack.control.command("throttle", following, {"limits": {"max_records_per_s": None}})
        over = ended(stack, 2)
    plan = stack.follower.status(following)["plan"]  # type: ignore[index]
    assert {str(row["partition"]): row["start"] for row in plan["source"]["partitions"]} == reached
    assert over["state"] == "stopped"
    due = [event["data"]["due"] for event in of_kind(stack, "schedule_fired")]
    assert len(due) == len(set(due)) == over["schedule"]["counts"]["fired"]
    assert_copied_once(stack, source, target, over["schedule"]["last_end"]["offsets"])
    third.terminate()


def assert_copied_once(stack: Stack, source: str, target: str, ends: dict[str, int]) -> None:
    """The target holds exactly the records before the last end, in order."""
    wanted = {int(partition): (0, end) for partition, end in ends.items()}
    assert all(end > 0 for _, end in wanted.values())
    copied, there = read_log(stack.bootstrap, target), read_log(stack.bootstrap, source, wanted)
    for partition in wanted:
        assert [r.content for r in copied[partition]] == [r.content for r in there[partition]]


@pytest.mark.wide(
    "tests/schedules/test_fitting.py::test_after_a_run_it_is_said_whether_the_next_one_is_expected_to_fit"
)
@pytest.mark.scenario("S-WIKI-6a")
def test_a_run_that_takes_too_long_is_told_beforehand_and_never_meets_the_next_one(stack: Stack) -> None:
    """A run is ended after 75 s; the one after it is due after 60 s."""
    source, target = f"{stack.mark}-slow-in", f"{stack.mark}-slow-out"
    fill_plain(stack.bootstrap, source, PARTITIONS, COLD_EACH)
    replay: dict[str, Any] = {
        "source": {"topic": source, "from": "earliest", "to": "latest"},
        "target": {"topic": target, "create": True, "on_existing": "append"},
        "limits": {"max_records_per_s": 1},
    }
    data = {"cron": "* * * * *", "max_runtime": "75s", "command": {"verb": "replay", "data": replay}}
    with stack.running(settings=SETTINGS) as daemon:
        stack.follower.wait_answer(stack.control.command("schedule", "slow", data))

        def told(kind: str) -> list[Document]:
            return stack.follower.events(subject="slow", kind=kind)

        stack.follower.wait(lambda: told("schedule_overrun_expected"), 300, "that the next run is not expected to fit")
        stack.follower.catch_up()
        [event] = told("schedule_overrun_expected")
        assert (event["data"]["fits"], event["data"]["interval_s"]) == (False, 60)
        assert event["data"]["expected_s"] >= 75
        assert told("schedule_skipped")  # the due time inside the first run
        status = stack.follower.status("slow")
        assert status is not None
        assert status["schedule"]["forecast"]["fits"] is False
        assert "recoveryd_schedule_overrun_expected 1.0" in daemon.get("/metrics")[1]
        stack.follower.wait_answer(stack.control.command("unschedule", "slow", {}))
        run = (stack.follower.status("slow") or {})["schedule"]["run"]
        if run is not None:
            stack.control.command("stop", run["recovery"])
            stack.follower.wait_state(run["recovery"], {"stopped", "rejected"})
