"""What is noted of a version when it has been stopped, and whether it was drained: its offsets are its positions."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.workflows.kinds.noting import Place
from recoveryd.workflows.kinds.upgrade.names import PUT_BACK_LOST
from recoveryd.workflows.model.actions import AwaitStarted, SetOffsets, TakeSnapshot
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.spec import UpgradeSpec
from recoveryd.workflows.model.step_names import NOTE, STOP
from recoveryd.workflows.model.workflow import OffsetUndo, StepState, UndoState, UnitUndo, Workflow, WorkflowStep


def with_stop(workflow: Workflow, event: StepReported) -> Workflow:
    """As many instances of the new version as there were of the old one, where the same control counts them."""
    before = event.evidence.get("before")
    how = before if isinstance(before, Mapping) else {}
    steps = tuple(
        replace(s, action=replace(s.action, before=how)) if isinstance(s.action, AwaitStarted) else s
        for s in workflow.steps
    )
    rows = (row for row in workflow.undo if isinstance(row, UnitUndo))
    return replace(workflow, steps=steps).with_undo(replace(row, was_set="stopped", before=how) for row in rows)


def with_old_version_back(workflow: Workflow) -> Workflow:
    rows = (row for row in workflow.undo if isinstance(row, UnitUndo))
    return workflow.with_undo(replace(row, state=UndoState.DONE) for row in rows)


def ran_before(workflow: Workflow) -> Mapping[str, Any]:
    """How the old version ran, as whoever stops it said, also of one that is not stopped yet."""
    row = next((row for row in workflow.undo if isinstance(row, UnitUndo)), None)
    stop = next((step for step in workflow.steps if step.name == STOP), None)
    seen = stop.evidence.get("before") if stop is not None else None
    if row is not None and row.before:
        return row.before
    return seen if isinstance(seen, Mapping) else {}


def lost_offsets_back(workflow: Workflow, spec: UpgradeSpec) -> tuple[WorkflowStep, ...]:
    """The old version is to begin at the cut: where its commit is gone since, it is put back. One that somebody changed
    stays, and the step says so.
    """
    noted = next((step for step in workflow.steps if step.name == NOTE), None)
    if noted is None or noted.state is not StepState.DONE:
        return ()
    ids = noted.action.topic_ids if isinstance(noted.action, TakeSnapshot) else {}
    return (WorkflowStep(PUT_BACK_LOST, SetOffsets(spec.cluster, spec.group, is_back=True, topic_ids=ids)),)


def places_of(event: StepReported) -> dict[Place, int | None]:
    """What was committed, by topic and partition."""
    return {(row.name, row.partition): row.to for row in event.undo if isinstance(row, OffsetUndo)}


def not_drained(unit: str, group: str, event: StepReported) -> Refused | None:
    """Why what was noted is not where `unit` stands: somebody went on, or the log lost what it had not read."""
    if event.evidence.get("is_still") is False:
        message = f"somebody committed for {group} after it was left by all of its members"
        return Refused(Code.GROUP_CHANGED, message)
    for (topic, partition), at in places_of(event).items():
        log = event.logs.get(topic, {}).get(partition)
        if at is not None and log is not None and at < log.log_start:
            message = f"{log.log_start - at:,} records of {topic} {partition} went before {unit} had read them"
            return Refused(Code.OFFSET_OUTSIDE_LOG, message)
    return None


def went_on(workflow: Workflow, group: str, event: StepReported) -> Refused | None:
    """Whether somebody committed for a group since it was noted."""
    noted = {(r.name, r.partition): r.to for r in workflow.undo if isinstance(r, OffsetUndo) and r.group == group}
    moved = sorted(place for place, at in places_of(event).items() if noted.get(place) != at)
    if not moved:
        return None
    topic, partition = moved[0]
    return Refused(Code.GROUP_CHANGED, f"somebody committed for {group} on {topic} {partition} after it was noted")
