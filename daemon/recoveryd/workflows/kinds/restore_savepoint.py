"""The plan of `restore_savepoint`: a unit begins with the state and the offsets of a cut, under its own application id or the
same.

Changelogs are filled before they may be compacted, so that what was copied can be verified, and get the configs that they
had only then.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused, nearest_name
from recoveryd.recovery.kept_topics import AS_WRITTEN
from recoveryd.units.model import Unit, UnitKind
from recoveryd.workflows.kinds.earlier import refuse_created_again, savepoint_of
from recoveryd.workflows.kinds.ending_steps import last_steps
from recoveryd.workflows.kinds.noting import (
    change_key,
    change_of,
    inside_log,
    refuse_grown,
    rows_of,
    with_new_topics_told,
    with_positions,
    with_start_as_before,
    without_commits,
)
from recoveryd.workflows.kinds.outputs import (
    Forms,
    findings_of_outputs,
    form_leases,
    forms_of,
    kept_ids,
    new_names,
    output_problem,
    output_steps,
    outputs_left_out,
    theirs,
    topic_changes,
)
from recoveryd.workflows.kinds.reset import outside_log, refuse_group, unit_of
from recoveryd.workflows.kinds.savepoint import copy_data
from recoveryd.workflows.machine.kind import Around, Knows, Planned, WorkflowKind
from recoveryd.workflows.machine.starting import started_again
from recoveryd.workflows.machine.undoing import rollback_steps
from recoveryd.workflows.model.actions import (
    Action,
    AwaitCaughtUp,
    AwaitEmpty,
    AwaitStarted,
    AwaitStopped,
    ChildRun,
    CreateTopics,
    DeleteTopics,
    RecreateTopics,
    RunChildren,
    SetConfigs,
    TakeSnapshot,
    TopicForm,
)
from recoveryd.workflows.model.colliding import refuse_collision
from recoveryd.workflows.model.cut import Cut, CutTopic
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.facts import Found, GroupWanted, TopicFound, WantedFacts
from recoveryd.workflows.model.hashing import hash_of
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.positions import (
    AtTopicOffsets,
    NewPosition,
    OnNoRecord,
    OnOutOfRange,
    PartitionLook,
    PositionRefused,
    resolve,
)
from recoveryd.workflows.model.size import refuse_copy, refuse_sizes
from recoveryd.workflows.model.spec import OutputPolicy, RestoreSpec, SavepointSpec
from recoveryd.workflows.model.step_names import CATCH_UP, COPY, CREATE, DELETE, EMPTY, NOTE, RECREATE, STOP
from recoveryd.workflows.model.workflow import (
    Change,
    ConfigUndo,
    TopicUndo,
    Undo,
    UndoState,
    Workflow,
    WorkflowPlan,
    WorkflowStep,
)

RECREATE_STATE, CREATE_STATE, SETTLE = "recreate_state_topics", "create_state_topics", "settle_state_topics"


def _complete(spec: RestoreSpec, knows: Knows) -> RestoreSpec | Refused:
    saved = savepoint_of(spec.savepoint, knows.workflows)
    if saved is None or saved.cut is None:
        names = frozenset(w.spec.name for w in knows.workflows if isinstance(w.spec, SavepointSpec))
        hint = nearest_name(spec.savepoint, names) if names else "there is no savepoint yet"
        return Refused(Code.NO_SUCH_SAVEPOINT, f"savepoint: there is none of the name {spec.savepoint!r}", hint)
    unit = unit_of(spec.unit, knows.params)
    if isinstance(unit, Refused):
        return unit
    problem = outputs_left_out(spec.outputs, unit) or _problem_of_unit(unit, saved.cut)
    return problem or replace(spec, cluster=unit.cluster, group=unit.consumer_group, cut=saved.cut, before=knows.before)


def _problem_of_unit(unit: Unit, cut: Cut) -> Refused | None:
    if unit.cluster != cut.cluster:
        message = f"{unit.name} is on {unit.cluster}, and the savepoint on {cut.cluster}"
        return Refused(Code.INVALID_VALUE, message, "Restore it on its own cluster.")
    left = sorted({*unit.inputs, *unit.intermediate} - set(cut.offsets))
    if left:
        message = f"the savepoint has no offsets of {left[0]}, which {unit.name} reads"
        return Refused(Code.INVALID_VALUE, message, "Let the unit read what the one of the savepoint read.")
    foreign = next((t.name for t in cut.topics if not t.name.startswith(f"{cut.group}-")), None)
    if foreign is not None and unit.consumer_group != cut.group:
        message = f"{foreign} is not named after {cut.group}, so it is not known what {unit.name} calls it"
        return Refused(Code.AMBIGUOUS_TOPICS, message, f"Restore it for {cut.unit}.")
    return None


def _name_now(spec: RestoreSpec, cut: Cut, topic: CutTopic) -> str:
    start = f"{cut.group}-"
    return f"{spec.group}-{topic.name.removeprefix(start)}" if topic.name.startswith(start) else topic.name


def _cut_of(spec: RestoreSpec) -> Cut:
    assert spec.cut is not None
    return spec.cut


def _wanted(spec: RestoreSpec, params: WorkflowParams) -> WantedFacts:
    unit, cut = params.units[spec.unit], _cut_of(spec)
    named = (*(_name_now(spec, cut, topic) for topic in cut.topics), *spec.outputs, *new_names(spec))
    copies = (topic.copy for topic in cut.topics if topic.offsets)
    return WantedFacts(
        groups=(
            GroupWanted(spec.cluster, spec.group, _to(cut), dict.fromkeys((*unit.inputs, *unit.intermediate), ())),
        ),
        units=(unit.name,),
        topics=tuple((spec.cluster, name) for name in dict.fromkeys((*named, *copies))),
        names_on=spec.cluster,
    )


def _to(cut: Cut) -> AtTopicOffsets:
    return AtTopicOffsets(
        {topic: {p: at for p, at in offsets.items() if at is not None} for topic, offsets in cut.offsets.items()}
    )


def _plan(spec: RestoreSpec, found: Found, params: WorkflowParams) -> Planned | Refused:
    unit, cut = params.units[spec.unit], _cut_of(spec)
    changed = outputs_left_out(spec.outputs, unit) or _problem_of_unit(unit, cut)
    problem = changed or _problem(spec, unit, cut, found)  # the unit may be another one since the command was taken
    if problem is not None:
        return problem
    try:
        looked = [(resolve(_to(cut), look, OnOutOfRange.FAIL, OnNoRecord.FAIL), look) for look in found.groups[0].looks]
    except PositionRefused as refused:
        return outside_log(refused)
    # Where nothing was committed at the cut, nothing is afterwards: a commit since would leave out what lies before it.
    positions = [(p, look) for p, look in looked if p.offset is not None or look.committed is not None]
    between = [
        _between(spec, cut, topic, p) for topic in cut.topics if topic.is_between for p in range(topic.form.partitions)
    ]
    positions += between
    state = _state_forms(spec, cut, found)
    forms = forms_of(spec, found)
    gone = _not_in_cut(spec, cut, found)
    plan = WorkflowPlan(
        hash=hash_of(
            {
                "unit": (spec.unit, spec.cluster, spec.group, spec.savepoint, cut.at_ms),
                "topics": {name: None if topic is None else topic.id for name, topic in found.topics.items()},
                "inputs": found.groups[0].topic_ids,
                "outputs": {name: (choice.policy.value, choice.name) for name, choice in spec.outputs.items()},
            }
        ),
        changes=(
            *topic_changes(_as_outputs(state), gone),
            *topic_changes(forms, {}),
            *(change_of(p, look) for p, look in positions),
        ),
        findings=tuple(_findings(spec, unit, cut, found)),
        ambiguous_topics=tuple(name for name, _ in found.units[spec.unit].internal.ambiguous),
    )
    told = f"{len(cut.topics)} internal topics of {spec.group} are to be filled, {len(positions)} offsets set or taken away"
    rows: tuple[Undo, ...] = (*_still_rows(spec, cut), *theirs(spec.cluster, found, forms))
    steps = tuple(_steps(spec, unit, found, state, forms, gone))
    copies = tuple(topic.copy for topic in cut.topics if topic.offsets)
    return Planned(plan, steps, told, rows, leases=form_leases(spec, found), reads=copies)


def _as_outputs(state: Forms) -> Forms:
    return {RECREATE: state[RECREATE_STATE], CREATE: state[CREATE_STATE]}


def _between(spec: RestoreSpec, cut: Cut, topic: CutTopic, partition: int) -> tuple[NewPosition, PartitionLook]:
    """What was written and not read yet is all that lies there."""
    name = _name_now(spec, cut, topic)
    return NewPosition(name, partition, 0), PartitionLook(name, partition, 0, 0)


def _problem(spec: RestoreSpec, unit: Unit, cut: Cut, found: Found) -> Refused | None:
    (group,) = found.groups
    if group.missing:
        return Refused(Code.SOURCE_TOPIC_MISSING, f"topics do not exist: {', '.join(group.missing)}")
    between = (_between(spec, cut, t, p)[1] for t in cut.topics if t.is_between for p in range(t.form.partitions))
    noted = replace(group, looks=(*group.looks, *between))
    refused = (
        refuse_created_again(cut.topic_ids, group.topic_ids, "the savepoint noted its offsets")
        or refuse_group(spec.group, group.group)
        or refuse_sizes([(spec.group, noted)], sum(topic.form.partitions for topic in cut.topics))
        or _grown(spec, unit, cut, Counter(look.topic for look in group.looks))
    )
    if refused is not None:
        return refused
    for topic in cut.topics:
        if topic.offsets and (lost := _lost_copy(spec, topic, found.topics.get(topic.copy))) is not None:
            return lost
        name = _name_now(spec, cut, topic)
        if (uncopied := refuse_copy(name, topic.copy_ends)) is not None:
            return uncopied
        there = found.topics.get(name)
        if there is not None and there.records_most and spec.group != cut.group:
            message = f"{name} has records: {unit.name} has state of its own already"
            return Refused(Code.TARGET_NOT_EMPTY, message, "Delete its internal topics, or choose another unit.")
    problems = (output_problem(spec, unit, name, found) for name in spec.outputs)
    problem = next((problem for problem in problems if problem is not None), None)
    return problem or refuse_collision(
        (*(_name_now(spec, cut, topic) for topic in cut.topics), *new_names(spec)), found.names
    )


def _grown(spec: RestoreSpec, unit: Unit, cut: Cut, partitions: Mapping[str, int]) -> Refused | None:
    """Whether an input got partitions since the cut: Streams does not start where a changelog has fewer than there are tasks."""
    for topic, offsets in cut.offsets.items() if cut.topics else ():
        now = partitions.get(topic, 0)
        if now > len(offsets) and _has_state_of(unit, topic):
            message = (
                f"{topic} has {now} partitions, and had {len(offsets)} when {spec.savepoint} was made: its state topics have too "
                "few for it"
            )
            hint = "Begin with empty state: `reprocess`. If no state depends on the topic, give the unit its topology."
            return Refused(Code.TARGET_PARTITIONS, message, hint)
    return None


def _has_state_of(unit: Unit, topic: str) -> bool:
    """Whether state is kept by partition of this topic, or may be: without the topology nobody can tell."""
    if unit.kind is not UnitKind.STREAMS:
        return False
    parts = None if unit.topology is None else unit.topology.parts
    return parts is None or any(topic in part.read and part.stores and not part.is_global for part in parts)


def _lost_copy(spec: RestoreSpec, topic: CutTopic, there: TopicFound | None) -> Refused | None:
    """Whether the topic of this name is not, or not whole, the one that was filled with the state."""
    hint = "Take another savepoint."
    if there is None:
        message = f"{topic.copy} is gone, which held the state of {spec.savepoint}"
        return Refused(Code.SOURCE_TOPIC_MISSING, message, hint)
    if topic.copy_id and there.id != topic.copy_id:
        message = f"{topic.copy} was created again, and does not hold the state of {spec.savepoint}"
        return Refused(Code.TOPIC_RECREATED, message, hint)
    ends = topic.copy_ends
    cut_off = next(
        (p for p, log in sorted(there.ends.items()) if log.log_start > 0 or log.high_watermark < ends.get(p, 0)), None
    )
    if cut_off is not None:
        message = f"records of {topic.copy} {cut_off} are gone, which were a part of the state of {spec.savepoint}"
        return Refused(Code.OFFSET_OUTSIDE_LOG, message, hint)
    return _compacted_copy(spec, topic, there)


def _compacted_copy(spec: RestoreSpec, topic: CutTopic, there: TopicFound) -> Refused | None:
    policy = topic.removing_policy(there.form.configs)
    if policy is None:
        return None
    message = f"{topic.copy} has the cleanup.policy {policy}: compaction may have removed a part of the state of {spec.savepoint}"
    return Refused(Code.OFFSET_OUTSIDE_LOG, message, "Take another savepoint, and leave its copies at delete.")


def _later(topic: CutTopic, there: TopicFound | None) -> int:
    """At most so many records came to the copy after it was verified; 0 of a cut that does not say where it ended."""
    if there is None or not topic.copy_ends:
        return 0
    return sum(log.high_watermark - topic.copy_ends.get(p, 0) for p, log in there.ends.items())


def _findings(spec: RestoreSpec, unit: Unit, cut: Cut, found: Found) -> Iterator[str]:
    if not cut.is_exact:
        yield cut.why
    for topic in cut.topics:
        if later := _later(topic, found.topics.get(topic.copy)):
            yield f"{topic.copy} has up to {later:,} records that are not of the savepoint, but came later: they are left out"
    stores = unit.topology.stores if unit.topology is not None else frozenset()
    known = {_name_now(spec, cut, topic) for topic in cut.topics}
    for store in sorted(stores):
        if f"{spec.group}-{store}-changelog" not in known:
            yield f"the savepoint has no state of the store {store}, which begins empty"
    bare = sum(at is None for offsets in cut.offsets.values() for at in offsets.values())
    if bare:
        yield f"{bare} partitions had no commit when the cut was made: {unit.name} begins there by its auto.offset.reset"
    new = [str(look) for look in found.groups[0].looks if look.partition not in cut.offsets.get(look.topic, {})]
    if new:
        yield f"{new[0]} and {len(new) - 1} more came since the cut: {unit.name} begins there by its auto.offset.reset"
    for look in found.groups[0].looks:
        more = look.high_watermark - cut.ends.get(look.topic, {}).get(look.partition, look.high_watermark)
        if look.topic in unit.intermediate and more > 0:
            yield f"{more:,} records were written to {look} since the cut, and are read beside those that {unit.name} writes"
    yield from findings_of_outputs(spec, unit, found)


def _not_in_cut(spec: RestoreSpec, cut: Cut, found: Found) -> dict[str, str]:
    """Internal topics that the unit has now and had not then, by name, with their ids."""
    known = {_name_now(spec, cut, topic) for topic in cut.topics}
    facts = found.units[spec.unit]
    names = (name for name in facts.internal.certain if name not in known)
    return {name: topic.id for name in names if (topic := facts.topics.get(name)) is not None}


def _state_forms(spec: RestoreSpec, cut: Cut, found: Found) -> Forms:
    again: list[tuple[str | None, TopicForm]] = []
    new: list[tuple[str | None, TopicForm]] = []
    for topic in cut.topics:
        form = replace(topic.form, name=_name_now(spec, cut, topic), configs={**topic.form.configs, **AS_WRITTEN})
        there = found.topics.get(form.name)
        (new if there is None else again).append((None if there is None else there.id, form))
    return {RECREATE_STATE: again, CREATE_STATE: new}


def _partitions(spec: RestoreSpec, found: Found) -> dict[str, int]:
    """How many the plan saw, of topics that are read, and of outputs that are made again or like which others are made."""
    like = (n for n, choice in spec.outputs.items() if choice.policy in {OutputPolicy.RECREATE, OutputPolicy.NEW})
    made = {name: topic.form.partitions for name in like if (topic := found.topics[name]) is not None}
    return {**Counter(look.topic for look in found.groups[0].looks), **made}


def _steps(
    spec: RestoreSpec, unit: Unit, found: Found, state: Forms, forms: Forms, gone: Mapping[str, str]
) -> Iterator[WorkflowStep]:
    cluster, group, cut = spec.cluster, spec.group, _cut_of(spec)
    ids, planned = found.groups[0].topic_ids, _partitions(spec, found)
    internal = tuple(_name_now(spec, cut, topic) for topic in cut.topics)
    between = tuple(_name_now(spec, cut, topic) for topic in cut.topics if topic.is_between)
    yield WorkflowStep(STOP, AwaitStopped(cluster, group, unit.name))
    yield WorkflowStep(EMPTY, AwaitEmpty(cluster, group))
    read = (*unit.inputs, *unit.intermediate, *between)
    others = tuple(name for name in planned if name not in read)
    note = TakeSnapshot(cluster, group, read, others, topic_ids=ids, partitions=planned, unit=unit.name)
    yield WorkflowStep(NOTE, note)
    if gone:
        yield WorkflowStep(DELETE, DeleteTopics(cluster, gone, group=group))
    if state[RECREATE_STATE]:
        old = {form.name: topic_id or "" for topic_id, form in state[RECREATE_STATE]}
        yield WorkflowStep(RECREATE_STATE, RecreateTopics(cluster, _bare(state[RECREATE_STATE]), old, group))
    if state[CREATE_STATE]:
        yield WorkflowStep(CREATE_STATE, CreateTopics(cluster, _bare(state[CREATE_STATE]), is_own=True))
    if cut.topics:
        yield WorkflowStep(COPY, RunChildren())
        yield WorkflowStep(SETTLE, SetConfigs(cluster, _settled(spec, cut)))
    yield from output_steps(spec, forms)
    for step in last_steps(spec, unit, internal, kept_ids(ids, state, forms)):
        action = step.action
        yield replace(step, action=replace(action, before=spec.before)) if isinstance(action, AwaitStarted) else step


def _bare(forms: Sequence[tuple[str | None, TopicForm]]) -> tuple[TopicForm, ...]:
    return tuple(form for _, form in forms)


def _settled(spec: RestoreSpec, cut: Cut) -> dict[str, dict[str, str | None]]:
    return {
        _name_now(spec, cut, topic): {name: topic.form.configs.get(name) for name in AS_WRITTEN} for topic in cut.topics
    }


def _still_rows(spec: RestoreSpec, cut: Cut) -> Iterator[ConfigUndo]:
    """Topics are made with configs of their copying: where that fails, they get their own all the same."""
    for topic, configs in _settled(spec, cut).items():
        for name, value in configs.items():
            if value != AS_WRITTEN[name]:
                yield ConfigUndo(topic, name, value, AS_WRITTEN[name], is_temporary=True, cluster=spec.cluster)


def _after_step(workflow: Workflow, step: WorkflowStep, event: StepReported) -> Workflow | Refused:
    spec = workflow.spec
    if not isinstance(spec, RestoreSpec) or workflow.plan is None:
        return workflow
    if step.name == SETTLE:
        return workflow.with_undo(replace(row, state=UndoState.DONE) for row in workflow.temporary)
    if isinstance(step.action, AwaitStopped):
        return with_start_as_before(workflow, event)
    if isinstance(step.action, RecreateTopics):
        return without_commits(workflow.with_undo(event.undo), {form.name for form in step.action.topics})
    if step.name != NOTE or not isinstance(step.action, TakeSnapshot):
        return workflow.with_undo(event.undo)
    return refuse_grown(step.action.partitions, event) or _noted(workflow, spec, event)


def _judge(workflow: Workflow, _step: WorkflowStep, event: StepReported, _around: Around) -> StepReported:
    """A store that it made since the plan would stay as it is, ahead of the offsets of the cut."""
    spec = workflow.spec
    assert isinstance(spec, RestoreSpec)
    cut = _cut_of(spec)
    return with_new_topics_told(workflow, event, (_name_now(spec, cut, topic) for topic in cut.topics))


def _noted(workflow: Workflow, spec: RestoreSpec, event: StepReported) -> Workflow | Refused:
    assert workflow.plan is not None
    cut = _cut_of(spec)
    workflow = _with_commits_since(workflow, event)
    assert workflow.plan is not None
    after = _whole({change_key(c): c.after for c in workflow.plan.changes if c.what == "offset"})
    try:
        inside_log(after, event, but=[_name_now(spec, cut, topic) for topic in cut.topics])
    except PositionRefused as refused:
        return outside_log(refused)
    awaited = next(s.action for s in workflow.steps if isinstance(s.action, AwaitCaughtUp))
    ends = {t: {p: log.high_watermark for p, log in event.logs[t].items()} for t in awaited.ends}
    pinned: dict[str, Action] = {
        COPY: RunChildren(tuple(_runs(workflow, spec, cut))),
        CATCH_UP: AwaitCaughtUp(spec.cluster, spec.group, ends),
    }
    steps = tuple(replace(s, action=pinned[s.name]) if s.name in pinned else s for s in workflow.steps)
    return with_positions(replace(workflow, steps=steps), event, spec.group, after)


def _with_commits_since(workflow: Workflow, event: StepReported) -> Workflow:
    """With those that the group made since the plan, where there was none, to be taken away as well."""
    assert workflow.plan is not None
    planned = {change_key(c) for c in workflow.plan.changes if c.what == "offset"}
    new = (row for place, row in rows_of(event).items() if place not in planned and row.to is not None)
    changes = (*workflow.plan.changes, *(Change("offset", row.name, row.partition, row.to, None) for row in new))
    return replace(workflow, plan=replace(workflow.plan, changes=changes))


def _whole(after: Mapping[tuple[str, int], object]) -> dict[tuple[str, int], int | None]:
    return {place: at if isinstance(at, int) else None for place, at in after.items()}


def _runs(workflow: Workflow, spec: RestoreSpec, cut: Cut) -> Iterator[ChildRun]:
    for number, topic in enumerate(cut.topics):
        if topic.offsets and (not topic.copy_ends or any(topic.copy_ends.values())):
            yield ChildRun(f"{workflow.id}-{number}", "replay", _copy_back(spec, cut, topic))


def _copy_back(spec: RestoreSpec, cut: Cut, topic: CutTopic) -> dict[str, Any]:
    """The data of a replay of what is of the cut. Of one that does not say where its copies ended it is all of them."""
    name, ends = _name_now(spec, cut, topic), topic.copy_ends
    if ends:
        return copy_data(spec.cluster, topic.copy, name, dict.fromkeys(ends, 0), ends)
    return {
        "source": {"cluster": spec.cluster, "topic": topic.copy, "from": "earliest", "to": "latest"},
        "target": {"cluster": spec.cluster, "topic": name},
    }


def _undo(workflow: Workflow) -> tuple[WorkflowStep, ...]:
    """State topics that it made and filled go as well, once nobody uses them. One that went is for the application to make."""
    spec = workflow.spec
    assert isinstance(spec, RestoreSpec)
    names = {_name_now(spec, _cut_of(spec), topic) for topic in _cut_of(spec).topics}
    made = {
        row.name: row.was_set
        for row in workflow.undo
        if isinstance(row, TopicUndo) and row.name in names and row.to is None and row.was_set
        if row.state is UndoState.OPEN
    }
    gone = {row.name for row in workflow.undo if isinstance(row, TopicUndo) and row.name in names and row.is_gone}
    others = replace(workflow, undo=tuple(row for row in workflow.undo if row.name not in made.keys() | gone))
    steps = rollback_steps(others)
    if not made:
        return steps
    action = DeleteTopics(spec.cluster, made, is_back=True, group=spec.group, with_records=True)
    return (*steps, WorkflowStep("delete_state_topics", action))


def _claims(spec: RestoreSpec) -> frozenset[str]:
    topics = (f"the topic {name} on {spec.cluster}" for name in (*spec.outputs, *new_names(spec)))
    return frozenset([f"the group {spec.group} on {spec.cluster}", f"the savepoint {spec.savepoint}", *topics])


RESTORE_SAVEPOINT = WorkflowKind(
    spec=RestoreSpec,
    complete=_complete,
    wanted=_wanted,
    plan=_plan,
    claims=_claims,
    topics=lambda spec: (*spec.outputs, *new_names(spec)),
    after_step=_after_step,
    undo=lambda workflow: started_again(workflow, _undo(workflow)),
    judge=_judge,
    ends=lambda _spec: "-9999",
)
