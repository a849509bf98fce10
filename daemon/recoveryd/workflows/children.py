"""Recoveries that a workflow has carried out: commands that it puts on the control topic, as anybody could, and what became
of them.

The step that wants them is journaled with their ids and data before the first is sent. Until one is seen its command is
sent again, with the same id, so that it begins once whatever dies in between.
"""

from collections.abc import Iterator
from typing import Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.decision import Answer
from recoveryd.kernel.effects import SendCommand
from recoveryd.kernel.states import State
from recoveryd.recovery.model import Recovery
from recoveryd.workflows.actions import ChildRun, RunChildren
from recoveryd.workflows.draft import WorkflowDraft
from recoveryd.workflows.events import Outcome, StepReported
from recoveryd.workflows.model import Workflow, WorkflowStep

_SENT_EVERY: Final = 15  # looks
_BAD: Final = frozenset({"mismatch"})


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
    if not is_stopping and len(known) == len(found) and not live:
        evidence = {r.id: {"records": r.progress.records, "verified": _result(r)} for r in known}
        return _told(workflow, step, Outcome.DONE, f"{_counted(len(known))} completed", evidence=evidence)
    left = sum(max(0, (p.stop or 0) - p.position) for r in live for p in r.progress.partitions)
    ended = len(known) - len(live)
    why = f"{ended} of {_counted(len(found))} completed" + (f": {live[0].id}: {live[0].why}" if live else "")
    return _told(workflow, step, Outcome.NOT_YET, why, left=left)


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
    if step is None or not isinstance(step.action, RunChildren) or answer.kind == "accepted":
        return False
    asked = (run for run in step.action.runs if answer.command_id == command_id(workflow, run))
    return any(_begun(draft, workflow, run) is None for run in asked)


def command_id(workflow: Workflow, run: ChildRun) -> str:
    return f"{workflow.id}.{workflow.created_ms}.{run.recovery}"


def _begun(draft: WorkflowDraft, workflow: Workflow, run: ChildRun) -> Recovery | None:
    """What its command began. Another one that has the id is none of ours, whatever became of it."""
    found = draft.recovery(run.recovery)
    return found if found is not None and found.command.id == command_id(workflow, run) else None


def _living(draft: WorkflowDraft, workflow: Workflow) -> Iterator[Recovery]:
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


def _problem(recovery: Recovery) -> str:
    if recovery.is_terminal and recovery.state is not State.COMPLETED:
        return f"{recovery.id} is {recovery.state.value}: {recovery.why}"
    if recovery.is_terminal and _result(recovery) in _BAD:
        return f"{recovery.id} was verified with a mismatch; `recoveryctl describe {recovery.id}` names the differences"
    return ""


def _result(recovery: Recovery) -> str | None:
    return None if recovery.verification is None else str(recovery.verification.result)


def _counted(count: int) -> str:
    return f"{count} recover{'y' if count == 1 else 'ies'}"


def _told(workflow: Workflow, step: WorkflowStep, outcome: Outcome, why: str, **more: object) -> StepReported:
    return StepReported(workflow.id, step.name, step.tries, outcome, why, **more)  # type: ignore[arg-type]
