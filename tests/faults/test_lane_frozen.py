"""Row 33: one Python worker is frozen while the others go on: its attempt is lost, and the next one copies exactly, or
proves the copy anew.
"""

import signal
from collections.abc import Iterator

import pytest

from tests.e2e.case import NewCase
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.processes import await_gone, kill
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e, pytest.mark.faults]


@pytest.fixture(scope="module", autouse=True)
def daemon(stack: Stack) -> Iterator[DaemonProcess]:
    with stack.running(settings={"attempts": {"heartbeat_timeout": "45s"}}) as leading:
        yield leading


def test_row_33_one_frozen_lane_loses_the_attempt_although_the_others_move(stack: Stack, new_case: NewCase) -> None:
    case = new_case()
    case.start(records_per_s=100)
    case.copying()
    [frozen, *_] = case.workers(least=2)
    kill(frozen, signal.SIGSTOP)
    stack.follower.wait(lambda: case.attempt() >= 2, 120, "the second attempt")
    stack.follower.catch_up()
    lost = stack.follower.events(subject=case.recovery, kind="attempt_lost")
    assert any("nothing was heard of lane" in e["data"]["why"] for e in lost)
    await_gone([frozen])
    done = case.finish()
    assert done["attempt"] >= 2


@pytest.mark.wide(
    "tests/recovery/test_life_of_a_verification.py::test_a_task_that_falls_silent_loses_the_attempt_and_the_next_one_begins_to_read_anew"
)
def test_row_33_one_frozen_task_of_the_proof_loses_the_attempt_and_not_the_recovery(
    stack: Stack, new_case: NewCase
) -> None:
    case = new_case()
    case.start(records_per_s=None, limits={"max_records_per_s": 600})
    stack.follower.wait_state(case.recovery, "verifying", 120)
    stack.follower.wait(lambda: len({b["lane"] for _, b in stack.follower.verifying(case.recovery)}) >= 2, 60, "tasks")
    [frozen, *_] = case.workers(least=2)
    kill(frozen, signal.SIGSTOP)
    stack.follower.wait(lambda: case.attempt() >= 2, 120, "the second attempt")
    stack.follower.catch_up()
    [lost] = stack.follower.events(subject=case.recovery, kind="attempt_lost")
    assert lost["data"]["why"].startswith("nothing was heard of task")
    await_gone([frozen])
    done = case.finish()
    assert (done["attempt"], done["state"]) == (2, "completed")
    assert [s for s in stack.follower.states(case.recovery) if s in {"running", "verifying"}] == [
        "running",
        "verifying",
    ]
