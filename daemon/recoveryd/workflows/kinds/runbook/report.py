"""The one page of a runbook: what was seen, decided, changed and verified, and what is open. It is the final report of
one that was closed, and the hand-over of one that was not.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from recoveryd.kernel.times import format_time_ms
from recoveryd.workflows.kinds.runbook.gates import evidence_of
from recoveryd.workflows.kinds.runbook.names import AGAIN, CHOOSE, CLOSE, CONFIRM, IDENTIFY, VERIFY
from recoveryd.workflows.model.actions import RollBackChildren, RunChildren
from recoveryd.workflows.model.spec import RunbookPath, RunbookSpec
from recoveryd.workflows.model.workflow import (
    NOT_ENDED,
    ConfigUndo,
    Ending,
    QuotaUndo,
    StepState,
    TopicUndo,
    UndoState,
    Workflow,
)

_NOT_BACK = frozenset({UndoState.OPEN, UndoState.LEFT})
_NOT_DONE = NOT_ENDED | {StepState.FAILED, StepState.SKIPPED}


def make_report(workflow: Workflow, ending: Ending, now_ms: int) -> Mapping[str, Any]:
    seen = evidence_of(workflow, IDENTIFY)
    return {
        "unit": workflow.unit,
        "at": format_time_ms(now_ms),
        "ended": ending.state.value,
        "why": ending.why,
        "seen": {name: seen[name] for name in ("verdict", "told", "owner", "approvers", "group") if name in seen},
        "range": evidence_of(workflow, CONFIRM).get("range") or seen.get("range", {}),
        "dependencies": evidence_of(workflow, CONFIRM).get("dependencies", {}),
        "decided": _decided(workflow),
        "changed": list(_changed(workflow)),
        "gates": _gates(workflow),
        "final": dict(evidence_of(workflow, CLOSE)),
        "stays": list(what_stays(workflow)),
        "open": list(_open(workflow)),
    }


def path_of(workflow: Workflow) -> RunbookPath | None:
    """The way that it goes, once that is settled."""
    spec = workflow.spec
    assert isinstance(spec, RunbookSpec)
    if spec.path is not RunbookPath.AUTO:
        return spec.path
    proposed = evidence_of(workflow, CONFIRM).get("proposed")
    is_settled = any(step.name == CHOOSE and step.state is StepState.DONE for step in workflow.steps)
    return RunbookPath(proposed["path"]) if is_settled and isinstance(proposed, Mapping) else None


def what_stays(workflow: Workflow) -> Iterator[str]:
    """What no rollback takes back: records that were copied."""
    for step in workflow.steps:
        for run in step.action.runs if isinstance(step.action, RunChildren) and step.began_ms is not None else ():
            if run.verb == "replay" and run.data["target"]["topic"] not in _removed(workflow):
                yield f"what {run.recovery} wrote to {run.data['target']['topic']} stays"


def _removed(workflow: Workflow) -> set[str]:
    rows = (row for row in workflow.undo if isinstance(row, TopicUndo) and row.to is None)
    return {row.name for row in rows}


def _decided(workflow: Workflow) -> dict[str, Any]:
    path = path_of(workflow)
    step = next((s for s in workflow.steps if s.name == CHOOSE), None)
    proposed = evidence_of(workflow, CONFIRM).get("proposed", {})
    return {
        "path": None if path is None else path.value,
        "proposed": proposed,
        "why": "" if step is None else step.why,
        "reason": workflow.command.reason,
        "by": workflow.command.source,
        "approved": workflow.approved,
    }


def _changed(workflow: Workflow) -> Iterator[str]:
    for step in workflow.steps:
        if isinstance(step.action, RunChildren) and step.began_ms is not None:
            for run in step.action.runs:
                yield f"{step.name}: {run.verb} {run.recovery}: {step.state.value}"
        elif isinstance(step.action, RollBackChildren) and step.state is StepState.DONE:
            yield f"{step.name}: {step.why}"
    for row in workflow.undo:
        if isinstance(row, TopicUndo):
            yield f"topic {row.name} was made{', and taken away again' if row.state is UndoState.DONE else ''}"
        elif isinstance(row, QuotaUndo | ConfigUndo):
            yield f"{row.what} of {row.name}: {_said(row)}"


def _said(row: QuotaUndo | ConfigUndo) -> str:
    match row.state:
        case UndoState.DONE:
            return "as it was before"
        case UndoState.KEPT:
            return "somebody else changed it, so it stays"
        case UndoState.LEFT:
            return f"is left {row.was_set}, was {row.to}"
        case _:
            return f"is {row.was_set} for the time of this, was {row.to}"


def _gates(workflow: Workflow) -> Mapping[str, Any]:
    """As they were looked at last, also where they did not become green."""
    found: Mapping[str, Any] = {}
    for step in workflow.steps:
        gates = step.evidence.get("gates") if step.name in {VERIFY, AGAIN} else None
        found = gates if isinstance(gates, Mapping) else found
    return found


def _open(workflow: Workflow) -> Iterator[str]:
    for step in workflow.steps:
        if step.state in _NOT_DONE:
            yield f"{step.name} is {step.state.value}" + (f": {step.why}" if step.why else "")
    for row in workflow.undo:
        if isinstance(row, QuotaUndo | ConfigUndo) and row.is_temporary and row.state in _NOT_BACK:
            yield f"{row.what} of {row.name} is not put back"
