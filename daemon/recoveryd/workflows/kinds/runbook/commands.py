"""Commands about a runbook that runs: promote or discard what its shadow wrote, or hand it over."""

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import Command
from recoveryd.kernel.events import CommandReceived
from recoveryd.kernel.states import State
from recoveryd.kernel.times import format_time_ms
from recoveryd.workflows.kinds.runbook.names import DECIDE, VERIFY
from recoveryd.workflows.kinds.runbook.staging import staged_topics
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.machine.holding import held_from
from recoveryd.workflows.machine.on_commands import known, stop_workflow, wrong_state
from recoveryd.workflows.machine.patience import GREEN_SEEN, GREEN_SINCE, UNSEEN_MS
from recoveryd.workflows.machine.steps import done
from recoveryd.workflows.model.actions import LookAtUnit
from recoveryd.workflows.model.commands import Discard, Escalate, Promote
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.spec import RunbookSpec
from recoveryd.workflows.model.workflow import StepState, Workflow

_ENDING = frozenset({State.PLANNED, State.STOPPING, State.CLOSING})


def on_promote(draft: WorkflowDraft, event: CommandReceived, command: Promote) -> None:
    workflow = known(draft, command.meta.subject)
    if not _is_decided_now(draft, event, workflow):
        return
    green_ms = _green_since_ms(workflow)
    if green_ms is None:
        draft.answer(event, "rejected", f"{workflow.id} is held: {workflow.why}", Code.NOT_READY.value)
        return
    unseen_ms = _unseen_since_ms(workflow, draft.now_ms)
    if unseen_ms is not None:
        message = (
            f"the gates of {workflow.id} were not looked at since {format_time_ms(unseen_ms)}; its hold begins anew"
        )
        draft.answer(event, "rejected", message, Code.NOT_READY.value)
        return
    assert isinstance(workflow.spec, RunbookSpec)
    ready_ms = green_ms + workflow.spec.hold_ms
    if draft.now_ms < ready_ms:
        message = f"what {workflow.id} staged may be promoted from {format_time_ms(ready_ms)} on"
        draft.answer(event, "rejected", message, Code.NOT_READY.value)
        return
    held = held_from(draft, workflow, workflow.plan, staged_topics(workflow))
    if held is not None:  # the copy to the target would be refused, and the shadow end with it
        draft.refuse(event, held)
        return
    _decide(draft, event, workflow, command, "promoted")


def _green_since_ms(workflow: Workflow) -> int | None:
    """None = one of its gates is not green now."""
    step = workflow.step
    if step is not None and isinstance(step.action, LookAtUnit):
        since = step.evidence.get(GREEN_SINCE)
        return since if isinstance(since, int) else None
    return next(step.ended_ms or 0 for step in workflow.steps if step.name == VERIFY)


def _unseen_since_ms(workflow: Workflow, now_ms: int) -> int | None:
    """When the gates of a hold were seen last, if that is too long ago."""
    seen = workflow.step.evidence.get(GREEN_SEEN) if workflow.step is not None else None
    return seen if isinstance(seen, int) and now_ms - seen > UNSEEN_MS else None


def on_discard(draft: WorkflowDraft, event: CommandReceived, command: Discard) -> None:
    workflow = known(draft, command.meta.subject)
    if _is_decided_now(draft, event, workflow):
        _decide(draft, event, workflow, command, "discarded")


def on_escalate(draft: WorkflowDraft, event: CommandReceived, command: Escalate) -> None:
    workflow = known(draft, command.meta.subject)
    if not isinstance(workflow.spec, RunbookSpec):
        _no_runbook(draft, event, workflow)
    elif workflow.is_terminal or workflow.state in _ENDING or workflow.state is State.PLANNING:
        wrong_state(draft, event, workflow)
    else:
        draft.answer(event, "accepted", f"{workflow.id} ends, and is handed over")
        why = f"handed over by {command.meta.who}: {command.meta.reason}"
        stop_workflow(draft, workflow, why, Code.ESCALATED.value)


def _is_decided_now(draft: WorkflowDraft, event: CommandReceived, workflow: Workflow) -> bool:
    step = workflow.step
    if not isinstance(workflow.spec, RunbookSpec):
        _no_runbook(draft, event, workflow)
    elif (
        workflow.state is not State.WAITING
        or step is None
        or step.name != DECIDE
        or step.state is not StepState.WAITING
    ):
        wrong_state(draft, event, workflow)
    else:
        return True
    return False


def _decide(draft: WorkflowDraft, event: CommandReceived, workflow: Workflow, command: Command, word: str) -> None:
    step = workflow.step
    assert step is not None
    draft.answer(event, "accepted", f"what {workflow.id} staged is {word}")
    waived = {name: told for name, told in step.evidence.items() if name == "waived"}  # holds in what follows too
    told = {"choice": command.verb, "by": command.meta.source, **waived}
    why = f"{word} by {command.meta.who}: {command.meta.reason}"
    done(draft, workflow, step, StepReported(workflow.id, step.name, step.tries, Outcome.DONE, why, evidence=told))


def _no_runbook(draft: WorkflowDraft, event: CommandReceived, workflow: Workflow) -> None:
    message = f"{workflow.id} is a {workflow.verb}, and {event.command.verb} is for runbooks"
    draft.answer(event, "rejected", message, Code.NOT_FOR_THIS_KIND.value)
