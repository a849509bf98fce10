"""What became of the commands that workflows send: refused, not sent, or no room for them now."""

from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.decision import Answer
from recoveryd.kernel.events import CommandNotSent
from recoveryd.kernel.states import State
from recoveryd.workflows.machine.children.looking import NO_ROOM, asked_anew
from recoveryd.workflows.machine.children.steering import forget_steering, hear_of_steering
from recoveryd.workflows.machine.children.whose import refused_child
from recoveryd.workflows.machine.command_ids import sent_by
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.machine.ends import fail
from recoveryd.workflows.model.workflow import Workflow, WorkflowStep


def hear_answers(draft: WorkflowDraft, command_id: str, source: str) -> None:
    """A command of its own that was refused ends the step which sent it. One that somebody else sent under such an id
    is none.
    """
    for workflow in tuple(draft.workflows.live.values()):
        if workflow.command.source == source:
            hear_of_steering(draft, workflow, command_id)
    for workflow in tuple(draft.workflows.live.values()):
        if workflow.command.source != source:
            continue
        answer = next((a for a in draft.draft.answers if refused_child(draft, workflow, a)), None)
        if answer is not None and workflow.step is not None and answer.code == Code.TOO_MANY_RECOVERIES.value:
            _ask_later(draft, workflow, workflow.step, answer)
        elif answer is not None and workflow.step is not None:
            fail(draft, workflow, workflow.step, f"{answer.subject}: {answer.message}", answer.code)


def _ask_later(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, answer: Answer) -> None:
    """What there is no room for now is asked for once more, under another id, as often as it takes: the step has begun,
    and it may be that nothing else runs.
    """
    why = f"{answer.subject}: {answer.message}; it is asked for again"
    anew = asked_anew(draft, workflow, step)
    draft.revise(workflow.with_step(replace(anew, evidence={**anew.evidence, NO_ROOM: why})), why=why)
    draft.reason = why


def on_not_sent(draft: WorkflowDraft, event: CommandNotSent) -> None:
    """A command of its own that can never be sent ends the step which wants it; any other is sent again in its time."""
    workflow = draft.workflows.live.get(event.about)
    if workflow is None or event.retriable:
        return
    step = workflow.step
    if forget_steering(draft, workflow, event.command_id) or step is None:
        return
    if workflow.state in {State.RUNNING, State.WAITING} and sent_by(workflow, event.command_id):
        fail(draft, workflow, step, f"its command could not be sent: {event.message}", event.code)
