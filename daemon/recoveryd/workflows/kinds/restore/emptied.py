"""On the way back of a restore: state topics that it made again and filled hold the state of the cut, or a part of it,
which does not belong to the offsets that are put back. They go, so that the application begins with empty state, unless
it ran with them and goes on from there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from recoveryd.workflows.kinds.restore.names import DELETE_FILLED, RECREATE_STATE, cut_of, name_now, state_names
from recoveryd.workflows.machine.starting import CONFIRM_START, doubt_of
from recoveryd.workflows.model.actions import MOVED, WERE_GONE, AskPerson, AwaitCaughtUp, RecreateTopics, Settle
from recoveryd.workflows.model.spec import RestoreSpec
from recoveryd.workflows.model.step_names import CATCH_UP, START
from recoveryd.workflows.model.workflow import NOT_ENDED, OffsetUndo, StepState, TopicUndo, UndoState, Workflow

_NAMED_MOST: Final = 5


def filled(workflow: Workflow) -> dict[str, str]:
    """State topics that it made in place of those of before, by name, with the ids that they have by it."""
    rows = (row for row in _made_again(workflow) if row.state is UndoState.OPEN and not row.is_gone)
    return {row.name: row.was_set for row in rows if row.was_set}


def with_state_kept(workflow: Workflow, told: Mapping[str, object]) -> Workflow:
    """Once its offsets are put back, or were left where the group had moved on: where these are of the state that it
    ran with, that state stays. `told`: the evidence of that. Where commits were gone nobody knows how far it
    had read.
    """
    step = next((s for s in workflow.steps if s.name == DELETE_FILLED and s.state in NOT_ENDED), None)
    if step is None or told.get(WERE_GONE) or not _goes_on_with_it(workflow, has_moved=bool(told.get(MOVED))):
        return workflow
    why = f"its state stays as it is: {workflow.unit} ran with it, and its group goes on from there"
    kept = workflow.with_step(replace(step, action=Settle(why)))
    asked = next((s for s in kept.steps if s.name == CONFIRM_START), None)
    if asked is None:
        return kept
    return kept.with_step(replace(asked, action=AskPerson(doubt_of(kept, workflow.unit or ""))))


def told_empty(workflow: Workflow) -> str:
    """What it begins with that is not as it was. Empty = nothing."""
    if any(step.name == DELETE_FILLED and isinstance(step.action, Settle) for step in workflow.steps):
        return ""
    changelogs = _changelogs(workflow)
    rows = (row for row in _made_again(workflow) if row.state is not UndoState.KEPT)
    empty = [row.name for row in rows if row.name in changelogs]
    if not empty:
        return ""
    begins = "empty: it begins with empty state at the offsets of its group, where its local state is deleted too"
    meant = next((step.action for step in workflow.steps if step.name == RECREATE_STATE), None)
    if isinstance(meant, RecreateTopics) and changelogs & set(meant.ids) <= set(empty):
        return f"its changelogs are {begins}"
    more = f" and {len(empty) - _NAMED_MOST} more" if len(empty) > _NAMED_MOST else ""
    return f"{', '.join(empty[:_NAMED_MOST])}{more} {'is' if len(empty) == 1 else 'are'} {begins}"


def told_unasked(workflow: Workflow) -> str:
    """The same at the end, where no person was asked about it before the start."""
    was_asked = any(step.name == CONFIRM_START for step in workflow.steps)
    return "" if was_asked else told_empty(workflow)


def _made_again(workflow: Workflow) -> Iterator[TopicUndo]:
    """Rows of state topics of which the records of before are gone."""
    spec = workflow.spec
    assert isinstance(spec, RestoreSpec)
    names = state_names(spec)
    rows = (row for row in workflow.undo if isinstance(row, TopicUndo) and row.name in names)
    return (row for row in rows if row.to is not None and row.is_changed)


def _changelogs(workflow: Workflow) -> set[str]:
    spec = workflow.spec
    assert isinstance(spec, RestoreSpec)
    cut = cut_of(spec)
    return {name_now(spec, cut, topic) for topic in cut.topics if not topic.is_between}


def _goes_on_with_it(workflow: Workflow, *, has_moved: bool) -> bool:
    """Whether the offsets of the group are those of the state that it ran with. One that was seen to read its inputs to
    their ends stands nowhere before where it was noted: what is put back there to an offset further on stood there
    already. Where a person said so, a part may have been read only. A start that failed or was stopped may have been
    one all the same, which is seen by what `has_moved`.
    """
    spec = workflow.spec
    assert isinstance(spec, RestoreSpec)
    done = {step.name: step for step in workflow.steps if step.state is StepState.DONE}
    rows = (row for row in workflow.undo if isinstance(row, OffsetUndo) and row.name not in state_names(spec))
    back = [row for row in rows if row.state is UndoState.DONE]
    read = done.get(CATCH_UP)
    if read is not None and isinstance(read.action, AwaitCaughtUp) and read.evidence.get("left") == 0:
        return all((row.to or 0) >= (row.was_set or 0) for row in back if row.name in read.action.ends)
    has_begun = has_moved and any(step.name == START and step.has_begun for step in workflow.steps)
    return (START in done or has_begun) and all(row.to == row.was_set for row in back)
