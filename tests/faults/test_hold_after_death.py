"""The daemon dies by SIGKILL while it sets offsets, and somebody holds the topic before the next one runs: that one
looks how far the first came, and sets nothing.
"""

import signal

import pytest

from recoveryd.kernel.catalogue import Code
from tests.e2e.committing_group import BEFORE, Group, at
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.e2e, pytest.mark.faults]

STATIC = {"faust": {"instance_id": "one"}}  # the group knows the next daemon as the same member


@pytest.mark.scenario("S-RUN-26a")
@pytest.mark.parametrize("is_set", [
    False,
    pytest.param(True, marks=pytest.mark.wide(
        "tests/faults/test_hold_after_death.py::test_a_hold_that_is_placed_after_the_daemon_died_lets_no_more_be_set"
    )),
])  # fmt: skip
def test_a_hold_that_is_placed_after_the_daemon_died_lets_no_more_be_set(stack: Stack, is_set: bool) -> None:
    point = f"step.{'after' if is_set else 'before'}.set_offsets:1"
    doomed = stack.daemon(f"doomed-{is_set}", environment={"RECOVERYD_FAILPOINT": point}, settings=STATIC)
    group = Group(stack.bootstrap, stack)
    group.reset(group.id, "earliest")
    assert doomed.await_exit() == -signal.SIGKILL
    stack.control.command("hold", f"{group.id}-hold", {"reason": "half of it is corrected", "topics": [group.topic]})
    with stack.running(name=f"next-{is_set}", settings=STATIC):
        status = group.becomes(group.id, "completed" if is_set else "failed")
        assert group.committed() == (at(0) if is_set else BEFORE)
        assert status["error_code"] == (None if is_set else Code.TOPIC_HELD.value), status["why"]
