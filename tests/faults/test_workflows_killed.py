"""The daemon dies by SIGKILL before and after each step of a reset and of its rollback. The next one goes on, and each
partition stands where it was told to.

Each daemon dies at its own point while it works on its own group; the next daemon ends that and dies at an earlier one,
so that no daemon passes the point of the one before it on the way.
"""

import signal
from collections.abc import Iterator

import pytest

from tests.chosen import chosen_points
from tests.e2e.committing_group import BEFORE, Group, at
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.e2e, pytest.mark.faults]

FORWARD = ("await_empty", "snapshot", "set_offsets")
BACK = ("await_empty_again", "put_back_offsets")
# Before a step it takes two: the step of the group before, which the new daemon ends, and its own.
POINTS = [point for step in reversed((*FORWARD, *BACK)) for point in (f"step.after.{step}:1", f"step.before.{step}:2")]
DONE_AND_NOT_NOTED = ("step.after.put_back_offsets:1", "step.after.set_offsets:1")


def is_back(point: str) -> bool:
    return any(f".{step}:" in point for step in BACK)


def steps_told(group: Group) -> list[str]:
    return [event["data"]["step"] for event in group.stack.follower.events(subject=group.id, kind="step_done")]


@pytest.fixture(scope="module")
def deaths(request: pytest.FixtureRequest, stack: Stack) -> Iterator[dict[str, tuple[Group, int]]]:
    """For each chosen point the group on which a daemon died there, and the exit code of that daemon."""
    found: dict[str, tuple[Group, int]] = {}
    static = {"faust": {"instance_id": "one"}}
    wanted = chosen_points(request)
    wanted |= {point.replace("before", "after").replace(":2", ":1") for point in wanted}  # what they end first
    for number, point in enumerate(point for point in POINTS if point in wanted):
        doomed = stack.daemon(f"doomed{number}", environment={"RECOVERYD_FAILPOINT": point}, settings=static)
        group = Group(stack.bootstrap, stack)
        group.reset(group.id, "earliest")
        if is_back(point):
            group.done(group.id)
            group.roll_back(group.id)
        found[point] = (group, doomed.await_exit())
    with stack.running(name="last", settings=static):
        yield found


@pytest.mark.scenario("S-WIKI-2a")
@pytest.mark.parametrize("point", [
    point if point in DONE_AND_NOT_NOTED else pytest.param(point, marks=pytest.mark.wide(
        "tests/faults/test_workflows_killed.py::test_a_daemon_killed_around_any_step_is_followed_by_one_that_ends_it"
    ))
    for point in POINTS
])  # fmt: skip
def test_a_daemon_killed_around_any_step_is_followed_by_one_that_ends_it(
    deaths: dict[str, tuple[Group, int]], point: str
) -> None:
    group, exit_code = deaths[point]
    assert exit_code == -signal.SIGKILL
    status = group.becomes(group.id, "rolled_back" if is_back(point) else "completed")
    assert group.committed() == (BEFORE if is_back(point) else at(0))
    assert {step["state"] for step in status["steps"]} == ({"done", "undone"} if is_back(point) else {"done"})
    steps = [*FORWARD, *(BACK if is_back(point) else ())]
    group.stack.follower.wait(lambda: steps_told(group) == steps, 60.0, f"each step of {group.id} is told once")
