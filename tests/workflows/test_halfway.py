"""Workflows whose steps fail when half of them is done: what is said of that, and what a rollback makes of it."""

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.states import State
from recoveryd.workflows.model.commands import Savepoint
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.spec import OutputChoice, OutputPolicy, SavepointSpec
from recoveryd.workflows.model.workflow import Workflow
from tests.workflows.app_world import AGAIN, INTERNAL, AppWorld
from tests.workflows.world import report

HINT = "`rollback` puts back what was changed"


def failed(world: AppWorld, **more: object) -> Workflow:
    world.reprocess(**more)
    world.run_through()
    assert world.workflow.state is State.FAILED
    return world.workflow


def test_one_that_changed_nothing_but_for_its_own_time_does_not_promise_a_rollback() -> None:
    world = AppWorld()
    world.fail_at("snapshot", retriable=False)
    world.send(lambda meta: Savepoint(meta, SavepointSpec("shop", "before")))
    world.run_through()
    assert world.workflow.undo, "compaction stood still, and goes on again"
    assert (world.workflow.state, HINT in world.workflow.why) == (State.FAILED, False)
    assert world.rollback() == "rejected"


def test_offsets_that_were_only_noted_are_no_change() -> None:
    world = AppWorld()
    world.refused = {("delete", INTERNAL[0])}
    assert HINT not in failed(world).why


def test_what_went_before_the_step_failed_is_a_change_that_is_gone_for_good() -> None:
    world = AppWorld()
    world.refused = {("delete", INTERNAL[1])}
    gone = f"records of {INTERNAL[0]} are gone for good"
    assert gone in failed(world).why
    world.members = []
    assert world.rollback() == "accepted"
    assert gone in world.answers[-1].message


def test_a_topic_that_went_and_could_not_be_made_is_made_by_a_rollback() -> None:
    """As it was, and empty; one that fails as well can be sent again."""
    world = AppWorld()
    world.configs["totals"] = {"cleanup.policy": "compact"}
    world.refused = {("create", "totals")}
    workflow = failed(world)
    assert "totals" not in world.topics
    assert "records of app-counts-changelog, app-by-key-repartition, totals are gone for good" in workflow.why
    assert HINT in workflow.why
    world.members = []
    assert world.rollback() == "accepted"
    world.pass_time(5)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.NOT_AUTHORISED.value)
    world.refused = set()
    assert world.rollback() == "accepted"
    world.pass_time(5)
    assert world.workflow.state is State.ROLLED_BACK
    assert (world.topics["totals"].end, world.configs["totals"]) == (0, {"cleanup.policy": "compact"})
    assert world.workflow.steps[-1].name == "make_topics_again"
    row = next(row for row in world.workflow.undo if row.name == "totals")
    assert (row.to, row.was_set) == ("totals-1", world.topics["totals"].id)


def test_what_a_failed_try_found_is_known_to_the_next_one() -> None:
    world = AppWorld()
    seen: list[object] = []

    def fault(effect: TakeStep) -> StepReported | None:
        if effect.step != "create_outputs":
            return None
        seen.append(effect.seen.get("looked"))
        code = Code.CLUSTER_UNREACHABLE.value
        found = {"looked": effect.try_number}
        is_late = effect.try_number > 2
        return None if is_late else report(effect, Outcome.FAILED, "no", code=code, is_retriable=True, evidence=found)

    world.fault = fault
    world.reprocess()
    world.run_through()
    assert (seen, world.workflow.state) == ([None, 1, 2], State.COMPLETED)


@pytest.mark.parametrize("is_controlled", [True, False])
def test_an_application_that_was_stopped_for_it_is_said_to_be_stopped(is_controlled: bool) -> None:
    """Until it was asked to start; who stopped it by hand knows."""
    world = AppWorld()
    world.fail_at("set_offsets", retriable=False)
    fails = world.fault

    def fault(effect: TakeStep) -> StepReported | None:
        if effect.step == "stop_application" and is_controlled and not world.members:
            return report(effect, Outcome.DONE, "stopped", evidence={"before": {"replicas": 3}})
        return fails(effect)

    world.fault = fault
    assert ("; shop is stopped; `rollback`" in failed(world).why) is is_controlled
    assert world.rollback() == "accepted"
    started = [step.name for step in world.workflow.steps if step.name == "start_application_again"]
    assert bool(started) is is_controlled


def test_one_that_was_started_already_is_not_said_to_be_stopped() -> None:
    world = AppWorld()
    world.fail_at("await_caught_up", retriable=False)
    fails = world.fault

    def fault(effect: TakeStep) -> StepReported | None:
        if effect.step == "stop_application" and not world.members:
            return report(effect, Outcome.DONE, "stopped", evidence={"before": {"replicas": 3}})
        return fails(effect)

    world.fault = fault
    assert "is stopped" not in failed(world).why


def test_a_stop_says_what_the_application_was_told_meanwhile() -> None:
    world = AppWorld()

    def fault(effect: TakeStep) -> StepReported | None:
        if effect.step != "stop_application":
            return None
        outcome = Outcome.NOT_YET if world.members else Outcome.DONE
        return report(effect, outcome, f"{len(world.members)} left", evidence={"before": {"replicas": 3}})

    world.fault = fault
    world.reprocess()
    world.stop()
    assert (world.workflow.state, world.workflow.why) == (
        State.STOPPED,
        "stopped by //ops/ann: r; shop was told to stop",
    )
    world.reprocess_as("w2")
    world.members = []
    world.pass_time(5)
    world.send(StopCommand, subject="w2")
    assert world.look("w2").why == "stopped by //ops/ann: r; shop is stopped"


REFUSED = (
    *(("delete", name) for name in (*INTERNAL, "totals", "log", "steps")),
    *(("create", name) for name in ("totals", "log", "steps")),
)


@pytest.mark.parametrize(("verb", "topic"), REFUSED)
def test_wherever_a_topic_is_refused_what_went_is_named_and_a_rollback_puts_the_rest_back(
    verb: str, topic: str
) -> None:
    world = AppWorld()
    world.refused = {(verb, topic)}
    ids, committed, configs = known(world)
    recreated = dict.fromkeys(("totals", "log"), OutputChoice(OutputPolicy.RECREATE))
    workflow = failed(world, outputs=recreated, intermediate={"steps": AGAIN}, keep_inputs=True)
    went = {name for name, topic_id in ids.items() if known(world)[0].get(name) != topic_id}
    named = workflow.why.partition("records of ")[2].partition(" are gone for good")[0]
    assert set(filter(None, named.split(", "))) == went
    at_failure, world.refused, world.members = known(world), set(), []
    assert world.rollback() == "accepted"
    world.pass_time(5)
    assert world.workflow.state is State.ROLLED_BACK
    assert (HINT in workflow.why) is (known(world) != at_failure)
    assert ids.keys() - world.topics.keys() <= set(INTERNAL), "those the application makes itself"
    assert known(world)[1] == {place: at for place, at in committed.items() if place[0] not in went}
    assert {name: known(world)[2][name] for name in configs.keys() & world.topics.keys()} == {
        name: configs[name] for name in configs.keys() & world.topics.keys()
    }


def known(world: AppWorld) -> tuple[dict[str, str], dict[tuple[str, int], int], dict[str, dict[str, str]]]:
    """Ids of topics, what is committed, and configs."""
    return (
        {name: log.id for name, log in world.topics.items()},
        dict(world.committed),
        {name: dict(configs) for name, configs in world.configs.items() if configs},
    )
