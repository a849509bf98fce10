"""One-shot mode on a real broker: short runs, each with nothing left behind but what is in Kafka, add up to one
recovery that is exactly once.
"""

import pytest

from tests.e2e.data import fill_plain
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.e2e]

PARTITIONS = 3
EACH = 12_000
RECORDS_PER_S = 30  # twenty minutes of copying in all, so that no run of a busy machine comes to the end
RUN_S = 20
ENOUGH_S = 480  # a run with nothing left to do ends by itself
RUNS_MOST = 20
LEFT, DONE = 75, 0
SETTINGS = {"faust": {"instance_id": "one"}}


def run_once(stack: Stack, number: int, at_most_s: int = RUN_S) -> int:
    """The exit code of one run; when it is over, so is everything that it started."""
    made = stack.new_daemon(f"once-{number}", SETTINGS)
    made.start("--once", "--max-runtime", f"{at_most_s}s")
    code = made.await_exit(150 + at_most_s)
    wait_for(lambda: not stack.processes(), 60, lambda: f"processes are left: {stack.processes()}")
    return code


@pytest.mark.scenario("S-WIKI-C4")
def test_many_short_runs_finish_a_recovery_exactly_once(stack: Stack) -> None:
    source, target = f"{stack.mark}-in", f"{stack.mark}-out"
    fill_plain(stack.bootstrap, source, PARTITIONS, EACH)
    limits = {"max_records_per_s": RECORDS_PER_S}
    stack.control.replay("big", source, target, target_create=True, limits=limits)
    codes = [run_once(stack, 0)]
    while (rested := stack.follower.status("big")) is None and len(codes) < RUNS_MOST:
        codes.append(run_once(stack, len(codes), min(ENOUGH_S, RUN_S * 2 ** len(codes))))  # on a busy machine more time
    assert rested is not None
    assert set(codes) == {LEFT}
    # "pausing": its application did not come to rest in the minute that it has, and was ended.
    assert rested["state"] in {"paused", "pausing", "planning"}, rested["why"]
    # What comes while no daemon runs is done by the next one.
    late = stack.control.replay("late", source, f"{stack.mark}-late", target_create=True)
    codes.append(run_once(stack, len(codes)))
    # Its proof has the same limit, and has to fit into one run.
    stack.control.command("throttle", "big", {"limits": {"max_records_per_s": None}})
    while codes[-1] != DONE:
        assert codes[-1] == LEFT, codes
        assert len(codes) < RUNS_MOST, stack.follower.status("big")
        codes.append(run_once(stack, len(codes), ENOUGH_S))
    assert codes[:2] == [LEFT, LEFT], codes
    assert stack.follower.wait_answer(late)["type"] == "io.recoveryd.event.command_accepted.v1"
    for recovery, copy in (("big", target), ("late", f"{stack.mark}-late")):
        assert stack.completed(recovery)["verification"]["result"] == "match"
        assert not stack.violations(recovery, source, copy)
    rests = stack.follower.events(subject="big", kind="auto_pause")
    assert {event["data"]["reason"] for event in rests} <= {"leaving"}
    assert run_once(stack, len(codes), ENOUGH_S) == DONE
