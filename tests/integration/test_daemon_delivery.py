"""No control record is lost or answered twice, whenever the daemon dies and whatever the group does. No Spark: the
commands end without a copy.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.e2e.control import make_command
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker]

Death = tuple[list[dict[str, Any]], int]

NOWHERE = {
    "dry_run": True,
    "source": {"topic": "no-such-topic", "from": "earliest", "to": "latest"},
    "target": {"topic": "no-such-target"},
}

EACH = 300
# Each step between group, journal and effects. The numbers are passes, so that some records are handled before.
STEPS = (
    "agent.before_inbox:150",
    "journal.before_begin:3",
    "journal.before_commit:4",
    "journal.after_commit:4",
    "runtime.before_effects:4",
    "runtime.after_effects:60",
    "agent.after_journal:120",
)


@pytest.fixture
def stack(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(bootstrap, tmp_path_factory.mktemp("delivery")) as made:
        yield made


def send(stack: Stack, count: int, first: int = 0) -> list[dict[str, Any]]:
    commands = [make_command("replay", f"r{i}", NOWHERE) for i in range(first, first + count)]
    stack.control.many([(json.dumps(c).encode(), None, ()) for c in commands])
    return commands


def assert_answered_once(stack: Stack, commands: list[dict[str, Any]]) -> None:
    for command in commands:
        stack.follower.wait_answer(command["id"], 60)
    marker = stack.control.command("pause", "marker")
    stack.follower.wait_answer(marker, 30)
    assert [len(stack.follower.answers(c["id"])) for c in commands] == [1] * len(commands)


def committed(stack: Stack) -> int:
    reader = Consumer({"bootstrap.servers": stack.bootstrap, "group.id": f"recoveryd.{stack.prefix.rstrip('.')}"})
    try:
        [found] = reader.committed([TopicPartition(stack.control.topic, 0)], timeout=60)
        return int(found.offset)
    finally:
        reader.close()


@pytest.fixture(scope="module")
def deaths(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, dict[str, Death]]]:
    """For each step the commands that were sent to a daemon which died there, and its exit code. The next daemon goes
    on with what this one left, and dies at the next step.
    """
    with Stack(bootstrap, tmp_path_factory.mktemp("deaths")) as stack:
        found: dict[str, Death] = {}
        for number, step in enumerate(STEPS):
            # It may die of what is left, before anybody could see that it leads.
            dying = stack.daemon(f"dying{number}", environment={"RECOVERYD_FAILPOINT": step}, lead=False)
            commands = send(stack, EACH, first=EACH * number)
            found[step] = commands, dying.await_exit(60)
        with stack.running(name="last"):
            yield stack, found


@pytest.mark.faults
@pytest.mark.parametrize("step", STEPS)
def test_a_daemon_killed_between_any_two_steps_answers_each_command_once(
    deaths: tuple[Stack, dict[str, Death]], step: str
) -> None:
    stack, found = deaths
    commands, exit_code = found[step]
    assert exit_code == -9
    assert_answered_once(stack, commands)


def test_the_group_is_committed_only_as_far_as_the_journal_goes(stack: Stack) -> None:
    often = {"faust": {"commit_interval": "50ms"}}
    dying = stack.daemon("dying", environment={"RECOVERYD_FAILPOINT": "journal.before_commit:25"}, settings=often)
    send(stack, 1_500)
    assert dying.await_exit(60) == -9

    def handled_so_far() -> int:
        return int((stack.follower.status("_daemon") or {"applied_control_offset": -1})["applied_control_offset"])

    assert committed(stack) > 0
    stack.follower.wait(
        lambda: committed(stack) <= handled_so_far() + 1, 15, "the journal to hold all that is committed"
    )

    def answered() -> list[int]:
        return [e["data"]["control_offset"] for e in stack.follower.events() if ".command_" in e["type"]]

    newest = max(stack.follower.wait(answered, 15, "answers"))
    stack.follower.wait(lambda: newest <= handled_so_far(), 15, "the journal to hold all that is answered")


def test_offsets_are_committed_up_to_the_last_record_while_it_runs(stack: Stack) -> None:
    with stack.running():
        commands = send(stack, 50)
        for command in commands:
            stack.follower.wait_answer(command["id"])
        wait_for(lambda: committed(stack) == 50, 15, lambda: f"committed is {committed(stack)}")


def test_a_group_that_was_moved_ahead_loses_nothing(stack: Stack) -> None:
    """The journal's position counts: a committed offset past unhandled records does not hide them."""
    first = stack.daemon("first")
    done = send(stack, 5)
    for command in done:
        stack.follower.wait_answer(command["id"])
    assert first.terminate() == 0
    skipped = send(stack, 20, first=5)
    mover = Consumer({"bootstrap.servers": stack.bootstrap, "group.id": f"recoveryd.{stack.prefix.rstrip('.')}"})
    wait_for(lambda: _move(mover, stack.control.topic, 25), 30)
    mover.close()
    with stack.running(name="second"):
        assert_answered_once(stack, done + skipped)


def _move(consumer: Consumer, topic: str, offset: int) -> bool:
    from confluent_kafka import KafkaException

    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    except KafkaException:
        return False
    return True


def test_a_standby_that_comes_and_goes_disturbs_nothing(stack: Stack) -> None:
    with stack.running(name="leader") as leader:
        commands = send(stack, 100)
        standby = stack.daemon("standby", lead=False)
        commands += send(stack, 100, first=100)
        standby.await_alive()
        wait_for(lambda: leader.is_leader() or standby.is_leader(), 30)
        assert_answered_once(stack, commands)
        assert standby.terminate() == 0
        commands = send(stack, 50, first=200)
        assert_answered_once(stack, commands)
        if leader.is_running():
            wait_for(leader.is_leader, 30)


@pytest.mark.wide(
    "tests/faults/test_two_daemons.py::test_row_2_a_leader_frozen_past_its_session_wakes_fenced_and_does_nothing"
)
@pytest.mark.faults
def test_a_frozen_leader_is_replaced_and_leaves_when_it_wakes(stack: Stack) -> None:
    frozen = stack.daemon("frozen")
    standby = stack.daemon("standby", lead=False)
    standby.await_alive()
    frozen.freeze()
    commands = send(stack, 30)
    standby.await_leader()
    assert_answered_once(stack, commands)
    frozen.thaw()
    assert frozen.await_exit(20) == 70
    assert "RCV-5001" in frozen.tail()
    assert_answered_once(stack, send(stack, 30, first=30))
    assert standby.terminate() == 0


@pytest.mark.wide(
    "tests/faults/test_bad_control.py::test_row_18_what_cannot_be_read_goes_to_the_dead_letters_as_it_was"
)
@pytest.mark.faults
def test_bad_records_between_good_ones_get_their_trace_and_stop_nothing(stack: Stack) -> None:
    bad: list[bytes | None] = [
        None,
        b"",
        b"junk",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"specversion":"1.0","data":NaN}',
        b'{"a":1,"a":2}',
        b"x" * 1_900_000,
        json.dumps({"specversion": "0.3", "id": "1", "source": "s", "type": "t"}).encode(),
    ]
    with stack.running():
        before = send(stack, 3)
        offsets = stack.control.many([(value, b"key", [("h", None)]) for value in bad])
        after = send(stack, 3, first=3)
        assert_answered_once(stack, before + after)
        told = {
            e["data"].get("offset", e["data"].get("control_offset"))
            for e in stack.follower.events()
            if e["type"].endswith(("control_unreadable.v1", "command_rejected.v1"))
        }
        assert set(offsets) <= told


def test_one_command_a_thousand_times_is_answered_a_thousand_times_and_done_once(stack: Stack) -> None:
    with stack.running():
        command = make_command("replay", "once", NOWHERE)
        stack.control.many([(json.dumps(command).encode(), None, ())] * 1_000)
        stack.follower.wait(lambda: len(stack.follower.answers(command["id"])) == 1_000, 60, "1,000 answers")
        kinds = [e["type"].split(".")[3] for e in stack.follower.answers(command["id"])]
        assert (kinds.count("command_duplicate"), kinds.count("command_rejected")) == (999, 1)
        assert [s["state"] for s in stack.follower.statuses("once")][-1] == "rejected"
