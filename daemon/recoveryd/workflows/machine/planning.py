"""From facts to the plan of a workflow, and from the plan to the answer of the command that asked for it."""

from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.effects import WakeAt
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.states import State
from recoveryd.units.approvals import Approval, approval_of_all
from recoveryd.workflows.machine.command_ids import is_begun
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.machine.guarding import guarded
from recoveryd.workflows.machine.holding import held_from
from recoveryd.workflows.machine.leases import refuse_leases, were_put_back
from recoveryd.workflows.machine.replays import users_of, writers_of
from recoveryd.workflows.machine.sizing import asked_for_size, outgrown, said_size
from recoveryd.workflows.machine.steps import go_on
from recoveryd.workflows.model.effects import GatherForWorkflow
from recoveryd.workflows.model.events import GatheringFailed, WorkflowFacts
from recoveryd.workflows.model.facts import Found
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.workflow import WaitingFor, Workflow


def gather(draft: WorkflowDraft, workflow: Workflow) -> None:
    """Ask the cluster; again when nothing is heard for long."""
    if (lost := _lost_unit(draft, workflow)) is not None:
        refuse(draft, workflow, lost.code, lost.message)
        return
    draft.asked(workflow.id)
    wanted = draft.kind_of(workflow).wanted(workflow.spec, draft.params)
    draft.effect(GatherForWorkflow(workflow.id, wanted, workflow.version, workflow.spec.cluster))
    draft.due(workflow.id, draft.now_ms + draft.params.no_answer_ms)


def on_gathered(draft: WorkflowDraft, event: WorkflowFacts) -> None:
    workflow = _waiting(draft, event)
    if workflow is not None:
        guarded(draft, workflow, lambda draft, workflow: _plan(draft, workflow, event.found), refuse)


def _plan(draft: WorkflowDraft, workflow: Workflow, found: Found) -> None:
    made = _lost_unit(draft, workflow) or draft.kind_of(workflow).plan(workflow.spec, found, draft.params)
    if isinstance(made, Refused):
        refuse(draft, workflow, made.code, made.message, made.hint)
        return
    if were_put_back(draft.workflows, made.leases, found.at_ms, draft.now_ms):
        draft.due(workflow.id, draft.now_ms + draft.params.look_every_ms)
        return
    held = refuse_leases(draft.workflows, workflow.id, made.leases)
    if held is not None and not workflow.spec.dry_run:
        refuse(draft, workflow, held.code, held.message, held.hint)
        return
    writers = writers_of(draft, workflow.spec.cluster, {c.name for c in made.plan.changes if c.what == "offset"})
    told = (*users_of(draft, made.steps), *(() if held is None else (held.message,)))
    is_child = is_begun(draft.workflows, workflow.id, workflow.command)
    advice = () if is_child else made.advice
    plan = replace(made.plan, findings=(*advice, *made.plan.findings, *writers, *told))
    held = held_from(draft, workflow, plan, made.reads)
    if held is not None and not workflow.spec.dry_run:
        refuse(draft, workflow, held.code, held.message, held.hint)
        return
    if held is not None:
        plan = replace(plan, findings=(*plan.findings, held.message))
    planned = {"plan": plan, "reads": made.reads, "steps": made.steps, "undo": made.undo, "cut": made.cut}
    if workflow.approved:
        if workflow.plan is None or plan.hash != workflow.plan.hash:
            refuse(draft, workflow, Code.STALE_PLAN, f"the plan made now has the hash {plan.hash}; {workflow.approved}")
        elif not is_child and (grown := outgrown(workflow.plan.copies, plan.copies, draft.params)) is not None:
            why = f"the plan made now copies much more: {grown}; {workflow.approved}"
            refuse(draft, workflow, Code.STALE_PLAN, why)
        else:
            go_on(draft, draft.move(draft.revise(workflow, **planned), State.RUNNING, workflow.approved))
        return
    if workflow.spec.plan_hash not in {None, plan.hash}:
        refuse(draft, workflow, Code.STALE_PLAN, f"the plan made now has the hash {plan.hash}")
        return
    _proceed(draft, draft.revise(workflow, **planned), made.told + said_size(plan.copies))


def _lost_unit(draft: WorkflowDraft, workflow: Workflow) -> Refused | None:
    """Units may leave the config, or become other applications, while a plan is made, or waits for its approval."""
    spec, units = workflow.spec, draft.params.units
    for unit in draft.kind_of(workflow).units(spec):
        if unit not in units:
            return Refused(Code.UNKNOWN_UNIT, f"the config has no unit {unit!r} any more; nothing was changed")
    to_group = getattr(spec, "to_group", "") or spec.group
    for name, group in ((spec.unit, spec.group), (getattr(spec, "to_unit", None), to_group)):
        if name is not None and (units[name].cluster, units[name].consumer_group) != (spec.cluster, group):
            message = f"{name} has another cluster or group now than when the command was taken; nothing was changed"
            return Refused(Code.STALE_PLAN, message)
    return None


def on_gathering_failed(draft: WorkflowDraft, event: GatheringFailed) -> None:
    workflow = _waiting(draft, event)
    if workflow is None:
        return
    waited_ms = draft.now_ms - draft.asked(workflow.id)
    if event.is_retriable and waited_ms < draft.params.planning_deadline_ms:
        draft.due(workflow.id, draft.now_ms + draft.params.look_every_ms)
    else:
        refuse(draft, workflow, Code(event.code), event.message)


def ask_again(draft: WorkflowDraft, workflow: Workflow) -> None:
    """Ask for the facts once more, or give up, when the cluster did not answer for long, not even with an error."""
    waited_ms = draft.now_ms - draft.asked(workflow.id)
    if waited_ms <= draft.params.planning_deadline_ms + draft.params.no_answer_ms:
        gather(draft, workflow)
        return
    message = f"the cluster did not say what the plan needs in {waited_ms / 1000:.0f} s"
    refuse(draft, workflow, Code.CLUSTER_UNREACHABLE, message)


def refuse(draft: WorkflowDraft, workflow: Workflow, code: Code, message: str, hint: str = "") -> None:
    """Nothing was changed; the answer to its command is `rejected`."""
    answered = draft.answer_creation(workflow, "rejected", message, code.value, hint)
    draft.move(answered, State.REJECTED, message, {"code": code.value}, error_code=code.value)


def _proceed(draft: WorkflowDraft, workflow: Workflow, size: str) -> None:
    plan = workflow.plan
    assert plan is not None
    asked = asked_for_approval(draft, workflow)
    if asked is not None and asked.dead_end is not None:
        refuse(draft, workflow, Code.NOT_AN_APPROVER, asked.dead_end)
        return
    workflow = draft.answer_creation(workflow, "accepted", f"planned: {size}")
    told = {"plan_hash": plan.hash, "changes": len(plan.changes)}
    too_large = asked_for_size(draft.workflows, workflow, draft.params)
    if workflow.spec.dry_run:
        waits = f"; it would wait for approval: {too_large}" if too_large else ""
        draft.move(workflow, State.PLANNED, f"dry run: {size}, nothing was changed{waits}", told)
    elif asked is not None or too_large is not None:
        waits = f"waits for approval: {too_large}" if asked is None else asked.wait(workflow.command.source)
        why = f"{waits}: {size}"
        waits_for = for_approval(draft.now_ms, draft.params)
        waiting = draft.move(workflow, State.AWAITING_APPROVAL, why, told, waiting_for=waits_for)
        draft.effect(WakeAt(approval_ends_ms(draft, waiting)))
    else:
        go_on(draft, draft.move(workflow, State.RUNNING, f"plan made: {size}", told))


def asked_for_approval(draft: WorkflowDraft, workflow: Workflow) -> Approval | None:
    """By the units and rules that are in force now; None = none is needed."""
    params, named = draft.params, draft.kind_of(workflow).units(workflow.spec)
    names = dict.fromkeys((*([] if workflow.unit is None else [workflow.unit]), *named))
    units = [params.units[name] for name in names if name in params.units]
    return approval_of_all(params.approvals, workflow.verb, units[0], params.units, units[1:]) if units else None


def approval_ends_ms(draft: WorkflowDraft, workflow: Workflow) -> int:
    """Until when one that waits for its approval may be approved."""
    return workflow.updated_ms + draft.params.approval_ttl_ms


def for_approval(since_ms: int, params: WorkflowParams) -> WaitingFor:
    """What one that waits for its approval since then waits for."""
    return WaitingFor("approval", "", since_ms, since_ms + params.approval_ttl_ms)


def _waiting(draft: WorkflowDraft, event: WorkflowFacts | GatheringFailed) -> Workflow | None:
    """The workflow, if it waits for these facts."""
    workflow = draft.workflows.live.get(event.workflow)
    if workflow is None or event.version not in {None, workflow.version}:
        return None
    is_approved = workflow.state is State.AWAITING_APPROVAL and bool(workflow.approved)
    return workflow if workflow.state is State.PLANNING or is_approved else None
