"""The way back from an upgrade beside the old version: at any step the old one is again as it was."""

from collections.abc import Mapping

from recoveryd.workflows.kinds.reprocess import SET, START, STOP
from recoveryd.workflows.kinds.upgrade.draining import lost_offsets_back, ran_before
from recoveryd.workflows.kinds.upgrade.names import (
    EMPTY_AGAIN,
    START_BESIDE,
    START_OLD,
    START_TAIL,
    STOP_NEW,
)
from recoveryd.workflows.model.actions import AwaitEmpty, AwaitStarted, AwaitStopped, DeleteTopics, SetOffsets
from recoveryd.workflows.model.spec import UpgradeSpec
from recoveryd.workflows.model.workflow import StepState, TopicUndo, UndoState, UnitUndo, Workflow, WorkflowStep


def undo_online(workflow: Workflow, spec: UpgradeSpec) -> tuple[WorkflowStep, ...]:
    """The new version is stopped as whatever it runs now, then the old one goes on at the cut. Offsets of the new one go back
    unless its state is at the cut too, because it has read the tail.
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
        steps.append(WorkflowStep("put_back_offsets", SetOffsets(cluster, group, is_back=True)))
    made = (r for r in workflow.undo if isinstance(r, TopicUndo) and r.to is None and r.state is UndoState.OPEN)
    tails = {r.name: r.was_set for r in made if r.was_set}
    if tails:
        delete = DeleteTopics(cluster, tails, is_back=True, group=group, with_records=True)
        steps.append(WorkflowStep("delete_made_topics", delete))
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


def _begun(workflow: Workflow) -> Mapping[str, WorkflowStep]:
    return {s.name: s for s in workflow.steps if s.began_ms is not None and s.state is not StepState.PENDING}
