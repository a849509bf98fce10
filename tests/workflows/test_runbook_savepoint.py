"""The savepoint with which a runbook lets an application begin again: which one it takes, what is said of that, and
that what a restore of it would be refused for is refused with the plan.
"""

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.workflows.kinds.runbook.gates import evidence_of
from recoveryd.workflows.model.spec import RunbookPath, RunbookSpec
from tests.workflows.app_world import INTERNAL, PARTITIONS
from tests.workflows.runbook_world import RunbookWorld
from tests.workflows.test_savepoint import save

WHY = "is not known to be exactly once: records behind the cut may be counted twice"
STALE = {
    "sink": {"orders": dict.fromkeys(range(PARTITIONS), 60)},
    "state": {"orders": dict.fromkeys(range(PARTITIONS), 40)},
}


def saved(*, live: bool = False) -> RunbookWorld:
    """With a savepoint `before`, and with `live` a later one of an application that ran."""
    world = RunbookWorld()
    take(world, "before")
    if live:
        take(world, "running", live=True)
    world.members = []
    return world


def take(world: RunbookWorld, name: str, *, live: bool = False) -> None:
    workflow = f"s-{name}"
    save(world, name, workflow, live=live)
    world.run_through(workflow)
    assert world.look(workflow).state is State.COMPLETED
    world.seen_sent = len(world.sent)


def spec_of(world: RunbookWorld) -> RunbookSpec:
    assert isinstance(world.workflow.spec, RunbookSpec)
    return world.workflow.spec


def test_one_of_one_moment_is_taken_before_a_later_one_of_an_application_that_ran() -> None:
    world = saved(live=True)
    assert world.begin(RunbookPath.RESTORE_STATE) == "accepted"
    assert spec_of(world).savepoint == "before"


def test_the_newest_of_those_is_taken() -> None:
    world = saved(live=True)
    take(world, "later")
    world.begin(RunbookPath.RESTORE_STATE)
    assert spec_of(world).savepoint == "later"


def test_what_is_not_known_of_it_is_said_with_the_plan_with_the_state_and_with_the_question() -> None:
    world = RunbookWorld()
    take(world, "running", live=True)
    world.members = []
    assert world.begin(**STALE) == "accepted"
    assert world.workflow.plan is not None
    assert any(WHY in finding for finding in world.workflow.plan.findings)
    state = evidence_of(world.workflow, "confirm_input")["dependencies"]["state"]  # type: ignore[index]
    assert state["state"] == "warn"
    assert WHY in state["told"]
    assert world.waiting("w1") == "choose_path"
    assert f"it begins with savepoint running (the application ran and {WHY})" in world.workflow.why


def test_nothing_is_said_of_one_that_is_exact() -> None:
    world = RunbookWorld()
    world.is_exactly_once = True
    take(world, "before")
    world.begin(RunbookPath.RESTORE_STATE)
    assert world.workflow.plan is not None
    assert world.workflow.plan.findings[1:] == ("the path is restore_state",)


def test_what_a_restore_would_be_refused_for_is_refused_with_the_plan() -> None:
    world = saved()
    copy = f"savepoint.before.{INTERNAL[0]}"
    gone = world.topics.pop(copy)
    assert world.begin(RunbookPath.RESTORE_STATE) == "rejected"
    assert world.answers[-1].code == Code.SOURCE_TOPIC_MISSING.value
    assert copy in world.answers[-1].message
    world.topics[copy] = gone
    world.topics["orders"].start = 61
    assert world.begin(RunbookPath.RESTORE_STATE) == "rejected"
    assert world.answers[-1].code == Code.OFFSET_OUTSIDE_LOG.value
    world.topics["orders"].start = 0
    assert world.begin(RunbookPath.RESTORE_STATE) == "accepted"


def test_where_no_path_is_named_it_is_a_finding() -> None:
    world = saved()
    del world.topics[f"savepoint.before.{INTERNAL[0]}"]
    assert world.begin(**STALE) == "accepted"
    assert world.workflow.plan is not None
    assert any("restore_state could not be carried out as things are" in f for f in world.workflow.plan.findings)


@pytest.mark.parametrize("has_savepoint", [True, False])
def test_state_that_would_stay_is_refused_with_the_plan(has_savepoint: bool) -> None:
    world = saved() if has_savepoint else RunbookWorld()
    world.ambiguous = (("app-totals-changelog", "somebody chose its name"),)
    assert world.begin(RunbookPath.RESTORE_STATE) == "rejected"
    assert world.answers[-1].code == Code.AMBIGUOUS_TOPICS.value
    assert "app-totals-changelog may hold state of shop" in world.answers[-1].message
