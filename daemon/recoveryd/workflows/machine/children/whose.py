"""Which command is a workflow's own and wanted, what that began, and what became of it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import Command
from recoveryd.kernel.decision import Answer
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.states import State
from recoveryd.recovery.model import Recovery
from recoveryd.workflows.machine.command_ids import BACK, WANTS, asks_back, command_id, is_taken_back
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.model.actions import ChildRun, RollBackChildren, RunChildren
from recoveryd.workflows.model.workflow import TAKEN, Workflow

FAILED: Final = "failed"  # in the evidence of a step: why it fails once what it began is at rest
_BAD: Final = frozenset({"mismatch"})
Child = Recovery | Workflow


def child_of(draft: WorkflowDraft, workflow: Workflow, run: ChildRun) -> Child | None:
    """What its command began. Another one that has the id is none of ours, whatever became of it, and one that live
    traffic has refused began nothing: it is asked for again.
    """
    found = _named(draft, workflow, run)
    return None if found is None or is_over_slo(found) else found


def refused_by_live(draft: WorkflowDraft, workflow: Workflow, run: ChildRun) -> Child | None:
    """What its command was refused as, because live traffic is over its SLO."""
    found = _named(draft, workflow, run)
    return found if found is not None and is_over_slo(found) else None


def _named(draft: WorkflowDraft, workflow: Workflow, run: ChildRun) -> Child | None:
    found = draft.workflows.get(run.recovery) if run.verb in draft.kinds else draft.recovery(run.recovery)
    return found if found is not None and found.command.id == command_id(workflow, run) else None


def is_over_slo(child: Child) -> bool:
    return (
        isinstance(child, Recovery) and child.state is State.REJECTED and child.error_code == Code.LIVE_OVER_SLO.value
    )


def has_children(draft: WorkflowDraft, workflow: Workflow) -> bool:
    """Whether something that it began still lives."""
    return any(living_children(draft, workflow))


def living_children(draft: WorkflowDraft, workflow: Workflow) -> Iterator[Child]:
    step = workflow.step
    action = None if step is None else step.action
    for run in action.runs if isinstance(action, RunChildren | RollBackChildren) else ():
        recovery = child_of(draft, workflow, run)
        if recovery is not None and not recovery.is_terminal:
            yield recovery


def refuse_child(draft: WorkflowDraft, command: Command) -> Refused | None:
    """The refusal of a command that a workflow sent, to begin something or to have it put back, and does not want any
    more: it ended, it stops or is paused, it is at another step, or what it began beside has failed. None for every
    other command.
    """
    meta = command.meta
    told = re.fullmatch(rf"(.+)\.(\d+)\.{re.escape(meta.subject)}(?:\.\d+)?({re.escape(BACK)}\d+)?", meta.id, re.ASCII)
    parent = None if told is None else draft.workflows.get(told[1])
    if told is None or parent is None:
        return None
    if parent.created_ms != int(told[2]):
        return None
    is_wanted = is_taken_back(parent, meta.id) if told[3] else _wants(draft, parent, command)
    if is_wanted and parent.command.source == meta.source:  # else somebody took the id of a command for their own
        return None
    what = f"the rollback of {meta.subject}" if told[3] else meta.subject
    message = f"workflow {parent.id} is {parent.state.value} and does not want {what} any more"
    if parent.state is State.PAUSED:
        message = f"workflow {parent.id} is paused, and asks for {what} when it goes on"
    return Refused(Code.NOT_IN_THIS_STATE, message)


def _wants(draft: WorkflowDraft, workflow: Workflow, command: Command) -> bool:
    step = workflow.step
    if workflow.state not in WANTS or step is None or step.state not in TAKEN or FAILED in step.evidence:
        return False
    runs = step.action.runs if isinstance(step.action, RunChildren) else ()
    is_ours = any(
        (run.recovery, run.verb) == (command.meta.subject, command.verb)
        and command.meta.id == command_id(workflow, run)
        for run in runs
    )
    known = (child_of(draft, workflow, run) for run in runs)
    return is_ours and not any(problem_of(child) for child in known if child is not None)


def refused_child(draft: WorkflowDraft, workflow: Workflow, answer: Answer) -> bool:
    """Whether this answers a command of the present step, and says that it begins nothing."""
    step = workflow.step
    if step is None or answer.kind == "accepted" or workflow.state not in WANTS:
        return False
    if isinstance(step.action, RollBackChildren):
        return answer.kind == "rejected" and asks_back(workflow, step, answer.command_id)
    if not isinstance(step.action, RunChildren):
        return False
    asked = (run for run in step.action.runs if answer.command_id == command_id(workflow, run))
    return any(child_of(draft, workflow, run) is None for run in asked)


def sender_of(draft: WorkflowDraft, command: str) -> tuple[Workflow | None, Mapping[str, Any]]:
    """The workflow that sent a command to begin something, and how the application ran in whose place that is to start
    one, as far as it knows.
    """
    for workflow in draft.workflows.live.values():
        step = workflow.step
        for run in step.action.runs if step is not None and isinstance(step.action, RunChildren) else ():
            if command == command_id(workflow, run):
                return workflow, run.before
    return None, {}


def problem_of(recovery: Child) -> str:
    if recovery.is_terminal and recovery.state is not State.COMPLETED:
        return f"{recovery.id} is {recovery.state.value}: {recovery.why}"
    if recovery.is_terminal and result_of(recovery) in _BAD:
        return f"{recovery.id} was verified with a mismatch; `recoveryctl describe {recovery.id}` names the differences"
    return ""


def result_of(child: Child) -> str | None:
    proof = child.verification if isinstance(child, Recovery) else None
    return None if proof is None else str(proof.result)
