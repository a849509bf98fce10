"""What earlier tries of a step did with its topics: by the rows that were heard of, and by what is there where nothing
was heard.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.steps.reading import TIMEOUT_S
from recoveryd.adapters.kafka.steps.reporting import is_first, not_done
from recoveryd.adapters.kafka.steps.topic_mending import other_shape, records_in, unlike
from recoveryd.adapters.kafka.topic_admin import TopicShape, describe
from recoveryd.errors import ClusterProblem
from recoveryd.workflows.model.actions import RecreateTopics, TopicForm
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.workflow import TopicUndo, UndoState


def of_rows(
    effect: TakeStep, shapes: Mapping[str, TopicShape | None], state: UndoState = UndoState.OPEN
) -> dict[str, TopicUndo]:
    """What an earlier try made and told, by name, where it is there still. To look at each again would take the time in
    which the others are made. `state`: of the rows of this way, forth or back.
    """
    rows = (row for row in effect.rows if isinstance(row, TopicUndo) and row.state is state)
    told = (row for row in rows if row.was_set and not row.is_gone)
    return {row.name: row for row in told if (shape := shapes.get(row.name)) and shape.topic_id == row.was_set}


def was_taken(effect: TakeStep, name: str) -> bool:
    """Whether an earlier try told that it took the topic away, and made none in its place."""
    rows = (row for row in effect.rows if isinstance(row, TopicUndo) and row.name == name)
    return any(row.is_gone and row.was_set is None for row in rows)


def fate(admin: AdminClient, effect: TakeStep, asked: TopicUndo) -> tuple[TopicUndo, ...]:
    """The row of a topic that was `asked` to go, without an answer, if it went, or if it is there although an earlier
    try told that it went. Where nobody can look, one of somebody is said to be gone, since a rollback that counts on
    its records would be wrong for good, and one of ours to be there, since a rollback looks again.
    """
    try:
        shape = describe(admin, [asked.name], TIMEOUT_S)[asked.name]
    except ClusterProblem:
        is_still = asked.was_set is not None
    else:
        is_still = shape is not None and shape.topic_id == (asked.was_set or asked.to)
    if not is_still:
        return (asked,)
    was_told = any(isinstance(row, TopicUndo) and row.name == asked.name and row.is_gone for row in effect.rows)
    return (replace(asked, is_gone=False, state=UndoState.OPEN),) if was_told else ()


def compared(
    admin: AdminClient,
    effect: TakeStep,
    action: RecreateTopics,
    shapes: Mapping[str, TopicShape | None],
    before: Mapping[str, TopicUndo],
) -> tuple[str | None, list[TopicUndo]]:
    """A topic that is neither what the plan saw nor, at a later try, one that came since an earlier one took that away;
    and rows of what earlier tries took away, or made again, of which nothing may have been heard. `before`: what was
    heard.
    """
    foreign, rows = None, list(before.values())
    for form in (form for form in action.topics if form.name not in before):
        shape, old = shapes[form.name], action.ids[form.name]
        if shape is not None and shape.topic_id == old:
            continue
        row = _gone(action, form.name) if shape is None else _since(admin, effect, action, form, shape)
        if row is None:
            foreign = foreign or form.name
        else:
            rows.append(row)
    return foreign, [] if is_first(effect) else rows


def _since(
    admin: AdminClient, effect: TakeStep, action: RecreateTopics, form: TopicForm, shape: TopicShape
) -> TopicUndo | None:
    """The row of a topic in the place of which there is an empty one by now: of the form that is wanted, it is one that
    an earlier try made, else what the plan saw is gone. None = there is one that nobody may touch.
    """
    if is_first(effect) or records_in(admin, shape):
        return None
    if other_shape(shape, form):
        return _gone(action, form.name) if was_taken(effect, form.name) else None
    if unlike(admin, shape, form):
        return _gone(action, form.name)
    return TopicUndo(form.name, action.ids[form.name], shape.topic_id, cluster=action.cluster)


def _gone(action: RecreateTopics, name: str) -> TopicUndo:
    return TopicUndo(name, action.ids[name], None, is_gone=True, cluster=action.cluster)


def not_anew(
    admin: AdminClient,
    effect: TakeStep,
    action: RecreateTopics,
    shapes: Mapping[str, TopicShape | None],
    done: Sequence[TopicUndo],
) -> StepReported | None:
    """What earlier tries did, `done`, where that is not all; None = it is."""
    made = {row.name for row in done if row.was_set}
    gone = [name for name, shape in shapes.items() if shape is None or shape.topic_id != action.ids[name]]
    gone = [name for name in gone if name not in made]
    old = [name for name, shape in shapes.items() if shape is not None and shape.topic_id == action.ids[name]]
    if not gone and not old:
        return None
    still = [row for name in old for row in fate(admin, effect, _gone(action, name))]
    return not_done(effect, f"{names_of((*gone, *old))} has to be made anew", (*done, *still))


def names_of(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"
