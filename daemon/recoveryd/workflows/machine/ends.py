"""How a workflow ends: well, by a step that failed, or by what it could not put back. What it changed for its own time
only is put back before.
"""

from collections.abc import Iterator
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.workflows.machine.asking import ask_for, begin
from recoveryd.workflows.machine.children.steering import steer_children
from recoveryd.workflows.machine.children.whose import FAILED, has_children
from recoveryd.workflows.machine.closing import is_over, told_try, with_deadline, without, without_last_try
from recoveryd.workflows.machine.deciding import told_appended
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.machine.left_standing import told_left_stopped, told_stopped, told_unseen
from recoveryd.workflows.machine.undoing import puts_back, restore_step, told_lost, without_unbegun
from recoveryd.workflows.model.actions import CHANGES, Action, RunChildren
from recoveryd.workflows.model.workflow import NOT_ENDED, Ending, StepState, Workflow, WorkflowStep


def fail(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, why: str, code: str) -> None:
    """It stands here, with a reason; what was changed before can be put back."""
    told = f"{step.name}: {why}"
    if workflow.state is State.CLOSING:
        if why != step.why:
            draft.notice("step_failed", workflow.id, {"step": step.name, "why": why, "code": code})
        if is_over(workflow, draft.now_ms) and _is_left(draft, workflow):
            leave(draft, workflow, step, why)
            return
        workflow = workflow if draft.has_read else without_last_try(workflow)
        tries = told_try(workflow, draft.now_ms)
        draft.revise(workflow.with_step(replace(step, why=why, failures=0)), why=f"{told}; {tries}")
        draft.due(workflow.id, draft.now_ms + draft.params.close_every_ms)
        return
    if isinstance(step.action, RunChildren) and has_children(draft, workflow):
        _stop_others_first(draft, workflow, step, why, code)
        return
    ended = replace(step, state=StepState.FAILED, why=why, ended_ms=draft.now_ms)
    draft.notice("step_failed", workflow.id, {"step": step.name, "why": why, "code": code})
    failed = workflow.with_step(ended)
    end(draft, failed, Ending(State.FAILED, "; ".join((told, *_told_after(draft, failed))), code))


def _is_left(draft: WorkflowDraft, workflow: Workflow) -> bool:
    """Once what was sent while no daemon ran is known, or where a person gave it up."""
    return draft.has_read or (workflow.ending is not None and bool(workflow.ending.given_up_by))


def _told_after(draft: WorkflowDraft, failed: Workflow) -> Iterator[str]:
    """How it leaves things, for whoever goes on with them. On the way back the answer to `rollback` said the rest."""
    stopped = stopped_by(draft, failed)
    if failed.is_rolling_back:
        yield from filter(None, (stopped,))
        return
    can_go_back = puts_back(failed, draft.kind_of(failed).undo(failed))
    back = "`rollback` puts back what was changed" if can_go_back else ""
    yield from filter(None, (told_lost(failed), stopped, told_appended(draft.params.units, failed), back))


def stopped_by(draft: WorkflowDraft, workflow: Workflow) -> str:
    """What it leaves stopped, or not seen to run, if it ends now, in words."""
    units = draft.params.units
    if workflow.is_rolling_back:
        return told_left_stopped(units, workflow, draft.kind_of(workflow).undo(workflow))
    return told_stopped(units, workflow)


def leave(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, why: str) -> None:
    """What this step should have put back stays changed; what there is besides is still put back."""
    failed = workflow.with_step(replace(step, state=StepState.FAILED, why=why, ended_ms=draft.now_ms))
    after = without(failed, step, why)
    assert after.ending is not None
    end(draft, after, after.ending)


def _stop_others_first(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, why: str, code: str) -> None:
    """What it began beside would go on with nobody who waits for it."""
    noted = replace(step, why=why, evidence={**step.evidence, FAILED: {"why": why, "code": code}})
    steered = steer_children(draft, workflow.with_step(noted), "stop")
    draft.revise(steered, why=f"{step.name}: {why}; what began beside it is stopped first")
    draft.due(workflow.id, draft.now_ms + draft.params.look_every_ms)


def end(draft: WorkflowDraft, workflow: Workflow, ending: Ending) -> None:
    """Into its last state; before that, put back what was changed for its own time only. What it began has ended, so
    nothing is wanted of that any more: a stop that nobody has read would end what a rollback begins there.
    """
    workflow = replace(without_unbegun(workflow), steering=None)
    restore = restore_step(workflow)
    if restore is None:
        data = {"code": ending.code} if ending.code else {}
        report = draft.kind_of(workflow).report(workflow, ending, draft.now_ms)
        ended = {"error_code": ending.code, "waiting_for": None, "ending": None, "report": report}
        draft.move(workflow, ending.state, ending.why, data, **ended)
        if ending.code == Code.ESCALATED.value:
            told = {"why": ending.why, "code": ending.code, "unit": workflow.unit, "report": report}
            draft.notice("runbook_escalated", workflow.id, told)
        return
    steps = tuple(replace(s, state=StepState.SKIPPED) if s.state in NOT_ENDED else s for s in workflow.steps)
    until = with_deadline(ending, draft.now_ms, draft.params.closing_deadline_ms)
    closing = replace(workflow, steps=(*steps, restore), ending=until, waiting_for=None)
    why = f"{ending.why}; temporary changes are put back"
    is_new = workflow.state is not State.CLOSING
    closing = draft.move(closing, State.CLOSING, why) if is_new else draft.revise(closing, why=why)
    ask_for(draft, *begin(draft, closing, restore))  # nothing that is put back needs more than that


def complete(draft: WorkflowDraft, workflow: Workflow) -> None:
    """There is no step left."""
    last = workflow.steps[-1].why
    if not workflow.is_rolling_back:
        end(draft, workflow, Ending(State.COMPLETED, "; ".join(filter(None, (last, stopped_by(draft, workflow))))))
        return
    steps = tuple(
        replace(s, state=StepState.UNDONE) if type(s.action) in CHANGES and not is_back(s.action) else s
        for s in workflow.steps
    )
    unseen = told_unseen(draft.params.units, workflow)
    why = "; ".join(filter(None, (last, unseen, draft.kind_of(workflow).left(workflow))))
    end(draft, replace(workflow, steps=steps), Ending(State.ROLLED_BACK, why))


def is_back(action: Action) -> bool:
    """Whether it puts something back, or takes away only what the workflow made itself."""
    return bool(getattr(action, "is_back", False) or getattr(action, "is_ours", False))
