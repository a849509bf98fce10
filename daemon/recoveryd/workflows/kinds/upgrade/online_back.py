"""The way back from an upgrade beside the old version: at any step the old one is again as it was."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from recoveryd.workflows.kinds.upgrade.draining import lost_offsets_back, ran_before
from recoveryd.workflows.kinds.upgrade.names import (
    EMPTY_AGAIN,
    LOOK_TAIL,
    NOBODY_AFTER,
    NOTE_TAIL,
    START_BESIDE,
    START_OLD,
    START_TAIL,
    STOP_NEW,
)
from recoveryd.workflows.machine.undoing import noted_ids
from recoveryd.workflows.model.actions import (
    MEMBERS,
    AwaitEmpty,
    AwaitStarted,
    AwaitStopped,
    DeleteTopics,
    SetOffsets,
    TakeSnapshot,
)
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.spec import UpgradeSpec
from recoveryd.workflows.model.step_names import SET, START, STOP
from recoveryd.workflows.model.workflow import (
    OffsetUndo,
    StepState,
    TopicUndo,
    UndoState,
    UnitUndo,
    Workflow,
    WorkflowStep,
)

# In the evidence of looks at a tail and at the state of whoever reads it; None = not known.
_STATE: Final = "state_end"
_READ: Final = "read"  # offsets, by topic
_GROWN: Final = "state_grown"


def undo_online(workflow: Workflow, spec: UpgradeSpec) -> tuple[WorkflowStep, ...]:
    """The new version is stopped as whatever it runs now, then the old one goes on at the cut. Offsets of the new one
    go back unless its state is at the cut too, because it has read the tail. Whether somebody started it there without
    a word is looked at before the tail goes, and once more when nobody can read it any more.
    """
    begun = _begun(workflow)
    cluster, group = spec.cluster, spec.to_group
    roles = ((START, spec.to_unit), (START_TAIL, spec.tail_unit), (START_BESIDE, spec.staged_unit))
    role = next((unit for name, unit in roles if name in begun and unit is not None), None)
    if role is None:
        return ()
    steps = [
        WorkflowStep(STOP_NEW, AwaitStopped(cluster, group, role)),
        WorkflowStep(EMPTY_AGAIN, AwaitEmpty(cluster, group)),
    ]
    if STOP in begun and any(isinstance(row, UnitUndo) for row in workflow.undo):
        steps += lost_offsets_back(workflow, spec)
        old = AwaitStarted(cluster, spec.group, spec.unit, ", the version before", ran_before(workflow))
        steps.append(WorkflowStep(START_OLD, old))
    if SET in begun and not {START_TAIL, START} & begun.keys():
        back = SetOffsets(cluster, group, is_back=True, topic_ids=noted_ids(workflow, group))
        steps.append(WorkflowStep("put_back_offsets", back))
    made = (r for r in workflow.undo if isinstance(r, TopicUndo) and r.to is None and r.state is UndoState.OPEN)
    tails = {r.name: r.was_set for r in made if r.was_set}
    if tails:
        delete = DeleteTopics(cluster, tails, is_ours=True, group=group, with_records=True)
        gone = [WorkflowStep("delete_made_topics", delete)]
        if START_TAIL in begun:
            noted = begun[NOTE_TAIL].action
            state = noted.end_topics if isinstance(noted, TakeSnapshot) else ()
            look = WorkflowStep(LOOK_TAIL, TakeSnapshot(cluster, group, tuple(tails), state))
            gone = [look, *gone, WorkflowStep(NOBODY_AFTER, AwaitEmpty(cluster, group))]
        steps += gone
    return tuple(steps)


def stays_online(workflow: Workflow, spec: UpgradeSpec) -> tuple[str, ...]:
    begun = _begun(workflow)
    if START in begun:
        return (f"{spec.unit} goes on from the cut, so what {spec.to_unit} wrote since is written once more",)
    moved = begun.get(SET)
    if START_TAIL in begun and (moved is None or moved.state is not StepState.DONE):
        why = f"if {spec.tail_unit} was started, the state of {spec.to_unit} is ahead of its offsets"
        return (f"{why}: begin it anew before the next upgrade",)
    return ()


def with_state_noted(workflow: Workflow, event: StepReported) -> Workflow:
    """Where the state of the new version ended before it read a tail."""
    note = next(step for step in workflow.steps if step.name == NOTE_TAIL)
    return workflow.with_step(replace(note, evidence={**note.evidence, _STATE: _state_end(note, event)}))


def with_read(workflow: Workflow, _spec: UpgradeSpec, event: StepReported) -> Workflow:
    """How far the tail was read, by what its group committed there, and by its state: one that was killed committed
    nothing.
    """
    look = next(step for step in workflow.steps if step.name == LOOK_TAIL)
    assert isinstance(look.action, TakeSnapshot)
    read = {topic: _offsets_read(topic, event) for topic in look.action.topics}
    before = _begun(workflow)[NOTE_TAIL].evidence.get(_STATE)
    now = _state_end(look, event)
    grown = now - before if isinstance(before, int) and now is not None else None
    return workflow.with_step(replace(look, evidence={**look.evidence, _READ: read, _GROWN: grown}))


def _state_end(step: WorkflowStep, event: StepReported) -> int | None:
    """All ends of what it made for itself, as one number that grows with each record. None = not all of it is there."""
    topics = step.action.end_topics if isinstance(step.action, TakeSnapshot) else ()
    if any(topic not in event.logs for topic in topics):
        return None
    return sum(log.high_watermark for topic in topics for log in event.logs[topic].values())


def _offsets_read(topic: str, event: StepReported) -> int | None:
    """Beyond the start, where it was set. None where there is a partition without a commit, or none at all."""
    logs = event.logs.get(topic, {})
    rows = [row for row in event.undo if isinstance(row, OffsetUndo) and row.name == topic]
    read = [row.to - logs[row.partition].log_start for row in rows if row.to is not None and row.partition in logs]
    return sum(read) if read and len(read) == len(rows) else None


def with_end_told(workflow: Workflow, spec: UpgradeSpec, _event: StepReported) -> Workflow:
    """The last step says what stays."""
    if not may_have_read_tail(workflow):
        return workflow
    last = next(step for step in workflow.steps if step.name == NOBODY_AFTER)
    why = f"{spec.to_group} has read the tail, or may have: begin {spec.to_unit} anew before the next upgrade"
    return workflow.with_step(replace(last, why=why))


def may_have_read_tail(workflow: Workflow) -> bool:
    """Whether somebody may have run as the tail's unit. Where a person was to start it, that is so unless no member was
    seen, nobody said that it runs, and the looks of a rollback found that nothing of it was read.
    """
    begun = _begun(workflow)
    start = begun.get(START_TAIL)
    if start is None:
        return False
    is_told = isinstance(start.action, AwaitStarted) and start.action.is_told
    if not is_told or start.state is StepState.DONE:
        return True
    look, last = begun.get(LOOK_TAIL), begun.get(NOBODY_AFTER)
    if look is None or last is None or last.state is not StepState.DONE:
        return True
    if any(
        begun[name].evidence.get(MEMBERS) for name in (START_TAIL, STOP_NEW, EMPTY_AGAIN, NOBODY_AFTER) if name in begun
    ):
        return True
    read = look.evidence.get(_READ)
    found = (*read.values(), look.evidence.get(_GROWN)) if isinstance(read, Mapping) else (None,)
    return any(count != 0 for count in found)


def _begun(workflow: Workflow) -> Mapping[str, WorkflowStep]:
    return {step.name: step for step in workflow.steps if step.has_begun}
