"""The control topic's log loses its last records, which were answered long ago, as where the only replica had no power
for a moment: commands that come from then on get their answers, under a running daemon and where one begins to lead.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from recoveryd_sandbox.broker import Broker
from tests.builders.damage import cut_back
from tests.e2e.control import Control
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.faults]

BEFORE, KEPT = 10, 6


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("cut")) as started:
        yield started


@pytest.fixture
def stack(own_broker: Broker, tmp_path: Path) -> Iterator[Stack]:
    with Stack(own_broker.bootstrap, tmp_path) as made:
        yield made


def answered(stack: Stack, control: Control, count: int) -> list[str]:
    """Ids of commands that were sent one after the other; each is refused, since nothing has such an id."""
    commands = [control.command("pause", f"nothing-{i}") for i in range(count)]
    for command in commands:
        stack.follower.wait_answer(command)
    return commands


def lose(broker: Broker, stack: Stack) -> None:
    broker.kill()
    cut_back(broker, stack.control.topic, KEPT)
    broker.start()


def assert_goes_on(stack: Stack, commands: list[str]) -> None:
    """New commands are answered, those that are still on the topic are known, and it was told once."""
    control = Control(stack.bootstrap, stack.prefix)  # the one of before knows records that the broker does not
    new = answered(stack, control, BEFORE)
    again = control.command("pause", "nothing-0", command_id=commands[0])
    stack.follower.wait(lambda: len(stack.follower.answers(again)) == 2 or None, 60, "a second answer")
    assert [answer["type"].split(".")[-2] for answer in stack.follower.answers(again)] == [
        "command_rejected",
        "command_duplicate",
    ]
    assert [len(stack.follower.answers(command)) for command in new] == [1] * BEFORE
    [told] = stack.follower.events(kind="control_cut_back")
    assert (told["data"]["end"], told["data"]["position"]) == (KEPT, BEFORE)


def test_a_running_daemon_tells_and_ends_and_the_next_one_reads_on_from_the_new_end(
    own_broker: Broker, stack: Stack
) -> None:
    daemon = stack.daemon("first")
    commands = answered(stack, stack.control, BEFORE)
    lose(own_broker, stack)
    assert daemon.await_exit(60) == 70
    told = daemon.log.read_text(encoding="utf-8")
    assert f"cut back to {KEPT}" in told, told[-2_000:]
    with stack.running(name="second"):
        assert_goes_on(stack, commands)


@pytest.mark.wide(
    "tests/runtime/test_leadership.py::test_a_control_topic_that_was_cut_back_is_read_on_from_its_new_end_and_what_is_left_stays_known"
)
def test_a_daemon_that_begins_to_lead_reads_on_from_the_new_end(own_broker: Broker, stack: Stack) -> None:
    daemon = stack.daemon("first")
    commands = answered(stack, stack.control, BEFORE)
    assert daemon.terminate() == 0
    lose(own_broker, stack)
    with stack.running(name="second"):
        assert_goes_on(stack, commands)
