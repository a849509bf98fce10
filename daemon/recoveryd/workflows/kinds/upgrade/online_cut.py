"""Where the two versions of an upgrade beside each other were stopped, what lies between, and what follows from it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.units.compatibility import VersionVerdict
from recoveryd.workflows.kinds.copies import copy_data
from recoveryd.workflows.kinds.noting import Place
from recoveryd.workflows.kinds.upgrade.draining import not_drained, places_of, went_on
from recoveryd.workflows.kinds.upgrade.names import (
    COMPARE,
    COPY_TAIL,
    CREATE_TAIL,
    DELETE_TAIL,
    EMPTY_TAIL,
    LOOK_BESIDE,
    LOOK_TAIL,
    NOBODY_AFTER,
    NOTE_BESIDE,
    NOTE_TAIL,
    OLD_THERE,
    READ_TAIL,
    TAIL,
)
from recoveryd.workflows.kinds.upgrade.online_back import with_end_told, with_read, with_state_noted
from recoveryd.workflows.kinds.upgrade.versions import unfixed
from recoveryd.workflows.model.actions import (
    Action,
    AwaitCaughtUp,
    ChildRun,
    CreateTopics,
    DeleteTopics,
    RunChildren,
    TakeSnapshot,
    TopicForm,
)
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.spec import Cutover, UpgradeSpec
from recoveryd.workflows.model.step_names import CATCH_UP, NOTE
from recoveryd.workflows.model.workflow import OffsetUndo, TopicUndo, VersionChange, Workflow, WorkflowStep

ENDS_OF_TAIL: Final = "-tail-9999"  # the longest that ids of what it begins have behind its own


def after_step_online(
    workflow: Workflow, spec: UpgradeSpec, step: WorkflowStep, event: StepReported
) -> Workflow | Refused:
    after = _AFTER.get(step.name)
    return workflow.with_undo(event.undo) if after is None else after(workflow, spec, event)


def _tail_made(workflow: Workflow, spec: UpgradeSpec, event: StepReported) -> Workflow:
    made = {row.name: row.was_set for row in event.undo if isinstance(row, TopicUndo) and row.was_set}
    delete = DeleteTopics(spec.cluster, made, is_ours=True, group=spec.to_group, with_records=True)
    return _pinned(workflow, {DELETE_TAIL: delete}).with_undo(event.undo)


def _looked_beside(workflow: Workflow, _spec: UpgradeSpec, event: StepReported) -> Workflow:
    """What the new version made for itself grows while it reads a tail."""
    note = next((step.action for step in workflow.steps if step.name == NOTE_TAIL), None)
    if not isinstance(note, TakeSnapshot):
        return workflow
    made = event.evidence.get("internal")
    return _pinned(workflow, {NOTE_TAIL: replace(note, end_topics=tuple(made) if isinstance(made, list) else ())})


def _tail_noted(workflow: Workflow, spec: UpgradeSpec, event: StepReported) -> Workflow:
    """The new version is to read a tail from its start, whatever its `auto.offset.reset` says."""
    rows = [row for row in event.undo if isinstance(row, OffsetUndo)]
    tails = {row.name for row in rows}
    ends = {topic: found for topic, found in _ends(event).items() if topic in tails}
    starts = (replace(row, was_set=event.logs[row.name][row.partition].log_start) for row in rows)
    noted = with_state_noted(workflow, event)
    return _pinned(noted, {READ_TAIL: AwaitCaughtUp(spec.cluster, spec.to_group, ends)}).with_undo(starts)


def _compared(workflow: Workflow, spec: UpgradeSpec, event: StepReported) -> Workflow | Refused:
    return went_on(workflow, spec.group, event) or workflow


def _beside_noted(workflow: Workflow, spec: UpgradeSpec, event: StepReported) -> Workflow | Refused:
    """Where the new version was stopped, which the old one has to pass before it is."""
    assert spec.staged_unit is not None
    problem = not_drained(spec.staged_unit, spec.to_group, event) or _nowhere(spec.to_group, event, {})
    problem = problem or _beyond_tails(workflow, event)
    if problem is not None:
        return problem
    ends: dict[str, dict[int, int]] = {}
    for (topic, partition), at in places_of(event).items():
        ends.setdefault(topic, {})[partition] = event.logs[topic][partition].log_start if at is None else at
    there = AwaitCaughtUp(spec.cluster, spec.group, ends)
    return _pinned(workflow, {OLD_THERE: there}).with_undo(event.undo)


def _nowhere(group: str, event: StepReported, empty: Mapping[Place, int]) -> Refused | None:
    """A group without a commit where records lie stands nobody knows where, unless they came to what was seen
    `empty`.
    """
    for (topic, partition), at in places_of(event).items():
        log = event.logs.get(topic, {}).get(partition)
        is_known = at is not None or (topic, partition) in empty
        if not is_known and log is not None and log.records_most:
            message = (
                f"{group} has no commit on {topic} {partition}, where records lie: it is not known where it stands"
            )
            return Refused(Code.NOT_CAUGHT_UP, message)
    return None


def _beyond_tails(workflow: Workflow, event: StepReported) -> Refused | None:
    """A partition that was added since the plan has none in the topic of its tail, and state is kept by partition."""
    for topic, form in _tails(workflow):
        count = len(event.logs.get(topic, {}))
        if count > form.partitions:
            message = (
                f"{topic} has {count} partitions, and had {form.partitions} when the plan was made: {form.name} would not "
                "hold all that lies between the two stops"
            )
            return Refused(Code.STALE_PLAN, message)
    return None


def _cut(workflow: Workflow, spec: UpgradeSpec, event: StepReported) -> Workflow | Refused:
    """Where the old version stood. The new one is not beyond it, apart from markers, behind which no record lay."""
    found = places_of(event)
    stood = {(row.name, row.partition): row.to for row in _rows_of(workflow, spec.to_group)}
    starts = _starts(workflow, found, event)
    empty = {place: starts[place] for place, at in stood.items() if at is None and place in starts}
    problem = not_drained(spec.unit, spec.group, event) or _nowhere(spec.group, event, empty)
    problem = problem or _beyond_tails(workflow, event)
    if problem is not None:
        return problem
    assert workflow.plan is not None
    cut = {place: _later(at, stood.get(place), starts[place]) for place, at in found.items()}
    added = [OffsetUndo(topic, p, None, group=spec.to_group) for topic, p in cut if (topic, p) not in stood]
    left = sum(at - starts[place] for place, at in cut.items())
    topics = dict.fromkeys(topic for topic, _ in cut)
    version = VersionChange(VersionVerdict.COMPATIBLE, (), *unfixed(spec, topics, cut, event.logs, workflow.id))
    told = _told_between(spec, left)
    plan = replace(workflow.plan, version=version, findings=(*workflow.plan.findings, *told))
    ends = {topic: found for topic, found in _ends(event).items() if topic in topics}
    awaited = next(step.action for step in workflow.steps if step.name == CATCH_UP)
    assert isinstance(awaited, AwaitCaughtUp)
    pins: dict[str, Action] = {CATCH_UP: replace(awaited, ends=ends)}
    steps = workflow.steps
    if left:
        pins[COPY_TAIL] = RunChildren(tuple(_copies(workflow, spec, starts, cut)))
    else:
        steps = tuple(step for step in steps if step.name not in TAIL)
    pinned = _pinned(replace(workflow, plan=plan, steps=steps), pins).with_undo((*event.undo, *added))
    has_tail = any(step.name in TAIL for step in steps)
    return pinned if has_tail else _with_cut(pinned, spec, event)


def _starts(workflow: Workflow, places: Iterable[Place], event: StepReported) -> dict[Place, int]:
    """Where the new version was stopped; at the log's start where it had nothing to commit, or the partition was added
    since.
    """
    there = next(s.action for s in workflow.steps if s.name == OLD_THERE)
    assert isinstance(there, AwaitCaughtUp)
    known = {(topic, p): at for topic, ends in there.ends.items() for p, at in ends.items()}
    return {place: known[place] if place in known else event.logs[place[0]][place[1]].log_start for place in places}


def _rows_of(workflow: Workflow, group: str) -> list[OffsetUndo]:
    return [row for row in workflow.undo if isinstance(row, OffsetUndo) and row.group == group]


def _with_cut(workflow: Workflow, spec: UpgradeSpec, event: StepReported) -> Workflow:
    """The new version is to go on at the cut, or `at_least_once` where it was stopped, also where it had nothing to
    commit yet. Not before it has read the tail: until then its state is not at the cut.
    """
    assert workflow.plan is not None
    assert workflow.plan.version is not None
    cut = workflow.plan.version.unfixed_range
    mine = [row for row in _rows_of(workflow, spec.to_group) if row.name in cut]
    goals = {(row.name, row.partition): cut[row.name][row.partition][1] for row in mine}
    if spec.cutover is not Cutover.EXACT:
        goals = _starts(workflow, goals, event)
    others = tuple(r for r in workflow.undo if not (isinstance(r, OffsetUndo) and r.group == spec.to_group))
    set_now = (replace(row, was_set=goals[row.name, row.partition]) for row in mine)
    return replace(workflow, undo=others).with_undo(set_now)  # without those of tails, which go with their topics


def _later(at: int | None, other: int | None, start: int) -> int:
    """Where nobody committed, no record lay when the new version was stopped: both begin at `start`."""
    known = [offset for offset in (at, other) if offset is not None]
    return max(known) if known else start


def _told_between(spec: UpgradeSpec, left: int) -> tuple[str, ...]:
    if not left:
        return (f"{spec.staged_unit} and {spec.unit} were stopped at the same offsets",)
    if spec.cutover is Cutover.AT_LEAST_ONCE:
        return (f"{left:,} offsets between the two stops come out of both versions",)
    return (f"{left:,} offsets lie between the two stops",)


def _copies(
    workflow: Workflow, spec: UpgradeSpec, starts: Mapping[Place, int], cut: Mapping[Place, int]
) -> Iterator[ChildRun]:
    for number, (topic, form) in enumerate(_tails(workflow)):
        begin = {p: at for (name, p), at in starts.items() if name == topic}
        end = {p: at for (name, p), at in cut.items() if name == topic}
        if any(end[p] > begin[p] for p in end):
            data: dict[str, Any] = copy_data(spec.cluster, topic, form.name, begin, end)
            yield ChildRun(f"{workflow.id}-tail-{number}", "replay", data)


def _tails(workflow: Workflow) -> Iterator[tuple[str, TopicForm]]:
    """By input, the topic of its tail; nothing where there are none."""
    create = next((s.action for s in workflow.steps if s.name == CREATE_TAIL), None)
    forms = create.topics if isinstance(create, CreateTopics) else ()
    compared = next(s.action for s in workflow.steps if s.name == COMPARE)
    inputs = compared.topics if isinstance(compared, TakeSnapshot) else ()
    return zip(inputs, forms, strict=bool(forms))


def _ends(event: StepReported) -> dict[str, dict[int, int]]:
    return {topic: {p: log.high_watermark for p, log in logs.items()} for topic, logs in event.logs.items()}


def _pinned(workflow: Workflow, actions: Mapping[str, Action]) -> Workflow:
    """Steps that follow, now that it is known what they are about."""
    steps = tuple(replace(s, action=actions[s.name]) if s.name in actions else s for s in workflow.steps)
    return replace(workflow, steps=steps)


_AFTER: Final[Mapping[str, Callable[[Workflow, UpgradeSpec, StepReported], Workflow | Refused]]] = {
    LOOK_BESIDE: _looked_beside,
    NOTE_BESIDE: _beside_noted,
    NOTE: _cut,
    CREATE_TAIL: _tail_made,
    NOTE_TAIL: _tail_noted,
    EMPTY_TAIL: _with_cut,
    COMPARE: _compared,
    LOOK_TAIL: with_read,
    NOBODY_AFTER: with_end_told,
}
