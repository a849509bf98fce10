"""Steps about topics: make, take away, make again, look. Before each change stands a look: is it done already, and is
it still what the plan saw.
"""

from collections.abc import Iterable, Sequence

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.steps.going import await_gone, await_no_commits
from recoveryd.adapters.kafka.steps.members import not_empty
from recoveryd.adapters.kafka.steps.reach import Reach
from recoveryd.adapters.kafka.steps.reading import TIMEOUT_S
from recoveryd.adapters.kafka.steps.reporting import is_first, not_done, report, untried
from recoveryd.adapters.kafka.steps.topic_mending import (
    SomebodyElseError,
    await_another,
    mended,
    records_in,
    unlike,
    way_out,
)
from recoveryd.adapters.kafka.steps.topic_tries import compared, fate, names_of, not_anew, of_rows, was_taken
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
        notes: list[str] = []
        try:
            kept = _theirs(admin, effect, action)
            if effect.is_look and (told := _not_made(admin, effect, action, kept)) is not None:
                return told
        except SomebodyElseError as reason:
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
                shape, note = _made(admin, effect, form, at, is_theirs=is_theirs)
                notes.append(note)
                asked = None
                if not is_theirs:
                    rows.append(TopicUndo(form.name, None, shape.topic_id, cluster=action.cluster))
            at.check()
        except SomebodyElseError as reason:
            return _changed(effect, reason, (*kept, *rows))
        except ClusterProblem as problem:
            rows += self._made_unheard(action, asked)
            return stopped(effect, problem, (*kept, *rows))
        why = _told(f"made, and empty: {names_of(form.name for form in action.topics)}", notes)
        return report(effect, Outcome.DONE, why, evidence={"topics": [row.name for row in rows]}, undo=tuple(rows))

    def _made_unheard(self, action: CreateTopics, asked: TopicForm | None) -> list[TopicUndo]:
        """The topic that was not there, was asked for, and is there although no answer came."""
        if asked is None or not action.is_own:
            return []
        admin = self._reach.admin(action.cluster)
        try:
            shape = describe(admin, [asked.name], TIMEOUT_S)[asked.name]
            is_ours = shape is not None and shape.partitions == asked.partitions and not records_in(admin, shape)
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
        used = [n for n, shape in present.items() if is_kept and n not in foreign and records_in(admin, shape)]
        going = [name for name in present if name not in foreign and name not in used]
        if effect.is_look and going:
            still = [row for name in going for row in fate(admin, effect, _deleted_row(effect, action, name))]
            gone = [_deleted_row(effect, action, name) for name in went]
            return not_done(effect, f"{names_of(going)} has to go", [*gone, *still])
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
            await_gone(admin, {name: action.topics[name] for name in gone_now}, at)
            await_no_commits(
                self._reach.clusters[action.cluster], action.group, [present[name] for name in gone_now], at
            )
            at.check()
        except ClusterProblem as problem:
            gone = [_deleted_row(effect, action, name) for name in went]
            unsure = () if asked is None else fate(admin, effect, _deleted_row(effect, action, asked))
            return stopped(effect, problem, (*gone, *unsure))
        told, evidence, rows = _deleted(effect, action, [*foreign, *used])
        return report(effect, Outcome.DONE, told, evidence=evidence, undo=rows)

    def _recreate(self, effect: TakeStep, action: RecreateTopics) -> StepReported:
        """A topic that has another id, no records and the right form is one that we made before we died. Whether all
        are what the plan saw, and may go and be made, is asked before the first one goes.
        """
        admin, at = self._reach.admin(action.cluster), TryTime()
        rows: list[TopicUndo] = []
        notes: dict[str, str] = {}
        try:
            shapes = describe(admin, action.ids, TIMEOUT_S, ("Delete",) if is_first(effect) else ())
            before = of_rows(effect, shapes)
            foreign, done = compared(admin, effect, action, shapes, before)
            if foreign is not None:
                return _made_again(effect, foreign, done)
            if effect.is_look and (told := not_anew(admin, effect, action, shapes, done)) is not None:
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
                is_since = (
                    shape is None or is_there or was_taken(effect, form.name)
                )  # whatever we find there in the end
                if is_there or (is_since and not is_first(effect)):
                    going, is_gone = TopicUndo(form.name, old, None, is_gone=True, cluster=action.cluster), not is_there
                if shape is not None and is_there:
                    delete(admin, form.name, TIMEOUT_S)
                    is_gone = True
                    await_gone(admin, {form.name: old}, at)
                    await_no_commits(self._reach.clusters[action.cluster], action.group, [shape], at)
                made, notes[form.name] = _made(admin, effect, form, at, old, may_go=is_since)
                rows.append(TopicUndo(form.name, old, made.topic_id, cluster=action.cluster))
                going = None
            at.check()
        except (SomebodyElseError, ClusterProblem) as reason:
            if going is not None:
                rows += (going,) if is_gone else fate(admin, effect, going)
            return (
                stopped(effect, reason, rows) if isinstance(reason, ClusterProblem) else _changed(effect, reason, rows)
            )
        why = _told(f"made anew, and empty: {names_of(form.name for form in action.topics)}", notes.values())
        evidence = {
            row.name: {"id_before": row.to, "id": row.was_set}
            | ({"note": note} if (note := notes.get(row.name)) else {})
            for row in rows
        }
        return report(effect, Outcome.DONE, why, evidence=evidence, undo=tuple(rows))

    def _make_again(self, effect: TakeStep, action: RecreateTopics) -> StepReported:
        """One that is there again, whoever made it, stays as it is, and what of it is not as it was is told."""
        admin, at = self._reach.admin(action.cluster), TryTime()
        rows: list[TopicUndo] = []
        made: list[str] = []
        notes: list[str] = []
        try:
            done = _done_before(admin, effect, action.topics, UndoState.DONE)
            rows += done.values()
            for form in at.each(form for form in action.topics if form.name not in done):
                old = action.ids[form.name]
                if describe(admin, [form.name], TIMEOUT_S)[form.name] is None:
                    if effect.is_look:
                        return not_done(effect, f"{form.name} has to be made again", rows)
                    shape, note = _made(admin, effect, form, at, old, may_go=True)
                    made.append(form.name)
                else:
                    shape, note = _found(admin, form, at, old)
                notes.append(note)
                is_made = shape.topic_id != old
                new = shape.topic_id if is_made else None
                rows.append(TopicUndo(form.name, old, new, state=UndoState.DONE, cluster=action.cluster))
            at.check()
        except SomebodyElseError as reason:
            return _changed(effect, reason, rows)
        except ClusterProblem as problem:
            return stopped(effect, problem, rows)
        there = [row.name for row in rows if row.name not in made]
        why = f"made again, and empty: {names_of(made)}" + (f"; there already: {names_of(there)}" if there else "")
        return report(effect, Outcome.DONE, _told(why, notes), evidence={"topics": made}, undo=tuple(rows))

    def _look(self, effect: TakeStep, action: LookAtTopics) -> StepReported:
        admin = self._reach.admin(action.cluster)
        shapes = describe(admin, action.topics, TIMEOUT_S)
        counts = {name: None if shape is None else records_in(admin, shape) for name, shape in shapes.items()}
        told = ", ".join(f"{n} {'does not exist' if c is None else f'has {c:,} offsets'}" for n, c in counts.items())
        return report(effect, Outcome.DONE, told or "nothing to look at", evidence={"offsets": counts})


def _theirs(admin: AdminClient, effect: TakeStep, action: CreateTopics) -> list[TopicUndo]:
    """Rows of topics that were there before anything was tried: they are somebody else's, also at a later try, as long
    as they have the id that the plan or the first try saw. Raises `SomebodyElseError` where such a one is in the way,
    and `ClusterProblem`.
    """
    names = [form.name for form in action.topics]
    found = describe(admin, names, TIMEOUT_S)
    if not is_first(effect):
        rows = (row for row in effect.rows if isinstance(row, TopicUndo) and row.state is UndoState.KEPT)
        return [row for row in rows if (there := found.get(row.name)) is not None and there.topic_id == row.to]
    shapes = [shape for shape in found.values() if shape is not None]
    if shapes and action.is_own:
        raise SomebodyElseError(f"{shapes[0].topic} was there before: somebody else made it")
    return [TopicUndo(s.topic, s.topic_id, state=UndoState.KEPT, cluster=action.cluster) for s in shapes]


def _done_before(
    admin: AdminClient, effect: TakeStep, forms: Sequence[TopicForm], state: UndoState = UndoState.OPEN
) -> dict[str, TopicUndo]:
    """As `of_rows`, of these topics. Raises `ClusterProblem`."""
    is_heard = any(isinstance(row, TopicUndo) and row.was_set for row in effect.rows)
    return of_rows(effect, describe(admin, [form.name for form in forms], TIMEOUT_S), state) if is_heard else {}


def _not_made(
    admin: AdminClient, effect: TakeStep, action: CreateTopics, kept: Iterable[TopicUndo]
) -> StepReported | None:
    """What an earlier try made, where that is not all; None = it is. Raises `SomebodyElseError`, `ClusterProblem`."""
    theirs = {row.name for row in kept}
    forms = [form for form in action.topics if form.name not in theirs]
    shapes = describe(admin, [form.name for form in forms], TIMEOUT_S)
    made = [shape for form in forms if (shape := shapes[form.name]) is not None and _is_like(admin, shape, form)]
    rows = (*kept, *(TopicUndo(shape.topic, None, shape.topic_id, cluster=action.cluster) for shape in made))
    missing = [name for name, shape in shapes.items() if shape is None]
    missing += [form.name for form in forms if (there := shapes[form.name]) in made and unlike(admin, there, form)]
    return not_done(effect, f"{names_of(missing)} has to be made", rows) if missing else None


def _made(
    admin: AdminClient,
    effect: TakeStep,
    form: TopicForm,
    at: TryTime,
    gone: str = "",
    *,
    is_theirs: bool = False,
    may_go: bool = False,
) -> tuple[TopicShape, str]:
    """The topic, made now or found made: without records and of this form; and what is to be told of it. `gone`: the id
    of the one before, `may_go`: one that is found came after that. Of one that was there before the step (`is_theirs`)
    the configs are for who made it to choose. Raises `SomebodyElseError`, `ClusterProblem`.
    """
    is_new = not effect.is_look and create(
        admin, form.name, form.partitions, form.replication_factor, form.configs, TIMEOUT_S
    )
    shape = await_another(admin, form.name, {gone}, at.left_s(SETTLE_S))
    if is_new:
        return shape, ""
    if not (is_theirs or effect.is_look):
        return mended(admin, effect.workflow, form, shape, at, gone, may_go=may_go)
    if not _is_like(admin, shape, form):
        raise SomebodyElseError(
            f"{form.name} exists, and is not the empty topic of {form.partitions} partitions that is wanted"
        )
    return shape, ""


def _found(admin: AdminClient, form: TopicForm, at: TryTime, old: str) -> tuple[TopicShape, str]:
    """One that is there, and what of it is not as it was, where it is another one."""
    shape = await_topic(admin, form.name, TIMEOUT_S, at.left_s(SETTLE_S))
    other = "" if shape.topic_id == old else unlike(admin, shape, form)
    return shape, f"{form.name} was made by somebody else, and has {other}" if other else ""


def _is_like(admin: AdminClient, shape: TopicShape, form: TopicForm) -> bool:
    """Whether it is without records, and of this form."""
    return shape.partitions == form.partitions and not records_in(admin, shape)


def _deleted(
    effect: TakeStep, action: DeleteTopics, kept: list[str]
) -> tuple[str, dict[str, object], tuple[TopicUndo, ...]]:
    """Sentence, evidence, and the rows: of a rollback those of topics that we had made, else of topics that were there
    before.
    """
    gone = [name for name in action.topics if name not in kept]
    told = f"taken away: {names_of(gone)}" if gone else "nothing was to be taken away"
    told += f"; in use by others, and left alone: {names_of(kept)}" if kept else ""
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


def _is_another(admin: AdminClient, name: str, topic_id: str) -> bool:
    """Whether a topic of this name is there that has another id."""
    shape = describe(admin, [name], TIMEOUT_S)[name]
    return shape is not None and shape.topic_id != topic_id


def _made_again(effect: TakeStep, name: str, rows: Iterable[TopicUndo]) -> StepReported:
    """`rows`: of what went before that was seen."""
    if was_taken(effect, name):
        why = f"somebody else made {name} after it was taken away, and it is in use: {way_out(name, effect.workflow)}"
        return _changed(effect, why, rows)
    return _changed(effect, f"{name} was made again since the plan", rows)


def _changed(effect: TakeStep, why: object, rows: Iterable[TopicUndo] = ()) -> StepReported:
    return report(effect, Outcome.FAILED, str(why), code=Code.TOPIC_CHANGED.value, undo=tuple(rows))


def _told(why: str, notes: Iterable[str]) -> str:
    return "; ".join((why, *(note for note in notes if note)))
