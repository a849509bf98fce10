"""Offsets of connectors and of jobs of Flink in the core: who stops and starts them, and what is said where nobody can
be asked.
"""

from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.recovery.spec import Earliest
from recoveryd.units.model import ControlKind, Unit, UnitKind
from recoveryd.workflows.model.actions import AskPerson, SetOffsets
from recoveryd.workflows.model.commands import Ack, Reprocess, Reset
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.spec import ReprocessSpec, ResetSpec
from tests.workflows.app_world import PARTITIONS, AppWorld
from tests.workflows.test_starting_again import ControlledWorld
from tests.workflows.world import report

SINK = Unit("sink", UnitKind.CONNECT, "main", "to-files", ("orders",), control=ControlKind.CONNECT)
JOB = Unit("job", UnitKind.FLINK, "main", "job-group", ("orders",))
AROUND = ["stop_application", "await_empty", "snapshot", "set_offsets", "start_application"]
BACK = ["stop_again", "await_empty_again", "put_back_offsets", "start_again"]
BEFORE, EARLIEST = (dict.fromkeys(range(PARTITIONS), at) for at in (60, 0))


def world_of(unit: Unit) -> AppWorld:
    world = AppWorld(unit)
    world.send(lambda meta: Reset(meta, ResetSpec("main", "", Earliest(), unit=unit.name)))
    return world


def committed(world: AppWorld) -> dict[int, int]:
    return {p: at for (topic, p), at in world.committed.items() if topic == "orders"}


def names(world: AppWorld) -> list[str]:
    return [step.name for step in world.workflow.steps]


@pytest.mark.scenario("S-RUN-22")
def test_a_connector_is_stopped_set_by_connect_and_started_and_a_rollback_does_the_same() -> None:
    world = ControlledWorld(SINK)
    world.send(lambda meta: Reset(meta, ResetSpec("main", "", Earliest(), unit="sink")))
    world.pass_time(10)
    assert (names(world), world.workflow.state) == (AROUND, State.COMPLETED)
    assert committed(world) == EARLIEST
    assert world.rollback() == "accepted"
    assert names(world)[len(AROUND) :] == [
        "stop_application_again",
        "await_empty_again",
        "put_back_offsets",
        "start_application_again",
    ]
    world.pass_time(20)
    assert (committed(world), world.workflow.state) == (BEFORE, State.ROLLED_BACK)
    assert [s.action.connector for s in world.workflow.steps if isinstance(s.action, SetOffsets)] == ["sink", "sink"]
    assert world.replicas == 3


@pytest.mark.scenario("S-RUN-22")
def test_the_answer_to_a_rollback_does_not_say_that_what_it_starts_stays_stopped() -> None:
    world = ControlledWorld(SINK)
    world.fail_at("set_offsets", retriable=False)
    world.send(lambda meta: Reset(meta, ResetSpec("main", "", Earliest(), unit="sink")))
    world.pass_time(10)
    assert (world.workflow.state, world.replicas) == (State.FAILED, 0)
    world.fault = lambda _: None
    assert (world.rollback(), world.answers[-1].message) == ("accepted", "w1 is rolled back")
    world.pass_time(20)
    assert (world.workflow.state, world.replicas) == (State.ROLLED_BACK, 3)


@pytest.mark.scenario("S-RUN-22")
@pytest.mark.parametrize("name", ["snapshot", "set_offsets"])
def test_a_connector_whose_offsets_could_not_be_set_is_said_to_be_stopped(name: str) -> None:
    world = AppWorld(SINK)

    def fault(effect: TakeStep) -> StepReported | None:
        if effect.step == "stop_application":
            return report(effect, Outcome.DONE, "stopped", evidence={"before": {}})
        return report(effect, Outcome.FAILED, "no", code=Code.STEP_FAILED.value) if effect.step == name else None

    world.fault, world.members = fault, []
    world.send(lambda meta: Reset(meta, ResetSpec("main", "", Earliest(), unit="sink")))
    assert world.workflow.state is State.FAILED
    assert "sink is stopped" in world.workflow.why
    assert committed(world) == BEFORE


@pytest.mark.scenario("S-RUN-22")
def test_a_connector_processes_everything_again_as_an_application_does() -> None:
    world = AppWorld(SINK)
    world.send(lambda meta: Reprocess(meta, ReprocessSpec("sink", Earliest(), outputs={})))
    world.stops()
    world.starts()
    assert world.workflow.state is State.COMPLETED
    assert [s.action.connector for s in world.workflow.steps if isinstance(s.action, SetOffsets)] == ["sink"]


def test_a_connector_that_a_person_stops_is_set_as_any_group() -> None:
    world = world_of(replace(SINK, control=ControlKind.MANUAL))
    assert names(world) == ["await_empty", "snapshot", "set_offsets"]
    assert [s.action.connector for s in world.workflow.steps if isinstance(s.action, SetOffsets)] == [""]


@pytest.mark.scenario("S-RUN-22")
def test_what_a_source_connector_has_to_be_told_is_written_out() -> None:
    world = world_of(replace(SINK, inputs=()))
    answer = world.answers[-1]
    assert answer.code == Code.GROUP_TYPE.value
    assert "DELETE /connectors/to-files/offsets to begin anew" in answer.hint


@pytest.mark.scenario("S-RUN-22")
def test_of_flink_nothing_is_asked_and_a_person_is_told_each_command() -> None:
    world = world_of(JOB)
    world.members = []  # a job of Flink is never a member
    world.pass_time(10)
    assert (names(world), world.waits_at) == (AROUND, "stop_application")
    plan = world.workflow.plan
    assert plan is not None
    told = "\n".join(plan.findings)
    assert "nothing is asked of Flink" in told
    asked = [step.action.question for step in world.workflow.steps if isinstance(step.action, AskPerson)]
    assert all(question in told for question in asked)
    assert "flink stop --savepointPath SAVEPOINTS JOB_ID" in asked[0]
    assert "flink run --detached JAR" in asked[1]
    assert committed(world) == BEFORE, "an empty group does not say that it is stopped"
    world.send(lambda meta: Ack(meta, "stop_application"))
    world.pass_time(5)
    assert (committed(world), world.waits_at) == (EARLIEST, "start_application")
    world.send(lambda meta: Ack(meta, "start_application"))
    assert world.workflow.state is State.COMPLETED
    assert world.rollback() == "accepted"
    assert names(world)[len(AROUND) :] == BACK
    world.send(lambda meta: Ack(meta, "stop_again"))
    world.pass_time(5)
    assert committed(world) == BEFORE
    world.send(lambda meta: Ack(meta, "start_again"))
    assert world.workflow.state is State.ROLLED_BACK
