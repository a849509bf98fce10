"""Row 1: the daemon dies by SIGKILL in every state of a recovery, and at every step between reading a command, journal
and effect. Each time the next daemon goes on.
"""

import itertools
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from recoveryd.failpoints import POINTS
from tests.chosen import chosen_points
from tests.e2e.case import Case, NewCase
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e, pytest.mark.faults]

_lives = itertools.count(1)


PATIENT = {"attempts": {"heartbeat_timeout": "3m", "transaction_timeout": "3m", "adopt_wait": "30s"}}


def next_daemon(stack: Stack, more: Mapping[str, Any] = PATIENT) -> DaemonProcess:
    """The next daemon, with static membership: the group takes it for the same member, so it need not wait for a
    session to expire. It waits for an application that is frozen until that goes on, unless `more` says otherwise.
    """
    return stack.daemon(f"life{next(_lives)}", settings={"faust": {"instance_id": "one"}, **more})


def test_row_1_a_daemon_killed_in_each_state_is_followed_by_one_that_goes_on(stack: Stack, new_case: NewCase) -> None:
    case, running = new_case(), next_daemon(stack)

    def killed_in(state: str, after: Callable[[], object]) -> None:
        """Looks at all states since, because some last for a second only."""
        nonlocal running
        seen = len(stack.follower.states(case.recovery))
        after()
        stack.follower.wait(lambda: state in stack.follower.states(case.recovery)[max(0, seen - 1) :], 600, state)
        running.kill()
        running = next_daemon(stack)

    killed_in("starting", case.start)  # perhaps before its application was started
    killed_in("running", case.copying)
    begun = stack.follower.wait_state(case.recovery, "running")["attempt"]
    frozen = case.freeze()  # otherwise pausing would be over before the test sees it
    killed_in("pausing", lambda: stack.control.command("pause", case.recovery))
    case.thaw(frozen)
    killed_in("paused", lambda: None)
    killed_in("running", lambda: stack.control.command("resume", case.recovery))
    killed_in("verifying", case.unthrottle)
    done = case.judge()
    assert done["attempt"] == begun, "the application outlived every daemon"
    assert running.terminate() == 0


@pytest.mark.wide(
    "tests/faults/test_daemon_killed.py::test_row_1_a_daemon_killed_in_each_state_is_followed_by_one_that_goes_on"
)
def test_row_1_a_stop_that_the_daemon_died_in_ends_stopped(stack: Stack, new_case: NewCase) -> None:
    case, running = new_case(), next_daemon(stack)
    case.start()
    case.copying()
    frozen = case.freeze()  # otherwise stopping would be over before the daemon dies
    stack.control.command("stop", case.recovery)
    stack.follower.wait_state(case.recovery, "stopping")
    running.kill()
    case.thaw(frozen)
    running = next_daemon(stack)
    stack.follower.wait_state(case.recovery, "stopped")
    case.judge_what_was_covered()
    running.terminate()


@pytest.mark.scenario("S-WIKI-C1")
def test_row_1_a_pause_outlives_the_daemon_and_the_driver(stack: Stack, new_case: NewCase) -> None:
    case, running = new_case(), next_daemon(stack)
    case.start()
    case.copying()
    stack.control.command("pause", case.recovery)
    before = stack.follower.wait_state(case.recovery, "paused")
    running.kill()
    case.kill_application(1)
    running = next_daemon(stack, {})  # which does not wait for long for an application that is gone
    stack.control.command("resume", case.recovery)
    done = case.finish()
    assert done["attempt"] == 2
    assert [s["state"] for s in stack.follower.statuses(case.recovery) if s["version"] == before["version"]] == [
        "paused"
    ]
    running.terminate()


STEPS = sorted(point for point in POINTS if not point.startswith("watch."))  # a replay passes none of a watch
AROUND_EFFECTS = ("runtime.before_effects", "runtime.after_effects")


@pytest.fixture(scope="module")
def deaths(
    request: pytest.FixtureRequest, stack: Stack, plain: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Case, int]]:
    """For each chosen failpoint of the daemon, a recovery during which a daemon died there. Each daemon starts one,
    dies at its failpoint, and the next daemon (which will die at the next failpoint) goes on with it.
    """
    folder, found = tmp_path_factory.mktemp("once"), dict[str, tuple[Case, int]]()
    points = chosen_points(request)
    for number, point in enumerate(step for step in STEPS if step in points):
        case = Case(stack, f"d{number}", plain, f"{stack.mark}-death{number}")
        doomed = stack.daemon(
            f"doomed{number}", lead=False, environment=doom(point, folder), settings={"faust": {"instance_id": "one"}}
        )
        case.start(records_per_s=None)
        found[point] = (case, doomed.await_exit(60))
    next_daemon(stack)
    return found


def doom(point: str, folder: Path) -> dict[str, str]:
    """Environment of a daemon that dies at `point`. It reads one control record, but passes journal and effects several
    times.
    """
    passes = 1 if point.startswith("agent.") else 2
    return {"RECOVERYD_FAILPOINT": f"{point}:{passes}", "RECOVERYD_FAILPOINT_ONCE": str(folder / point)}


@pytest.mark.parametrize("point", [
    point if point in AROUND_EFFECTS else pytest.param(point, marks=pytest.mark.wide(
        "tests/integration/test_daemon_delivery.py::test_a_daemon_killed_between_any_two_steps_answers_each_command_once"
    ))
    for point in STEPS
])  # fmt: skip
def test_row_1_a_daemon_killed_at_any_step_loses_and_doubles_nothing(
    stack: Stack, deaths: dict[str, tuple[Case, int]], point: str
) -> None:
    case, exit_code = deaths[point]
    assert exit_code == -signal.SIGKILL
    done = case.judge()
    assert len(stack.follower.answers(done["command"]["id"])) == 1
