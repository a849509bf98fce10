"""Recoveries and workflows that a workflow has carried out: commands that it puts on the control topic, as anybody could, and
what became of them.

The step that wants them is journaled with their ids and data before the first is sent. Until one is seen its command is
sent again, with the same id, so that it begins once whatever dies in between.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.decision import Answer
from recoveryd.kernel.effects import SendCommand
from recoveryd.kernel.states import State
from recoveryd.recovery.model import Recovery
from recoveryd.workflows.actions import ChildRun, RollBackChildren, RunChildren
from recoveryd.workflows.draft import WorkflowDraft
from recoveryd.workflows.events import Outcome, StepReported
from recoveryd.workflows.model import Workflow, WorkflowStep

_SENT_EVERY: Final = 15  # looks
_BAD: Final = frozenset({"mismatch"})
Child = Recovery | Workflow


def look_at_children(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> StepReported:
    """Send what was not seen yet, and say how far all of them are."""
    assert isinstance(step.action, RunChildren)
    found = {run.recovery: _begun(draft, workflow, run) for run in step.action.runs}
    is_stopping = workflow.state is State.STOPPING
    if step.tries % _SENT_EVERY == 1 and not is_stopping:
        for run in step.action.runs:
            if found[run.recovery] is None:
                _send(draft, workflow, run)
    known = [recovery for recovery in found.values() if recovery is not None]
    live = [recovery for recovery in known if not recovery.is_terminal]
    if is_stopping and not live:
        return _told(workflow, step, Outcome.DONE, "what it had begun has ended")
    for recovery in () if is_stopping else known:
        problem = _problem(recovery)
        if problem:
            code = recovery.error_code or Code.STEP_FAILED.value
            return _told(workflow, step, Outcome.FAILED, problem, code=code)
    named = _counted(draft, step.action.runs)
    if not is_stopping and len(known) == len(found) and not live:
        evidence = {child.id: _evidence(child) for child in known}
        return _told(workflow, step, Outcome.DONE, f"{named} completed", evidence=evidence)
    copying = (r for r in live if isinstance(r, Recovery))
    left = sum(max(0, (p.stop or 0) - p.position) for r in copying for p in r.progress.partitions)
    ended = len(known) - len(live)
    why = f"{ended} of {named} completed" + (f": {live[0].id}: {live[0].why}" if live else "")
    return _told(workflow, step, Outcome.NOT_YET, why, left=left)


def look_at_rollback(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> StepReported:
    """The same for workflows that put back what they changed, one after the other."""
    assert isinstance(step.action, RollBackChildren)
    for run in step.action.runs:
        child = _begun(draft, workflow, run)
        if not isinstance(child, Workflow) or child.state is State.ROLLED_BACK:
            continue
        if child.is_terminal and not draft.kind_of(child).undo(child):
            continue
        is_ours = child.is_rolling_back and child.updated_ms >= (step.began_ms or 0)
        if child.state is State.FAILED and is_ours:
            why = f"{child.id} could not put everything back: {child.why}"
            return _told(workflow, step, Outcome.FAILED, why, code=child.error_code or Code.STEP_FAILED.value)
        if child.is_terminal and step.tries % _SENT_EVERY == 1:
            command = _rollback_id(workflow, step, run)
            data = {"reason": f"rollback of {workflow.id}"}
            source = workflow.command.source
            draft.effect(SendCommand(workflow.id, "rollback", child.id, data, command, source, draft.now_ms))
        return _told(workflow, step, Outcome.NOT_YET, f"{child.id} puts back what it changed: {child.why}")
    return _told(workflow, step, Outcome.DONE, "what it began is as it was before")


def steer_children(draft: WorkflowDraft, workflow: Workflow, verb: str) -> None:
    """Pause, resume or stop those that live."""
    for number, recovery in enumerate(_living(draft, workflow)):
        command = f"{workflow.id}.{workflow.created_ms}.{verb}.{workflow.version}.{number}"
        data = {"reason": f"{verb} of {workflow.id}"}
        source = workflow.command.source
        draft.effect(SendCommand(workflow.id, verb, recovery.id, data, command, source, draft.now_ms))


def has_children(draft: WorkflowDraft, workflow: Workflow) -> bool:
    """Whether something that it began still lives."""
    return any(_living(draft, workflow))


def refused_child(draft: WorkflowDraft, workflow: Workflow, answer: Answer) -> bool:
    """Whether this answers a command of the present step, and says that it begins nothing."""
    step = workflow.step
    if step is None or answer.kind == "accepted":
        return False
    if isinstance(step.action, RollBackChildren):
        asked_back = {_rollback_id(workflow, step, run) for run in step.action.runs}
        return answer.kind == "rejected" and answer.command_id in asked_back
    if not isinstance(step.action, RunChildren):
        return False
    asked = (run for run in step.action.runs if answer.command_id == command_id(workflow, run))
    return any(_begun(draft, workflow, run) is None for run in asked)


def command_id(workflow: Workflow, run: ChildRun) -> str:
    return f"{workflow.id}.{workflow.created_ms}.{run.recovery}"


def _rollback_id(workflow: Workflow, step: WorkflowStep, run: ChildRun) -> str:
    return f"{command_id(workflow, run)}.rollback.{step.began_ms}"


def is_child_of(workflow: Workflow, command: str) -> bool:
    """Whether a command is one by which this workflow begins something."""
    runs = (run for step in workflow.steps if isinstance(step.action, RunChildren) for run in step.action.runs)
    return any(command == command_id(workflow, run) for run in runs)


def _begun(draft: WorkflowDraft, workflow: Workflow, run: ChildRun) -> Child | None:
    """What its command began. Another one that has the id is none of ours, whatever became of it."""
    found = draft.workflows.get(run.recovery) if run.verb in draft.kinds else draft.recovery(run.recovery)
    return found if found is not None and found.command.id == command_id(workflow, run) else None


def _living(draft: WorkflowDraft, workflow: Workflow) -> Iterator[Child]:
    step = workflow.step
    for run in step.action.runs if step is not None and isinstance(step.action, RunChildren) else ():
        recovery = _begun(draft, workflow, run)
        if recovery is not None and not recovery.is_terminal:
            yield recovery


def _send(draft: WorkflowDraft, workflow: Workflow, run: ChildRun) -> None:
    ref = workflow.command
    data = {"reason": f"{workflow.id}: {ref.reason}"[:500], **run.data}
    draft.effect(
        SendCommand(workflow.id, run.verb, run.recovery, data, command_id(workflow, run), ref.source, draft.now_ms)
    )


def _problem(recovery: Child) -> str:
    if recovery.is_terminal and recovery.state is not State.COMPLETED:
        return f"{recovery.id} is {recovery.state.value}: {recovery.why}"
    if recovery.is_terminal and _result(recovery) in _BAD:
        return f"{recovery.id} was verified with a mismatch; `recoveryctl describe {recovery.id}` names the differences"
    return ""


def _evidence(child: Child) -> dict[str, object]:
    if isinstance(child, Workflow):
        return {"workflow": child.verb, "why": child.why}
    return {"records": child.progress.records, "verified": _result(child)}


def _result(child: Child) -> str | None:
    proof = child.verification if isinstance(child, Recovery) else None
    return None if proof is None else str(proof.result)


def _counted(draft: WorkflowDraft, runs: Sequence[ChildRun]) -> str:
    are_workflows = all(run.verb in draft.kinds for run in runs)
    one, many = ("workflow", "workflows") if are_workflows else ("recovery", "recoveries")
    return f"{len(runs)} {one if len(runs) == 1 else many}"


def _told(workflow: Workflow, step: WorkflowStep, outcome: Outcome, why: str, **more: object) -> StepReported:
    return StepReported(workflow.id, step.name, step.tries, outcome, why, **more)  # type: ignore[arg-type]
