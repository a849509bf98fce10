"""`reset` and `rollback` in the core: steps one after the other, each of them failing, each of them cut off by the
death of the daemon.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import Tick
from recoveryd.kernel.states import State
from recoveryd.recovery.commands import Pause
from recoveryd.recovery.spec import AtOffset, AtTime, Earliest, Latest
from recoveryd.units.approvals import ApprovalBy, ApprovalRule, ApprovedVerb, approval_of_all
from recoveryd.units.events import UnitsRead
from recoveryd.units.facts import GroupType, Member
from recoveryd.units.model import Output, Unit
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.model.actions import TakeSnapshot
from recoveryd.workflows.model.commands import Reset, Rollback
from recoveryd.workflows.model.effects import GatherForWorkflow, TakeStep
from recoveryd.workflows.model.events import GatheringFailed, Outcome, StepReported
from recoveryd.workflows.model.positions import AtTopicOffsets, Current, OfSnapshot, OnNoRecord, OnOutOfRange, Shift, To
from recoveryd.workflows.model.spec import ResetSpec
from recoveryd.workflows.model.workflow import StepState, UndoState, WaitingFor
from tests.builders.core import NOW_MS
from tests.workflows import world as worlds
from tests.workflows.world import LOG, OWNED, PARTITIONS, TOPIC, GroupWorld, report

BEFORE = dict.fromkeys(range(PARTITIONS), 50)
STEPS = ("await_empty", "snapshot", "set_offsets")
BACK = ("await_empty_again", "put_back_offsets")
BUSY = Member("m1", "busy", "host", "static-1")


def at(offset: int) -> dict[int, int]:
    return dict.fromkeys(range(PARTITIONS), offset)


def states(world: GroupWorld) -> list[tuple[str, str]]:
    return [(step.name, step.state.value) for step in world.workflow.steps]


def test_it_waits_notes_sets_and_can_be_put_back() -> None:
    world = GroupWorld()
    assert world.reset() == "accepted"
    assert world.workflow.state is State.COMPLETED
    assert world.committed == at(10)
    assert states(world) == [(name, "done") for name in STEPS]
    assert [(c.before, c.after) for c in world.workflow.plan.changes] == [(50, 10)] * PARTITIONS  # type: ignore[union-attr]
    assert world.rollback() == "accepted"
    assert world.workflow.state is State.ROLLED_BACK
    assert world.committed == BEFORE
    assert {row.state for row in world.workflow.undo} == {UndoState.DONE}
    assert world.rollback() == "rejected"


@pytest.mark.parametrize("name", STEPS)
def test_a_step_that_fails_for_good_leaves_a_reason_and_a_rollback_that_works(name: str) -> None:
    world = GroupWorld()
    world.fail_at(name, retriable=False)
    world.reset()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.CLUSTER_UNREACHABLE.value)
    assert states(world)[STEPS.index(name)] == (name, "failed")
    assert world.committed == BEFORE
    world.fault = lambda _: None
    assert world.rollback() == ("accepted" if name == "set_offsets" else "rejected")
    assert world.committed == BEFORE


@pytest.mark.parametrize("name", [*STEPS, *BACK])
def test_a_step_that_fails_for_a_while_is_tried_again(name: str) -> None:
    world = GroupWorld()
    world.fail_at(name, retriable=True, times=3)
    world.reset()
    world.pass_time(120)
    world.rollback() if name in BACK else None
    world.pass_time(120)
    assert world.workflow.state is (State.ROLLED_BACK if name in BACK else State.COMPLETED)
    assert next(s for s in world.workflow.steps if s.name == name).tries == 4


def test_tries_of_a_change_have_an_end() -> None:
    world = GroupWorld()
    world.fail_at("set_offsets", retriable=True)
    world.reset()
    world.pass_time(600)
    assert world.workflow.state is State.FAILED


@pytest.mark.parametrize("name", [*STEPS, *BACK])
@pytest.mark.parametrize("is_done", [False, True])
def test_a_daemon_that_dies_before_or_after_the_effect_of_a_step_goes_on(name: str, is_done: bool) -> None:
    """`is_done`: the cluster did it, and nobody heard."""
    world = GroupWorld()
    world.die_at(name, is_done=is_done)
    world.reset()
    if name in BACK:
        world.rollback()
    world.live_again()
    assert world.workflow.state is (State.ROLLED_BACK if name in BACK else State.COMPLETED)
    assert world.committed == (BEFORE if name in BACK else at(10))


def test_an_effect_of_which_nothing_is_heard_is_wanted_again() -> None:
    world = GroupWorld()
    world.lost = True
    world.reset()
    world.lost = False
    world.pass_time(130)
    assert world.workflow.state is State.COMPLETED


def test_members_are_waited_for_and_named_and_the_wait_has_an_end() -> None:
    world = GroupWorld()
    world.members = [BUSY]
    assert world.reset() == "accepted"
    waiting = world.workflow.waiting_for
    assert waiting is not None
    assert (world.workflow.state, waiting.kind, waiting.members) == (
        State.WAITING,
        "group_empty",
        ("busy on host, static static-1",),
    )
    assert waiting.deadline_ms == waiting.since_ms + 600_000
    version = world.workflow.version
    world.pass_time(30)
    assert world.workflow.version <= version + 2 * 20  # a look each two seconds
    world.pass_time(600)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.GROUP_NOT_EMPTY.value)
    assert world.committed == BEFORE


def test_who_commits_without_being_a_member_is_waited_for_and_the_wait_has_an_end() -> None:
    """The second look found other offsets than the first."""
    world, moving = GroupWorld(), "orders 0 of app went from 50 to 51 while the group has no members"

    def moves(effect: TakeStep) -> StepReported | None:
        return report(effect, Outcome.NOT_YET, moving) if effect.step == "snapshot" else None

    world.fault = moves
    assert world.reset() == "accepted"
    [note] = [step.action for step in world.workflow.steps if isinstance(step.action, TakeSnapshot)]
    assert note.looks_twice
    world.pass_time(60)
    waiting = world.workflow.waiting_for
    assert waiting is not None
    assert (world.workflow.state, waiting.kind, waiting.step) == (State.WAITING, "group_empty", "snapshot")
    assert (world.workflow.why, world.committed) == (moving, BEFORE)
    world.fault, world.committed = (lambda _: None), at(60)
    world.pass_time(5)
    assert (world.workflow.state, world.committed) == (State.COMPLETED, at(10))
    assert [c.before for c in world.workflow.plan.changes] == [60] * PARTITIONS  # type: ignore[union-attr]
    world = GroupWorld()
    world.fault = moves
    world.reset()
    world.pass_time(700)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.GROUP_NOT_EMPTY.value)


def test_what_moves_until_the_group_is_empty_is_worked_out_when_it_is() -> None:
    for to, offset in ((Shift(-5), 65), (Current(), 70), (AtOffset(20), 20)):
        world = GroupWorld()
        world.members = [BUSY]
        world.reset(to)
        world.committed, world.members = at(70), []
        world.pass_time(5)
        assert world.committed == at(offset)
        assert [(c.before, c.after) for c in world.workflow.plan.changes] == [(70, offset)] * PARTITIONS  # type: ignore[union-attr]


def test_somebody_who_sets_an_offset_between_note_and_change_is_not_overwritten() -> None:
    world = GroupWorld()

    def fault(effect: TakeStep) -> StepReported | None:
        if effect.step == "set_offsets":
            world.committed[1] = 33
        return None

    world.fault = fault
    world.reset()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.GROUP_CHANGED.value)
    assert world.committed == {**BEFORE, 1: 33}


def test_what_somebody_else_set_since_stays_on_the_way_back() -> None:
    world = GroupWorld()
    world.reset()
    world.committed[1] = 33
    world.rollback()
    assert world.committed == {**BEFORE, 1: 33}
    assert [row.state for row in world.workflow.undo] == [UndoState.DONE, UndoState.KEPT, UndoState.DONE]


@pytest.mark.parametrize("is_made_again", [False, True])
def test_commits_that_expired_since_are_put_back_unless_they_went_with_their_topic(is_made_again: bool) -> None:
    world = GroupWorld()
    world.reset()
    world.committed.clear()
    world.topic_id = "another" if is_made_again else world.topic_id
    assert world.rollback() == "accepted"
    assert world.committed == ({} if is_made_again else BEFORE)
    assert {row.state for row in world.workflow.undo} == {UndoState.KEPT if is_made_again else UndoState.DONE}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda w: w.topics.clear(), Code.SOURCE_TOPIC_MISSING),
        (lambda w: setattr(w, "kind", GroupType.SHARE), Code.GROUP_TYPE),
        (
            lambda w: w.gathering_fails.append(GatheringFailed("w1", Code.NOT_AUTHORISED.value, "no", False)),
            Code.NOT_AUTHORISED,
        ),
    ],
)
def test_what_the_cluster_does_not_allow_is_refused_before_anything_is_changed(change, code: Code) -> None:  # type: ignore[no-untyped-def]
    world = GroupWorld()
    change(world)
    assert world.reset() == "rejected"
    assert (world.workflow.state, world.workflow.error_code) == (State.REJECTED, code.value)
    assert world.committed == BEFORE
    assert world.sets == 0


def test_a_position_outside_the_log_is_refused_and_a_partition_that_is_not_there_too() -> None:
    world = GroupWorld()
    assert world.reset(AtOffset(LOG[1] + 1)) == "rejected"
    assert world.answers[-1].code == Code.OFFSET_OUTSIDE_LOG.value
    spec = ResetSpec("main", "app", Latest(), topics={TOPIC: (0, PARTITIONS)})
    assert world.send(lambda meta: Reset(meta, spec)) == "rejected"
    assert world.answers[-1].code == Code.SOURCE_PARTITION_MISSING.value


NO_TOPIC, NO_PARTITION = {"ordres": {0: 20}}, {TOPIC: {0: 20, PARTITIONS: 20}}


@pytest.mark.parametrize(
    ("by", "lost", "says"),
    [
        ({"group": "app"}, NO_TOPIC, "ordres"),
        ({"unit": "plain"}, NO_TOPIC, "ordres"),
        ({"group": "app"}, NO_PARTITION, "orders has no partition 3"),
        ({"unit": "plain"}, NO_PARTITION, "orders has no partition 3"),
        ({"group": "app", "topics": {TOPIC: ()}}, NO_PARTITION, "orders has no partition 3"),
    ],
)
def test_no_offset_that_is_given_is_passed_over(by: dict[str, Any], lost: dict[str, dict[int, int]], says: str) -> None:
    world = GroupWorld(replace(OWNED, name="plain", approvers=()))
    spec = ResetSpec(**{"cluster": "main", "group": "", "to": AtTopicOffsets({TOPIC: {0: 20}, **lost}), **by})
    assert world.send(lambda meta: Reset(meta, spec)) == "rejected"
    assert says in world.answers[-1].message
    assert (world.committed, world.sets) == (BEFORE, 0)


def test_offsets_of_other_partitions_may_be_left_out_by_naming_those_that_are_meant() -> None:
    world = GroupWorld()
    to = AtTopicOffsets({TOPIC: {0: 20, 1: 21}, "other": {0: 3}})
    spec = ResetSpec("main", "app", to, topics={TOPIC: (0,)})
    assert world.send(lambda meta: Reset(meta, spec)) == "accepted"
    assert world.committed == {**BEFORE, 0: 20}


def more_is_written(monkeypatch: pytest.MonkeyPatch, _world: GroupWorld) -> None:
    monkeypatch.setattr(worlds, "LOG", (LOG[0], LOG[1] + 1))


def retention_goes_on(monkeypatch: pytest.MonkeyPatch, _world: GroupWorld) -> None:
    monkeypatch.setattr(worlds, "LOG", (LOG[0] + 1, LOG[1]))


def the_group_commits(_monkeypatch: pytest.MonkeyPatch, world: GroupWorld) -> None:
    world.committed = dict.fromkeys(range(PARTITIONS), 51)


AT_END, CLAMPED = {"on_no_record": OnNoRecord.AT_END}, {"on_out_of_range": OnOutOfRange.CLAMP}


@pytest.mark.parametrize("is_approved", [True, False])
@pytest.mark.parametrize(
    ("to", "more", "moves", "goal"),
    [
        (Latest(), {}, more_is_written, LOG[1] + 1),
        (Earliest(), {}, retention_goes_on, LOG[0] + 1),
        (Current(), {}, the_group_commits, 51),
        (Shift(-5), {}, the_group_commits, 46),
        (AtTime(NOW_MS), AT_END, more_is_written, LOG[1] + 1),
        (AtOffset(LOG[1] + 50), CLAMPED, more_is_written, LOG[1] + 1),
        (AtOffset(0), CLAMPED, retention_goes_on, LOG[0] + 1),
        (AtOffset(LOG[1]), {}, more_is_written, LOG[1]),
    ],
)
def test_what_moves_by_its_nature_can_be_agreed_to_while_it_moves(
    monkeypatch: pytest.MonkeyPatch,
    to: To,
    more: dict[str, Any],
    moves: Callable[[pytest.MonkeyPatch, GroupWorld], None],
    goal: int,
    is_approved: bool,
) -> None:
    world = GroupWorld(*([OWNED] if is_approved else []))
    assert world.reset(to, dry_run=not is_approved, **more) == "accepted"
    plan = world.workflow.plan
    assert plan is not None
    moves(monkeypatch, world)
    answer = world.approve("//ops/kim") if is_approved else world.reset(to, plan_hash=plan.hash, **more)
    assert (answer, world.workflow.state, world.committed) == ("accepted", State.COMPLETED, at(goal)), world.answers


def test_what_stays_where_it_is_keeps_its_number() -> None:
    world = GroupWorld()
    hashes = []
    for to in (AtOffset(LOG[1]), AtOffset(LOG[1] - 1), Latest(), Earliest(), Current(), Shift(1), Shift(2)):
        world.reset(to, dry_run=True)
        assert world.workflow.plan is not None
        hashes.append(world.workflow.plan.hash)
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize(("to", "word"), [(Latest(), "latest"), (Shift(-5), "shift -5"), (AtOffset(20), "")])
def test_who_agrees_to_numbers_that_move_is_told(to: To, word: str) -> None:
    world = GroupWorld(OWNED)
    world.reset(to)
    assert world.workflow.plan is not None
    assert [f.partition(" moves: ")[0] for f in world.workflow.plan.findings if " moves: " in f] == [word] * bool(word)


def test_the_partitions_are_a_part_of_what_is_agreed_to_also_where_their_positions_move() -> None:
    world = GroupWorld()
    world.send(lambda meta: Reset(meta, ResetSpec("main", "app", Latest(), topics={TOPIC: (0,)}, dry_run=True)))
    assert world.workflow.plan is not None
    assert world.reset(Latest(), plan_hash=world.workflow.plan.hash) == "rejected"


def test_a_dry_run_changes_nothing_and_its_hash_guards_the_same_plan() -> None:
    world = GroupWorld()
    assert world.reset(dry_run=True) == "accepted"
    assert (world.workflow.state, world.committed) == (State.PLANNED, BEFORE)
    assert world.workflow.plan is not None
    planned = world.workflow.plan.hash
    assert world.reset(AtOffset(11), plan_hash=planned) == "rejected"
    assert world.answers[-1].code == Code.STALE_PLAN.value
    assert world.reset(plan_hash=planned) == "accepted"
    assert world.committed == at(10)


def test_a_unit_with_approvers_waits_for_one_who_did_not_ask() -> None:
    world = GroupWorld(OWNED)
    owned = ResetSpec("", "", Latest(), unit="owned")
    assert world.send(lambda meta: Reset(meta, owned), "//ops/kim") == "accepted"
    assert (world.workflow.state, world.workflow.spec.group) == (State.AWAITING_APPROVAL, "app")
    assert (world.approve("//ops/kim"), world.answers[-1].code) == ("rejected", Code.NOT_AN_APPROVER.value)
    assert (world.approve("//ops/eve"), world.answers[-1].code) == ("rejected", Code.NOT_AN_APPROVER.value)
    world.state = world.state  # nothing was started by either
    assert world.committed == BEFORE
    world = GroupWorld(OWNED)
    world.send(lambda meta: Reset(meta, owned), "//ops/ann")
    assert (world.approve("//ops/kim", "another"), world.answers[-1].code) == ("rejected", Code.STALE_PLAN.value)
    assert world.approve("//ops/kim") == "accepted"
    assert (world.workflow.state, world.committed) == (State.COMPLETED, at(LOG[1]))


OTHER = replace(OWNED, name="other", approvers=())


@pytest.mark.parametrize(
    ("other", "asked"),
    [
        (OTHER, True),  # the group is one
        (replace(OTHER, group="own", outputs={"sums": Output()}), True),  # an output is
        (replace(OTHER, group="own", outputs={"counts": Output()}), False),
        (replace(OTHER, cluster="far", outputs={"sums": Output()}), False),
    ],
)
def test_who_approves_is_not_chosen_by_the_unit_that_a_command_names(other: Unit, *, asked: bool) -> None:
    units = {unit.name: unit for unit in (other, replace(OWNED, outputs={"sums": Output()}))}
    found = approval_of_all((), "reset", other, units)
    assert (found is not None and found.sources == OWNED.approvers) is asked


def test_a_reset_by_the_other_unit_of_a_group_waits_for_the_same_approvers() -> None:
    world = GroupWorld(OTHER, OWNED)
    spec = ResetSpec("", "", Latest(), unit="other")
    assert world.send(lambda meta: Reset(meta, spec)) == "accepted"
    assert world.workflow.why.startswith("waits for approval by one of //ops/kim")
    assert (world.approve("//ops/eve"), world.approve("//ops/kim")) == ("rejected", "accepted")
    assert world.workflow.state is State.COMPLETED


def test_a_late_answer_to_an_earlier_one_of_the_same_id_makes_no_plan() -> None:
    """A plan is asked for, and then the same under its id, which is free again."""
    world = GroupWorld()
    asked: list[GatherForWorkflow] = []
    gather = world.gather
    world.gather = lambda effect: asked.append(effect) or Tick()  # type: ignore[method-assign, assignment, func-returns-value, return-value]
    world.reset(dry_run=True)
    world.pass_time(130)
    assert len(asked) == 2
    world.feed(gather(asked[1]))
    assert world.workflow.state is State.PLANNED
    world.reset(AtOffset(20))
    for late in (gather(asked[0]), GatheringFailed("w1", Code.NO_SUCH_GROUP.value, "gone", False, asked[0].version)):
        world.feed(late)
        assert world.workflow.state is State.PLANNING
    world.feed(gather(asked[2]))
    assert (world.workflow.state, world.committed) == (State.COMPLETED, at(20))


NO_ANSWER = GatheringFailed("w1", Code.CLUSTER_UNREACHABLE.value, "no answer", True)


@pytest.mark.parametrize("waits_s", [1, 7_200])
def test_a_cluster_that_is_busy_when_the_plan_is_approved_is_asked_again(waits_s: int) -> None:
    world = GroupWorld(OWNED)
    world.send(lambda meta: Reset(meta, ResetSpec("", "", Latest(), unit="owned")), "//ops/ann")
    world.pass_time(waits_s, every_s=10)
    world.gathering_fails = [NO_ANSWER] * 3
    assert world.approve("//ops/kim") == "accepted"
    assert (world.workflow.state, world.committed) == (State.AWAITING_APPROVAL, BEFORE)
    world.pass_time(30)
    assert (world.workflow.state, world.committed) == (State.COMPLETED, at(LOG[1]))


@pytest.mark.parametrize("begins_anew", [False, True])
def test_a_cluster_that_does_not_answer_for_a_minute_refuses_the_plan(begins_anew: bool) -> None:
    world = GroupWorld()
    world.gathering_fails = [NO_ANSWER] * 1_000
    world.reset()
    world.pass_time(50)
    assert world.workflow.state is State.PLANNING
    if begins_anew:
        world.lead()
        world.pass_time(50)
        assert world.workflow.state is State.PLANNING, "a new daemon asks for as long"
    world.pass_time(20)
    assert (world.workflow.state, world.workflow.error_code) == (State.REJECTED, Code.CLUSTER_UNREACHABLE.value)
    assert world.answers[-1].kind == "rejected"


def test_a_cluster_of_which_nothing_is_heard_at_all_refuses_the_plan_as_well() -> None:
    world = GroupWorld()
    world.lost = True
    world.reset()
    world.pass_time(150)
    assert world.workflow.state is State.PLANNING
    world.pass_time(200)
    assert (world.workflow.state, world.workflow.error_code) == (State.REJECTED, Code.CLUSTER_UNREACHABLE.value)
    assert "in 240 s" in world.workflow.why


OF_THE_OWNER = ApprovalRule(ApprovalBy.OWNER, frozenset({ApprovedVerb.RESET}))


def test_a_rule_of_the_config_says_who_approves() -> None:
    world = GroupWorld(replace(OWNED, owner="//team/orders"), approvals=(OF_THE_OWNER,))
    assert world.reset() == "accepted"
    assert world.workflow.why == "waits for approval by one of //team/orders: 3 offsets of app are to be set"
    assert (world.approve("//ops/kim"), world.answers[-1].code) == ("rejected", Code.NOT_AN_APPROVER.value)
    assert world.approve("//team/orders") == "accepted"
    assert world.workflow.state is State.COMPLETED


def test_a_rule_can_let_it_run_without_approval() -> None:
    world = GroupWorld(OWNED, approvals=(ApprovalRule(ApprovalBy.NOBODY),))
    assert world.reset() == "accepted"
    assert world.workflow.state is State.COMPLETED


@pytest.mark.scenario("S-RUN-5d")
def test_an_approval_that_nobody_can_give_is_refused_with_the_plan() -> None:
    world = GroupWorld(OWNED, approvals=(OF_THE_OWNER,))
    assert (world.reset(), world.answers[-1].code) == ("rejected", Code.NOT_AN_APPROVER.value)
    assert world.answers[-1].message == "an approval by the owner of owned is needed, and it has none"
    assert world.committed == BEFORE


def test_units_that_are_read_again_have_their_new_approvers_also_for_what_waits() -> None:
    world = GroupWorld(OWNED)
    world.reset()
    world.feed(UnitsRead({"owned": replace(OWNED, approvers=("//ops/lee",))}))
    assert world.approve("//ops/kim") == "rejected"
    assert world.approve("//ops/lee") == "accepted"
    world = GroupWorld(OWNED)
    world.reset()
    world.feed(UnitsRead({}))
    assert (world.approve("//ops/kim"), world.answers[-1].code) == ("rejected", Code.NOT_AN_APPROVER.value)
    assert "nobody is asked to approve w1 any more" in world.answers[-1].message


def test_a_rule_that_is_read_again_holds_from_then_on_also_for_what_waits() -> None:
    owned = replace(OWNED, owner="//ops/lee")
    world = GroupWorld(owned)
    world.reset()
    world.feed(UnitsRead({"owned": owned}, approvals=(OF_THE_OWNER,)))
    assert world.approve("//ops/kim") == "rejected"
    assert world.approve("//ops/lee") == "accepted"


@pytest.mark.parametrize("way_out", ["approved", "rejected", "stopped", "expired", "approved, not answered"])
def test_what_waits_for_its_approval_says_so_and_until_when(way_out: str) -> None:
    world = GroupWorld(OWNED)
    world.reset()
    asked_for = WaitingFor("approval", "", world.now_ms, world.now_ms + 86_400_000)
    assert world.workflow.waiting_for == asked_for
    world.pass_time(3_600, every_s=600)
    world.lead()
    assert world.workflow.waiting_for == asked_for
    match way_out:
        case "approved":
            world.approve("//ops/kim")
        case "rejected":
            world.reject()
        case "stopped":
            world.stop()
        case "expired":
            world.pass_time(86_400, every_s=600)
        case _:
            world.gathering_fails = [NO_ANSWER]
            world.approve("//ops/kim")
    is_approved = way_out == "approved, not answered"
    assert (world.workflow.state is State.AWAITING_APPROVAL, world.workflow.waiting_for) == (is_approved, None)


def test_a_record_of_an_earlier_release_that_waits_for_its_approval_says_so_once_it_is_led() -> None:
    world = GroupWorld(OWNED)
    world.reset()
    said = world.workflow.waiting_for
    workflows = world.state.of(WORKFLOWS)
    world.state = world.state.having(WORKFLOWS, workflows.with_workflow(replace(world.workflow, waiting_for=None)))
    world.lead()
    assert world.workflow.waiting_for == said


def test_an_approval_that_nobody_gives_expires() -> None:
    world = GroupWorld(OWNED)
    world.send(lambda meta: Reset(meta, ResetSpec("", "", Latest(), unit="owned")))
    world.pass_time(86_400 + 60, every_s=600)
    assert (world.workflow.state, world.workflow.error_code) == (State.EXPIRED, Code.APPROVAL_EXPIRED.value)


@pytest.mark.parametrize("sent_after_h", [23, 24, None])
def test_an_approval_that_came_while_no_daemon_ran_is_read_before_it_expires(sent_after_h: int | None) -> None:
    hour_ms = 3_600_000
    world = GroupWorld(OWNED)
    world.reset()
    begun_ms = world.now_ms
    world.now_ms += 25 * hour_ms

    def unread() -> None:
        assert world.workflow.state is State.AWAITING_APPROVAL
        if sent_after_h is not None:
            told = world.approve("//ops/kim", sent_ms=begun_ms + sent_after_h * hour_ms)
            assert told == ("accepted" if sent_after_h == 23 else "rejected")

    world.lead(unread)
    if sent_after_h == 23:
        world.pass_time(5)
        assert world.workflow.state is State.COMPLETED
        return
    assert (world.workflow.state, world.workflow.error_code) == (State.EXPIRED, Code.APPROVAL_EXPIRED.value)
    assert sent_after_h is None or world.answers[-1].code == Code.APPROVAL_EXPIRED.value


def test_two_workflows_on_one_group_are_refused_by_name() -> None:
    world = GroupWorld()
    world.members = [BUSY]
    world.reset()
    spec = ResetSpec("main", "app", Latest(), topics={TOPIC: ()})
    assert world.send(lambda meta: Reset(meta, spec), subject="w2") == "rejected"
    assert (world.answers[-1].code, "w1" in world.answers[-1].message) == (Code.IN_USE.value, True)


def test_a_stop_ends_a_wait_at_once_and_a_change_that_is_under_way_is_heard_of_first() -> None:
    world = GroupWorld()
    world.members = [BUSY]
    world.reset()
    assert world.stop() == "accepted"
    assert (world.workflow.state, world.committed) == (State.STOPPED, BEFORE)

    world = GroupWorld()
    world.lost = True
    world.reset()
    world.lost = False
    held: list[TakeStep] = []

    def hold(effect: TakeStep) -> StepReported | None:
        if effect.step != "set_offsets":
            return None
        held.append(effect)
        return report(effect, Outcome.DONE, "").__class__(effect.workflow, "nothing", 0, Outcome.DONE)

    world.fault = hold
    world.pass_time(130)
    assert world.stop() == "accepted"
    assert world.workflow.state is State.STOPPING
    world.feed(world.take(held[-1]))
    assert (world.workflow.state, world.committed) == (State.STOPPED, at(10))
    world.fault = lambda _: None
    assert world.rollback() == "accepted"
    assert world.committed == BEFORE


def test_a_rollback_that_was_sent_while_it_was_kept_puts_back_also_when_it_is_read_later() -> None:
    world = GroupWorld()
    world.reset()
    assert world.committed != BEFORE
    world.now_ms += world.params.keep_terminal_ms
    answers: list[str] = []
    world.lead(lambda: answers.append(world.rollback()))
    assert (answers, world.committed) == (["accepted"], BEFORE)


def test_where_nothing_was_committed_a_rollback_takes_the_commits_away() -> None:
    world = GroupWorld()
    world.committed, world.exists = {}, False
    world.reset()
    assert world.committed == at(10)
    assert "no group app yet" in world.workflow.plan.findings[-1]  # type: ignore[union-attr]
    world.rollback()
    assert world.committed == {}


def test_a_rollback_that_failed_can_be_sent_again_and_one_that_is_done_cannot() -> None:
    world = GroupWorld()
    world.reset()
    world.members = [BUSY]
    world.rollback()
    world.pass_time(700)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.GROUP_NOT_EMPTY.value)
    assert world.committed == at(10)
    world.members = []
    assert world.rollback() == "accepted"
    assert (world.workflow.state, world.committed) == (State.ROLLED_BACK, BEFORE)
    done = [(name, "done") for name in (*STEPS, *BACK)]
    assert states(world) == [(name, "undone" if name == "set_offsets" else state) for name, state in done]
    assert (world.rollback(), world.answers[-1].code) == ("rejected", Code.NOT_IN_THIS_STATE.value)


@pytest.mark.parametrize(
    ("unit", "owner"),
    [(OWNED, "owned"), (replace(OWNED, group="another"), None), (replace(OWNED, cluster="dr"), None)],
)
def test_a_group_that_is_a_units_is_approved_by_its_approvers_whatever_it_is_named_by(
    unit: Unit, owner: str | None
) -> None:
    world = GroupWorld(unit)
    world.reset()
    assert world.workflow.unit == owner
    assert world.workflow.state is (State.AWAITING_APPROVAL if owner else State.COMPLETED)


def test_reports_of_earlier_tries_and_of_steps_that_are_over_change_nothing() -> None:
    world = GroupWorld()
    world.members = [BUSY]
    world.reset()
    before = world.workflow
    for step, number in (
        ("await_empty", before.steps[0].tries - 1),
        ("await_empty", 99),
        ("set_offsets", 1),
        ("what", 1),
    ):
        world.feed(StepReported("w1", step, number, Outcome.DONE))
    world.feed(StepReported("nobody", "await_empty", 1, Outcome.DONE))
    assert world.workflow == before
    assert world.workflow.steps[0].state is StepState.WAITING


def test_a_group_goes_back_to_where_an_earlier_workflow_noted_it() -> None:
    world = GroupWorld()
    world.reset()
    assert world.committed == at(10)
    spec = ResetSpec("main", "app", OfSnapshot("w1"))
    assert world.send(lambda meta: Reset(meta, spec), subject="w2") == "accepted"
    assert world.committed == BEFORE
    strange = ResetSpec("main", "app", OfSnapshot("w9"))
    assert world.send(lambda meta: Reset(meta, strange), subject="w3") == "rejected"
    assert world.answers[-1].code == Code.NO_SUCH_SAVEPOINT.value


def test_what_was_noted_of_a_topic_that_was_created_again_since_is_refused() -> None:
    world = GroupWorld()
    world.reset()
    world.topic_id = "id-2"
    spec = ResetSpec("main", "app", OfSnapshot("w1"))
    assert world.send(lambda meta: Reset(meta, spec), subject="w2") == "rejected"
    assert world.answers[-1].code == Code.TOPIC_RECREATED.value
    assert world.committed == at(10)


def test_a_pause_that_would_let_an_application_go_is_refused_for_a_workflow_has_none() -> None:
    world = GroupWorld()
    world.members = [BUSY]
    world.reset()
    assert world.send(lambda meta: Pause(meta, release=True)) == "rejected"
    assert world.answers[-1].code == Code.INVALID_VALUE.value
    assert world.send(Pause) == "accepted"


@pytest.mark.parametrize("is_later_back", [False, True])
def test_a_rollback_leaves_what_a_later_workflow_set_even_to_the_same_place(*, is_later_back: bool) -> None:
    world = GroupWorld()
    world.reset()
    world.committed = at(80)
    spec = ResetSpec("main", "app", Earliest(), topics={TOPIC: ()})
    assert world.send(lambda meta: Reset(meta, spec), subject="w2") == "accepted"
    assert world.committed == at(10)
    if is_later_back:
        assert world.send(Rollback, subject="w2") == "accepted"
        assert world.committed == at(80)
        world.committed = at(10)  # as w1 left it
        assert world.rollback() == "accepted"
        assert world.committed == BEFORE
        return
    assert world.rollback() == "accepted"
    assert world.answers[-1].message == "w1 is rolled back; offsets that w2 set since stay"
    assert (world.workflow.state, world.committed) == (State.ROLLED_BACK, at(10))
    assert {row.state for row in world.workflow.undo} == {UndoState.KEPT}
    assert world.send(Rollback, subject="w2") == "accepted"
    assert world.committed == at(80)
