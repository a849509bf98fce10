"""`upgrade` to a version with another application id: a savepoint of the old one, restored for the new one, and the way
back.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from recoveryd.holds.spec import StartHold
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.states import State
from recoveryd.units.approvals import ApprovalBy, ApprovalRule, ApprovedVerb
from recoveryd.units.control import ENDED_CLEANLY
from recoveryd.units.model import ControlKind, Output
from recoveryd.workflows.model.actions import AwaitStopped
from recoveryd.workflows.model.commands import Upgrade
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.spec import UpgradeSpec
from recoveryd.workflows.model.workflow import StepState
from tests.builders.core import make_hold
from tests.builders.deciding import make_decider
from tests.workflows.app_world import INTERNAL, PARTITIONS, UNIT, Log
from tests.workflows.test_savepoint import save
from tests.workflows.two_versions import TwoVersions
from tests.workflows.world import report

NEW = replace(UNIT, name="shop-v2", group="next")
SUFFIXES = tuple(name.removeprefix("app-") for name in INTERNAL)
STEPS = (
    "confirm_compatibility", "stop_application", "await_empty", "snapshot", "take_savepoint", "compare_offsets",
    "restore_savepoint", "compare_offsets_again",
)  # fmt: skip
TAKEN = ("stop_application", "await_empty", "snapshot", "compare_offsets")
CHILD_STEPS = (
    "keep_changelogs", "create_copies", "create_state_topics", "settle_state_topics", "set_offsets", "start_application",
    "await_caught_up",
)  # fmt: skip
BACK = ("stop_new_version", "await_empty_again", "put_back_lost_offsets", "start_old_version")


def upgrade(world: TwoVersions, workflow: str = "w1", **more: object) -> str:
    spec = UpgradeSpec(UNIT.name, NEW.name, **more)  # type: ignore[arg-type]
    return world.send(lambda meta: Upgrade(meta, spec), subject=workflow)


def two_versions(**more: object) -> TwoVersions:
    return TwoVersions(UNIT, replace(NEW, **more), suffixes=SUFFIXES)  # type: ignore[arg-type]


def begun() -> TwoVersions:
    world = two_versions()
    assert upgrade(world) == "accepted"
    return world


def is_as_before(world: TwoVersions) -> None:
    """The old version reads, and nothing of the new one or of the savepoint is left."""
    assert world.groups["app"].runs == UNIT.name
    assert world.groups["next"].runs is None
    assert [name for name in world.topics if name.startswith(("next-", "savepoint."))] == []


@pytest.mark.scenario("S-WIKI-7")
def test_the_new_application_begins_with_state_and_offsets_of_the_old_one_and_each_record_comes_out_once() -> None:
    world = begun()
    assert [step.name for step in world.workflow.steps] == list(STEPS)
    world.people(until="restore_savepoint")
    assert (world.groups["app"].runs, world.groups["next"].runs) == (None, None)
    cut = {place: at for place, at in world.groups["app"].committed.items() if place[0] == "orders"}
    world.people()
    assert (world.workflow.state, world.groups["next"].runs) == (State.COMPLETED, NEW.name)
    state = {name: world.topics[name].end for name in world.topics if name.startswith("next-")}
    assert state == {f"next-{suffix}": 20 for suffix in SUFFIXES}
    assert set(world.published.values()) == {1}
    assert len(world.published) == PARTITIONS * world.groups["next"].committed["orders", 0]
    assert set(world.processed["next"]) == {
        (t, p, offset) for (t, p), at in cut.items() for offset in range(at, world.groups["next"].committed[t, p])
    }
    version = world.workflow.plan.version  # type: ignore[union-attr]
    assert version is not None
    assert version.unfixed_range == {"orders": {p: (0, at) for (_, p), at in cut.items()}}
    assert version.fix[0]["target"]["topic"] == "orders.before-w1"


@pytest.mark.scenario("S-WIKI-7")
def test_the_old_version_comes_back_and_goes_on_at_the_cut() -> None:
    world = begun()
    world.people()
    cut = dict(world.groups["app"].committed)
    world.rolls_back()
    assert [s.name for s in world.workflow.steps if s.state is StepState.DONE][-len(BACK) - 2 : -2] == list(BACK)
    is_as_before(world)
    assert all(world.groups["app"].committed[place] >= at for place, at in cut.items())
    assert any("is written once more" in answer.message for answer in world.answers)
    world.produce()
    assert upgrade(world, "w2") == "accepted"
    world.people()
    assert world.look("w2").state is State.COMPLETED, "with a cut of its own"


def test_the_old_version_begins_at_the_cut_where_its_commits_went_since() -> None:
    world = begun()
    world.people()
    cut = {place: at for place, at in world.groups["app"].committed.items() if place[0] == "orders"}
    world.groups["app"].committed.clear()
    world.rolls_back()
    assert [r for r, n in world.published.items() if n > 1 and r[2] < cut[r[0], r[1]]] == []


def test_each_version_that_a_rollback_leaves_stopped_is_named_where_it_fails() -> None:
    world = two_versions()

    def controlled(effect: TakeStep) -> StepReported | None:
        if isinstance(effect.action, AwaitStopped):
            world.stop_group(effect.action.group)
            return report(effect, Outcome.DONE, "stopped", evidence={"before": {"replicas": 3}})
        is_broken = effect.step == "await_empty_again"
        return report(effect, Outcome.FAILED, "no answer") if is_broken else None

    world.fault = controlled
    assert upgrade(world) == "accepted"
    world.people()
    assert (world.workflow.state, world.groups["next"].runs) == (State.COMPLETED, NEW.name)
    assert world.rollback() == "accepted"
    world.people()
    told = "await_empty_again: no answer; shop is stopped; shop-v2 is stopped"
    assert (world.workflow.state, world.workflow.why) == (State.FAILED, told)


def test_the_new_version_is_not_started_again_on_the_way_back_though_it_ran_before_it_was_restored() -> None:
    world = two_versions()

    def controlled(effect: TakeStep) -> StepReported | None:
        if not isinstance(effect.action, AwaitStopped):
            return None
        world.stop_group(effect.action.group)
        return report(effect, Outcome.DONE, "stopped", evidence={"before": {"replicas": 3}, "ran_before": True})

    world.fault = controlled
    assert upgrade(world) == "accepted"
    world.people()
    assert (world.workflow.state, world.groups["next"].runs) == (State.COMPLETED, NEW.name)
    world.rolls_back()
    is_as_before(world)
    assert "start_application_again" not in {step.name for step in world.look("w1-restore").steps}


def test_the_savepoint_that_it_takes_advises_nobody_to_start_the_old_version() -> None:
    world = TwoVersions(replace(UNIT, control=ControlKind.PROCESS), NEW, suffixes=SUFFIXES)
    assert upgrade(world) == "accepted"
    world.people(until="restore_savepoint")
    plan = world.look("w1-cut").plan
    assert plan is not None
    assert "start it once" not in "\n".join(plan.findings)


def with_unclear(name: str) -> Callable[[TwoVersions], None]:
    def change(world: TwoVersions) -> None:
        world.ambiguous = ((name, "somebody chose its name"),)

    return change


def with_internal(name: str) -> Callable[[TwoVersions], None]:
    def change(world: TwoVersions) -> None:
        world.topics[name] = Log("x", 0, 5)

    return change


@pytest.mark.parametrize(
    ("change", "more", "code", "says"),
    [
        (lambda w: w.start(NEW.name), {}, Code.GROUP_NOT_EMPTY, "shop-v2 runs already: next has 1 members"),
        (with_internal("next-counts-changelog"), {}, Code.TARGET_NOT_EMPTY, "state of its own"),
        (with_unclear("app-totals-changelog"), {}, Code.AMBIGUOUS_TOPICS, "would not be taken over"),
        (with_unclear("next-totals-changelog"), {}, Code.AMBIGUOUS_TOPICS, "would stay beside that of shop"),
        (lambda _: None, {"inputs": ("orders", "totals")}, Code.INVALID_VALUE, "totals"),
        (lambda _: None, {"cluster": "far"}, Code.INVALID_VALUE, "far"),
        (lambda w: w.topics.pop("orders"), {}, Code.SOURCE_TOPIC_MISSING, "orders"),
        (with_internal(f"savepoint.w1-cut.{INTERNAL[0]}"), {}, Code.INVALID_VALUE, "exists already"),
        (lambda _: None, {"group": "n" * 240}, Code.INVALID_VALUE, "longer than a topic's name"),
        (lambda _: None, {"outputs": {"log": Output()}}, Code.MISSING_FIELD, "writes a record twice"),
    ],
)
def test_what_cannot_be_taken_over_is_refused_before_anything_is_stopped(
    change: Callable[[TwoVersions], object], more: dict[str, object], code: Code, says: str
) -> None:
    world = two_versions(**more)
    change(world)
    assert (upgrade(world), world.answers[-1].code) == ("rejected", code.value)
    assert says in world.answers[-1].message
    assert world.groups["app"].runs == UNIT.name


def test_what_the_config_says_is_of_others_is_left_beside_the_new_version_and_told() -> None:
    world, name = two_versions(), "next-totals-changelog"
    world.ambiguous = ((name, "it is an output of billing"),)
    assert upgrade(world) == "accepted"
    assert world.workflow.plan is not None
    told = f"{name} may be an internal topic of shop-v2, and is left alone: it is an output of billing"
    assert told in world.workflow.plan.findings


@pytest.mark.scenario("S-WIKI-7")
@pytest.mark.parametrize("name", [*TAKEN, *CHILD_STEPS])
def test_a_step_that_fails_for_good_can_be_rolled_back_to_the_old_version(name: str) -> None:
    world = two_versions()
    world.fail_at(name, retriable=False)
    upgrade(world)
    world.people()
    assert world.workflow.state is State.FAILED, world.workflow.why
    world.fault = lambda _: None
    world.rolls_back()
    is_as_before(world)


@pytest.mark.scenario("S-WIKI-7")
@pytest.mark.parametrize("name", [*TAKEN, *CHILD_STEPS])
@pytest.mark.parametrize("is_done", [False, True])
def test_a_daemon_that_dies_before_or_after_the_effect_of_a_step_goes_on(name: str, is_done: bool) -> None:
    world = two_versions()
    world.die_at(name, is_done=is_done)
    upgrade(world)
    world.people(12)
    world.live_again()
    world.people()
    assert world.workflow.state is State.COMPLETED, world.workflow.why
    assert set(world.published.values()) == {1}
    assert len(world.published) == PARTITIONS * world.groups["next"].committed["orders", 0]


@pytest.mark.parametrize("name", BACK)
@pytest.mark.parametrize("is_done", [False, True])
def test_a_daemon_that_dies_on_the_way_back_goes_on_there(name: str, is_done: bool) -> None:
    world = begun()
    world.people()
    world.die_at(name, is_done=is_done)
    assert world.rollback() == "accepted"
    world.people(5)
    world.live_again()
    world.people()
    assert world.workflow.state is State.ROLLED_BACK, world.workflow.why
    is_as_before(world)


def test_a_way_back_that_is_stopped_halfway_leaves_nothing_going_on_and_can_be_gone_to_its_end() -> None:
    world = begun()
    world.people()

    def stands_still(effect: TakeStep) -> StepReported | None:
        is_of_child = effect.workflow == "w1-restore" and effect.step == "await_empty_again"
        return report(effect, Outcome.NOT_YET, "members") if is_of_child else None

    world.fault = stands_still
    assert world.rollback() == "accepted"
    world.people(10)
    assert (world.waits_at, world.look("w1-restore").state) == ("roll_back_restore_savepoint", State.WAITING)
    assert world.stop() == "accepted"
    world.people(3)
    assert (world.workflow.state, world.look("w1-restore").state, world.live()) == (State.STOPPED, State.STOPPED, [])
    world.fault = lambda _: None
    world.rolls_back()
    is_as_before(world)


@pytest.mark.scenario("S-WIKI-7")
def test_a_commit_while_the_state_is_copied_ends_it_before_anything_is_restored() -> None:
    world = begun()

    def commits(effect: TakeStep) -> StepReported | None:
        if effect.step == "compare_offsets":
            world.groups["app"].committed["orders", 1] += 1
        return None

    world.fault = commits
    world.people()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.GROUP_CHANGED.value)
    assert "orders 1" in world.workflow.why
    assert world.groups["next"].committed == {}


def test_a_commit_while_it_is_restored_ends_it_too() -> None:
    world = begun()

    def commits(effect: TakeStep) -> StepReported | None:
        if effect.step == "compare_offsets_again":
            world.groups["app"].committed["orders", 1] += 1
        return None

    world.fault = commits
    world.people()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.GROUP_CHANGED.value)
    assert "orders 1" in world.workflow.why


@pytest.mark.parametrize("verb", [ApprovedVerb.SAVEPOINT, ApprovedVerb.RESTORE_SAVEPOINT])
def test_what_it_begins_and_nobody_could_approve_is_refused_before_anything_is_stopped(verb: ApprovedVerb) -> None:
    world = two_versions()
    rule = ApprovalRule(ApprovalBy.APPROVERS, frozenset({verb}))
    world.params = replace(world.params, approvals=(rule,))
    world.core = make_decider(world.params)
    assert (upgrade(world), world.answers[-1].code) == ("rejected", Code.NOT_AN_APPROVER.value)
    assert verb.value in world.answers[-1].message


def test_other_workflows_leave_both_groups_alone_meanwhile() -> None:
    world = begun()
    assert world.reprocess_as("w2") == "rejected"
    assert (upgrade(world, "w3"), world.answers[-1].code) == ("rejected", Code.IN_USE.value)


def test_a_name_or_id_of_what_it_would_begin_that_somebody_has_is_refused_before_anything_is_stopped() -> None:
    world = two_versions()
    save(world, "w1-cut", "s1")
    world.people()
    assert world.look("s1").state is State.COMPLETED
    world.start(UNIT.name)
    assert (upgrade(world), world.answers[-1].code) == ("rejected", Code.ID_IN_USE.value)
    assert "there is a savepoint w1-cut already" in world.answers[-1].message
    save(world, "other", "w2-restore")
    assert world.send(StopCommand, subject="w2-restore") == "accepted"
    assert (upgrade(world, "w2"), world.answers[-1].code) == ("rejected", Code.ID_IN_USE.value)
    assert "workflow w2-restore exists already" in world.answers[-1].message
    assert upgrade(world, "w3") == "accepted"


@pytest.mark.parametrize("topic", ["orders", f"{INTERNAL[0]} to read"])
def test_a_hold_on_what_it_sets_or_copies_is_told_before_anything_is_stopped(topic: str) -> None:
    world = two_versions()
    name, _, is_read = topic.partition(" ")
    hold = replace(make_hold(name), reads=bool(is_read))
    assert world.send(lambda meta: StartHold(meta, hold), subject="h1") == "accepted"
    assert (upgrade(world), world.answers[-1].code) == ("rejected", Code.TOPIC_HELD.value)
    assert world.groups["app"].runs == UNIT.name


@pytest.mark.parametrize(
    ("ended", "why"), [(False, "the application was killed"), (True, "it had ended as it was told")]
)
def test_the_savepoint_knows_how_the_old_version_ended_that_the_upgrade_stopped(ended: bool, why: str) -> None:
    world = two_versions()

    def stopped(effect: TakeStep) -> StepReported | None:
        if not isinstance(effect.action, AwaitStopped) or effect.workflow != "w1" or world.groups["app"].runs:
            return None
        return report(effect, Outcome.DONE, "it is stopped", evidence={ENDED_CLEANLY: ended})

    world.fault = stopped
    upgrade(world)
    world.people()
    cut = world.look("w1-cut").cut
    assert cut is not None
    assert (cut.is_exact, cut.is_exact_if_clean) == (ended, False)
    assert why in cut.why
