"""Whether a step changes something now, of which has to be heard before a stop or a pause takes place."""

from recoveryd.kernel.states import State
from recoveryd.workflows.machine.children.whose import has_children
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.model.actions import CHANGES, RollBackChildren
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.workflow import TAKEN, Rest, Workflow, WorkflowStep


def is_changing(workflow: Workflow) -> bool:
    """Whether something is being changed now, of which it has to be heard first. Not one that waits: to take its step
    once more would make the change that somebody has just called off.
    """
    step = workflow.step
    if step is None or step.state not in TAKEN or type(step.action) not in CHANGES or workflow.state is State.PAUSED:
        return False
    return not is_at_rest(workflow, step)


def is_at_rest(workflow: Workflow, step: WorkflowStep) -> bool:
    """Whether nothing of it is under way, as was heard of its last try."""
    return workflow.rest == rest_of(step)


def rest_of(step: WorkflowStep) -> Rest:
    return Rest(step.name, step.tries)


def can_rest(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> bool:
    """Whether it was to be heard of something first, and nothing is under way any more."""
    if isinstance(step.action, RollBackChildren):
        return not has_children(draft, workflow)
    return type(step.action) in CHANGES


def is_nothing_begun(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, event: StepReported) -> bool:
    """Whether no try of it came so far as to change anything, so that there is nothing to look for."""
    return event.is_retriable and event.is_untried and can_rest(draft, workflow, step)


def is_called_off(workflow: Workflow, step: WorkflowStep) -> bool:
    """Whether a stop or a pause came while a change was under way, of which nothing was heard: what is left of it is
    not made.
    """
    return workflow.state in {State.STOPPING, State.PAUSING} and type(step.action) in CHANGES
