"""A step begins, and whoever carries it out is asked for it, once or once more. What becomes of that is heard in
`steps`.
"""

from dataclasses import replace

from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.model.effects import take_step
from recoveryd.workflows.model.workflow import StepState, Workflow, WorkflowStep


def begin(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> tuple[Workflow, WorkflowStep]:
    """It begins now. Gives both as they are then."""
    draft.notice("step_started", workflow.id, {"step": step.name, "why": f"step {step.name} begins"})
    draft.hear(workflow.id, step, step.tries)
    return replace(workflow, rest=None), replace(step, state=StepState.RUNNING, began_ms=draft.now_ms)


def ask_for(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, *, is_look: bool = False) -> None:
    """Have it done once, or once more, and expect to hear of it."""
    begun = replace(step, tries=step.tries + 1)
    if step.state is StepState.WAITING:
        draft.put(workflow.with_step(begun))  # asked every few seconds: no version of its own
    else:
        draft.revise(workflow.with_step(begun))
    draft.effect(take_step(workflow, begun, is_look=is_look))
    draft.due(workflow.id, draft.now_ms + draft.params.no_answer_ms)
