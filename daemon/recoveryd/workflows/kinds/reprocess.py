"""The plan of `reprocess`: an application begins again, from the start of its inputs or from a point, with empty state.

The order is what makes it safe. The application is stopped, its group is empty, and where it was is noted before
anything goes. Then internal topics and outputs go, then offsets are set and read back, and only then somebody is asked
to start it: whoever starts it earlier finds the old offsets, never half of the new ones.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused, nearest_name
from recoveryd.recovery.spec import Latest
from recoveryd.units.facts import PartitionEnds, UnitFacts
from recoveryd.units.model import Unit
from recoveryd.workflows.kinds.contracts import contracts_of, told_of_contracts
from recoveryd.workflows.kinds.earlier import looked_up
from recoveryd.workflows.kinds.ending_steps import last_steps
from recoveryd.workflows.kinds.global_tables import refuse_table
from recoveryd.workflows.kinds.noting import (
    LEAVES_SOME,
    Place,
    change_key,
    change_of,
    commits_since,
    inside_log,
    moved_with,
    planned_partitions,
    refuse_grown,
    rows_of,
    with_commits_since,
    with_left_to_lack,
    with_new_topics_told,
    with_positions,
    with_start_as_before,
    without_commits,
)
from recoveryd.workflows.kinds.outputs import (
    Forms,
    form_leases,
    forms_of,
    kept_ids,
    new_names,
    output_steps,
    outputs_left_out,
    theirs,
    topic_changes,
)
from recoveryd.workflows.kinds.reprocess_checks import find_problem, findings_of, missing_in
from recoveryd.workflows.kinds.reset import outside_log, unit_of
from recoveryd.workflows.kinds.state import REPROCESSED
from recoveryd.workflows.machine.kind import Around, Knows, Planned, WorkflowKind
from recoveryd.workflows.machine.leases import lease_keys, lease_rows, lease_step, nothing_goes
from recoveryd.workflows.machine.starting import started_again
from recoveryd.workflows.machine.undoing import rollback_steps
from recoveryd.workflows.model.actions import (
    AwaitCaughtUp,
    AwaitEmpty,
    AwaitStopped,
    CreateTopics,
    DeleteTopics,
    RecreateTopics,
    TakeSnapshot,
)
from recoveryd.workflows.model.colliding import refuse_collision
from recoveryd.workflows.model.commands import Reprocess
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.facts import Found, GroupWanted, TopicFound, WantedFacts
from recoveryd.workflows.model.hashing import hash_of
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.positions import (
    AtTopicOffsets,
    NewPosition,
    PartitionLook,
    PositionRefused,
    Shift,
    meaning,
    moving_notes,
    resolve,
)
from recoveryd.workflows.model.spec import IntermediatePolicy, OutputPolicy, ReprocessSpec
from recoveryd.workflows.model.step_names import CATCH_UP, CREATE, DELETE, EMPTY, NOTE, RECREATE, STOP
from recoveryd.workflows.model.workflow import (
    Change,
    ConfigUndo,
    OffsetUndo,
    RowKey,
    Workflow,
    WorkflowPlan,
    WorkflowStep,
)
from recoveryd.workflows.wire.reprocess import REPROCESS_FORM

KEEP = "keep_inputs"


def _complete(spec: ReprocessSpec, knows: Knows) -> ReprocessSpec | Refused:
    unit = unit_of(spec.unit, knows.params)
    if isinstance(unit, Refused):
        return unit
    problem = (
        refuse_kind(unit)
        or outputs_left_out(spec.outputs, unit)
        or _strange_names(spec, unit)
        or _strange_offsets(spec, unit)
    )
    if problem is not None:
        return problem
    to = looked_up(spec.to, unit.cluster, unit.consumer_group, knows.workflows)
    if isinstance(to, Refused):
        return to
    between = {name: spec.intermediate.get(name, IntermediatePolicy.SEEK_TO_END) for name in unit.intermediate}
    return replace(spec, to=to, cluster=unit.cluster, group=unit.consumer_group, intermediate=between)


def refuse_kind(unit: Unit) -> Refused | None:
    if unit.kind in REPROCESSED or (unit.connector and unit.inputs):
        return None
    message = f"{unit.name} is of kind {unit.kind.value}, whose state and outputs recoveryd cannot begin anew"
    return Refused(Code.GROUP_TYPE, message, "Set its offsets with `reset`.")


def _strange_names(spec: ReprocessSpec, unit: Unit) -> Refused | None:
    strange = sorted(set(spec.intermediate) - set(unit.intermediate))
    if not strange:
        return None
    hint = nearest_name(strange[0], frozenset(unit.intermediate)) if unit.intermediate else f"{unit.name} has none"
    return Refused(Code.INVALID_VALUE, f"intermediate: {strange[0]} is not one of {unit.name}", hint)


def _strange_offsets(spec: ReprocessSpec, unit: Unit) -> Refused | None:
    """Of those that the command gives itself: what was noted elsewhere may be of more topics."""
    named = spec.to.offsets if isinstance(spec.to, AtTopicOffsets) else {}
    strange = sorted(set(named) - set(unit.inputs))
    if not strange:
        return refuse_table("from", named, unit)
    hint = nearest_name(strange[0], frozenset(unit.inputs)) if unit.inputs else f"{unit.name} has none"
    return Refused(Code.INVALID_VALUE, f"from: {strange[0]} is not an input of {unit.name}", hint)


def _new_names(spec: ReprocessSpec, unit: Unit, found: Found) -> Refused | None:
    """What it reads now and did not when the command was taken, or when the cluster was asked."""
    asked = {name for group in found.groups for name in (*group.topic_ids, *group.missing)}
    new = sorted({*unit.intermediate} - set(spec.intermediate) | {*unit.positioned} - asked)
    if not new:
        return None
    message = f"{unit.name} reads {new[0]} now, and did not when the command was taken; nothing was changed"
    return Refused(Code.STALE_PLAN, message)


def _wanted(spec: ReprocessSpec, params: WorkflowParams) -> WantedFacts:
    unit = params.units[spec.unit]
    recreated = _made_anew(spec)
    kept = unit.inputs if spec.keep_inputs else ()
    names = dict.fromkeys([*spec.outputs, *new_names(spec), *recreated, *kept])
    return WantedFacts(
        groups=(
            GroupWanted(spec.cluster, spec.group, spec.to, dict.fromkeys(unit.positioned_inputs, ())),
            GroupWanted(spec.cluster, spec.group, Latest(), dict.fromkeys(unit.positioned_between, ())),
        ),
        units=(unit.name,),
        topics=tuple((spec.cluster, name) for name in names),
        counted=tuple((spec.cluster, t) for t, c in spec.outputs.items() if c.policy is OutputPolicy.APPEND),
        names_on=spec.cluster if new_names(spec) else "",
    )


def _plan(spec: ReprocessSpec, found: Found, params: WorkflowParams) -> Planned | Refused:
    unit, facts = params.units[spec.unit], found.units[spec.unit]
    changed = outputs_left_out(spec.outputs, unit) or _strange_names(spec, unit) or _new_names(spec, unit, found)
    if changed is not None:  # the unit may be another one since the command was taken
        return changed
    try:
        positions = _positions(spec, found)
    except PositionRefused as refused:
        return outside_log(refused)
    problem = find_problem(spec, unit, found, positions) or refuse_collision(new_names(spec), found.names)
    if problem is not None:
        return problem
    contracts = contracts_of(unit, found)
    if isinstance(contracts, Refused):
        return contracts
    again = _made_anew(spec)
    forms = forms_of(spec, found, again)
    internal = {name: topic.id for name in facts.internal.certain if (topic := facts.topics.get(name)) is not None}
    changes = (*topic_changes(forms, internal), *(change_of(p, look) for p, look in positions))
    rows = tuple(_kept_rows(spec, unit, found))
    plan = WorkflowPlan(
        hash=_hash(spec, found, internal, positions),
        changes=(*(Change("config", f"{r.name} {r.config}", None, r.to, r.was_set) for r in rows), *changes),
        findings=(
            *moving_notes(spec.to),
            *(p.note for p, _ in positions if p.note),
            *findings_of(spec, unit, found, positions),
            *told_of_contracts(contracts),
        ),
        ambiguous_topics=tuple(name for name, _ in facts.internal.ambiguous),
        contracts=contracts,
    )
    told = (
        f"{len(positions)} offsets of {spec.group} are to be set, {len(internal)} internal topics go, "
        f"{len(forms[RECREATE])} topics are made again, {len(forms[CREATE])} are new"
    )
    kept = (lease_step(KEEP, spec.cluster, rows),) if rows else ()
    ids = {name: topic_id for group in found.groups for name, topic_id in group.topic_ids.items()}
    steps = (*kept, *_steps(spec, unit, facts, forms, internal, ids))
    leases = frozenset().union(*_leases(spec, unit, found), form_leases(spec, found, again))
    return Planned(plan, steps, told, (*rows, *theirs(spec.cluster, found, forms)), leases=leases)


def _leases(spec: ReprocessSpec, unit: Unit, found: Found) -> Iterator[frozenset[RowKey]]:
    for name in unit.inputs if spec.keep_inputs else ():
        topic = found.topics[name]
        if topic is not None:
            yield lease_keys(spec.cluster, topic.form, nothing_goes(topic.form))


def _kept_rows(spec: ReprocessSpec, unit: Unit, found: Found) -> Iterator[ConfigUndo]:
    for name in unit.inputs if spec.keep_inputs else ():
        topic = found.topics[name]
        if topic is not None:
            yield from lease_rows(spec.cluster, topic.form, nothing_goes(topic.form))


def _positions(spec: ReprocessSpec, found: Found) -> list[tuple[NewPosition, PartitionLook]]:
    """With those where a commit is to go, because there was none when the others were noted: what the application read
    since would be in no state. Raises `PositionRefused`.
    """
    inputs, between = found.groups
    resolved = [(resolve(spec.to, look, spec.on_out_of_range, spec.on_no_record), look) for look in inputs.looks]
    resolved += [(_between(spec, look), look) for look in between.looks]
    return [(position, look) for position, look in resolved if position.offset is not None or _is_taken(spec, look)]


def _is_taken(spec: ReprocessSpec, look: PartitionLook) -> bool:
    is_bare = isinstance(spec.to, AtTopicOffsets) and spec.to.is_bare(look.topic, look.partition)
    return is_bare and look.committed is not None


def _between(spec: ReprocessSpec, look: PartitionLook) -> NewPosition:
    """One partition of an intermediate topic: what lies there came from records that are processed again."""
    is_empty_then = spec.intermediate[look.topic] is IntermediatePolicy.RECREATE
    return NewPosition(look.topic, look.partition, 0 if is_empty_then else look.high_watermark)


def _steps(
    spec: ReprocessSpec,
    unit: Unit,
    facts: UnitFacts,
    forms: Forms,
    internal: Mapping[str, str],
    ids: Mapping[str, str],
) -> Iterator[WorkflowStep]:
    cluster, group = spec.cluster, spec.group
    yield WorkflowStep(STOP, AwaitStopped(cluster, group, unit.name))
    yield WorkflowStep(EMPTY, AwaitEmpty(cluster, group))
    note = TakeSnapshot(cluster, group, unit.positioned, tuple(unit.outputs), topic_ids=ids, unit=unit.name)
    yield WorkflowStep(NOTE, replace(note, looks_twice=True))
    if internal:
        yield WorkflowStep(DELETE, DeleteTopics(cluster, internal, group=group))
    yield from output_steps(spec, forms)
    yield from last_steps(spec, unit, facts.internal.certain, kept_ids(ids, forms), internal)


def _after_step(workflow: Workflow, step: WorkflowStep, event: StepReported) -> Workflow | Refused:
    spec = workflow.spec
    if isinstance(step.action, AwaitStopped):
        return with_start_as_before(workflow, event)
    if isinstance(step.action, RecreateTopics):
        return without_commits(workflow.with_undo(event.undo), {form.name for form in step.action.topics})
    if step.name != NOTE or workflow.plan is None or not isinstance(spec, ReprocessSpec):
        return workflow.with_undo(event.undo)
    noted = rows_of(event)
    problem = refuse_grown(_partitions(workflow, spec), event) or _unnamed_since(workflow, spec, event)
    if isinstance(spec.to, AtTopicOffsets):
        workflow = with_commits_since(workflow, event)
    changes = () if workflow.plan is None else workflow.plan.changes
    after = {change_key(c): _after(spec, c, event, noted) for c in changes if c.what == "offset"}
    missing = _missing_now(spec, after, event)
    problem = problem or _lost_meanwhile(spec, missing)
    if problem is not None:
        return problem
    try:
        after = inside_log(after, event, spec.on_out_of_range, _made_anew(spec))
    except PositionRefused as refused:
        return outside_log(refused)
    ends = {t: {p: log.high_watermark for p, log in event.logs[t].items()} for t in _inputs(spec, after)}
    caught_up = next(s for s in workflow.steps if s.name == CATCH_UP)
    pinned = replace(caught_up, action=AwaitCaughtUp(spec.cluster, spec.group, ends))
    workflow = with_left_to_lack(workflow.with_step(pinned), spec.accept_missing - sum(missing.values()))
    return with_positions(workflow, event, spec.group, after)


def _judge(workflow: Workflow, _step: WorkflowStep, event: StepReported, _around: Around) -> StepReported:
    return with_new_topics_told(workflow, event)


def _partitions(workflow: Workflow, spec: ReprocessSpec) -> dict[str, int]:
    """How many the plan saw, of topics that are read whole, or made again, or like which others are made."""
    read = planned_partitions(workflow).items()
    whole = {t: n for t, n in read if t in spec.intermediate or not isinstance(spec.to, LEAVES_SOME)}
    like = {choice.name: name for name, choice in spec.outputs.items() if choice.name is not None}
    actions = [step.action for step in workflow.steps]
    made = [form for each in actions if isinstance(each, RecreateTopics | CreateTopics) for form in each.topics]
    return whole | {like.get(form.name, form.name): form.partitions for form in made}


def _after(spec: ReprocessSpec, change: Change, event: StepReported, noted: Mapping[Place, OffsetUndo]) -> int | None:
    policy = spec.intermediate.get(change.name)
    return (
        moved_with(spec.to if policy is None else Latest(), change, event, noted)
        if policy is not IntermediatePolicy.RECREATE
        else 0
    )


def _made_anew(spec: ReprocessSpec) -> list[str]:
    return [name for name, policy in spec.intermediate.items() if policy is IntermediatePolicy.RECREATE]


def _inputs(spec: ReprocessSpec, places: Mapping[Place, int | None]) -> list[str]:
    return list(dict.fromkeys(topic for topic, _ in places if topic not in spec.intermediate))


def _unnamed_since(workflow: Workflow, spec: ReprocessSpec, event: StepReported) -> Refused | None:
    """A commit that came since the plan, of which neither the command nor what was noted says anything."""
    to = spec.to
    if not isinstance(to, AtTopicOffsets):
        return None
    since = (row for row in commits_since(workflow, event) if not to.is_bare(row.name, row.partition))
    row = next(since, None)
    if row is None:
        return None
    message = f"{spec.group} committed on {row.name} {row.partition} since the plan, which names no offset for it"
    return Refused(Code.STALE_PLAN, message, "Name an offset for each partition of the inputs.")


def _missing_now(spec: ReprocessSpec, after: Mapping[Place, int | None], event: StepReported) -> dict[Place, int]:
    """Retention goes on while an application is being stopped. Of a shift, what lies in front of the log was answered
    by its own policy.
    """
    if isinstance(spec.to, Shift):
        return {}
    logs: dict[Place, PartitionEnds] = {
        (t, p): event.logs[t][p] for t, p in after if t not in spec.intermediate and p in event.logs.get(t, {})
    }
    return missing_in(spec, {place: (log.log_start, after[place]) for place, log in logs.items()})


def _lost_meanwhile(spec: ReprocessSpec, missing: Mapping[Place, int]) -> Refused | None:
    if sum(missing.values()) <= spec.accept_missing:
        return None
    (topic, partition), count = next(iter(missing.items()))
    message = f"{sum(missing.values()):,} records of the inputs went since the plan, {count:,} of {topic} {partition}"
    return Refused(Code.INPUT_INCOMPLETE, message)


def _hash(
    spec: ReprocessSpec,
    found: Found,
    internal: Mapping[str, str],
    positions: list[tuple[NewPosition, PartitionLook]],
) -> str:
    """The hash leaves out positions that change while the application runs."""
    named = [(p, look) for p, look in positions if p.topic not in spec.intermediate and p.offset is not None]
    inputs = [meaning(spec.to, look, p) for p, look in named]
    ids: dict[str, str | None] = {}
    for group in found.groups:
        ids |= group.topic_ids
    ids |= {name: _id(topic) for name, topic in found.topics.items()}
    return hash_of({
        "unit": (spec.unit, spec.cluster, spec.group),
        "topics": ids,
        "internal": internal,
        "inputs": inputs,
        "outputs": {name: (choice.policy.value, choice.name) for name, choice in spec.outputs.items()},
        "intermediate": {name: policy.value for name, policy in spec.intermediate.items()},
        "policies": (spec.on_out_of_range.value, spec.on_no_record.value, spec.accept_missing),
        **({"keep_inputs": True} if spec.keep_inputs else {}),
    })  # fmt: skip


def _id(topic: TopicFound | None) -> str | None:
    return None if topic is None else topic.id


def _claims(spec: ReprocessSpec) -> frozenset[str]:
    topics = (*spec.outputs, *new_names(spec), *spec.intermediate)
    return frozenset([
        f"the group {spec.group} on {spec.cluster}", *(f"the topic {name} on {spec.cluster}" for name in topics)
    ])  # fmt: skip


REPROCESS = WorkflowKind(
    command=Reprocess,
    form=REPROCESS_FORM,
    complete=_complete,
    wanted=_wanted,
    plan=_plan,
    claims=_claims,
    topics=lambda spec: (*spec.outputs, *new_names(spec), *spec.intermediate),
    after_step=_after_step,
    undo=lambda workflow: started_again(workflow, rollback_steps(workflow)),
    judge=_judge,
)
