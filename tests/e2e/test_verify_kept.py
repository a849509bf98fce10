"""A verification while the daemon dies and live traffic suffers: approval, SIGKILL in every state, a rate that yields.
The verdict stays exact.

All tests share one stack, whose daemon protects an application by its signals on the control topic, and waits for
approval of large plans.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders.history import Draft
from tests.e2e.asking import accepted, read_at_rest
from tests.e2e.by_hand import copy_by_hand
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import fill_plain
from tests.e2e.follower import Document
from tests.e2e.processes import kill, wait_for
from tests.e2e.stack import Stack
from tests.e2e.test_live_protection import START_ANYWAY, Application

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

FLOOR = 20_000
EACH = 2_000
LOST, CHANGED = 700, 1_300
SETTINGS: dict[str, Any] = {
    "approval": {"above_records": 3 * EACH},
    "monitor": {"health": [{"name": "outside", "slo": "100ms"}], "canary": {"latency_slo": "5s"}},
    "control": {"period": "1s", "loop_delay": "3s", "max_bytes_per_s": 1_500_000, "min_bytes_per_s": FLOOR},
    "faust": {"instance_id": "one"},  # the group knows the next daemon as the same member
}
SLOW = {"mode": "fixed", "max_records_per_s": 150, **START_ANYWAY}
FREE = {"limits": {"mode": "unlimited"}}

_lives = itertools.count(1)


@pytest.fixture(scope="module")
def application(stack: Stack) -> Iterator[Application]:
    with Application(stack.bootstrap, stack.prefix) as telling:
        yield telling


@pytest.fixture(scope="module")
def large(stack: Stack) -> tuple[str, str]:
    """A topic of 4 partitions and its copy, of which partition 0 lacks a record and has another one changed."""
    source = f"{stack.mark}-large"

    def damage(drafts: Any) -> list[Draft]:
        changed = Draft(0, drafts[CHANGED].key, b"x", (), drafts[CHANGED].time_ms)
        return [changed if n == CHANGED else d for n, d in enumerate(drafts) if n != LOST]

    fill_plain(stack.bootstrap, source, 4, EACH, value_bytes=1_000)
    copy_by_hand(stack.bootstrap, source, f"{source}-copy", edit=damage)
    return source, f"{source}-copy"


@pytest.fixture(scope="module")
def whole(stack: Stack, large: tuple[str, str]) -> tuple[str, str]:
    """The same topic and a copy with nothing wrong."""
    copy_by_hand(stack.bootstrap, large[0], f"{large[0]}-whole")
    return large[0], f"{large[0]}-whole"


def next_daemon(stack: Stack) -> DaemonProcess:
    return stack.daemon(f"life{next(_lives)}", settings=SETTINGS)


def verify(stack: Stack, name: str, topics: tuple[str, str], **more: Any) -> str:
    data = {"source": {"topic": topics[0]}, "target": {"topic": topics[1]}, **more}
    return stack.control.command("verify", name, data)


def read_so_far(stack: Stack, name: str) -> int:
    newest = {beat["lane"]: beat["verified_records"] for _, beat in stack.follower.verifying(name)}
    return sum(newest.values())


def await_reading(stack: Stack, name: str, more: int = 200) -> None:
    wanted = read_so_far(stack, name) + more
    stack.follower.wait(lambda: read_so_far(stack, name) >= wanted, 90.0, f"{wanted} records read by {name}")


def assert_damage_is_named(status: Document) -> None:
    found = [(d["kind"], d["source_partition"], d["source_offset"]) for d in status["verification"]["differences"]]
    assert (status["error_code"], status["verification"]["scope"]) == ("RCV-3007", "source")
    assert found == [("missing", 0, LOST), ("altered", 0, CHANGED)]
    counts = status["verification"]["source_records"], status["verification"]["target_records"]
    assert counts == (4 * EACH, 4 * EACH - 1)


def start_slowly(stack: Stack, name: str, topics: tuple[str, str]) -> None:
    """Start a slow verification: approved, and in the middle of reading when this returns."""
    verify(stack, name, topics, limits=SLOW)
    waiting = stack.follower.wait_state(name, "awaiting_approval")
    stack.control.command("approve", name, {"plan_hash": waiting["plan"]["hash"]})
    stack.follower.wait_state(name, "verifying", 90.0)
    await_reading(stack, name)


def test_a_verification_outlives_daemons_that_are_killed_while_it_waits_reads_and_rests(
    stack: Stack, whole: tuple[str, str]
) -> None:
    running, name = next_daemon(stack), "outlives"

    def killed() -> None:
        nonlocal running
        running.kill()
        running = next_daemon(stack)

    verify(stack, name, whole, limits=SLOW)
    waiting = stack.follower.wait_state(name, "awaiting_approval")
    assert waiting["why"].startswith("waits for approval")
    killed()
    stale = stack.control.command("approve", name, {"plan_hash": "sha256:" + "0" * 64})
    assert not accepted(stack, stale)
    assert stack.follower.status(name)["state"] == "awaiting_approval"  # type: ignore[index]
    assert accepted(stack, stack.control.command("approve", name, {"plan_hash": waiting["plan"]["hash"]}))
    stack.follower.wait_state(name, "verifying", 90.0)
    await_reading(stack, name)
    killed()
    await_reading(stack, name)

    stack.control.command("pause", name)
    paused = stack.follower.wait_state(name, "paused", 30.0)["progress"]
    assert paused["offsets_to_verify"] == 8 * EACH, "of both sides"
    assert 0 < paused["verified_offsets"] < 8 * EACH
    killed()
    at_rest, beats = read_at_rest(stack, name), len(stack.follower.verifying(name))
    stack.follower.wait(lambda: len(stack.follower.verifying(name)) >= beats + 6, 30.0, "heartbeats at rest")
    assert (read_so_far(stack, name), stack.follower.status(name)["state"]) == (at_rest, "paused")  # type: ignore[index]
    stack.control.command("resume", name)
    await_reading(stack, name)
    assert stack.follower.status(name)["state"] == "verifying"  # type: ignore[index]
    assert read_so_far(stack, name) < 8 * EACH, "it was killed in the middle"

    stack.control.command("throttle", name, FREE)
    done = stack.completed(name, 120.0)
    assert done["attempt"] == 1, "the application outlived every daemon"
    assert done["progress"]["verified_offsets"] == 8 * EACH
    assert stack.follower.states(name)[-5:] == ["verifying", "pausing", "paused", "verifying", "completed"]
    found = done["verification"]
    assert (found["result"], found["scope"], found["differences"]) == ("match", "source", [])
    assert found["source_records"] == found["target_records"] == 4 * EACH
    assert running.terminate() == 0


def test_a_verification_whose_daemon_and_application_die_together_starts_again_and_names_the_damage(
    stack: Stack, large: tuple[str, str]
) -> None:
    running, name = next_daemon(stack), "dies"
    start_slowly(stack, name, large)
    application = stack.application(name)
    running.kill()
    for process in application:
        kill(process)
    running = next_daemon(stack)
    stack.follower.wait(lambda: (stack.follower.status(name) or {}).get("attempt") == 2, 90.0, "a second attempt")
    stack.control.command("throttle", name, FREE)
    assert_damage_is_named(stack.completed(name, 120.0))
    assert running.terminate() == 0


@pytest.mark.wide(
    "tests/e2e/test_live_protection.py::test_a_replay_takes_what_live_traffic_can_spare_yields_at_its_slo_and_waits_at_the_floor_in_the_dark"
)
def test_a_verification_yields_to_live_traffic_at_its_slo_and_waits_at_the_floor_in_the_dark(
    stack: Stack, large: tuple[str, str], application: Application
) -> None:
    running, name = next_daemon(stack), "yields"

    def granted() -> float:
        return float(((stack.follower.status(name) or {}).get("limits") or {}).get("effective_bytes_per_s") or 0.0)

    def await_granted(low: float, high: float, about: str) -> None:
        stack.follower.wait(lambda: low <= granted() <= high, 60.0, about)

    wait_for(lambda: application.told >= 16, 20)  # the baseline without a recovery is learned from samples
    verify(stack, name, large, limits={"max_bytes_per_s": 7 * FLOOR, **START_ANYWAY})
    waiting = stack.follower.wait_state(name, "awaiting_approval")
    stack.control.command("approve", name, {"plan_hash": waiting["plan"]["hash"]})
    stack.follower.wait_state(name, "verifying", 90.0)
    await_granted(4 * FLOOR, 1e9, "live traffic is well and the rate never rose")
    before = max(granted(), 4 * FLOOR)

    application.latency_s = 0.250  # so far over that it is never doubted to be ours
    await_granted(1.0, 0.6 * before, "live traffic is over its SLO and the rate was not cut")
    application.latency_s = None
    await_granted(1.0, 1.01 * FLOOR, "nothing is measured and the rate is not at the floor")
    await_reading(stack, name, 50)
    assert stack.follower.status(name)["state"] == "verifying"  # type: ignore[index]

    stack.control.command("throttle", name, {"limits": {"mode": "unlimited", "max_bytes_per_s": None}})
    assert_damage_is_named(stack.completed(name, 120.0))
    decisions = [e["data"] for e in stack.follower.events(kind="throttle_decided")]
    assert {"guard", "stale"} <= {d["rule_name"] for d in decisions if name in d["recoveries"]}
    assert running.terminate() == 0
