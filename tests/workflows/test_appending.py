"""An application that appends to its outputs, and fails when it is started: nothing starts it again before a person
decided so.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.recovery.commands import Pause, Resume
from recoveryd.units.control import TOLD
from recoveryd.units.model import Behaviour, ControlKind, Output, Unit
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import START_FAILED, Outcome, StepReported
from recoveryd.workflows.model.spec import OutputChoice, OutputPolicy
from tests.workflows.app_world import UNIT, AppWorld
from tests.workflows.world import report

DECIDE = "decide_start_application"
KEPT = {name: OutputChoice(OutputPolicy.APPEND) for name in UNIT.outputs}


class Starting:
    """What the cluster's side tells of starts: so many of them fail. `keys`: those that were asked for, each of them
    once.
    """

    def __init__(self, fails: int) -> None:
        self.fails, self.keys = fails, list[int]()

    def __call__(self, effect: TakeStep) -> StepReported | None:
        if effect.step != "start_application":
            return None
        if effect.since_ms not in self.keys:
            self.keys.append(effect.since_ms)
        if len(self.keys) > self.fails:
            return report(effect, Outcome.DONE, "it runs")
        return report(effect, Outcome.NOT_YET, "it ended with 1", evidence={**effect.seen, START_FAILED: True})


def begun(starting: Starting, outputs: Mapping[str, Output] = UNIT.outputs) -> AppWorld:
    """Everything is done before the start."""
    world = AppWorld(replace(UNIT, control=ControlKind.PROCESS, outputs=outputs))
    world.fault = starting
    world.reprocess(outputs=KEPT)
    world.stops()
    world.ack("clean_local_state")
    world.pass_time(10)
    return world


@pytest.mark.scenario("S-RUN-12")
def test_it_stops_for_a_decision_and_is_started_again_only_after_it() -> None:
    starting = Starting(fails=2)
    world = begun(starting)
    assert (world.workflow.state, world.waits_at) == (State.WAITING, DECIDE)
    assert "it may have written to log" in world.workflow.why.lower()
    assert "it ended with 1" in world.workflow.why
    world.pass_time(3_600, every_s=60)
    assert (world.waits_at, len(starting.keys)) == (DECIDE, 1)
    assert world.ack(DECIDE) == "accepted"
    world.pass_time(10)
    assert (world.waits_at, len(starting.keys)) == (f"{DECIDE}_2", 2), "the second start failed as well"
    world.ack(f"{DECIDE}_2")
    world.starts()
    world.ack("confirm_output")
    assert (world.workflow.state, len(starting.keys)) == (State.COMPLETED, 3)


@pytest.mark.scenario("S-RUN-12")
def test_neither_another_daemon_nor_a_pause_starts_it_again() -> None:
    starting = Starting(fails=1)
    world = begun(starting)
    world.lead()
    world.pass_time(60)
    world.send(Pause)
    world.send(Resume)
    world.pass_time(60)
    assert (world.waits_at, len(starting.keys)) == (DECIDE, 1)


@pytest.mark.scenario("S-RUN-12")
def test_a_pause_between_a_start_and_its_failure_does_not_start_it_again() -> None:
    starting = Starting(fails=1)
    waits = AppWorld(replace(UNIT, control=ControlKind.PROCESS))

    def starts_slowly(effect: TakeStep) -> StepReported | None:
        told = starting(effect)
        return None if told is None else report(effect, Outcome.NOT_YET, "it starts")

    waits.fault = starts_slowly
    waits.reprocess(outputs=KEPT)
    waits.stops()
    waits.ack("clean_local_state")
    waits.pass_time(10)
    waits.send(Pause)
    waits.send(Resume)
    waits.pass_time(10)
    assert len(starting.keys) == 1
    waits.fault = starting
    waits.pass_time(10)
    assert (waits.waits_at, len(starting.keys)) == (DECIDE, 1)


@pytest.mark.scenario("S-RUN-12")
def test_a_start_that_was_told_just_before_a_pause_is_known_to_the_next_daemon() -> None:
    """So that it is not told again of what somebody put at rest meanwhile."""
    world = AppWorld(replace(UNIT, control=ControlKind.PROCESS))
    asked: list[TakeStep] = []

    def is_slow(effect: TakeStep) -> StepReported | None:
        if effect.step != "start_application":
            return None
        asked.append(effect)
        return report(replace(effect, try_number=0), Outcome.NOT_YET, "nothing is heard yet")

    world.fault = is_slow
    world.reprocess(outputs=KEPT)
    world.stops()
    world.ack("clean_local_state")
    assert len(asked) == 1
    world.send(Pause)
    told = f"w1/start_application/{asked[0].since_ms}"
    world.feed(report(asked[0], Outcome.NOT_YET, "it starts", evidence={TOLD: told}))
    world.lead()
    world.send(Resume)
    assert (asked[-1].seen.get(TOLD), asked[-1].since_ms) == (told, asked[0].since_ms)


@pytest.mark.scenario("S-RUN-12")
def test_a_start_that_was_told_is_known_also_once_something_else_was_seen_of_it() -> None:
    world = AppWorld(replace(UNIT, control=ControlKind.PROCESS))
    asked: list[TakeStep] = []

    def has_old_state(effect: TakeStep) -> StepReported | None:
        if effect.step != "start_application":
            return None
        asked.append(effect)
        found = {TOLD: "w1/start_application/1"} if len(asked) == 1 else {"stale": ["0_0"], "tasks": 1}
        return report(effect, Outcome.NOT_YET, "it was started with old local state", evidence=found)

    world.fault = has_old_state
    world.reprocess(outputs=KEPT)
    world.stops()
    world.ack("clean_local_state")
    world.pass_time(20)
    assert [effect.seen.get(TOLD) for effect in asked] == [None, *["w1/start_application/1"] * (len(asked) - 1)]
    assert asked[-1].seen["tasks"] == 1


@pytest.mark.scenario("S-RUN-12")
def test_it_can_be_left_as_it_is_and_says_what_that_means() -> None:
    starting = Starting(fails=1)
    world = begun(starting)
    states = {step.name: step.state.value for step in world.workflow.steps}
    assert states["hold_start_application"] == "done", "it is stopped, lest its platform starts it again"
    assert world.stop() == "accepted"
    world.pass_time(10)
    assert (world.workflow.state, len(starting.keys)) == (State.STOPPED, 1)


@pytest.mark.scenario("S-RUN-12")
def test_a_workflow_that_fails_behind_the_start_says_what_a_second_one_would_do() -> None:
    world = AppWorld(replace(UNIT, control=ControlKind.PROCESS))

    def fault(effect: TakeStep) -> StepReported | None:
        is_it = effect.step == "await_caught_up"
        return report(effect, Outcome.FAILED, "no", code=Code.STEP_FAILED.value) if is_it else None

    world.fault = fault
    world.reprocess(outputs=KEPT)
    world.stops()
    world.ack("clean_local_state")
    world.starts()
    assert world.workflow.state is State.FAILED
    assert "shop was started and appends to log: compare before you start it again" in world.workflow.why


def test_one_that_overwrites_waits_for_who_mends_it_as_before() -> None:
    starting = Starting(fails=1)
    world = begun(starting, {name: Output(Behaviour.IDEMPOTENT) for name in UNIT.outputs})
    assert world.waits_at == "start_application"
    world.send(Pause)
    world.send(Resume)
    world.starts()
    assert len(starting.keys) == 2, "who resumes it has mended it"


@pytest.mark.scenario("S-RUN-12")
def test_what_writing_twice_does_has_to_be_declared_of_an_application_with_state() -> None:
    def answer(unit: Unit) -> str:
        world = AppWorld(unit)
        kind = world.reprocess(outputs=KEPT)
        return kind if kind == "accepted" else f"{world.answers[-1].code} {world.answers[-1].message}"

    unknown = replace(UNIT, outputs={**UNIT.outputs, "totals": Output()})
    assert answer(UNIT) == "accepted"
    assert answer(replace(unknown, stateful=False)) == "accepted"
    assert answer(unknown).startswith(Code.MISSING_FIELD.value)
    assert "nobody said what it does to totals" in answer(unknown)
