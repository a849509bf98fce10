"""Commands about workflows: those that ask for one, which are answered when its plan is made, and those that steer."""

from collections.abc import Iterable
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.events import CommandReceived
from recoveryd.kernel.refused import Refused, nearest_name
from recoveryd.kernel.states import CommandRef, State, Stop, StopReason
from recoveryd.recovery.commands import Approve, Reject
from recoveryd.units.model import Unit
from recoveryd.workflows.draft import WorkflowDraft
from recoveryd.workflows.holding import held_from
from recoveryd.workflows.model import StepState, Workflow
from recoveryd.workflows.params import WorkflowParams
from recoveryd.workflows.planning import asked_for_approval, gather
from recoveryd.workflows.reset import PUT_BACK, SET, rollback_steps
from recoveryd.workflows.spec import Reset, ResetSpec, Rollback
from recoveryd.workflows.steps import go_on

_REUSABLE = frozenset({State.PLANNED, State.REJECTED, State.EXPIRED})
_CAN_ROLL_BACK = frozenset({State.COMPLETED, State.FAILED, State.STOPPED})


def on_reset(draft: WorkflowDraft, event: CommandReceived, command: Reset) -> None:
    meta = command.meta
    known = draft.workflows.get(meta.subject)
    if known is not None and known.state not in _REUSABLE:
        message = f"workflow {known.id} exists already and is {known.state.value}"
        draft.answer(event, "rejected", message, Code.ID_IN_USE.value)
        return
    found = _spec_of(command.spec, draft.params)
    refusal = found if isinstance(found, Refused) else _refuse(found, draft)
    if refusal is not None:
        draft.answer(event, "rejected", refusal.message, refusal.code.value, refusal.hint)
        return
    assert isinstance(found, ResetSpec)
    workflow = Workflow(
        id=meta.subject,
        state=State.PLANNING,
        why=meta.reason,
        version=1 if known is None else known.version + 1,
        created_ms=draft.now_ms,
        updated_ms=draft.now_ms,
        command=CommandRef(meta.id, meta.source, meta.reason),
        verb=command.verb,
        unit=found.unit,
        spec=found,
        control_offset=event.offset,
    )
    draft.put(workflow)
    told = {"why": meta.reason, "verb": command.verb, "unit": found.unit, "group": found.group}
    draft.notice("workflow_requested", workflow.id, told, meta.id)
    gather(draft, workflow)


def on_approve(draft: WorkflowDraft, event: CommandReceived, command: Approve) -> None:
    workflow = _known(draft, command.meta.subject)
    if workflow.state is not State.AWAITING_APPROVAL:
        _wrong_state(draft, event, workflow)
        return
    asked = asked_for_approval(draft, workflow)
    refusal: str | None = f"nobody is asked to approve {workflow.id} any more; send the command again"
    if asked is not None:
        refusal = asked.refusal(workflow.command.source, command.meta.source)
    if refusal is not None:
        draft.answer(event, "rejected", refusal, Code.NOT_AN_APPROVER.value)
    elif workflow.plan is not None and command.plan_hash != workflow.plan.hash:
        message = f"the plan of {workflow.id} has the hash {workflow.plan.hash}"
        draft.answer(event, "rejected", message, Code.STALE_PLAN.value)
    elif held := held_from(draft, workflow, workflow.plan):
        draft.answer(event, "rejected", held.message, held.code.value, held.hint)
    else:
        why = f"approved by {command.meta.who}"
        draft.answer(event, "accepted", f"{workflow.id} is approved")
        # Its facts are as old as the wait: they are asked for again, and the plan must come out as it was approved.
        gather(draft, draft.revise(workflow, approved=why))


def on_reject(draft: WorkflowDraft, event: CommandReceived, command: Reject) -> None:
    workflow = _known(draft, command.meta.subject)
    if workflow.state is not State.AWAITING_APPROVAL:
        _wrong_state(draft, event, workflow)
        return
    draft.answer(event, "accepted", f"{workflow.id} is rejected")
    code = Code.REJECTED_BY_OPERATOR.value
    draft.move(workflow, State.REJECTED, f"rejected by {command.meta.who}", {"code": code}, error_code=code)


def on_stop(draft: WorkflowDraft, event: CommandReceived, command: StopCommand) -> None:
    """At once where nothing is under way; a change that is being made is heard of first."""
    workflow = _known(draft, command.meta.subject)
    step = workflow.step
    is_changing = step is not None and step.state is StepState.RUNNING and step.name in {SET, PUT_BACK}
    if workflow.is_terminal or workflow.state is State.PLANNED:
        _wrong_state(draft, event, workflow)
        return
    draft.answer(event, "accepted", f"{workflow.id} ends")
    if workflow.state is State.PLANNING:
        workflow = draft.answer_creation(workflow, "rejected", "stopped before its plan was made")
    stop = Stop(StopReason.OPERATOR, None, draft.now_ms)
    why = f"stopped by {command.meta.who}"
    if is_changing:
        draft.revise(workflow, stop=stop, why=f"{why}; what is being changed is waited for")
    else:
        draft.move(workflow, State.STOPPED, why, stop=stop, waiting_for=None)


def on_rollback(draft: WorkflowDraft, event: CommandReceived, command: Rollback) -> None:
    workflow = _known(draft, command.meta.subject)
    if workflow.state not in _CAN_ROLL_BACK:
        _wrong_state(draft, event, workflow)
        return
    if not any(u.was_set is not None for u in workflow.undo):
        message = f"{workflow.id} changed nothing, so there is nothing to put back"
        draft.answer(event, "rejected", message, Code.NOTHING_TO_DO.value)
        return
    rival = _rival(workflow.spec, workflow.id, draft.workflows.live.values())
    if rival is not None:
        draft.answer(event, "rejected", rival, Code.IN_USE.value)
        return
    if held := held_from(draft, workflow, workflow.plan):
        draft.answer(event, "rejected", held.message, held.code.value, held.hint)
        return
    draft.answer(event, "accepted", f"{workflow.id} is rolled back")
    back_steps = rollback_steps(workflow)
    names = {step.name for step in back_steps}  # of a rollback that failed before
    done = (s for s in workflow.steps if s.state is StepState.DONE and s.name not in names)
    steps = (*done, *back_steps)
    why = f"rolled back by {command.meta.who}"
    back = replace(workflow, steps=steps, is_rolling_back=True, error_code=None, stop=None)
    go_on(draft, draft.move(back, State.RUNNING, why))


def _spec_of(spec: ResetSpec, params: WorkflowParams) -> ResetSpec | Refused:
    """With what the config says of the unit. A group that is one's is the unit's also by its own name, so that who
    approves it is asked.
    """
    if spec.unit is None:
        owner = next((u for u in params.units.values() if _reads_as(u) == (spec.cluster, spec.group)), None)
        return spec if owner is None else replace(spec, unit=owner.name)
    unit = params.units.get(spec.unit)
    if unit is None:
        hint = nearest_name(spec.unit, frozenset(params.units)) if params.units else "the config has no units"
        return Refused(Code.UNKNOWN_UNIT, f"unit: the config has no unit {spec.unit!r}", hint)
    foreign = sorted(set(spec.topics or ()) - set(unit.inputs) - set(unit.intermediate))
    if foreign:
        message = f"topics: {foreign[0]} is neither input nor intermediate topic of {unit.name}"
        return Refused(Code.INVALID_VALUE, message, nearest_name(foreign[0], frozenset(unit.inputs)))
    return replace(spec, cluster=unit.cluster, group=unit.consumer_group, topics=spec.topics or _all_of(unit))


def _reads_as(unit: Unit) -> tuple[str, str]:
    return unit.cluster, unit.consumer_group


def _all_of(unit: Unit) -> dict[str, tuple[int, ...]]:
    return dict.fromkeys(unit.inputs, ())


def _refuse(spec: ResetSpec, draft: WorkflowDraft) -> Refused | None:
    params = draft.params
    if spec.cluster not in params.clusters:
        hint = nearest_name(spec.cluster, params.clusters)
        return Refused(Code.UNKNOWN_CLUSTER, f"cluster: the config has no cluster {spec.cluster!r}", hint)
    own = next((topic for topic in spec.topics or () if topic in params.own_topics), None)
    if own is not None:
        return Refused(Code.INTERNAL_TOPIC, f"topics: {own} is an internal topic")
    active = [w for w in draft.workflows.live.values() if w.state is not State.AWAITING_APPROVAL]
    if len(active) >= params.active_most:
        return Refused(
            Code.TOO_MANY_RECOVERIES, f"{len(active)} workflows are active, at most {params.active_most} can be"
        )
    rival = None if spec.dry_run else _rival(spec, "", draft.workflows.live.values())
    return None if rival is None else Refused(Code.IN_USE, rival)


def _rival(spec: ResetSpec, own_id: str, workflows: Iterable[Workflow]) -> str | None:
    """The sentence that names another workflow on the same group, or None."""
    for other in workflows:
        if other.id != own_id and (other.spec.cluster, other.spec.group) == (spec.cluster, spec.group):
            return f"workflow {other.id} works on the group {spec.group} and is {other.state.value}"
    return None


def _known(draft: WorkflowDraft, workflow_id: str) -> Workflow:
    found = draft.workflows.get(workflow_id)
    assert found is not None  # the kernel asked whose subject it is
    return found


def _wrong_state(draft: WorkflowDraft, event: CommandReceived, workflow: Workflow) -> None:
    message = f"{event.command.verb} is not possible while {workflow.id} is {workflow.state.value}"
    draft.answer(event, "rejected", message, Code.NOT_IN_THIS_STATE.value)
