"""What a workflow has carried out by commands of its own: begun only while it is wanted, steered until the command was
read, never left alone, and taken back by nobody else.
"""

from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.effects import SendCommand
from recoveryd.kernel.events import CommandNotSent, ControlRead, ControlUnread, Tick
from recoveryd.kernel.states import State
from recoveryd.recovery.commands import Pause, Resume
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.slice import RECOVERY
from recoveryd.replay.spec import Replay
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.model.commands import Escalate, Reprocess, Rollback, Savepoint
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.spec import RunbookPath, SavepointSpec
from recoveryd.workflows.model.workflow import StepState
from recoveryd.workflows.wire.reprocess import ReprocessData
from recoveryd_jobs.contract.reports import Verification
from tests.builders.core import make_spec
from tests.builders.deciding import make_decider
from tests.builders.records import make_plan, make_recovery
from tests.workflows.app_world import PARTITIONS, AppWorld
from tests.workflows.runbook_world import SAFE, RunbookWorld
from tests.workflows.test_savepoint import save
from tests.workflows.world import WorkflowWorld, report

ALSO = replace(SAFE, inputs=("orders", "steps"), intermediate=())


def at(offset: int) -> dict[str, dict[int, int]]:
    return {"orders": dict.fromkeys(range(PARTITIONS), offset)}


def restoring() -> RunbookWorld:
    """A runbook that has sent the command for `w1-anew`, which nobody has read yet."""
    world = RunbookWorld()
    world.begin(sink=at(60), state=at(40), quotas={"shop-1": 1_000.0})
    world.ack("choose_path")
    assert [sent.subject for sent in world.sent] == ["w1-anew"]
    return world


def read(world: RunbookWorld, sent: SendCommand) -> str:
    """A command arrives; the kind of its answer."""
    if sent.verb == "reprocess":
        spec = ReprocessData.model_validate({**sent.data}).to_core()
        return world.send(lambda meta: Reprocess(meta, spec), sent.source, sent.subject, sent.id)
    if sent.verb == "replay":
        return world.send(lambda meta: Replay(meta, make_spec()), sent.source, sent.subject, sent.id)
    what = {"stop": StopCommand, "pause": Pause, "resume": Resume, "rollback": Rollback}[sent.verb]
    return world.send(what, sent.source, sent.subject, sent.id)


def of(world: AppWorld, verb: str) -> list[SendCommand]:
    return [sent for sent in world.sent if sent.verb == verb]


def unapproved(world: WorkflowWorld, recovery: str) -> Recovery:
    plan = replace(make_plan((0, 0, 10)), pinned_at_ms=world.now_ms)
    return make_recovery(recovery, state=State.AWAITING_APPROVAL, plan=plan)


@pytest.mark.parametrize("how", ["stop", "escalate"])
def test_a_command_that_is_read_after_its_workflow_ended_begins_nothing(how: str) -> None:
    world = restoring()
    assert (world.stop() if how == "stop" else world.say(Escalate)) == "accepted"
    assert world.workflow.state is State.STOPPED
    assert read(world, world.sent[0]) == "rejected"
    assert world.answers[-1].code == Code.NOT_IN_THIS_STATE.value
    assert "w1 is stopped and does not want w1-anew any more" in world.answers[-1].message
    assert [w for w in world._workflows() if w != "w1"] == []


def test_a_command_of_somebody_else_with_the_id_of_one_that_it_sends_begins_nothing() -> None:
    """It would be taken for its own: begun beside it on the same unit, and waited for."""
    world = restoring()
    (sent,) = of(world, "reprocess")
    spec = ReprocessData.model_validate({**sent.data}).to_core()
    answer = world.send(lambda meta: Reprocess(meta, spec), "//ops/eve", sent.subject, sent.id)
    assert (answer, world.answers[-1].code) == ("rejected", Code.NOT_IN_THIS_STATE.value)
    assert "w1-anew" not in world._workflows()
    assert world.workflow.state is State.WAITING
    assert read(world, sent) == "accepted"


def test_the_same_holds_for_a_replay_which_is_of_another_capability() -> None:
    world = RunbookWorld()
    world.begin(RunbookPath.REPLAY, topic="orders", ranges={0: (10, 20)})
    (sent,) = of(world, "replay")
    world.stop()
    assert read(world, sent) == "rejected"
    assert "w1-0" not in world.state.of(RECOVERY).recoveries
    assert world.send(lambda meta: Replay(meta, make_spec()), subject="w1-0") == "", "whoever else sends it is free to"
    assert "w1-0" in world.state.of(RECOVERY).recoveries


def test_a_command_that_is_read_while_its_workflow_is_paused_is_sent_anew_when_it_goes_on() -> None:
    world = restoring()
    assert world.send(Pause) == "accepted"
    assert read(world, world.sent[0]) == "rejected"
    assert "w1 is paused" in world.answers[-1].message
    assert world.workflow.state is State.PAUSED, "the refusal is no failure"
    assert world.send(Resume) == "accepted"
    first, again = of(world, "reprocess")[0], of(world, "reprocess")[-1]
    assert (first.subject, again.subject) == ("w1-anew", "w1-anew")
    assert first.id != again.id, "the first id is used up"
    world.seen_sent = len(world.sent) - 1
    world.go_through()
    assert (world.workflow.state, world.look("w1-anew").state) == (State.COMPLETED, State.COMPLETED)


def test_a_command_that_is_read_after_a_pause_begins_once() -> None:
    world = restoring()
    world.send(Pause)
    world.send(Resume)
    kinds = [read(world, sent) for sent in of(world, "reprocess")]
    assert kinds.count("accepted") == 1
    assert world.look("w1-anew").state is State.WAITING
    assert world.workflow.state is State.WAITING


@pytest.mark.parametrize(("verb", "ends"), [("pause", State.PAUSED), ("stop", State.STOPPING)])
def test_what_it_began_is_steered_under_one_id_until_that_was_read(verb: str, ends: State) -> None:
    world = restoring()
    world.deliver()
    world.lost = True
    world.stop() if verb == "stop" else world.send(Pause)
    assert (world.workflow.state, of(world, verb)) == (ends, [])
    world.lost = False
    world.lead()
    world.pass_time(100)
    sent = of(world, verb)
    assert len(sent) >= 2
    assert {each.id for each in sent} == {sent[0].id}
    assert read(world, sent[0]) == "accepted"
    count = len(of(world, verb))
    world.pass_time(100)
    assert len(of(world, verb)) == count
    assert world.look("w1-anew").state in {State.PAUSED, State.STOPPED}


def test_a_resume_that_was_lost_is_sent_again() -> None:
    world = restoring()
    world.deliver()
    world.send(Pause)
    read(world, of(world, "pause")[0])
    assert world.look("w1-anew").state is State.PAUSED
    world.lost = True
    world.send(Resume)
    world.lost = False
    world.lead()
    world.pass_time(60)
    read(world, of(world, "resume")[0])
    assert world.look("w1-anew").state in {State.RUNNING, State.WAITING}
    count = len(of(world, "resume"))
    world.pass_time(60)
    assert len(of(world, "resume")) == count


def test_one_that_cannot_be_paused_yet_is_asked_again_under_another_id() -> None:
    world = RunbookWorld()
    world.begin(RunbookPath.REPLAY, topic="orders", ranges={0: (10, 20)})
    read(world, of(world, "replay")[0])
    assert world.state.of(RECOVERY).recoveries["w1-0"].state is State.PLANNING
    world.send(Pause)
    assert read(world, of(world, "pause")[0]) == "rejected"
    world.pass_time(40)
    first, again = of(world, "pause")[0], of(world, "pause")[-1]
    assert first.id != again.id


def test_when_one_fails_the_others_are_stopped_before_it_ends() -> None:
    world = RunbookWorld(ALSO)
    world.begin(RunbookPath.REPLAY, sink={"orders": {0: 80}, "steps": {0: 75}})
    assert [sent.subject for sent in of(world, "replay")] == ["w1-0", "w1-1"]
    world.have_recovery(make_recovery("w1-0", state=State.FAILED, why="no room", error_code="RCV-3004"))
    world.have_recovery(unapproved(world, "w1-1"))
    world.pass_time(5)
    assert world.workflow.state is State.WAITING
    assert "what began beside it is stopped first" in world.workflow.why
    (stop,) = of(world, "stop")
    assert stop.subject == "w1-1"
    world.have_recovery(make_recovery("w1-1", state=State.STOPPED))
    world.pass_time(5)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, "RCV-3004")
    assert "w1-0 is failed: no room" in world.workflow.why


def test_one_that_was_not_begun_when_another_failed_is_not_begun_any_more() -> None:
    world = RunbookWorld(ALSO)
    world.begin(RunbookPath.REPLAY, sink={"orders": {0: 80}, "steps": {0: 75}})
    late = of(world, "replay")[1]
    world.have_recovery(make_recovery("w1-0", state=State.FAILED, why="no room"))
    assert read(world, late) == "rejected"
    world.pass_time(5)
    assert world.workflow.state is State.FAILED


def test_a_command_that_can_never_be_sent_ends_the_step() -> None:
    world = restoring()
    sent = world.sent[0]
    world.feed(CommandNotSent("w1", sent.id, Code.CLUSTER_UNREACHABLE.value, "no answer", True))
    assert world.workflow.state is State.WAITING
    world.feed(CommandNotSent("w1", sent.id, Code.INVALID_SUBJECT.value, "the subject is too long", False))
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.INVALID_SUBJECT.value)
    assert "the subject is too long" in world.workflow.why
    assert world.quotas == {}


def test_more_than_a_daemon_takes_at_once_are_begun_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoveryd.workflows.machine.children.looking.AT_ONCE", 1)
    world = RunbookWorld(ALSO)
    world.begin(RunbookPath.REPLAY, sink={"orders": {0: 80}, "steps": {0: 75}})
    world.have_recovery(unapproved(world, "w1-0"))
    world.pass_time(2_000, every_s=2)
    world.lead()
    world.pass_time(60)
    assert {sent.subject for sent in of(world, "replay")} == {"w1-0"}
    assert world.workflow.state is State.WAITING
    for name in ("w1-0", "w1-1"):
        world.have_recovery(make_recovery(name, state=State.COMPLETED, verification=Verification("match", 5, 5, "d")))
        world.pass_time(5)
        assert {sent.subject for sent in of(world, "replay")} == {"w1-0", "w1-1"}
    assert next(step.state for step in world.workflow.steps if step.name == "execute") is StepState.DONE


def test_what_there_is_no_room_for_is_asked_for_again() -> None:
    world = RunbookWorld()
    world.core = make_decider(replace(world.params, max_active_recoveries=1))
    world.have_recovery(make_recovery("busy", state=State.PLANNING))
    world.begin(RunbookPath.REPLAY, topic="orders", ranges={0: (10, 20)})
    (sent,) = of(world, "replay")
    assert read(world, sent) == "rejected"
    assert world.answers[-1].code == Code.TOO_MANY_RECOVERIES.value
    world.pass_time(5)
    assert world.workflow.state is State.WAITING
    assert "w1-0: 1 recoveries are active, the config allows 1; it is asked for again" in world.workflow.why
    world.have_recovery(make_recovery("busy", state=State.COMPLETED))
    world.pass_time(40)
    again = of(world, "replay")[-1]
    assert again.id != sent.id
    read(world, again)
    assert world.state.of(RECOVERY).recoveries["w1-0"].state is State.PLANNING


def test_what_a_workflow_begins_finds_room_however_many_workflows_there_are() -> None:
    """Each of them could wait for room that none of the others leaves before it has begun what it wants."""
    world = restoring()
    others = {f"u{n}": replace(SAFE, name=f"u{n}", group=f"g{n}") for n in range(50)}
    world.core = make_decider(replace(world.params, units={**world.params.units, **others}))
    gather = world.gather
    world.gather = lambda effect: Tick() if effect.workflow.startswith("u") else gather(effect)  # type: ignore[method-assign, assignment, return-value]
    answers = [world.send(lambda m, u=u: Savepoint(m, SavepointSpec(u, u)), subject=u) for u in others]  # type: ignore[misc]
    assert answers == ["", *[""] * 48, "rejected"]
    assert read(world, of(world, "reprocess")[0]) == "accepted"


def test_one_that_completed_and_was_forgotten_while_another_goes_on_is_not_begun_again() -> None:
    world = RunbookWorld(ALSO)
    world.begin(RunbookPath.REPLAY, sink={"orders": {0: 80}, "steps": {0: 75}})
    world.have_recovery(make_recovery("w1-0", state=State.COMPLETED, verification=Verification("match", 20, 20, "d")))
    world.have_recovery(unapproved(world, "w1-1"))
    world.pass_time(5)
    world.forget_recovery("w1-0")
    world.lead()
    count = len(of(world, "replay"))
    world.pass_time(100)
    assert (world.workflow.state, len(of(world, "replay"))) == (State.WAITING, count)
    world.have_recovery(make_recovery("w1-1", state=State.COMPLETED, verification=Verification("match", 5, 5, "d")))
    world.pass_time(5)
    execute = next(step for step in world.workflow.steps if step.name == "execute")
    assert execute.state is StepState.DONE
    assert execute.evidence.keys() == {"w1-0", "w1-1"}


def test_a_child_that_is_never_seen_is_not_waited_for_for_ever() -> None:
    world = restoring()
    world.pass_time(1_900, every_s=2)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.STEP_FAILED.value)
    assert "the command for w1-anew was not read" in world.workflow.why
    assert read(world, world.sent[0]) == "rejected"


def test_a_child_is_waited_for_while_the_daemon_reads_no_commands() -> None:
    world = restoring()
    world.pass_time(1_000, every_s=2)
    world.feed(ControlUnread())
    version = world.workflow.version
    world.pass_time(1_900, every_s=2)
    assert (world.workflow.state, world.workflow.version) == (State.WAITING, version)
    world.feed(ControlRead())
    world.pass_time(60)
    assert read(world, world.sent[0]) == "accepted"
    assert world.workflow.state is State.WAITING


def test_time_in_which_no_daemon_led_is_not_waited_for() -> None:
    world = restoring()
    world.now_ms += 86_400_000
    world.lead()
    world.pass_time(40)
    assert world.workflow.state is State.WAITING
    world.send(Pause)
    world.pass_time(3_000, every_s=10)
    world.send(Resume)
    world.pass_time(1_000, every_s=2)
    assert world.workflow.state is State.WAITING
    world.go_through()
    assert world.workflow.state is State.COMPLETED


def test_only_its_own_workflow_takes_a_child_back_as_long_as_it_runs() -> None:
    world = restoring()
    world.fault = lambda effect: report(effect, Outcome.NOT_YET, "red") if effect.step == "verify" else None
    for _ in range(10):
        world.deliver()
        if world.waits_at == "verify":
            break
        if "w1-anew" in world._workflows():
            world.run_through("w1-anew")
    assert (world.look("w1-anew").state, world.waits_at) == (State.COMPLETED, "verify")
    assert world.send(Rollback, subject="w1-anew") == "rejected"
    assert world.answers[-1].code == Code.IN_USE.value
    assert "workflow w1 works on the group app" in world.answers[-1].message


def taken_back() -> RunbookWorld:
    """A runbook that completed, and has `w1-anew` put back what it changed, which waits for an empty group."""
    world = restoring()
    world.go_through()
    assert world.workflow.state is State.COMPLETED
    assert world.rollback() == "accepted"
    world.deliver()
    assert (world.look("w1-anew").is_rolling_back, world.waiting("w1-anew")) == (True, "await_empty_again")
    return world


def test_what_it_began_is_not_forgotten_before_it_since_a_rollback_would_find_nothing_to_put_back() -> None:
    """It began last, and ended first."""
    world = restoring()
    world.go_through()
    child, parent = world.look("w1-anew"), world.workflow
    assert child.updated_ms < parent.updated_ms
    kept_ms = world.params.keep_terminal_ms
    world.now_ms = parent.updated_ms + kept_ms - 1
    world.feed(Tick())
    assert world.rollback() == "accepted"
    finishes_back(world)
    world.now_ms += kept_ms
    world.pass_time(2)
    assert world._workflows() == []


def test_it_looks_at_once_when_what_it_began_ends_and_not_when_something_else_does() -> None:
    world = restoring()
    world.pass_time(1)
    assert read(world, world.sent[0]) == "accepted"
    world.pass_time(2)
    due_ms = world.state.of(WORKFLOWS).due_ms["w1"]
    world.have_recovery(unapproved(world, "other"))
    assert world.send(StopCommand, subject="other") == "accepted"
    assert world.state.of(WORKFLOWS).due_ms["w1"] == due_ms
    before = world.workflow.version
    assert world.send(StopCommand, subject="w1-anew") == "accepted"
    world.feed(Tick())
    assert world.look("w1-anew").state is State.STOPPED
    assert world.workflow.version > before
    assert "w1-anew" in world.workflow.why


def remaining(world: RunbookWorld) -> list[str]:
    return list(world.core.remaining(world.state, world.now_ms))


def test_where_what_it_began_waits_for_a_person_nothing_is_left_to_do() -> None:
    world = restoring()
    assert remaining(world) == ["w1"]
    world.deliver()
    assert world.waiting("w1-anew") == "clean_local_state"
    assert remaining(world) == []
    assert world.ack("clean_local_state", "w1-anew") == "accepted"
    assert world.waiting("w1-anew") == "start_application"
    world.starts()
    assert world.waiting("w1-anew") == "confirm_output"
    assert remaining(world) == []
    world.ack("confirm_output", "w1-anew")
    assert remaining(world) == ["w1"]


def test_one_that_a_person_paused_has_nothing_left_to_do_once_what_it_began_knows() -> None:
    world = restoring()
    world.deliver()
    assert world.send(Pause) == "accepted"
    assert remaining(world) == ["w1"]
    assert read(world, of(world, "pause")[0]) == "accepted"
    assert world.look("w1-anew").state is State.PAUSED
    assert remaining(world) == []


def test_a_rollback_of_a_child_that_is_stopped_is_not_waited_for() -> None:
    world = taken_back()
    assert world.send(StopCommand, subject="w1-anew") == "accepted"
    world.pass_time(10)
    assert world.workflow.state is State.FAILED
    assert "w1-anew did not put everything back and is stopped" in world.workflow.why
    assert world.rollback() == "accepted"
    world.members = []
    world.committed |= {("orders", p): 0 for p in range(PARTITIONS)}
    for _ in range(3):
        world.deliver()
    assert (world.look("w1-anew").state, world.workflow.state) == (State.ROLLED_BACK, State.ROLLED_BACK)


def set_clock_back(world: RunbookWorld) -> None:
    """By an hour; the daemon begins anew."""
    world.now_ms -= 3_600_000
    world.lead()


def test_a_rollback_of_a_child_that_is_stopped_is_not_waited_for_after_the_clock_was_set_back() -> None:
    world = taken_back()
    set_clock_back(world)
    assert world.send(StopCommand, subject="w1-anew") == "accepted"
    world.pass_time(60)
    assert world.workflow.state is State.FAILED
    assert "w1-anew did not put everything back and is stopped" in world.workflow.why


def test_a_rollback_of_a_child_that_somebody_else_began_before_is_not_taken_for_its_own() -> None:
    """Also where that one ended at a time that is still to come, since the clock was set back."""
    world = restoring()
    world.go_through()
    assert world.send(Rollback, subject="w1-anew") == "accepted"
    assert world.send(StopCommand, subject="w1-anew") == "accepted"
    assert world.look("w1-anew").state is State.STOPPED
    set_clock_back(world)
    assert world.rollback() == "accepted"
    finishes_back(world)


def finishes_back(world: RunbookWorld) -> None:
    """Nobody is in the way of a rollback any more."""
    world.members = []
    world.committed |= {("orders", p): 0 for p in range(PARTITIONS)}
    for _ in range(6):
        world.deliver()
    assert (world.look("w1-anew").state, world.workflow.state) == (State.ROLLED_BACK, State.ROLLED_BACK)


def test_a_stop_on_the_way_back_stops_what_is_put_back_and_a_later_rollback_goes_on_there() -> None:
    world = taken_back()
    assert world.stop() == "accepted"
    assert world.workflow.state is State.STOPPING
    world.pass_time(60)
    assert world.workflow.state is State.STOPPING, "not before it is known that nothing goes on"
    assert read(world, of(world, "stop")[0]) == "accepted"
    assert world.look("w1-anew").state is State.STOPPED
    world.pass_time(10)
    assert (world.workflow.state, world.workflow.step.state) == (State.STOPPED, StepState.WAITING)  # type: ignore[union-attr]
    assert world.rollback() == "accepted"
    finishes_back(world)


def test_a_stop_that_nobody_has_read_when_all_had_ended_does_not_end_a_later_rollback() -> None:
    world = taken_back()
    assert world.stop() == "accepted"
    assert world.send(StopCommand, subject="w1-anew") == "accepted", "a person was quicker"
    world.pass_time(60)
    assert (world.workflow.state, world.look("w1-anew").state) == (State.STOPPED, State.STOPPED)
    sent = len(of(world, "stop"))
    assert sent
    assert world.rollback() == "accepted"
    world.deliver()
    world.pass_time(60)
    assert (world.waiting("w1-anew"), len(of(world, "stop"))) == ("await_empty_again", sent)
    finishes_back(world)


def test_what_was_put_back_by_the_time_of_a_stop_is_no_failure() -> None:
    world = taken_back()
    assert world.stop() == "accepted"
    world.members = []
    world.committed |= {("orders", p): 0 for p in range(PARTITIONS)}
    world.pass_time(40)
    assert (world.look("w1-anew").state, world.workflow.state) == (State.ROLLED_BACK, State.STOPPED)


def test_a_pause_on_the_way_back_pauses_what_is_put_back_until_it_goes_on() -> None:
    world = taken_back()
    assert world.send(Pause) == "accepted"
    assert read(world, of(world, "pause")[0]) == "accepted"
    assert (world.workflow.state, world.look("w1-anew").state) == (State.PAUSED, State.PAUSED)
    world.members = []
    world.pass_time(60)
    assert world.look("w1-anew").state is State.PAUSED
    assert world.send(Resume) == "accepted"
    assert read(world, of(world, "resume")[0]) == "accepted"
    finishes_back(world)


@pytest.mark.parametrize("how", ["stop", "pause"])
def test_a_rollback_that_is_read_after_its_workflow_was_stopped_or_paused_begins_nothing(how: str) -> None:
    world = restoring()
    world.go_through()
    assert world.rollback() == "accepted"
    late = of(world, "rollback")[0]
    assert (world.stop() if how == "stop" else world.send(Pause)) == "accepted"
    assert world.workflow.state is (State.STOPPED if how == "stop" else State.PAUSED)
    assert read(world, late) == "rejected"
    assert "the rollback of w1-anew" in world.answers[-1].message
    assert world.look("w1-anew").state is State.COMPLETED
    world.seen_sent = len(world.sent)
    world.pass_time(1)
    assert (world.rollback() if how == "stop" else world.send(Resume)) == "accepted"
    assert of(world, "rollback")[-1].id != late.id, "the first id is used up"
    finishes_back(world)


def test_what_ended_just_before_a_stop_is_not_forgotten_where_a_quota_is_put_back() -> None:
    world = RunbookWorld()
    world.begin(RunbookPath.REPLAY, topic="orders", ranges={0: (10, 20)}, quotas={"shop-1": 1_000.0})
    world.have_recovery(make_recovery("w1-0", state=State.COMPLETED))
    world.stop()
    assert (world.workflow.state, world.quotas) == (State.STOPPED, {})
    assert world.workflow.report["stays"] == ["what w1-0 wrote to orders.w1 stays"]  # type: ignore[index]
    assert world.workflow.report["changed"][0].startswith("execute: replay w1-0")  # type: ignore[index]


def test_a_pause_does_not_hide_that_it_cannot_go_on() -> None:
    """A save whose copies cannot be sent: what fails while it is paused fails when it goes on."""
    world = AppWorld()
    save(world)
    world.stops()
    assert world.waits_at == "copy_state"
    world.send(Pause)
    world.feed(CommandNotSent("w1", world.sent[0].id, Code.INVALID_VALUE.value, "too large", False))
    assert world.workflow.state is State.PAUSED
    world.send(Resume)
    world.feed(CommandNotSent("w1", world.sent[-1].id, Code.INVALID_VALUE.value, "too large", False))
    assert world.workflow.state is State.FAILED


def test_how_it_ran_is_not_lost_when_a_person_says_that_it_is_stopped() -> None:
    world = AppWorld()

    def sees(effect: TakeStep) -> StepReported | None:
        if effect.step != "stop_application":
            return None
        return report(effect, Outcome.NOT_YET, "it runs", evidence={"before": {"replicas": 3}})

    world.fault = sees
    world.reprocess()
    world.ack("stop_application")
    step = next(step for step in world.workflow.steps if step.name == "stop_application")
    assert (step.state, step.evidence["before"], step.evidence["by"]) == (StepState.DONE, {"replicas": 3}, "//ops/ann")
    start = next(step for step in world.workflow.steps if step.name == "start_application")
    assert start.action.before == {"replicas": 3}  # type: ignore[union-attr]
