"""Steps about topics: make, take away, make again, look. Before each change stands a look: is it done already, and is
it still what the plan saw.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.group_facts import read_committed
from recoveryd.adapters.kafka.steps.members import not_empty
from recoveryd.adapters.kafka.steps.reach import Reach
from recoveryd.adapters.kafka.steps.reading import TIMEOUT_S, read_log
from recoveryd.adapters.kafka.steps.reporting import is_first, not_done, report, untried
from recoveryd.adapters.kafka.steps.try_time import TryTime, stopped
from recoveryd.adapters.kafka.topic_admin import (
    SETTLE_S,
    TopicShape,
    await_topic,
    check_create,
    create,
    delete,
    describe,
)
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.workflows.model.actions import CreateTopics, DeleteTopics, LookAtTopics, RecreateTopics, TopicForm
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.workflow import TopicUndo, UndoState

_GONE_S: Final = 30.0
_POLL_S: Final = 0.1


class _SomebodyElseError(Exception):
    """A topic is not what the plan saw."""


class TopicSteps:
    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def create(self, effect: TakeStep, action: CreateTopics) -> StepReported:
        return await self._reach.run(action.cluster, self._create, effect, action)

    async def delete(self, effect: TakeStep, action: DeleteTopics) -> StepReported:
        members = await self._members(effect, action)
        if members:
            return not_empty(effect, action.group, members)
        return await self._reach.run(action.cluster, self._delete, effect, action)

    async def recreate(self, effect: TakeStep, action: RecreateTopics) -> StepReported:
        if action.is_back:
            return await self._reach.run(action.cluster, self._make_again, effect, action)
        members = await self._members(effect, action)
        if members:
            return not_empty(effect, action.group, members)
        return await self._reach.run(action.cluster, self._recreate, effect, action)

    async def _members(self, effect: TakeStep, action: DeleteTopics | RecreateTopics) -> tuple[str, ...]:
        """Who is in the way of a change."""
        is_asked = bool(action.group) and not effect.is_look
        return await self._reach.members(action.cluster, action.group) if is_asked else ()

    async def look(self, effect: TakeStep, action: LookAtTopics) -> StepReported:
        return await self._reach.run(action.cluster, self._look, effect, action)

    def _create(self, effect: TakeStep, action: CreateTopics) -> StepReported:
        admin, at = self._reach.admin(action.cluster), TryTime()
        rows: list[TopicUndo] = []
        try:
            kept = _theirs(admin, effect, action)
            if effect.is_look and (told := _not_made(admin, effect, action, kept)) is not None:
                return told
        except _SomebodyElseError as reason:
            return _changed(effect, reason)
        except ClusterProblem as problem:
            return untried(effect, problem)
        asked = None
        try:
            done = _done_before(admin, effect, action.topics)
            rows += done.values()
            for form in at.each(form for form in action.topics if form.name not in done):
                is_theirs = any(row.name == form.name for row in kept)
                asked = None if is_theirs else form
                shape = _made(admin, effect, form, at)
                asked = None
                if not is_theirs:
                    rows.append(TopicUndo(form.name, None, shape.topic_id, cluster=action.cluster))
            at.check()
        except _SomebodyElseError as reason:
            return _changed(effect, reason, (*kept, *rows))
        except ClusterProblem as problem:
            rows += self._made_unheard(action, asked)
            return stopped(effect, problem, (*kept, *rows))
        why = f"made, and empty: {_names(form.name for form in action.topics)}"
        return report(effect, Outcome.DONE, why, evidence={"topics": [row.name for row in rows]}, undo=tuple(rows))

    def _made_unheard(self, action: CreateTopics, asked: TopicForm | None) -> list[TopicUndo]:
        """The topic that was not there, was asked for, and is there although no answer came."""
        if asked is None or not action.is_own:
            return []
        admin = self._reach.admin(action.cluster)
        try:
            shape = describe(admin, [asked.name], TIMEOUT_S)[asked.name]
            is_ours = shape is not None and shape.partitions == asked.partitions and not _records(admin, shape)
        except ClusterProblem:
            return []  # the next try finds it
        return [TopicUndo(asked.name, None, shape.topic_id, cluster=action.cluster)] if shape and is_ours else []

    def _delete(self, effect: TakeStep, action: DeleteTopics) -> StepReported:
        admin, at = self._reach.admin(action.cluster), TryTime()
        is_new = is_first(effect) and not action.is_ours  # of ours all goes that may
        try:
            shapes = describe(admin, action.topics, TIMEOUT_S, ("Delete",) if is_new else ())
        except ClusterProblem as problem:
            return untried(effect, problem)
        present = {name: shape for name, shape in shapes.items() if shape is not None}
        foreign = [name for name, shape in present.items() if shape.topic_id != action.topics[name]]
        # By an earlier try, of which nothing was heard.
        went = [name for name in action.topics if name not in present] if not is_first(effect) else []
        if foreign and not action.is_ours:
            return _made_again(effect, foreign[0], [_deleted_row(effect, action, name) for name in went])
        is_kept = action.is_ours and not action.with_records
        used = [n for n, shape in present.items() if is_kept and n not in foreign and _records(admin, shape)]
        going = [name for name in present if name not in foreign and name not in used]
        if effect.is_look and going:
            still = [row for name in going for row in _fate(admin, effect, _deleted_row(effect, action, name))]
            gone = [_deleted_row(effect, action, name) for name in went]
            return not_done(effect, f"{_names(going)} has to go", [*gone, *still])
        asked: str | None = None  # to go, and no answer yet
        try:
            for name in at.each(going):
                # Once more: while others went, and this daemon stood still maybe, somebody may have made it again.
                if _is_another(admin, name, action.topics[name]):
                    foreign.append(name)
                    if action.is_ours:
                        continue
                    return _made_again(effect, name, [_deleted_row(effect, action, each) for each in went])
                asked = name
                delete(admin, name, TIMEOUT_S)
                went.append(name)
                asked = None
            gone_now = [name for name in going if name in went]
            _await_gone(admin, {name: action.topics[name] for name in gone_now}, at)
            self._await_no_commits(action.cluster, action.group, [present[name] for name in gone_now], at)
            at.check()
        except ClusterProblem as problem:
            gone = [_deleted_row(effect, action, name) for name in went]
            unsure = () if asked is None else _fate(admin, effect, _deleted_row(effect, action, asked))
            return stopped(effect, problem, (*gone, *unsure))
        told, evidence, rows = _deleted(effect, action, [*foreign, *used])
        return report(effect, Outcome.DONE, told, evidence=evidence, undo=rows)

    def _recreate(self, effect: TakeStep, action: RecreateTopics) -> StepReported:
        """A topic that has another id, no records and the right form is one that we made before we died. Whether all
        are what the plan saw, and may go and be made, is asked before the first one goes.
        """
        admin, at = self._reach.admin(action.cluster), TryTime()
        rows: list[TopicUndo] = []
        try:
            shapes = describe(admin, action.ids, TIMEOUT_S, ("Delete",) if is_first(effect) else ())
            before = _of_rows(effect, shapes)
            foreign, done = _compared(admin, effect, action, shapes, before)
            if foreign is not None:
                return _made_again(effect, foreign, done)
            if effect.is_look and (told := _not_anew(admin, effect, action, shapes, done)) is not None:
                return told
            if is_first(effect):
                check_create(admin, action.ids, TIMEOUT_S)
        except ClusterProblem as problem:
            return untried(effect, problem)
        going, is_gone = None, False  # asked to go, and not made again yet
        try:
            rows += before.values()
            for form in at.each(form for form in action.topics if form.name not in before):
                old = action.ids[form.name]
                shape = describe(admin, [form.name], TIMEOUT_S)[form.name]
                is_there = shape is not None and shape.topic_id == old
                if is_there or (shape is None and not is_first(effect)):
                    going, is_gone = TopicUndo(form.name, old, None, is_gone=True, cluster=action.cluster), not is_there
                if shape is not None and is_there:
                    delete(admin, form.name, TIMEOUT_S)
                    is_gone = True
                    _await_gone(admin, {form.name: old}, at)
                    self._await_no_commits(action.cluster, action.group, [shape], at)
                rows.append(TopicUndo(form.name, old, _made(admin, effect, form, at).topic_id, cluster=action.cluster))
                going = None
            at.check()
        except (_SomebodyElseError, ClusterProblem) as reason:
            if going is not None:
                rows += (going,) if is_gone else _fate(admin, effect, going)
            return (
                stopped(effect, reason, rows) if isinstance(reason, ClusterProblem) else _changed(effect, reason, rows)
            )
        why = f"made anew, and empty: {_names(form.name for form in action.topics)}"
        evidence = {row.name: {"id_before": row.to, "id": row.was_set} for row in rows}
        return report(effect, Outcome.DONE, why, evidence=evidence, undo=tuple(rows))

    def _make_again(self, effect: TakeStep, action: RecreateTopics) -> StepReported:
        """One that is there again, whoever made it, stays as it is."""
        admin, at = self._reach.admin(action.cluster), TryTime()
        rows: list[TopicUndo] = []
        made: list[str] = []
        try:
            done = _done_before(admin, effect, action.topics, UndoState.DONE)
            rows += done.values()
            for form in at.each(form for form in action.topics if form.name not in done):
                if describe(admin, [form.name], TIMEOUT_S)[form.name] is None:
                    if effect.is_look:
                        return not_done(effect, f"{form.name} has to be made again", rows)
                    create(admin, form.name, form.partitions, form.replication_factor, form.configs, TIMEOUT_S)
                    made.append(form.name)
                old = action.ids[form.name]
                new = await_topic(admin, form.name, TIMEOUT_S, at.left_s(SETTLE_S)).topic_id
                is_made = new != old
                rows.append(
                    TopicUndo(form.name, old, new if is_made else None, state=UndoState.DONE, cluster=action.cluster)
                )
            at.check()
        except ClusterProblem as problem:
            return stopped(effect, problem, rows)
        there = [row.name for row in rows if row.name not in made]
        why = f"made again, and empty: {_names(made)}" + (f"; there already: {_names(there)}" if there else "")
        return report(effect, Outcome.DONE, why, evidence={"topics": made}, undo=tuple(rows))

    def _await_no_commits(self, cluster: str, group: str, gone: Sequence[TopicShape], at: TryTime) -> None:
        """The broker takes commits on a topic away with it. One that stayed would make the application begin in the
        middle of the next topic of that name. Raises `ClusterProblem`.
        """
        keys = [key for shape in gone for key in shape.keys] if group else []
        give_up_s = time.monotonic() + at.left_s(_GONE_S)
        while keys and (left := read_committed(self._reach.clusters[cluster], group, keys)):
            if time.monotonic() >= give_up_s:
                raise ClusterProblem(f"{group} still has a commit on {min(left)}, which was deleted")
            time.sleep(_POLL_S)

    def _look(self, effect: TakeStep, action: LookAtTopics) -> StepReported:
        admin = self._reach.admin(action.cluster)
        shapes = describe(admin, action.topics, TIMEOUT_S)
        counts = {name: None if shape is None else _records(admin, shape) for name, shape in shapes.items()}
        told = ", ".join(f"{n} {'does not exist' if c is None else f'has {c:,} offsets'}" for n, c in counts.items())
        return report(effect, Outcome.DONE, told or "nothing to look at", evidence={"offsets": counts})


def _theirs(admin: AdminClient, effect: TakeStep, action: CreateTopics) -> list[TopicUndo]:
    """Rows of topics that were there before anything was tried: they are somebody else's, also at a later try, as long
    as they have the id that the plan or the first try saw. Raises `_SomebodyElseError` where such a one is in the way,
    and `ClusterProblem`.
    """
    names = [form.name for form in action.topics]
    found = describe(admin, names, TIMEOUT_S)
    if not is_first(effect):
        rows = (row for row in effect.rows if isinstance(row, TopicUndo) and row.state is UndoState.KEPT)
        return [row for row in rows if (there := found.get(row.name)) is not None and there.topic_id == row.to]
    shapes = [shape for shape in found.values() if shape is not None]
    if shapes and action.is_own:
        raise _SomebodyElseError(f"{shapes[0].topic} was there before: somebody else made it")
    return [TopicUndo(s.topic, s.topic_id, state=UndoState.KEPT, cluster=action.cluster) for s in shapes]


def _done_before(
    admin: AdminClient, effect: TakeStep, forms: Sequence[TopicForm], state: UndoState = UndoState.OPEN
) -> dict[str, TopicUndo]:
    """As `_of_rows`, of these topics. Raises `ClusterProblem`."""
    is_heard = any(isinstance(row, TopicUndo) and row.was_set for row in effect.rows)
    return _of_rows(effect, describe(admin, [form.name for form in forms], TIMEOUT_S), state) if is_heard else {}


def _of_rows(
    effect: TakeStep, shapes: Mapping[str, TopicShape | None], state: UndoState = UndoState.OPEN
) -> dict[str, TopicUndo]:
    """What an earlier try made and told, by name, where it is there still. To look at each again would take the time in
    which the others are made. `state`: of the rows of this way, forth or back.
    """
    rows = (row for row in effect.rows if isinstance(row, TopicUndo) and row.state is state)
    told = (row for row in rows if row.was_set and not row.is_gone)
    return {row.name: row for row in told if (shape := shapes.get(row.name)) and shape.topic_id == row.was_set}


def _not_made(
    admin: AdminClient, effect: TakeStep, action: CreateTopics, kept: Iterable[TopicUndo]
) -> StepReported | None:
    """What an earlier try made, where that is not all; None = it is. Raises `_SomebodyElseError`, `ClusterProblem`."""
    theirs = {row.name for row in kept}
    forms = [form for form in action.topics if form.name not in theirs]
    shapes = describe(admin, [form.name for form in forms], TIMEOUT_S)
    made = [shape for form in forms if (shape := shapes[form.name]) is not None and _is_like(admin, shape, form)]
    rows = (*kept, *(TopicUndo(shape.topic, None, shape.topic_id, cluster=action.cluster) for shape in made))
    missing = [name for name, shape in shapes.items() if shape is None]
    return not_done(effect, f"{_names(missing)} has to be made", rows) if missing else None


def _made(admin: AdminClient, effect: TakeStep, form: TopicForm, at: TryTime) -> TopicShape:
    """The topic, made now or found made: without records and of this form. Raises `_SomebodyElseError`,
    `ClusterProblem`.
    """
    is_new = not effect.is_look and create(
        admin, form.name, form.partitions, form.replication_factor, form.configs, TIMEOUT_S
    )
    shape = await_topic(admin, form.name, TIMEOUT_S, at.left_s(SETTLE_S))
    if is_new:
        return shape
    if not _is_like(admin, shape, form):
        raise _SomebodyElseError(
            f"{form.name} exists, and is not the empty topic of {form.partitions} partitions that is wanted"
        )
    return shape


def _is_like(admin: AdminClient, shape: TopicShape, form: TopicForm) -> bool:
    """Whether it is without records, and of this form."""
    return shape.partitions == form.partitions and not _records(admin, shape)


def _records(admin: AdminClient, shape: TopicShape) -> int:
    """At most so many records lie there."""
    return sum(log.records_most for log in read_log(admin, shape).values())


def _await_gone(admin: AdminClient, ids: Mapping[str, str], at: TryTime) -> None:
    """Raises `ClusterProblem` when a topic with its id is still there after the deadline."""
    limit_s = at.left_s(_GONE_S)
    give_up_s = time.monotonic() + limit_s
    while True:
        shapes = describe(admin, ids, TIMEOUT_S)
        left = [n for n, shape in shapes.items() if shape is not None and shape.topic_id == ids[n]]
        if not left:
            return
        if time.monotonic() >= give_up_s:
            raise ClusterProblem(f"{left[0]} is still there {limit_s:.0f} s after it was deleted")
        time.sleep(_POLL_S)


def _deleted(
    effect: TakeStep, action: DeleteTopics, kept: list[str]
) -> tuple[str, dict[str, object], tuple[TopicUndo, ...]]:
    """Sentence, evidence, and the rows: of a rollback those of topics that we had made, else of topics that were there
    before.
    """
    gone = [name for name in action.topics if name not in kept]
    told = f"taken away: {_names(gone)}" if gone else "nothing was to be taken away"
    told += f"; in use by others, and left alone: {_names(kept)}" if kept else ""
    rows = tuple(_deleted_row(effect, action, name, is_kept=name in kept) for name in action.topics)
    return told, {"deleted": gone, "kept": kept}, rows


def _deleted_row(effect: TakeStep, action: DeleteTopics, name: str, *, is_kept: bool = False) -> TopicUndo:
    """Of one of ours with what was there before it, if something was: its records are no less gone for good."""
    topic_id = action.topics[name]
    known = (row for row in effect.rows if isinstance(row, TopicUndo) and row.name == name)
    before = next((row.to for row in known if row.was_set == topic_id), None)
    return TopicUndo(
        name,
        before if action.is_ours else topic_id,
        topic_id if action.is_ours else None,
        is_gone=not is_kept,
        state=(UndoState.KEPT if is_kept else UndoState.DONE) if action.is_ours else UndoState.OPEN,
        cluster=action.cluster,
    )


def _fate(admin: AdminClient, effect: TakeStep, asked: TopicUndo) -> tuple[TopicUndo, ...]:
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


def _compared(
    admin: AdminClient,
    effect: TakeStep,
    action: RecreateTopics,
    shapes: Mapping[str, TopicShape | None],
    before: Mapping[str, TopicUndo],
) -> tuple[str | None, list[TopicUndo]]:
    """A topic that is neither what the plan saw nor, at a later try, one that an earlier one made; and rows of what
    earlier tries took away, or made again, of which nothing may have been heard. `before`: what was heard.
    """
    foreign, rows = None, list(before.values())
    for form in (form for form in action.topics if form.name not in before):
        shape, old = shapes[form.name], action.ids[form.name]
        if shape is None:
            rows.append(TopicUndo(form.name, old, None, is_gone=True, cluster=action.cluster))
        elif shape.topic_id != old and not is_first(effect) and _is_like(admin, shape, form):
            rows.append(TopicUndo(form.name, old, shape.topic_id, cluster=action.cluster))
        elif shape.topic_id != old:
            foreign = foreign or form.name
    return foreign, [] if is_first(effect) else rows


def _not_anew(
    admin: AdminClient,
    effect: TakeStep,
    action: RecreateTopics,
    shapes: Mapping[str, TopicShape | None],
    done: Iterable[TopicUndo],
) -> StepReported | None:
    """What earlier tries did, `done`, where that is not all; None = it is."""
    gone = [name for name, shape in shapes.items() if shape is None]
    old = [name for name, shape in shapes.items() if shape is not None and shape.topic_id == action.ids[name]]
    if not gone and not old:
        return None
    asked = (TopicUndo(name, action.ids[name], None, is_gone=True, cluster=action.cluster) for name in old)
    still = [row for each in asked for row in _fate(admin, effect, each)]
    return not_done(effect, f"{_names((*gone, *old))} has to be made anew", (*done, *still))


def _is_another(admin: AdminClient, name: str, topic_id: str) -> bool:
    """Whether a topic of this name is there that has another id."""
    shape = describe(admin, [name], TIMEOUT_S)[name]
    return shape is not None and shape.topic_id != topic_id


def _made_again(effect: TakeStep, name: str, rows: Iterable[TopicUndo]) -> StepReported:
    """`rows`: of what went before that was seen."""
    return _changed(effect, f"{name} was made again since the plan", rows)


def _changed(effect: TakeStep, why: object, rows: Iterable[TopicUndo] = ()) -> StepReported:
    return report(effect, Outcome.FAILED, str(why), code=Code.TOPIC_CHANGED.value, undo=tuple(rows))


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"
