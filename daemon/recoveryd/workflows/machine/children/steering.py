"""Those that live pause, resume and stop with the workflow that began them: commands that are sent until they were
read.
"""

from collections.abc import Mapping
from dataclasses import replace

from recoveryd.kernel.effects import SendCommand
from recoveryd.kernel.states import State
from recoveryd.workflows.machine.children.whose import Child, living_children
from recoveryd.workflows.machine.command_ids import steering_id
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.model.workflow import Steering, Workflow


def steer_children(draft: WorkflowDraft, workflow: Workflow, verb: str) -> Workflow:
    """Pause, resume or stop those that live. Gives the workflow that remembers it, which is to be journaled."""
    steered = replace(workflow, steering=None)
    left = tuple(child.id for child in living_children(draft, workflow) if not _is_so(child, verb))
    if left:
        steered = replace(workflow, steering=Steering(verb, workflow.version, left))
    remind_children(draft, steered)
    return steered


def remind_children(draft: WorkflowDraft, workflow: Workflow) -> None:
    """Send what was wanted of them last once more, under the same ids, to those that have not read it."""
    wanted = workflow.steering
    if wanted is None:
        return
    living = {child.id for child in living_children(draft, workflow)}
    for child in wanted.left:
        if child in living:
            data = {"reason": f"{wanted.verb} of {workflow.id}"}
            send(draft, workflow, wanted.verb, child, data, steering_id(workflow, wanted, child))


def hear_of_steering(draft: WorkflowDraft, workflow: Workflow, command: str) -> None:
    """A command with this id was read. One that came too early for it is wanted again, under another id."""
    wanted = workflow.steering
    if wanted is None:
        return
    answer = next((answer for answer in draft.draft.answers if answer.command_id == command), None)
    is_refused = answer is not None and answer.kind in {"rejected", "expired"}
    for child in living_children(draft, workflow) if is_refused else ():
        if command == steering_id(workflow, wanted, child.id) and not _is_so(child, wanted.verb):
            draft.revise(workflow, steering=replace(wanted, number=workflow.version))
            return
    forget_steering(draft, workflow, command)


def forget_steering(draft: WorkflowDraft, workflow: Workflow, command: str) -> bool:
    """Whether it was a command to one that it began, which is not wanted any more: it was read, or can never be
    sent.
    """
    wanted = workflow.steering
    if wanted is None or not any(command == steering_id(workflow, wanted, child) for child in wanted.left):
        return False
    left = tuple(child for child in wanted.left if command != steering_id(workflow, wanted, child))
    draft.revise(workflow, steering=replace(wanted, left=left) if left else None)
    return True


def _is_so(child: Child, verb: str) -> bool:
    """Whether it is already what this would make of it."""
    if child.state in {State.STOPPING, State.CLOSING}:
        return True
    is_paused = child.state in {State.PAUSED, State.PAUSING}
    return is_paused if verb == "pause" else verb == "resume" and not is_paused


def send(
    draft: WorkflowDraft, workflow: Workflow, verb: str, child: str, data: Mapping[str, object], command: str
) -> None:
    """In the name of whoever asked for the workflow; `command` is its id."""
    draft.effect(SendCommand(workflow.id, verb, child, data, command, workflow.command.source, draft.now_ms))
