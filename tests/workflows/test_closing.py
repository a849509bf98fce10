"""What is said of configs and quotas that could not be put back: what they are, what they were, and Kafka's own
commands.
"""

from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.workflows.machine.closing import without
from recoveryd.workflows.model.actions import SetConfigs
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.spec import RunbookPath
from recoveryd.workflows.model.workflow import ConfigUndo, Ending, WorkflowStep
from tests.workflows.runbook_world import RunbookWorld
from tests.workflows.world import report

TOOL = "kafka-configs.sh --bootstrap-server BROKERS --alter"


def refuse_quotas(effect: TakeStep) -> StepReported | None:
    is_it = effect.step == "restore_quotas"
    return report(effect, Outcome.FAILED, "no", code=Code.NOT_AUTHORISED.value) if is_it else None


@pytest.mark.parametrize(
    ("before", "back"),
    [({}, "--delete-config consumer_byte_rate"), ({"my app": 5.5}, "--add-config consumer_byte_rate=5.5")],
)
def test_a_quota_that_is_left_is_named_with_the_command_for_its_client(before: dict[str, float], back: str) -> None:
    world = RunbookWorld()
    world.quotas, world.fault = dict(before), refuse_quotas
    world.begin(RunbookPath.RESUME, quotas={"my app": 2_000_000.0})
    world.go_through()
    assert world.stop() == "accepted"
    assert (world.workflow.state, world.quotas) == (State.COMPLETED, {"my app": 2_000_000.0})
    was = "5.5" if before else "not set"
    assert f"the quota of my app is 2000000, was {was}. To put it back: `{TOOL}" in world.workflow.why
    assert f"`{TOOL} --entity-type clients --entity-name 'my app' {back}`" in world.workflow.why
    assert "quota of my app is not put back" in world.workflow.report["open"]  # type: ignore[index]


def refused_for_a_day() -> RunbookWorld:
    """What it puts back is refused, and the time for that is over."""
    world = RunbookWorld()
    world.fault = refuse_quotas
    world.begin(RunbookPath.RESUME, quotas={"my app": 2_000_000.0})
    world.go_through()
    world.now_ms += 25 * 3_600_000
    return world


def assert_ended(world: RunbookWorld, *, is_given_up: bool) -> None:
    assert world.workflow.state is (State.COMPLETED if is_given_up else State.FAILED)
    assert ("given up by" if is_given_up else "tried for long enough (no)") in world.workflow.why


@pytest.mark.parametrize("is_given_up", [True, False])
def test_that_a_person_gave_up_while_no_daemon_ran_is_read_before_its_time_is_over(is_given_up: bool) -> None:
    world = refused_for_a_day()

    def unread() -> None:
        assert world.workflow.state is State.CLOSING
        assert world.workflow.why.endswith("it is tried once more when all commands on the control topic are read")
        if is_given_up:
            assert world.stop() == "accepted"

    world.lead(unread)
    world.pass_time(120)
    assert_ended(world, is_given_up=is_given_up)


@pytest.mark.parametrize("is_stopped", [True, False])
def test_the_last_try_of_a_daemon_that_died_is_not_the_last_before_what_was_sent_since_then_is_read(
    is_stopped: bool,
) -> None:
    world = refused_for_a_day()
    world.lost = True
    for _ in range(200):
        world.pass_time(1)
        if world.workflow.ending is not None and world.workflow.ending.is_last_try:
            break
    assert world.workflow.ending is not None
    assert world.workflow.ending.is_last_try
    world.lost = False

    def unread() -> None:
        assert world.workflow.state is State.CLOSING
        if is_stopped:
            assert world.stop() == "accepted"

    world.lead(unread)
    world.pass_time(120)
    assert_ended(world, is_given_up=is_stopped)


def left(*rows: ConfigUndo, ending: Ending) -> Ending:
    world = RunbookWorld()
    world.begin(RunbookPath.RESUME)
    step = WorkflowStep("restore_configs", SetConfigs("main", {row.name: {row.config: row.to} for row in rows}))
    found = without(replace(world.workflow, undo=rows, steps=(step,), ending=ending), step, "no").ending
    assert found is not None
    return found


def config(name: str, to: str | None = None) -> ConfigUndo:
    return ConfigUndo(name, "cleanup.policy", to, "delete", is_temporary=True)


def test_a_value_that_is_a_list_is_one_value_of_the_command() -> None:
    found = left(config("t", "compact,delete"), ending=Ending(State.COMPLETED, "done"))
    assert f"`{TOOL} --entity-type topics --entity-name t --add-config 'cleanup.policy=[compact,delete]'`" in found.why
    assert (found.state, found.code) == (State.FAILED, Code.LEFT_CHANGED.value)


def test_a_workflow_that_failed_anyway_keeps_its_code() -> None:
    found = left(config("t"), ending=Ending(State.FAILED, "broken", "RCV-3050"))
    assert (found.state, found.code, found.why.startswith("broken; restore_configs was tried")) == (
        State.FAILED, "RCV-3050", True,
    )  # fmt: skip


def test_of_many_topics_the_reason_names_some_and_says_where_the_others_are() -> None:
    found = left(*(config(f"t{n}") for n in range(30)), ending=Ending(State.STOPPED, "stopped"))
    assert found.why.count(TOOL) == 20
    assert "and 10 more, whose `undo` is `left` in the record" in found.why
    assert (found.state, found.code) == (State.STOPPED, Code.LEFT_CHANGED.value)
