"""Held topics on a real broker: a replay that writes there pauses drained, nothing new begins, a daemon that is killed
between hold and release changes nothing, and the copy is exact in the end.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.asking import accepted, await_progress, copied, positions, receipts_end
from tests.e2e.conftest import PLAIN_PARTITIONS, PLAIN_RECORDS_EACH
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

SETTINGS = {"faust": {"instance_id": "one"}}  # the group knows the next daemon as the same member
REASON = "half of it is being corrected"


@pytest.fixture(scope="module")
def running(stack: Stack) -> Iterator[list[DaemonProcess]]:
    """The daemon that leads, last in the list; a test may kill it and add the next."""
    daemons = [stack.daemon("h1", settings=SETTINGS)]
    yield daemons
    daemons[-1].terminate()


def next_daemon(stack: Stack, running: list[DaemonProcess]) -> None:
    running[-1].kill()
    running.append(stack.daemon(f"h{len(running) + 1}", settings=SETTINGS))


def answer(stack: Stack, command_id: str) -> tuple[str, str]:
    """Code ("" if accepted) and message."""
    found = stack.follower.wait_answer(command_id)
    return found["data"]["code"], found["data"]["message"]


def hold(stack: Stack, name: str, *topics: str, **more: Any) -> str:
    return stack.control.command("hold", name, {"reason": REASON, "topics": list(topics)} | more)


@pytest.mark.scenario("S-RUN-26a")
def test_a_held_target_keeps_replays_off_over_a_kill_until_it_is_released(
    stack: Stack, running: list[DaemonProcess], plain: str
) -> None:
    target = f"{stack.mark}-held"
    slow = {"max_records_per_s": 150}
    assert accepted(stack, stack.control.replay("r-held", plain, target, target_create=True, limits=slow))
    await_progress(stack, "r-held", 100)
    assert accepted(stack, hold(stack, "h-held", target))
    paused = stack.follower.wait_state("r-held", "paused", 30)
    at = positions(paused)
    assert at == receipts_end(stack, "r-held", dict.fromkeys(range(PLAIN_PARTITIONS), 0))
    assert f"{target} is held by h-held" in paused["why"]
    assert REASON in paused["why"]
    before = copied(stack, target)
    assert before == sum(at.values()) < PLAIN_PARTITIONS * PLAIN_RECORDS_EACH
    stack.follower.catch_up()
    (told,) = stack.follower.events(subject="r-held", kind="auto_pause")
    assert told["data"]["reason"] == "topic_held"

    more = stack.control.replay("r-more", plain, target, target_on_existing="append")
    code, message = answer(stack, more)
    assert (code, message.startswith(f"{target} is held by h-held of ")) == ("RCV-1060", True)
    assert answer(stack, stack.control.command("resume", "r-held"))[0] == "RCV-1060"

    next_daemon(stack, running)
    known = running[-1].recovery("h-held")
    assert (known["state"], known["hold"]["topics"]) == ("running", [target])
    assert answer(stack, stack.control.command("resume", "r-held"))[0] == "RCV-1060"
    assert copied(stack, target) == before

    assert accepted(stack, stack.control.command("throttle", "r-held", {"limits": {"max_records_per_s": 1_000_000}}))
    assert accepted(stack, stack.control.command("release", "h-held", {"reason": "corrected"}))
    stack.completed("r-held", 120)
    assert stack.violations("r-held", plain, target) == []
    assert stack.follower.states("h-held") == ["running", "completed"]
    kinds = [e["type"].removeprefix("io.recoveryd.event.") for e in stack.follower.events(subject="h-held")]
    assert kinds == [
        "command_accepted.v1", "hold_started.v1", "command_accepted.v1", "hold_completed.v1",
    ]  # fmt: skip


@pytest.mark.wide("tests/e2e/test_hold.py::test_a_held_target_keeps_replays_off_over_a_kill_until_it_is_released")
@pytest.mark.scenario("S-RUN-26a")
def test_a_daemon_killed_right_after_the_hold_leaves_a_pause_to_the_next_one(
    stack: Stack, running: list[DaemonProcess], plain: str
) -> None:
    target = f"{stack.mark}-killed"
    slow = {"max_records_per_s": 150}
    assert accepted(stack, stack.control.replay("r-killed", plain, target, target_create=True, limits=slow))
    await_progress(stack, "r-killed", 100)
    assert accepted(stack, hold(stack, "h-killed", target))
    next_daemon(stack, running)
    paused = stack.follower.wait_state("r-killed", "paused", 60)
    before = copied(stack, target)
    assert before == sum(positions(paused).values())
    assert accepted(stack, stack.control.command("release", "let-go", {"reason": "corrected", "topics": [target]}))
    next_daemon(stack, running)
    stack.follower.wait_state("r-killed", {"starting", "running"}, 30)
    stack.control.command("throttle", "r-killed", {"limits": {"max_records_per_s": 1_000_000}})
    stack.completed("r-killed", 120)
    assert stack.violations("r-killed", plain, target) == []


@pytest.mark.scenario("S-RUN-26a")
def test_a_hold_ends_by_itself_when_its_time_is_over_and_says_what_does_not_exist(
    stack: Stack, running: list[DaemonProcess]
) -> None:
    topic = f"{stack.mark}-nothing"
    assert running[-1].is_running()
    assert accepted(stack, hold(stack, "h-short", topic, ttl="30s"))
    seen = stack.follower.wait(
        lambda: next((d for d in stack.follower.statuses("h-short") if d["hold"]["missing"]), None),
        15,
        "a topic that does not exist",
    )
    assert (seen["hold"]["missing"], seen["state"]) == ([topic], "running")
    ended = stack.follower.wait_state("h-short", "expired", 40)
    assert ended["stop"]["reason"] == "deadline"
    (told,) = stack.follower.events(subject="h-short", kind="hold_expired")
    assert told["data"]["topics"] == [topic]
