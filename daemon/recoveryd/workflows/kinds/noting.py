"""Once it is known where a group was: what is set in the end, and how each of it is put back."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.recovery.spec import AtOffset, Earliest, Latest
from recoveryd.workflows.model.actions import AwaitStarted, DeleteTopics
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.positions import (
    AtTopicOffsets,
    Current,
    NewPosition,
    OnNoRecord,
    OnOutOfRange,
    PartitionLook,
    Shift,
    To,
    resolve,
)
from recoveryd.workflows.model.workflow import Change, OffsetUndo, Workflow

Place = tuple[str, int]
LEAVES_SOME: Final = Current | AtTopicOffsets  # of positions: partitions may stay where they are


def change_of(position: NewPosition, look: PartitionLook) -> Change:
    return Change("offset", position.topic, position.partition, look.committed, position.offset)


def change_key(change: Change) -> Place:
    return (change.name, -1 if change.partition is None else change.partition)


def moved_with(to: To, change: Change, event: StepReported, noted: Mapping[Place, OffsetUndo]) -> int | None:
    """The position of a planned change, worked out again for those that depend on where the group or the log is now.
    `noted`: the rows of the event, asked for once, because a group may have thousands.
    """
    assert change.after is None or isinstance(change.after, int)
    topic, partition = change_key(change)
    row = noted.get((topic, partition))
    before = None if row is None else row.to
    log = event.logs.get(topic, {}).get(partition)
    if isinstance(to, Current):
        return before
    if isinstance(to, Shift) and before is not None:
        return before + to.by  # not from the planned position, which may lie at an end of the log instead
    if isinstance(to, Earliest) and log is not None:
        return log.log_start
    if isinstance(to, Latest) and log is not None:
        return log.high_watermark
    return change.after


def inside_log(
    after: Mapping[Place, int | None],
    event: StepReported,
    out_of_range: OnOutOfRange = OnOutOfRange.FAIL,
    but: Collection[str] = (),
) -> dict[Place, int | None]:
    """The places, once more: a log may have lost a position while the application was being stopped, which is to be
    known before anything is taken away. `but`: topics that are to be made anew. Raises `PositionRefused`.
    """
    return {
        place: _inside(place, at, event, out_of_range) if place[0] not in but else at for place, at in after.items()
    }


def _inside(place: Place, offset: int | None, event: StepReported, out_of_range: OnOutOfRange) -> int | None:
    topic, partition = place
    log = event.logs.get(topic, {}).get(partition)
    if offset is None or log is None:
        return offset
    look = PartitionLook(topic, partition, log.log_start, log.high_watermark)
    return resolve(AtOffset(offset), look, out_of_range, OnNoRecord.FAIL).offset


def refuse_grown(planned: Mapping[str, int], event: StepReported) -> Refused | None:
    """Of topics that have more partitions than when the plan was made, by name: of the new ones nobody said where the
    group begins, and what is made like the topic would have too few.
    """
    for name, count in planned.items():
        now = len(event.logs.get(name, {}))
        if now > count:
            message = f"{name} has {now} partitions, and had {count} when the plan was made; no offset was set"
            return Refused(Code.STALE_PLAN, message, "Send it again: its plan will have them.")
    return None


def with_new_topics_told(workflow: Workflow, event: StepReported, copied: Iterable[str] = ()) -> StepReported:
    """Where the unit has internal topics, or may have some, of which the plan knows nothing, as one that it made
    between the plan and its stop: they would be neither deleted nor copied, so nothing is done by this plan. `copied`:
    what it copies.
    """
    unit, plan = workflow.unit, workflow.plan
    facts = None if event.found is None else event.found.units.get(unit or "")
    if facts is None or event.outcome is not Outcome.DONE:
        return event
    deleted = (step.action.topics for step in workflow.steps if isinstance(step.action, DeleteTopics))
    known = {*chain.from_iterable(deleted), *copied, *(plan.ambiguous_topics if plan is not None else ())}
    now = (*facts.internal.certain, *(name for name, _ in facts.internal.ambiguous))
    new = next((name for name in now if name not in known), None)
    if new is None:
        return event
    why = f"{new} is an internal topic of {unit}, or may be one, of which the plan knows nothing; send it again"
    return replace(event, outcome=Outcome.FAILED, why=why, code=Code.STALE_PLAN.value, undo=(), logs={})


def planned_partitions(workflow: Workflow) -> Counter[str]:
    """By topic, of how many the plan sets the offset."""
    changes = () if workflow.plan is None else workflow.plan.changes
    return Counter(change.name for change in changes if change.what == "offset")


def with_positions(workflow: Workflow, event: StepReported, group: str, after: Mapping[Place, int | None]) -> Workflow:
    """`after`: where each place shall stand, None = nowhere. The plan's changes say what was there, and the undo rows
    how it is put back; what was noted of other places is not kept.
    """
    assert workflow.plan is not None
    rows = rows_of(event)
    changes, undo = [], []
    for change in workflow.plan.changes:
        key = change_key(change)
        if change.what != "offset" or key not in after:
            changes.append(change)
            continue
        row = rows.get(key) or OffsetUndo(change.name, key[1], None, group=group)
        changes.append(replace(change, before=row.to, after=after[key]))
        is_taken = after[key] is None and row.to is not None
        undo.append(replace(row, was_set=after[key], is_taken=is_taken))
    return replace(workflow, plan=replace(workflow.plan, changes=tuple(changes))).with_undo(undo)


def commits_since(workflow: Workflow, event: StepReported) -> list[OffsetUndo]:
    """Of places of which the plan says nothing, because the group had no commit there when it was made."""
    changes = () if workflow.plan is None else workflow.plan.changes
    planned = {change_key(change) for change in changes if change.what == "offset"}
    return [row for place, row in rows_of(event).items() if place not in planned and row.to is not None]


def with_commits_since(workflow: Workflow, event: StepReported) -> Workflow:
    """With those, to be taken away as well."""
    assert workflow.plan is not None
    new = (Change("offset", row.name, row.partition, row.to, None) for row in commits_since(workflow, event))
    return replace(workflow, plan=replace(workflow.plan, changes=(*workflow.plan.changes, *new)))


def without_commits(workflow: Workflow, topics: Collection[str]) -> Workflow:
    """The commits of the group on these went with them."""
    return workflow.with_undo(
        replace(row, to=None) for row in workflow.undo if isinstance(row, OffsetUndo) and row.name in topics
    )


def with_start_as_before(workflow: Workflow, event: StepReported) -> Workflow:
    """Whoever stopped an application said how it ran: it is started like that. One that did not run is started as was
    known already.
    """
    before = event.evidence.get("before")
    steps = tuple(
        replace(step, action=replace(step.action, before=before))
        if isinstance(step.action, AwaitStarted) and isinstance(before, Mapping) and before
        else step
        for step in workflow.steps
    )
    return replace(workflow, steps=steps)


def with_left_to_lack(workflow: Workflow, left: int) -> Workflow:
    """What went until now is a part of what was accepted: so much may go until the application reads."""
    steps = (
        replace(s, action=replace(s.action, may_lack=min(s.action.may_lack, left)))
        if isinstance(s.action, AwaitStarted) and s.action.may_lack is not None
        else s
        for s in workflow.steps
    )
    return replace(workflow, steps=tuple(steps))


def rows_of(event: StepReported) -> Mapping[Place, OffsetUndo]:
    return {(row.name, row.partition): row for row in event.undo if isinstance(row, OffsetUndo)}
