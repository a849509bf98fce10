"""Row 23: the same command a thousand times, and storms of commands that contradict each other. One outcome each, one
state in the end, an exact copy.
"""

import json
import random
from collections import Counter

import pytest

from tests.e2e.case import NewCase
from tests.e2e.control import make_command
from tests.e2e.stack import Stack

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.e2e,
    pytest.mark.faults,
    pytest.mark.usefixtures("daemon"),
]


def kinds(stack: Stack, command_id: str) -> Counter[str]:
    return Counter(answer["type"].split(".")[-2] for answer in stack.follower.answers(command_id))


@pytest.mark.wide(
    "tests/integration/test_daemon_delivery.py::test_one_command_a_thousand_times_is_answered_a_thousand_times_and_done_once"
)
def test_row_23_one_command_a_thousand_times_is_done_once(stack: Stack, new_case: NewCase) -> None:
    case = new_case()
    case.start()
    case.copying()
    value = json.dumps(make_command("pause", case.recovery, command_id="again-and-again")).encode()
    stack.control.many([(value, case.recovery.encode(), ())] * 1_000)
    stack.follower.wait(lambda: len(stack.follower.answers("again-and-again")) >= 1_000, 60, "a thousand answers")
    assert kinds(stack, "again-and-again") == {"command_accepted": 1, "command_duplicate": 999}
    stack.follower.wait_state(case.recovery, "paused")
    other = {**json.loads(value), "data": {"reason": "something else"}}
    stack.control.raw(json.dumps(other).encode())
    stack.follower.wait(lambda: len(stack.follower.answers("again-and-again")) == 1_001, 20, "one more answer")
    assert stack.follower.answers("again-and-again")[-1]["data"]["code"] == "RCV-1009"
    assert stack.follower.states(case.recovery).count("paused") == 1
    stack.control.command("resume", case.recovery)
    case.finish()


def test_row_23_a_storm_of_pauses_and_resumes_ends_in_what_was_said_last(stack: Stack, new_case: NewCase) -> None:
    case = new_case()
    case.start()
    case.copying()
    dice = random.Random(23)
    verbs = [dice.choice(["pause", "resume"]) for _ in range(100)]
    for verb in verbs:
        stack.control.command(verb, case.recovery)
    stack.control.command("pause", case.recovery)
    stack.follower.wait_state(case.recovery, "paused")
    last = stack.control.command("resume", case.recovery)
    stack.follower.wait_answer(last)
    done = case.finish()
    assert done["attempt"] == 1


@pytest.mark.wide("tests/e2e/test_replay.py::test_a_running_replay_is_throttled_paused_resumed_and_stopped_exactly")
def test_row_23_stop_among_pauses_and_resumes_wins(stack: Stack, new_case: NewCase) -> None:
    case = new_case()
    case.start()
    case.copying()
    sent = {verb: stack.control.command(verb, case.recovery) for verb in ("pause", "stop", "resume", "throttle")}
    stopped = stack.follower.wait_state(case.recovery, "stopped")
    assert stopped["stop"]["reason"] == "operator"
    for command_id in sent.values():
        stack.follower.wait_answer(command_id)
        assert sum(kinds(stack, command_id).values()) == 1
    assert kinds(stack, sent["stop"]) == {"command_accepted": 1}
    case.judge_what_was_covered()


def test_row_23_a_stop_before_the_first_record_stops_cleanly(stack: Stack, new_case: NewCase) -> None:
    case = new_case(observe=False)
    started = case.start()
    stack.control.command("stop", case.recovery)
    stopped = stack.follower.wait_state(case.recovery, "stopped")
    assert stopped["stop"]["reason"] == "operator"
    assert kinds(stack, started) == {"command_accepted": 1}
