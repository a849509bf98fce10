"""The plan of `reset`: wait until the group is empty, note where it was, set its offsets, read them back.

Nothing is changed before every partition has a position. Positions that depend on where the group is (`current`, a
shift) are worked out again when it is empty and has been noted, because until then it moves.
"""

import hashlib
import json
from dataclasses import replace
from typing import Any

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.units.facts import Group, GroupType
from recoveryd.workflows.actions import AwaitEmpty, SetOffsets, TakeSnapshot
from recoveryd.workflows.events import GroupGathered
from recoveryd.workflows.model import Change, Undo, Workflow, WorkflowPlan, WorkflowStep
from recoveryd.workflows.positions import Current, NewPosition, PartitionLook, PositionRefused, Shift, resolve
from recoveryd.workflows.spec import ResetSpec, write_to

EMPTY, NOTE, SET, PUT_BACK = "await_empty", "snapshot", "set_offsets", "put_back_offsets"


def make_plan(spec: ResetSpec, found: GroupGathered) -> tuple[WorkflowPlan, tuple[WorkflowStep, ...]] | Refused:
    refusal = _refuse(spec, found)
    if refusal is not None:
        return refusal
    try:
        positions = resolve_all(spec, found.looks)
    except PositionRefused as refused:
        return Refused(
            Code.OFFSET_OUTSIDE_LOG,
            str(refused),
            "Name a position inside the log, or say on_out_of_range or on_no_record.",
        )
    moved = [(p, look) for p, look in zip(positions, found.looks, strict=True) if p.offset is not None]
    if not moved:
        return Refused(
            Code.NOTHING_TO_DO,
            f"no partition of {spec.group} has a position to be set",
            "Name topics that the group reads.",
        )
    changes = tuple(Change("offset", p.topic, p.partition, look.committed, p.offset) for p, look in moved)
    findings = tuple(p.note for p in positions if p.note)
    if found.group is None:
        findings = (*findings, f"the cluster has no group {spec.group} yet; it begins with these offsets")
    plan = WorkflowPlan(_hash(spec, found, positions), changes, findings)
    return plan, _steps(spec, tuple(sorted({p.topic for p, _ in moved})))


def resolve_all(spec: ResetSpec, looks: tuple[PartitionLook, ...]) -> list[NewPosition]:
    """Raises `PositionRefused`."""
    return [resolve(spec.to, look, spec.on_out_of_range, spec.on_no_record) for look in looks]


def with_positions(workflow: Workflow, noted: tuple[Undo, ...]) -> Workflow:
    """Once it is known where the group was: what is to be set, and how each of it is put back."""
    assert workflow.plan is not None
    by_place = {(row.name, row.partition): row for row in noted}
    changes, undo = [], []
    for change in workflow.plan.changes:
        row = by_place.get((change.name, change.partition)) or Undo("offset", change.name, change.partition, None)
        after = _moved_with(workflow.spec, change, row.to)
        changes.append(replace(change, before=row.to, after=after))
        undo.append(replace(row, was_set=after))
    return replace(workflow, plan=replace(workflow.plan, changes=tuple(changes)), undo=tuple(undo))


def rollback_steps(workflow: Workflow) -> tuple[WorkflowStep, ...]:
    """Back to what was noted, where nobody else moved it since."""
    spec = workflow.spec
    return (
        WorkflowStep(f"{EMPTY}_again", AwaitEmpty(spec.cluster, spec.group)),
        WorkflowStep(PUT_BACK, SetOffsets(spec.cluster, spec.group, is_back=True)),
    )


def _refuse(spec: ResetSpec, found: GroupGathered) -> Refused | None:
    if found.missing:
        named = ", ".join(found.missing)
        return Refused(
            Code.SOURCE_TOPIC_MISSING, f"topics do not exist: {named}; nothing is changed", "Correct the names."
        )
    wanted = {(t, p) for t, partitions in (spec.topics or {}).items() for p in partitions}
    lost = sorted(wanted - {(look.topic, look.partition) for look in found.looks})
    if lost:
        return Refused(Code.SOURCE_PARTITION_MISSING, f"{lost[0][0]} has no partition {lost[0][1]}; nothing is changed")
    return _refuse_group(spec, found.group)


def _refuse_group(spec: ResetSpec, group: Group | None) -> Refused | None:
    """Groups of Streams commit offsets like those of consumers, in both protocols."""
    name = spec.group
    match group.type if group is not None else None:
        case GroupType.SHARE:
            message = f"{name} is a share group, whose start offsets are not committed offsets"
            return Refused(Code.GROUP_TYPE, message, "Set them with Kafka's kafka-share-groups.")
        case GroupType.CONNECT:
            message = f"{name} is the group of Connect workers, which commits no offsets"
            return Refused(Code.GROUP_TYPE, message, "Name the group of the sink connector, `connect-` and its name.")
        case GroupType.UNKNOWN:
            assert group is not None
            message = f"{name} is a group of the protocol {group.state}, which is not known to commit offsets"
            return Refused(Code.GROUP_TYPE, message)
        case _:
            return None


def _steps(spec: ResetSpec, topics: tuple[str, ...]) -> tuple[WorkflowStep, ...]:
    return (
        WorkflowStep(EMPTY, AwaitEmpty(spec.cluster, spec.group)),
        WorkflowStep(NOTE, TakeSnapshot(spec.cluster, spec.group, topics)),
        WorkflowStep(SET, SetOffsets(spec.cluster, spec.group)),
    )


def _moved_with(spec: ResetSpec, change: Change, before: int | None) -> Any:
    """The position, worked out again from where the group is now, for those that depend on it."""
    if (
        isinstance(spec.to, Shift)
        and before is not None
        and isinstance(change.before, int)
        and isinstance(change.after, int)
    ):
        return change.after + (before - change.before)
    return before if isinstance(spec.to, Current) else change.after


def _hash(spec: ResetSpec, found: GroupGathered, positions: list[NewPosition]) -> str:
    """Over what is meant: for positions that move with the group the words, for others the numbers."""
    is_relative = isinstance(spec.to, Current | Shift)
    matter = {
        "group": (spec.cluster, spec.group),
        "topics": dict(found.topic_ids),
        "to": write_to(spec.to) if is_relative else [(p.topic, p.partition, p.offset) for p in positions],
        "policies": (spec.on_out_of_range.value, spec.on_no_record.value),
    }
    return "sha256:" + hashlib.sha256(json.dumps(matter, sort_keys=True).encode()).hexdigest()
