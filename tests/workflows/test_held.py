"""Resets of groups that read a held topic: nothing is set there before it is released."""

from dataclasses import replace

import pytest

from recoveryd.holds.draft import HOLDS
from recoveryd.holds.spec import Release, StartHold
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import Meta, StopCommand
from recoveryd.kernel.states import State
from recoveryd.recovery.commands import Approve, Pause, Resume
from recoveryd.recovery.spec import Earliest, Latest
from recoveryd.units.facts import Member
from recoveryd.workflows.model.commands import Reset
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import UNTRIED, Outcome, StepReported
from recoveryd.workflows.model.positions import AtTopicOffsets, moving_notes
from recoveryd.workflows.model.spec import ResetSpec
from tests.builders.core import make_hold
from tests.workflows.app_world import INTERNAL, OUTPUTS, PARTITIONS, UNIT, AppWorld
from tests.workflows.test_reset import BEFORE, BUSY, at, states
from tests.workflows.test_reset_faults import comes_alive
from tests.workflows.test_savepoint import restore, save, saved
from tests.workflows.world import LOG, OWNED, TOPIC, GroupWorld, WorkflowWorld, report


def hold(world: WorkflowWorld, topic: str = TOPIC) -> None:
    assert world.send(lambda meta: StartHold(meta, make_hold(topic)), subject="h1") == "accepted"


def release(world: WorkflowWorld) -> None:
    assert world.send(Release, subject="h1") == "accepted"


def refused(world: GroupWorld) -> bool:
    answer = world.answers[-1]
    held = world.state.of(HOLDS).held["main", TOPIC][0]
    return (answer.code, answer.message) == (
        Code.TOPIC_HELD.value, f"orders is held by h1 of //ops/ann: {held.reason}",
    )  # fmt: skip


@pytest.mark.scenario("S-RUN-26a")
def test_a_reset_in_a_held_topic_is_refused_by_name_of_the_hold() -> None:
    world = GroupWorld()
    hold(world)
    assert world.reset() == "rejected"
    assert refused(world)
    assert (world.workflow.state, world.committed) == (State.REJECTED, BEFORE)
    release(world)
    assert world.reset() == "accepted"
    assert world.committed == at(LOG[0])


def test_a_resume_that_is_read_before_everything_else_says_what_it_waits_for() -> None:
    world = GroupWorld()
    world.members = [BUSY]
    world.reset()
    assert world.send(Pause) == "accepted"
    world.members = []

    def unread() -> None:
        assert world.send(Resume) == "accepted"
        told = "w1 goes on; what changes something waits until all commands on the control topic are read"
        assert world.answers[-1].message == told
        world.pass_time(5)
        assert world.committed == BEFORE
        hold(world)

    world.lead(unread)
    assert (world.workflow.state, world.committed) == (State.FAILED, BEFORE)


def test_a_hold_on_another_topic_is_not_in_the_way() -> None:
    world = GroupWorld()
    hold(world, "other")
    assert world.reset() == "accepted"
    assert world.workflow.state is State.COMPLETED


def test_a_dry_run_says_so_and_its_hash_is_that_of_the_free_topic() -> None:
    world, free = GroupWorld(), GroupWorld()
    hold(world)
    plans = []
    for one in (world, free):
        assert one.reset(dry_run=True) == "accepted"
        assert one.workflow.plan is not None
        plans.append(one.workflow.plan)
    assert [finding for finding in plans[0].findings if "is held by h1" in finding]
    assert (plans[0].hash, plans[1].findings) == (plans[1].hash, moving_notes(Earliest()))


def test_an_approval_is_refused_while_held_and_goes_on_waiting() -> None:
    world = GroupWorld(OWNED)
    world.send(lambda meta: Reset(meta, ResetSpec("", "", Latest(), unit="owned")), "//ops/ann")
    hold(world)
    assert world.approve("//ops/kim") == "rejected"
    assert refused(world)
    assert world.workflow.state is State.AWAITING_APPROVAL
    release(world)
    assert world.approve("//ops/kim") == "accepted"
    assert world.committed == at(LOG[1])


def test_a_hold_that_comes_while_members_are_waited_for_keeps_the_offsets_as_they_are() -> None:
    world = GroupWorld()
    world.members = [Member(BUSY.id, BUSY.client_id, BUSY.host)]
    assert world.reset() == "accepted"
    hold(world)
    world.members = []
    world.pass_time(10)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.TOPIC_HELD.value)
    assert states(world)[-1] == ("set_offsets", "failed")
    assert (world.committed, world.sets) == (BEFORE, 0)


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_hold_that_comes_while_the_commit_waits_keeps_the_offsets_as_they_are(is_paused: bool) -> None:
    world = GroupWorld()
    comes_alive(world)
    world.reset()
    assert world.workflow.waiting_for is not None
    assert world.workflow.waiting_for.step == "set_offsets"
    if is_paused:
        assert world.send(Pause) == "accepted"
    hold(world)
    world.members = []
    if is_paused:
        assert world.send(Resume) == "accepted"
    world.pass_time(5)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.TOPIC_HELD.value)
    assert (world.committed, world.sets) == (BEFORE, 0)


def test_a_hold_that_comes_while_the_commit_waits_is_asked_for_by_the_next_daemon_too() -> None:
    world = GroupWorld()
    comes_alive(world)
    world.reset()
    world.pass_time(5)
    assert world.workflow.waiting_for is not None
    hold(world)
    world.members = []
    world.lead()
    world.pass_time(5)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.TOPIC_HELD.value)
    assert (world.committed, world.sets) == (BEFORE, 0)


def test_that_a_commit_waits_is_no_version_of_its_own() -> None:
    world = GroupWorld()

    def busy(effect: TakeStep) -> StepReported | None:
        if effect.step != "set_offsets":
            return None
        evidence = {UNTRIED: effect.try_number}
        return report(effect, Outcome.NOT_YET, "1 members", members=("m1",), evidence=evidence)

    world.fault = busy
    world.reset()
    world.pass_time(3)
    version = world.workflow.version
    world.pass_time(30)
    assert (world.workflow.state, world.workflow.version) == (State.WAITING, version)


@pytest.mark.parametrize("how", ["hold", "hold, and another daemon", "stop", "pause"])
def test_what_is_called_off_after_a_try_that_changed_nothing_is_not_made_when_the_cluster_answers_again(
    how: str,
) -> None:
    world = GroupWorld()
    world.fail_at("set_offsets", retriable=True, times=1, untried=True)
    world.reset()
    assert world.workflow.step is not None
    assert (world.workflow.step.name, world.workflow.step.failures) == ("set_offsets", 1)
    match how:
        case "stop":
            assert world.stop() == "accepted"
        case "pause":
            assert world.send(Pause) == "accepted"
        case _:
            hold(world)
    if "daemon" in how:
        world.lead()
    world.pass_time(60)
    ends = {"stop": State.STOPPED, "pause": State.PAUSED}
    assert world.workflow.state is ends.get(how, State.FAILED)
    assert (world.committed, world.sets) == (BEFORE, 0)


def test_an_input_whose_retention_would_be_raised_is_asked_for_by_its_name() -> None:
    """Also one of which no offset is set."""
    world = AppWorld(replace(UNIT, inputs=("orders", "log"), outputs={"totals": UNIT.outputs["totals"]}))
    assert world.send(lambda meta: StartHold(meta, make_hold("log")), subject="h1") == "accepted"
    to = AtTopicOffsets({"orders": dict.fromkeys(range(PARTITIONS), 5)})
    outputs = {"totals": OUTPUTS["totals"]}
    assert world.reprocess(to, outputs=outputs, keep_inputs=True) == "rejected"
    assert (world.answers[-1].code, "log is held by h1" in world.answers[-1].message) == (Code.TOPIC_HELD.value, True)
    assert world.reprocess(to, outputs=outputs) == "accepted", "nothing of it is changed then"


@pytest.mark.parametrize("verb", ["savepoint", "restore"])
def test_what_may_not_be_read_is_not_cut_and_nobody_is_stopped_for_it(verb: str) -> None:
    world = saved()
    topic = INTERNAL[0] if verb == "savepoint" else f"savepoint.before.{INTERNAL[0]}"
    assert world.send(lambda meta: StartHold(meta, make_hold(topic)), subject="h1") == "accepted"
    begin = (lambda name: save(world, name, name)) if verb == "savepoint" else (lambda name: restore(world, name))
    assert begin("w2") == "accepted", "it is only read"
    assert world.send(StopCommand, subject="w2") == "accepted"
    assert world.send(lambda meta: StartHold(meta, make_hold(topic, reads=True)), subject="h2") == "accepted"
    assert begin("w3") == "rejected"
    assert (world.answers[-1].code, topic in world.answers[-1].message) == (Code.TOPIC_HELD.value, True)


@pytest.mark.parametrize("verb", ["savepoint", "restore"])
def test_an_approval_is_refused_and_waits_while_what_is_to_be_copied_may_not_be_read(verb: str) -> None:
    """Another daemon leads by then: what the plan reads is kept with it."""
    owned = replace(UNIT, approvers=("//ops/kim",))
    world = AppWorld(owned)
    assert save(world) == "accepted"
    if verb == "restore":
        world.approve("//ops/kim")
        world.run_through()
        assert restore(world, "w1-back") == "accepted"
    run = "w1" if verb == "savepoint" else "w1-back"
    topic = INTERNAL[0] if verb == "savepoint" else f"savepoint.before.{INTERNAL[0]}"
    plan = world.look(run).plan
    assert plan is not None
    assert world.send(lambda meta: StartHold(meta, make_hold(topic, reads=True)), subject="h1") == "accepted"
    world.lead()

    def approve(meta: Meta) -> Approve:
        return Approve(meta, plan.hash)

    assert world.send(approve, "//ops/kim", subject=run) == "rejected"
    assert (world.answers[-1].code, topic in world.answers[-1].message) == (Code.TOPIC_HELD.value, True)
    assert world.look(run).state is State.AWAITING_APPROVAL
    release(world)
    assert world.send(approve, "//ops/kim", subject=run) == "accepted"
    assert world.look(run).state in {State.RUNNING, State.WAITING}


def test_a_hold_on_reading_that_comes_before_state_topics_are_made_anew_keeps_them() -> None:
    world = saved()
    world.members = [BUSY]
    assert restore(world) == "accepted"
    copy = f"savepoint.before.{INTERNAL[0]}"
    assert world.send(lambda meta: StartHold(meta, make_hold(copy, reads=True)), subject="h1") == "accepted"
    before = list(world.done)
    world.stops()
    assert (world.look("w2").state, world.look("w2").error_code) == (State.FAILED, Code.TOPIC_HELD.value)
    assert world.done == before


def test_a_hold_on_reading_that_comes_once_all_is_copied_is_in_nobodys_way() -> None:
    world = saved()
    assert restore(world) == "accepted"
    world.stops()
    assert world.waiting("w2") == "copy_state"
    copy = f"savepoint.before.{INTERNAL[0]}"
    assert world.send(lambda meta: StartHold(meta, make_hold(copy, reads=True)), subject="h1") == "accepted"
    world.run_through("w2")
    assert world.look("w2").state is State.COMPLETED


def test_a_hold_that_comes_while_topics_wait_to_go_keeps_them() -> None:
    world = AppWorld()

    def busy(effect: TakeStep) -> StepReported | None:
        is_busy = effect.step == "delete_internal_topics" and bool(world.members)
        return report(effect, Outcome.NOT_YET, "1 members", members=("m1",)) if is_busy else None

    def joins(effect: TakeStep) -> StepReported | None:
        if effect.step == "snapshot":
            world.members, world.fault = [BUSY], busy
        return None

    world.fault = joins
    world.reprocess()
    world.stops()
    assert world.waits_at == "delete_internal_topics"
    assert world.send(lambda meta: StartHold(meta, make_hold(INTERNAL[0])), subject="h1") == "accepted"
    world.stops()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.TOPIC_HELD.value)
    assert not world.done


def test_a_rollback_in_a_held_topic_is_refused_and_works_later() -> None:
    world = GroupWorld()
    world.reset()
    hold(world)
    assert world.rollback() == "rejected"
    assert refused(world)
    assert (world.workflow.state, world.committed) == (State.COMPLETED, at(LOG[0]))
    release(world)
    assert world.rollback() == "accepted"
    assert world.committed == BEFORE


def is_called_off(world: WorkflowWorld, why: str = "is held by h1 of //ops/ann") -> bool:
    workflow = world.workflow
    return (workflow.state, workflow.error_code, why in workflow.why) == (State.FAILED, Code.TOPIC_HELD.value, True)


@pytest.mark.parametrize("is_done", [False, True])
def test_a_hold_that_was_placed_after_a_daemon_died_while_it_set_offsets_is_asked_for_by_the_next_one(
    is_done: bool,
) -> None:
    """Who died may have set them: that is looked up, and nothing more is set."""
    world = GroupWorld()
    world.die_at("set_offsets", is_done=is_done)
    world.reset()
    sets = world.sets
    world.live_again(lambda: hold(world))
    assert (world.sets, world.committed) == (sets, at(LOG[0]) if is_done else BEFORE)
    assert world.workflow.state is State.COMPLETED if is_done else is_called_off(world)
    release(world)
    world.rollback()
    world.pass_time(5)
    assert world.committed == BEFORE


@pytest.mark.parametrize("step", ["await_empty", "snapshot"])
def test_a_new_daemon_reads_what_came_meanwhile_before_it_changes_anything(step: str) -> None:
    """Also where it was only looking when the one before died."""
    world = GroupWorld()
    world.die_at(step, is_done=False)
    world.reset()
    world.live_again(lambda: hold(world))
    assert is_called_off(world)
    assert (world.committed, world.sets) == (BEFORE, 0)


def test_where_nobody_placed_a_hold_it_goes_on_once_that_is_known() -> None:
    world = GroupWorld()
    world.die_at("set_offsets", is_done=False)
    world.reset()
    world.live_again(lambda: hold(world, "other"))
    assert (world.workflow.state, world.committed) == (State.COMPLETED, at(LOG[0]))
    tries = next(step.tries for step in world.workflow.steps if step.name == "set_offsets")
    assert tries == 2, "nothing was asked for while it was not known"


def test_a_hold_that_is_let_go_while_it_is_looked_is_in_nobodys_way() -> None:
    world = GroupWorld()
    world.die_at("set_offsets", is_done=False)
    world.reset()
    take = world.carry_out

    def released(effect: TakeStep) -> StepReported:
        told = take(effect)
        if effect.is_look:
            release(world)
        return told

    world.carry_out = released  # type: ignore[method-assign]
    world.live_again(lambda: hold(world))
    assert (world.workflow.state, world.committed) == (State.COMPLETED, at(LOG[0]))


def test_a_try_that_may_have_changed_something_and_failed_is_not_taken_again_where_somebody_holds_the_topic() -> None:
    world = GroupWorld()
    world.fail_at("set_offsets", retriable=True, times=1)
    world.reset()
    hold(world)
    world.pass_time(60)
    assert is_called_off(world)
    assert (world.committed, world.sets) == (BEFORE, 0)


def test_a_look_that_fails_is_taken_again_and_a_stop_ends_it() -> None:
    world = GroupWorld()
    world.die_at("set_offsets", is_done=False)
    world.reset()
    world.fault, world.lost = (lambda _: None), False
    world.fail_at("set_offsets", retriable=True, times=2)
    world.lead(lambda: hold(world))
    assert world.workflow.state is State.WAITING
    assert world.stop() == "accepted"
    assert world.workflow.state is State.STOPPING, "it is not known yet whether the one that died has set them"
    world.pass_time(30)
    assert (world.workflow.state, world.committed) == (State.STOPPED, BEFORE)


def died_halfway(step: str, refused: tuple[str, str] | None = None) -> AppWorld:
    """The daemon has died in this step of a reprocess, and nobody heard what was done. `refused`: what the cluster did
    not do.
    """
    world = AppWorld()

    def dies(effect: TakeStep) -> StepReported | None:
        if effect.step != step:
            return None
        world.refused = set() if refused is None else {refused}
        world.take(effect)
        world.lost, world.refused = True, set()
        return StepReported(effect.workflow, "of somebody who is gone", 0, Outcome.DONE)

    world.fault = dies
    world.reprocess()
    world.stops()
    return world


@pytest.mark.parametrize(
    ("step", "refused", "gone"),
    [
        ("delete_internal_topics", ("delete", INTERNAL[1]), (INTERNAL[0],)),
        ("recreate_topics", ("create", "totals"), (*INTERNAL, "totals")),
        ("create_outputs", None, (*INTERNAL, "totals")),
    ],
)
def test_what_went_or_was_made_before_the_daemon_died_is_told_and_a_rollback_knows_it(
    step: str, refused: tuple[str, str] | None, gone: tuple[str, ...]
) -> None:
    world = died_halfway(step, refused)
    done = list(world.done)
    world.live_again(lambda: hold(world, "orders"))
    assert is_called_off(world)
    assert world.done == done, "nothing was changed since"
    assert f"records of {', '.join(gone)} are gone for good" in world.workflow.why
    release(world)
    assert world.rollback() == "accepted"
    world.pass_time(5)
    assert ("totals" in world.topics, "log-2" in world.topics) == (True, False)


def test_a_change_that_is_only_looked_at_outlasts_a_silence_of_its_cluster() -> None:
    """Else nobody would know what the daemon that died did."""
    world = died_halfway("create_outputs")

    def silence() -> None:
        hold(world, "orders")
        world.fail_at("create_outputs", retriable=True, times=9)

    world.live_again(silence)
    world.pass_time(60)
    waiting = world.workflow.waiting_for
    assert waiting is not None
    assert (world.workflow.state, waiting.kind) == (State.WAITING, "answer")
    world.pass_time(300)
    assert is_called_off(world)
    release(world)
    assert world.rollback() == "accepted"
    world.pass_time(5)
    assert ("totals" in world.topics, "log-2" in world.topics) == (True, False)


@pytest.mark.parametrize("verb", [StopCommand, Pause])
def test_a_change_that_is_called_off_is_looked_at_until_the_cluster_answers(verb: type[StopCommand | Pause]) -> None:
    """Else it would end without a word of what went, which no rollback would make again."""
    world = died_halfway("recreate_topics", ("create", "totals"))
    world.lost = False

    def silence() -> None:
        assert world.send(verb) == "accepted"
        world.fail_at("recreate_topics", retriable=True, times=9)

    world.live_again(silence)
    world.pass_time(60)
    state, end = (State.STOPPING, State.STOPPED) if verb is StopCommand else (State.PAUSING, State.PAUSED)
    assert (world.workflow.state, world.waits_at) == (state, "recreate_topics")
    world.pass_time(300)
    assert (world.workflow.state, world.waits_at) == (end, None)
    assert world.workflow.why.startswith("stopped by" if verb is StopCommand else "paused by")
    assert "totals" not in world.topics, "what is left of it is not made"
    if verb is Pause:
        assert world.stop() == "accepted"
    assert world.rollback() == "accepted"
    world.pass_time(5)
    assert (world.workflow.state, "totals" in world.topics) == (State.ROLLED_BACK, True)


def test_a_pause_after_tries_that_may_have_changed_something_ends_nothing() -> None:
    world = GroupWorld()
    world.fail_at("set_offsets", retriable=True, times=6)
    world.reset()
    world.pass_time(30)
    step = world.workflow.step
    assert step is not None
    assert (step.name, step.failures) == ("set_offsets", 4)
    assert world.send(Pause) == "accepted"
    world.pass_time(300)
    assert (world.workflow.state, world.workflow.waiting_for, world.sets) == (State.PAUSED, None, 0)
    assert world.send(Resume) == "accepted"
    assert (world.workflow.state, world.committed) == (State.COMPLETED, at(LOG[0]))


def test_looks_that_failed_before_a_pause_took_place_are_no_tries_of_what_is_resumed() -> None:
    world = GroupWorld()
    world.fail_at("set_offsets", retriable=True, times=9)
    world.reset()
    assert world.send(Pause) == "accepted"
    world.pass_time(100)
    assert world.workflow.state is State.PAUSING
    assert world.send(Resume) == "accepted"
    assert (world.workflow.state, world.workflow.waiting_for) == (State.RUNNING, None)
    world.pass_time(100)
    assert (world.workflow.state, world.committed) == (State.COMPLETED, at(LOG[0]))


def test_what_is_put_back_is_not_where_somebody_holds_the_topic_since() -> None:
    world = GroupWorld()
    world.reset()
    world.die_at("put_back_offsets", is_done=False)
    assert world.rollback() == "accepted"
    world.live_again(lambda: hold(world))
    assert is_called_off(world)
    assert world.committed == at(LOG[0])
    release(world)
    assert world.rollback() == "accepted"
    assert (world.workflow.state, world.committed) == (State.ROLLED_BACK, BEFORE)
