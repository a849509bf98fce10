"""Commands about workflows: those that ask for one, which are answered when its plan is made, and those that steer."""

from dataclasses import replace
from typing import Any

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.draft import ALL_READ
from recoveryd.kernel.events import CommandReceived
from recoveryd.kernel.refusals import id_in_use, internal_topic, not_in_this_state, refuse_cluster, too_many
from recoveryd.kernel.refused import Refused, nearest_name
from recoveryd.kernel.states import CommandRef, State, Stop, StopReason
from recoveryd.kernel.times import format_time_ms
from recoveryd.recovery.commands import Approve, Pause, Reject, Resume
from recoveryd.workflows.machine.changing import is_changing
from recoveryd.workflows.machine.children.steering import steer_children
from recoveryd.workflows.machine.children.whose import has_children, refuse_child, sender_of
from recoveryd.workflows.machine.closing import given_up
from recoveryd.workflows.machine.command_ids import is_child_of, is_taken_back
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.machine.ends import end, stopped_by
from recoveryd.workflows.machine.holding import held_from, held_from_steps
from recoveryd.workflows.machine.kind import BeginsWorkflow, Knows, WorkflowKind
from recoveryd.workflows.machine.planning import approval_ends_ms, asked_for_approval, gather
from recoveryd.workflows.machine.sizing import asked_for_size
from recoveryd.workflows.machine.steps import done, go_on, take_again, take_anew
from recoveryd.workflows.machine.undoing import set_by, with_left_open, without_lost_places
from recoveryd.workflows.machine.waiving import waive
from recoveryd.workflows.model.actions import ANSWERED_BY_PEOPLE, AwaitCaughtUp, LookAtUnit
from recoveryd.workflows.model.commands import Ack, Rollback
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.lifecycle import REUSABLE
from recoveryd.workflows.model.size import refuse_id
from recoveryd.workflows.model.spec import UpgradeSpec
from recoveryd.workflows.model.step_names import CATCH_UP
from recoveryd.workflows.model.workflow import NOT_ENDED, Ending, StepState, Workflow, WorkflowStep

_CAN_ROLL_BACK = frozenset({State.COMPLETED, State.FAILED, State.STOPPED})


def on_begin(draft: WorkflowDraft, event: CommandReceived, command: BeginsWorkflow) -> None:
    meta = command.meta
    earlier = draft.workflows.get(meta.subject)
    if earlier is not None and earlier.state not in REUSABLE:
        draft.refuse(event, id_in_use("workflow", earlier.id, earlier.state.value))
        return
    kind = draft.kinds[command.verb]
    sender, before = sender_of(draft, meta.id)
    takes_over = sender is not None and isinstance(sender.spec, UpgradeSpec)
    spec = kind.complete(command.spec, Knows(draft.params, draft.workflows, before, meta.subject, takes_over))
    if not isinstance(spec, Refused):
        refusal = refuse_id(meta.subject, kind.ends(spec)) or _refuse(kind, spec, draft, meta.id)
    else:
        refusal = spec
    if refusal is not None:
        draft.refuse(event, refusal)
        return
    workflow = Workflow(
        id=meta.subject,
        state=State.PLANNING,
        why=meta.reason,
        version=1 if earlier is None else earlier.version + 1,
        created_ms=draft.now_ms,
        updated_ms=draft.now_ms,
        command=CommandRef(meta.id, meta.source, meta.reason),
        verb=command.verb,
        unit=spec.unit,
        spec=spec,
        control_offset=event.offset,
        ordinal=1 + max((other.ordinal for other in draft.workflows), default=0),
    )
    draft.put(workflow)
    told = {"why": meta.reason, "verb": command.verb, "unit": spec.unit, "group": spec.group}
    draft.notice("workflow_requested", workflow.id, told, meta.id)
    gather(draft, workflow)


def ends_of_begun(draft: WorkflowDraft, command: BeginsWorkflow) -> str:
    """The longest end that ids of what it would begin have behind its own, by what is known now."""
    kind = draft.kinds[command.verb]
    spec = kind.complete(command.spec, Knows(draft.params, draft.workflows))
    return kind.ends(command.spec if isinstance(spec, Refused) else spec)


def on_approve(draft: WorkflowDraft, event: CommandReceived, command: Approve) -> None:
    workflow = known(draft, command.meta.subject)
    if workflow.state is not State.AWAITING_APPROVAL:
        wrong_state(draft, event, workflow)
        return
    asked, until_ms = asked_for_approval(draft, workflow), approval_ends_ms(draft, workflow)
    refusal: str | None = None
    if asked is None and asked_for_size(draft.workflows, workflow, draft.params) is None:
        refusal = f"nobody is asked to approve {workflow.id} any more; send the command again"
    elif asked is not None:
        refusal = asked.refusal(workflow.command.source, command.meta.source)
    if refusal is not None:
        draft.answer(event, "rejected", refusal, Code.NOT_AN_APPROVER.value)
    elif workflow.plan is not None and command.plan_hash != workflow.plan.hash:
        message = f"the plan of {workflow.id} has the hash {workflow.plan.hash}"
        draft.answer(event, "rejected", message, Code.STALE_PLAN.value)
    elif not workflow.approved and min(event.broker_ms, draft.now_ms) >= until_ms:
        message = f"{workflow.id} could be approved until {format_time_ms(until_ms)}"
        draft.answer(event, "rejected", message, Code.APPROVAL_EXPIRED.value)
    elif held := held_from(draft, workflow, workflow.plan, workflow.reads):
        draft.refuse(event, held)
    else:
        why = f"approved by {command.meta.who}"
        draft.answer(event, "accepted", f"{workflow.id} is approved{_told_later(draft)}")
        # Its facts are as old as the wait: they are asked for again, and the plan must come out as it was approved.
        gather(draft, draft.revise(workflow, approved=why, waiting_for=None))


def on_reject(draft: WorkflowDraft, event: CommandReceived, command: Reject) -> None:
    workflow = known(draft, command.meta.subject)
    if workflow.state is not State.AWAITING_APPROVAL:
        wrong_state(draft, event, workflow)
        return
    draft.answer(event, "accepted", f"{workflow.id} is rejected")
    code = Code.REJECTED_BY_OPERATOR.value
    draft.move(workflow, State.REJECTED, f"rejected by {command.meta.who}", {"code": code}, error_code=code)


def on_ack(draft: WorkflowDraft, event: CommandReceived, command: Ack) -> None:
    """A person says that a step is done. Said again, or of one that went on by itself, it changes nothing."""
    workflow = known(draft, command.meta.subject)
    step = next((s for s in workflow.steps if s.name == command.step), None)
    if step is None:
        hint = nearest_name(command.step, frozenset(s.name for s in workflow.steps)) if workflow.steps else ""
        message = f"{workflow.id} has no step {command.step!r}"
        draft.answer(event, "rejected", message, Code.INVALID_VALUE.value, hint)
    elif step.state is StepState.DONE and _may_be_said(step):
        draft.answer(event, "accepted", f"{step.name} was done already")
    elif workflow.state not in {State.RUNNING, State.WAITING}:
        wrong_state(draft, event, workflow)  # one that was stopped stands at a step that waits for ever
    elif (
        step.state is StepState.WAITING
        and step.name in draft.kind_of(workflow).waived
        and isinstance(step.action, LookAtUnit)
    ):
        waive(draft, event, workflow, command)
    elif step.state is not StepState.WAITING or not _may_be_said(step):
        message = f"step {step.name} of {workflow.id} waits for no ack; it is {step.state.value}"
        draft.answer(event, "rejected", message, Code.NOT_IN_THIS_STATE.value)
    elif isinstance(step.action, AwaitCaughtUp) and not command.note:
        message = f"{step.name} waits for what the group commits: say in the note why it need not be waited for"
        draft.answer(event, "rejected", message, Code.MISSING_FIELD.value, "Send it again with --note.")
    else:
        draft.answer(event, "accepted", f"{step.name} is done")
        why = f"acknowledged by {command.meta.who}" + (f" ({command.note})" if command.note else "")
        told = {**step.evidence, "by": command.meta.source, "note": command.note}
        done(draft, workflow, step, StepReported(workflow.id, step.name, step.tries, Outcome.DONE, why, evidence=told))


def _may_be_said(step: WorkflowStep) -> bool:
    """Whether a person may say that it is done. Of what a group reads only the last one: other steps rest on exact
    offsets.
    """
    return type(step.action) in ANSWERED_BY_PEOPLE or (isinstance(step.action, AwaitCaughtUp) and step.name == CATCH_UP)


def on_stop(draft: WorkflowDraft, event: CommandReceived, command: StopCommand) -> None:
    """At once where nothing is under way; a change that is being made is heard of first."""
    workflow = known(draft, command.meta.subject)
    if workflow.state is State.CLOSING:
        draft.answer(event, "accepted", f"what {workflow.id} changed for its time is put back now, or left changed")
        take_again(draft, draft.revise(given_up(workflow, command.meta.who, draft.now_ms)))
        return
    if workflow.is_terminal or workflow.state in {State.PLANNED, State.STOPPING}:
        wrong_state(draft, event, workflow)
        return
    draft.answer(event, "accepted", f"{workflow.id} ends")
    if workflow.state is State.PLANNING:
        workflow = draft.answer_creation(workflow, "rejected", "stopped before its plan was made")
    stop_workflow(draft, workflow, f"stopped by {command.meta.who}")


def stop_workflow(draft: WorkflowDraft, workflow: Workflow, why: str, code: str | None = None) -> None:
    stop = Stop(StopReason.OPERATOR, None, draft.now_ms)
    why = "; ".join(filter(None, (why, stopped_by(draft, workflow))))
    if is_changing(workflow):
        draft.move(workflow, State.STOPPING, f"{why}; what is being changed is waited for", stop=stop, error_code=code)
    elif has_children(draft, workflow):
        steered = steer_children(draft, workflow, "stop")
        draft.move(steered, State.STOPPING, f"{why}; what it began is waited for", stop=stop, error_code=code)
    else:
        end(draft, replace(workflow, stop=stop), Ending(State.STOPPED, why, code))


def on_pause(draft: WorkflowDraft, event: CommandReceived, command: Pause) -> None:
    """Between two steps; one that changes something is heard of first."""
    workflow = known(draft, command.meta.subject)
    if workflow.state not in {State.RUNNING, State.WAITING}:
        wrong_state(draft, event, workflow)
        return
    if command.release:
        message = f"release: {workflow.id} is a workflow, which has no application to be let go"
        draft.answer(event, "rejected", message, Code.INVALID_VALUE.value)
        return
    why = f"paused by {command.meta.who}"
    draft.answer(event, "accepted", f"{workflow.id} pauses")
    if is_changing(workflow):
        draft.move(workflow, State.PAUSING, why)
    else:
        draft.move(steer_children(draft, workflow, "pause"), State.PAUSED, why, waiting_for=None)


def on_resume(draft: WorkflowDraft, event: CommandReceived, command: Resume) -> None:
    workflow = known(draft, command.meta.subject)
    if workflow.state not in {State.PAUSED, State.PAUSING}:
        wrong_state(draft, event, workflow)
        return
    draft.answer(event, "accepted", f"{workflow.id} goes on{_told_later(draft)}")
    was_paused, step = workflow.state is State.PAUSED, workflow.step
    if step is not None and not was_paused:
        workflow = workflow.with_step(replace(step, failures=0))  # looks that failed meanwhile are no tries
    why = f"resumed by {command.meta.who}"
    running = draft.move(steer_children(draft, workflow, "resume"), State.RUNNING, why, waiting_for=None)
    if was_paused:
        take_anew(draft, running)


def _told_later(draft: WorkflowDraft) -> str:
    return "" if draft.has_read else f"; what changes something waits until {ALL_READ}"


def on_rollback(draft: WorkflowDraft, event: CommandReceived, command: Rollback) -> None:
    workflow = known(draft, command.meta.subject)
    if workflow.state not in _CAN_ROLL_BACK:
        wrong_state(draft, event, workflow)
        return
    steps = draft.kind_of(workflow).undo(workflow)
    stays = "; ".join(draft.kind_of(workflow).stays(workflow))
    wanted = with_left_open(workflow)  # at the end of a rollback it is tried once more
    if not steps and wanted is workflow:
        why = stays or "it changed nothing"
        draft.answer(event, "rejected", f"{workflow.id} has nothing to put back: {why}", Code.NOTHING_TO_DO.value)
        return
    refused = _not_back(draft, workflow, command, steps)
    if refused is not None:
        draft.refuse(event, refused)
        return
    names = {step.name for step in steps}  # of a rollback that failed before
    since = _setters_since(draft, wanted)
    theirs = f"offsets that {', '.join(other.id for other in since)} set since stay" if since else ""
    told = "; ".join(filter(None, (f"{workflow.id} is rolled back", stays, theirs)))
    draft.answer(event, "accepted", f"{told}{_told_later(draft)}")
    before = (s for s in wanted.steps if s.name not in names)
    kept = (replace(s, state=StepState.SKIPPED) if s.state in NOT_ENDED else s for s in before)
    why = f"rolled back by {command.meta.who}"
    back = replace(
        without_lost_places(wanted, steps, since),
        steps=(*kept, *steps),
        is_rolling_back=True,
        taken_back_by=command.meta.id,
        error_code=None,
        stop=None,
        steering=None,
    )
    go_on(draft, draft.move(back, State.RUNNING, why))


def _setters_since(draft: WorkflowDraft, workflow: Workflow) -> tuple[Workflow, ...]:
    """Those that set offsets since which this one would put back."""
    cluster = workflow.spec.cluster
    mine = frozenset(set_by(workflow, cluster))
    later = (other for other in draft.workflows if other.place > workflow.place)
    return tuple(other for other in later if mine and not mine.isdisjoint(set_by(other, cluster)))


def _not_back(
    draft: WorkflowDraft, workflow: Workflow, command: Rollback, steps: tuple[WorkflowStep, ...]
) -> Refused | None:
    """Why a rollback by `steps` is not to be now."""
    unwanted = refuse_child(draft, command)
    if unwanted is not None:
        return unwanted
    rival = _rival(draft, workflow.id, draft.kind_of(workflow).claims(workflow.spec), command.meta.id)
    if rival is not None:
        return Refused(Code.IN_USE, rival)
    later = _later(draft, workflow)
    if later is not None:
        message = f"{later.id} was begun after {workflow.id}, and rests on what would be taken away"
        return Refused(Code.IN_USE, message, f"Roll back {later.id} first.")
    watch = _watched(draft, workflow.spec)
    return held_from_steps(draft, workflow, steps) if watch is None else Refused(Code.UNIT_WATCHED, watch)


def _refuse(kind: WorkflowKind, spec: Any, draft: WorkflowDraft, command: str) -> Refused | None:
    params = draft.params
    unknown = refuse_cluster(spec.cluster, params.clusters)
    if unknown is not None:
        return unknown
    own = next((topic for topic in kind.topics(spec) if topic in params.own_topics), None)
    if own is not None:
        return internal_topic(own)
    live = draft.workflows.live.values()
    active = [w for w in live if w.state is not State.AWAITING_APPROVAL]
    # Of those that were begun already, each may begin others, or all of them could wait for each other.
    if len(active) >= params.active_most and not any(is_child_of(w, command) for w in live):
        return too_many(Code.TOO_MANY_RECOVERIES, "workflows", len(active), params.active_most)
    if spec.dry_run:
        return None
    rival = _rival(draft, "", kind.claims(spec), command)
    if rival is not None:
        return Refused(Code.IN_USE, rival)
    watch = _watched(draft, spec)
    return None if watch is None else Refused(Code.UNIT_WATCHED, watch)


def _watched(draft: WorkflowDraft, spec: Any) -> str | None:
    """The sentence that names a watch on a group of which something is changed, or None."""
    groups = dict.fromkeys((spec.group, getattr(spec, "to_group", "") or spec.group))
    return next((watch for group in groups if (watch := draft.watch_on(spec.cluster, group)) is not None), None)


def _later(draft: WorkflowDraft, workflow: Workflow) -> Workflow | None:
    """The newest one that rests on this."""
    kind = draft.kind_of(workflow)
    others = (other for other in draft.workflows if other.place > workflow.place)
    later = (other for other in others if kind.is_beneath(workflow, other))
    return max(later, key=lambda other: other.place, default=None)


def _rival(draft: WorkflowDraft, own_id: str, claims: frozenset[str], command: str) -> str | None:
    """The sentence that names another workflow on the same things, or None. Whoever begins it, or takes it back, by
    `command` is none.
    """
    for other in draft.workflows.live.values():
        shared = claims & draft.kind_of(other).claims(other.spec) if other.id != own_id else frozenset()
        is_parent = is_child_of(other, command) or is_taken_back(other, command)
        if shared and not other.spec.dry_run and not is_parent:
            return f"workflow {other.id} works on {min(shared)} and is {other.state.value}"
    return None


def known(draft: WorkflowDraft, workflow_id: str) -> Workflow:
    """The one that the command is about."""
    found = draft.workflows.get(workflow_id)
    assert found is not None  # the kernel asked whose subject it is
    return found


def wrong_state(draft: WorkflowDraft, event: CommandReceived, workflow: Workflow) -> None:
    draft.refuse(event, not_in_this_state(event.command.verb, workflow.id, workflow.state.value))
