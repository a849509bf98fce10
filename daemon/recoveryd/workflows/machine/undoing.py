"""The steps of a rollback, from the rows of what can be put back, in the reverse order of what was done."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from recoveryd.workflows.machine.leases import was_begun
from recoveryd.workflows.model.actions import (
    Action,
    AskPerson,
    AwaitEmpty,
    AwaitStopped,
    DeleteTopics,
    RecreateTopics,
    SetConfigs,
    SetOffsets,
    SetQuotas,
    TakeSnapshot,
)
from recoveryd.workflows.model.step_names import START, STOP
from recoveryd.workflows.model.workflow import (
    ConfigUndo,
    OffsetUndo,
    QuotaUndo,
    RowKey,
    TopicUndo,
    UndoState,
    Workflow,
    WorkflowStep,
)

_AROUND: Final = (AskPerson, AwaitEmpty, AwaitStopped)
RESTORE, RESTORE_QUOTAS = "restore_configs", "restore_quotas"
_NAMED_MOST: Final = 20


def rollback_steps(workflow: Workflow) -> tuple[WorkflowStep, ...]:
    """Back to what was noted, where nobody else moved it since. Topics that we made go, as long as nobody wrote to
    them.
    """
    lost = lost_for_good(workflow)
    groups = dict.fromkeys(
        r.group for r in workflow.undo if isinstance(r, OffsetUndo) and r.is_changed and r.name not in lost
    )
    steps: list[WorkflowStep] = []
    for group in groups:
        end = "" if len(groups) == 1 else f"_of_{group}"
        cluster, connector = workflow.spec.cluster, _connector_of(workflow, group)
        stop, start = _asked_again(workflow)
        if stop is not None:
            steps.append(WorkflowStep(f"stop_again{end}", stop))
        steps.append(WorkflowStep(f"await_empty_again{end}", AwaitEmpty(cluster, group)))
        ids = noted_ids(workflow, group)
        back = SetOffsets(cluster, group, is_back=True, connector=connector, topic_ids=ids)
        steps.append(WorkflowStep(f"put_back_offsets{end}", back))
        if start is not None:
            steps.append(WorkflowStep(f"start_again{end}", start))
    changed = _configs_back(workflow, is_temporary=False)
    if changed is not None:
        steps.append(WorkflowStep("put_back_configs", changed))
    again = _made_again(workflow)
    if again is not None:
        steps.append(WorkflowStep("make_topics_again", again))
    made = {r.name: r.was_set for r in workflow.undo if isinstance(r, TopicUndo) and _is_ours(r) and r.was_set}
    if made:
        steps.append(WorkflowStep("delete_made_topics", DeleteTopics(workflow.spec.cluster, made, is_ours=True)))
    return tuple(steps)


def noted_ids(workflow: Workflow, group: str) -> dict[str, str]:
    """Of the topics in which the offsets of the group were noted, without those that it has made again itself: one that
    has another id by now was made by somebody since, and what was noted means nothing there.
    """
    own = {row.name for row in workflow.undo if isinstance(row, TopicUndo) and row.is_changed}
    notes = (step.action for step in workflow.steps if isinstance(step.action, TakeSnapshot))
    pinned = (each for note in notes if note.group == group for each in note.topic_ids.items())
    return {topic: topic_id for topic, topic_id in pinned if topic not in own}


def _connector_of(workflow: Workflow, group: str) -> str:
    """The unit through whose connector the offsets of the group were set; empty = they were committed."""
    actions = (step.action for step in workflow.steps if isinstance(step.action, SetOffsets))
    return next((action.connector for action in actions if action.group == group), "")


def _asked_again(workflow: Workflow) -> tuple[Action | None, Action | None]:
    """What a person is asked to do before and behind it once more, where an empty group does not say that
    nothing runs.
    """
    asked = {step.name: step.action for step in workflow.steps if isinstance(step.action, AskPerson)}
    return asked.get(STOP), asked.get(START)


def _made_again(workflow: Workflow) -> RecreateTopics | None:
    """What was to be made anew, went, and was not made."""
    rows = (row for row in workflow.undo if isinstance(row, TopicUndo) and row.is_gone and row.was_set is None)
    gone = {row.name: row.to for row in rows if row.to is not None}
    actions = (step.action for step in workflow.steps if isinstance(step.action, RecreateTopics))
    forms = {form.name: form for action in actions for form in action.topics if form.name in gone}
    ids = {name: gone[name] or "" for name in forms}
    return RecreateTopics(workflow.spec.cluster, tuple(forms.values()), ids, is_back=True) if forms else None


def restore_step(workflow: Workflow) -> WorkflowStep | None:
    """Puts back what was changed for the time of the workflow only: one step for each kind of it, asked for until there
    is none left.
    """
    action = _configs_back(workflow, is_temporary=True)
    if action is not None:
        return WorkflowStep(RESTORE, action)
    rows = [row for row in workflow.temporary if isinstance(row, QuotaUndo) and was_begun(workflow, row)]
    if not rows:
        return None
    before = {row.name: row.to for row in rows}
    return WorkflowStep(RESTORE_QUOTAS, SetQuotas(workflow.spec.cluster, before, is_back=True))


def _configs_back(workflow: Workflow, *, is_temporary: bool) -> SetConfigs | None:
    rows = [
        row
        for row in workflow.undo
        if isinstance(row, ConfigUndo) and row.is_temporary is is_temporary and row.state is UndoState.OPEN
        if was_begun(workflow, row)
    ]
    configs: dict[str, dict[str, str | None]] = {}
    for row in rows:
        configs.setdefault(row.name, {})[row.config] = row.to
    return SetConfigs(workflow.spec.cluster, configs, is_temporary, is_back=True) if configs else None


def with_left_open(workflow: Workflow) -> Workflow:
    """With what was changed for a time only and was left so, to be put back after all, in place of the step that could
    not; the same workflow where there is none.
    """
    left = [row for row in workflow.undo if isinstance(row, ConfigUndo | QuotaUndo) and row.state is UndoState.LEFT]
    if not left:
        return workflow
    steps = tuple(step for step in workflow.steps if step.name not in {RESTORE, RESTORE_QUOTAS})
    return replace(workflow, steps=steps).with_undo(replace(row, state=UndoState.OPEN) for row in left)


def without_unbegun(workflow: Workflow) -> Workflow:
    """Without what was to be changed for a time, and never was: nothing of it is open."""
    temporary = frozenset(row.key for row in workflow.temporary if not was_begun(workflow, row))
    return replace(workflow, undo=tuple(row for row in workflow.undo if row.key not in temporary))


def _was_setting(workflow: Workflow, group: str) -> bool:
    """Whether it ever began to set the offsets of this group."""
    actions = (step.action for step in workflow.steps if step.began_ms is not None)
    return any(isinstance(a, SetOffsets) and a.group == group and not a.is_back for a in actions)


def set_by(workflow: Workflow, cluster: str) -> Iterator[RowKey]:
    """Places of groups on this cluster that stand, for all that it knows, where it set them."""
    rows = (row for row in workflow.undo if isinstance(row, OffsetUndo) and row.state is UndoState.OPEN)
    for row in rows if workflow.spec.cluster == cluster else ():
        if row.is_changed and _was_setting(workflow, row.group):
            yield row.key


def lost_for_good(workflow: Workflow) -> tuple[str, ...]:
    """Topics whose records no rollback brings back."""
    return tuple(r.name for r in workflow.undo if isinstance(r, TopicUndo) and r.to is not None and r.is_changed)


def told_lost(workflow: Workflow) -> str:
    """The same in words. Empty = there are none."""
    gone = lost_for_good(workflow)
    more = f" and {len(gone) - _NAMED_MOST} more" if len(gone) > _NAMED_MOST else ""
    return f"records of {', '.join(gone[:_NAMED_MOST])}{more} are gone for good" if gone else ""


def without_lost_places(
    workflow: Workflow, back: Iterable[WorkflowStep] = (), later: Iterable[Workflow] = ()
) -> Workflow:
    """Offsets stay in topics that went, since they mean nothing in those that have their names now, and in groups that
    it never began to set, or that one of those that came `later` set since: whoever set them is somebody else, even to
    the same place. Not those that it only noted, and of which the steps `back` put back what was lost.
    """
    theirs = frozenset(key for other in later for key in set_by(other, workflow.spec.cluster))
    lost = frozenset(lost_for_good(workflow))
    meant = {s.action.group for s in workflow.steps if isinstance(s.action, SetOffsets) and not s.action.is_back}
    noted = {step.action.group for step in back if isinstance(step.action, SetOffsets)} - meant
    return replace(
        workflow,
        undo=tuple(
            replace(row, state=UndoState.KEPT)
            if isinstance(row, OffsetUndo)
            and (
                row.name in lost
                or row.key in theirs
                or (row.group not in noted and not _was_setting(workflow, row.group))
            )
            else row
            for row in workflow.undo
        ),
    )


def puts_back(workflow: Workflow, back: Iterable[WorkflowStep]) -> bool:
    """Whether the steps `back` of a rollback would change anything: offsets that were only noted are what they were."""
    steps = tuple(back)
    left = without_lost_places(workflow, steps).undo
    groups = {row.group for row in left if isinstance(row, OffsetUndo) and row.state is UndoState.OPEN}
    return any(
        step.action.group in groups if isinstance(step.action, SetOffsets) else not isinstance(step.action, _AROUND)
        for step in steps
    )


def _is_ours(row: TopicUndo) -> bool:
    return row.to is None and row.state is UndoState.OPEN
