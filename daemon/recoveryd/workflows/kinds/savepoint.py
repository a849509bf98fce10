"""The plan of `savepoint`: a named cut of an application that can begin again from it, also under another name.

Its state is what lies in its changelogs, which are copied by recoveries of their own, each verified. Until the copies are
whole nothing may be taken out of the changelogs, so their compaction and retention stand still for that time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.recovery.kept_topics import AS_WRITTEN, FOREVER
from recoveryd.units.facts import PartitionEnds, UnitFacts
from recoveryd.units.internal_topics import changelog_of, is_changelog
from recoveryd.units.model import ControlKind, Unit, UnitKind
from recoveryd.workflows.kinds.earlier import savepoint_of
from recoveryd.workflows.kinds.noting import with_new_topics_told
from recoveryd.workflows.kinds.reset import refuse_group, unit_of
from recoveryd.workflows.machine.kind import Around, Knows, Planned, WorkflowKind
from recoveryd.workflows.machine.leases import lease_keys, lease_rows, lease_step, nothing_goes
from recoveryd.workflows.model.actions import (
    AwaitEmpty,
    AwaitStopped,
    ChildRun,
    CreateTopics,
    DeleteTopics,
    RunChildren,
    SetConfigs,
    TakeSnapshot,
    TopicForm,
)
from recoveryd.workflows.model.colliding import refuse_collision
from recoveryd.workflows.model.commands import Savepoint
from recoveryd.workflows.model.cut import Cut, CutTopic
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.facts import Found, GroupWanted, TopicFound, WantedFacts
from recoveryd.workflows.model.hashing import hash_of
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.positions import Current
from recoveryd.workflows.model.size import refuse_copy, refuse_cut
from recoveryd.workflows.model.spec import SavepointSpec
from recoveryd.workflows.model.step_names import COPY, EMPTY, NOTE, STOP
from recoveryd.workflows.model.workflow import (
    Change,
    ConfigUndo,
    OffsetUndo,
    TopicUndo,
    UndoState,
    Workflow,
    WorkflowPlan,
    WorkflowStep,
)
from recoveryd.workflows.wire.savepoint import SAVEPOINT_FORM

KEEP, CREATE = "keep_changelogs", "create_copies"
# Of records of any age: Kafka compares their own times, and an application that processes history writes old ones.
# A maximum below the minimum is refused, also one of the broker.
_STANDS_STILL: Final = {"min.compaction.lag.ms": FOREVER, "max.compaction.lag.ms": FOREVER}
_TAKEN_OVER: Final = frozenset({"max.message.bytes", "compression.type", "min.insync.replicas"})


def _complete(spec: SavepointSpec, knows: Knows) -> SavepointSpec | Refused:
    unit = unit_of(spec.unit, knows.params)
    if isinstance(unit, Refused):
        return unit
    if unit.kind not in {UnitKind.STREAMS, UnitKind.GROUP}:
        message = f"{unit.name} is of kind {unit.kind.value}, which keeps its state where recoveryd cannot read it"
        return Refused(Code.GROUP_TYPE, message, "Use the savepoints of its own framework.")
    name = spec.name or knows.run
    known = savepoint_of(name, knows.workflows)
    if known is not None:
        hint = "Choose another name, or delete it: recoveryctl savepoint delete."
        return Refused(Code.ID_IN_USE, f"savepoint {name} exists already, of {known.unit}", hint)
    return replace(spec, name=name, cluster=unit.cluster, group=unit.consumer_group)


def _wanted(spec: SavepointSpec, params: WorkflowParams) -> WantedFacts:
    unit = params.units[spec.unit]
    named = dict.fromkeys((*unit.inputs, *unit.intermediate), ())
    return WantedFacts(
        groups=(GroupWanted(spec.cluster, spec.group, Current(), named),),
        units=(unit.name,),
        internal=True,
        copied_as=copied_as(spec.name),
        names_on=spec.cluster,
    )


def _plan(spec: SavepointSpec, found: Found, params: WorkflowParams) -> Planned | Refused:
    unit, facts = params.units[spec.unit], found.units[spec.unit]
    problem = _problem(spec, found, facts)
    if problem is not None:
        return problem
    forms = {name: topic.form for name in facts.internal.certain if (topic := found.topics.get(name)) is not None}
    copies = tuple(_copy_form(spec.name, form) for form in forms.values())
    for name, copy in zip(forms, copies, strict=True):
        refused = refuse_copy(copy.name, range(copy.partitions)) or refuse_copy(name, ())
        refused = refused or _in_the_way(copy.name, found.topics.get(copy.name))
        if refused is not None:
            return refused
    refused = refuse_collision((copy.name for copy in copies), found.names)
    refused = refused or refuse_cut(len(found.groups[0].looks) + sum(form.partitions for form in forms.values()))
    if refused is not None:
        return refused
    rows = tuple(_config_rows(spec.cluster, forms))
    plan = WorkflowPlan(
        hash=hash_of(
            {
                "unit": (spec.unit, spec.cluster, spec.group, spec.name, spec.live),
                "topics": {name: topic.id for name, topic in found.topics.items() if topic is not None},
            }
        ),
        changes=tuple(Change("topic", f.name, None, None, f"empty, {f.partitions} partitions") for f in copies),
        findings=tuple(_findings(spec, unit, facts)),
    )
    ids = dict(found.groups[0].topic_ids)
    steps = tuple(_steps(spec, unit, forms, copies, rows, {} if spec.live else ids))
    topics = tuple(
        CutTopic(form.name, copy.name, form, not is_changelog(form.name))
        for form, copy in zip(forms.values(), copies, strict=True)
    )
    is_exact = not spec.live or facts.is_exactly_once is True
    cut = Cut(
        spec.name, spec.unit, spec.cluster, spec.group, found.at_ms, topics=topics, topic_ids=ids, is_exact=is_exact
    )
    told = f"{len(copies)} internal topics of {spec.group} are to be copied"
    leases = (lease_keys(spec.cluster, form, _standing_still(form)) for form in forms.values())
    held = frozenset().union(*leases)
    return Planned(plan, steps, told, rows, cut, held, tuple(forms), tuple(_advice(spec, unit)))


def _problem(spec: SavepointSpec, found: Found, facts: UnitFacts) -> Refused | None:
    (group,) = found.groups
    if group.missing:
        return Refused(Code.SOURCE_TOPIC_MISSING, f"topics do not exist: {', '.join(group.missing)}")
    if facts.internal.ambiguous:
        name, reason = facts.internal.ambiguous[0]
        message = f"{name} may hold state of {spec.unit}, and a cut without it would be none: {reason}"
        return Refused(Code.AMBIGUOUS_TOPICS, message)
    if group.group is None:
        return Refused(Code.NO_SUCH_GROUP, f"the cluster has no group {spec.group}, so there is nothing to cut")
    return refuse_group(spec.group, group.group)


def _advice(spec: SavepointSpec, unit: Unit) -> Iterator[str]:
    if not spec.live and unit.control is not ControlKind.MANUAL:
        yield f"{unit.name} is stopped for it, and not started again: start it once the savepoint is completed"


def _findings(spec: SavepointSpec, unit: Unit, facts: UnitFacts) -> Iterator[str]:
    if spec.live and facts.is_exactly_once is not True:
        yield (
            f"{unit.name} is cut while it runs, and {_not_once(facts)}: state and offsets can be of different "
            "moments, so that records behind the cut may be counted twice"
        )
    if spec.live and facts.is_exactly_once:
        yield f"{unit.name} is exactly once ({facts.guarantee_why}): the cut is exact if nothing is committed meanwhile"
    stores = unit.topology.stores if unit.topology is not None else frozenset()
    for store in sorted(stores):
        if changelog_of(unit.group, store) not in facts.internal.certain:
            yield f"the store {store} has no changelog: it is rebuilt from an input, or is lost"
    if unit.topology is None and unit.kind is UnitKind.STREAMS:
        yield f"{unit.name} has no topology in the config, so it is not known whether each of its stores has a changelog"


def _not_once(facts: UnitFacts) -> str:
    said = "is at least once" if facts.is_exactly_once is False else "is not known to be exactly once"
    return f"{said} ({facts.guarantee_why})" if facts.guarantee_why else said


def copied_as(name: str) -> str:
    """What stands in front of the names of its copies."""
    return f"savepoint.{name}."


def _in_the_way(copy: str, there: TopicFound | None) -> Refused | None:
    """One that another savepoint left, say, which failed."""
    if there is None:
        return None
    hint = "Choose another name, or take the copy away: `rollback` of the workflow that made it does so."
    return Refused(Code.INVALID_VALUE, f"name: {copy} exists already", hint)


def _copy_form(name: str, form: TopicForm) -> TopicForm:
    """The copy keeps each record of the changelog, which compaction would not."""
    kept = {config: value for config, value in form.configs.items() if config in _TAKEN_OVER}
    return replace(form, name=copied_as(name) + form.name, configs={**kept, **AS_WRITTEN})


def _config_rows(cluster: str, forms: Mapping[str, TopicForm]) -> Iterator[ConfigUndo]:
    for form in forms.values():
        yield from lease_rows(cluster, form, _standing_still(form))


def _standing_still(form: TopicForm) -> dict[str, str | None]:
    policy = form.configs.get("cleanup.policy", "delete")
    configs: dict[str, str | None] = {}
    if "compact" in policy:
        configs |= _STANDS_STILL
    return configs | nothing_goes(form)


def _steps(
    spec: SavepointSpec,
    unit: Unit,
    forms: Mapping[str, TopicForm],
    copies: tuple[TopicForm, ...],
    rows: tuple[ConfigUndo, ...],
    ids: Mapping[str, str],
) -> Iterator[WorkflowStep]:
    cluster, group = spec.cluster, spec.group
    if not spec.live:
        yield WorkflowStep(STOP, AwaitStopped(cluster, group, unit.name))
        yield WorkflowStep(EMPTY, AwaitEmpty(cluster, group))
    if rows:
        yield lease_step(KEEP, cluster, rows)
    between = tuple(name for name in forms if not is_changelog(name))
    changelogs = tuple(name for name in forms if is_changelog(name))
    committed = (*unit.inputs, *unit.intermediate, *between)
    ends = (*changelogs, *unit.outputs)
    state = (*changelogs, *between) if spec.live else ()
    note = TakeSnapshot(cluster, group, committed, ends, spec.live, ids, state, is_stable=not spec.live)
    yield WorkflowStep(NOTE, replace(note, unit=unit.name))
    if copies:
        yield WorkflowStep(CREATE, CreateTopics(cluster, copies, is_own=True))
        yield WorkflowStep(COPY, RunChildren())


def _after_step(workflow: Workflow, step: WorkflowStep, event: StepReported) -> Workflow | Refused:
    spec = workflow.spec
    if not isinstance(spec, SavepointSpec):
        return workflow
    if isinstance(step.action, CreateTopics | SetConfigs):
        return _with_copies(workflow, event).with_undo(event.undo)
    if step.name == COPY:
        return _with_ends(workflow, event)
    if step.name != NOTE or workflow.cut is None:
        return workflow
    moved = _moved_on(workflow.cut, event)
    if moved is not None:
        return moved
    cut = _cut(workflow.cut, spec, event, workflow.updated_ms)
    runs = tuple(_copy_run(workflow, spec, number, topic) for number, topic in enumerate(cut.topics) if topic.offsets)
    steps = tuple(replace(s, action=RunChildren(runs)) if s.name == COPY else s for s in workflow.steps)
    return replace(workflow, steps=steps, cut=cut)


def _judge(workflow: Workflow, _step: WorkflowStep, event: StepReported, _around: Around) -> StepReported:
    topics = () if workflow.cut is None else workflow.cut.topics
    return with_new_topics_told(workflow, event, (topic.name for topic in topics))


def _moved_on(planned: Cut, event: StepReported) -> Refused | None:
    """Whether a topic went since the plan, or has partitions now that its copy would not have: the cut would lack its state."""
    gone = [name for name in (*planned.topic_ids, *(t.name for t in planned.topics)) if name not in event.logs]
    if gone:
        message = f"{gone[0]} was deleted after the plan was made"
        return Refused(Code.SOURCE_TOPIC_MISSING, message, "Look why, and take the savepoint again.")
    for topic in planned.topics:
        count = len(event.logs[topic.name])
        if count > topic.form.partitions:
            message = f"{topic.name} has {count} partitions, and had {topic.form.partitions} when the plan was made"
            return Refused(Code.STALE_PLAN, message, "Send it again: its plan will have them.")
    return None


def _with_copies(workflow: Workflow, event: StepReported) -> Workflow:
    """By their ids: a restore has to find these, and no others of their names."""
    ids = {row.name: row.was_set for row in event.undo if isinstance(row, TopicUndo)}
    if workflow.cut is None:
        return workflow
    topics = tuple(replace(topic, copy_id=ids.get(topic.copy) or topic.copy_id) for topic in workflow.cut.topics)
    return replace(workflow, cut=replace(workflow.cut, topics=topics))


def _with_ends(workflow: Workflow, event: StepReported) -> Workflow:
    """Where the copies were verified to end: what is written behind is none of it."""
    if workflow.cut is None:
        return workflow
    ends = {copy: {p: log.high_watermark for p, log in logs.items()} for copy, logs in event.logs.items()}
    topics = tuple(replace(topic, copy_ends=ends.get(topic.copy, {})) for topic in workflow.cut.topics)
    return replace(workflow, cut=replace(workflow.cut, topics=topics))


def _cut(planned: Cut, spec: SavepointSpec, event: StepReported, at_ms: int) -> Cut:
    committed: dict[str, dict[int, int | None]] = {}
    for row in event.undo:
        if isinstance(row, OffsetUndo):
            committed.setdefault(row.name, {})[row.partition] = row.to
    topics = tuple(_with_range(t, event.logs.get(t.name, {}), committed.get(t.name, {})) for t in planned.topics)
    internal = {topic.name for topic in topics}
    is_still = not spec.live or event.evidence.get("is_still") is True
    return replace(
        planned,
        at_ms=at_ms,
        offsets={topic: offsets for topic, offsets in committed.items() if topic not in internal},
        topics=topics,
        ends={
            topic: {p: log.high_watermark for p, log in logs.items()}
            for topic, logs in event.logs.items()
            if topic not in internal
        },
        is_exact=planned.is_exact and is_still,
        why=_exactness(spec, planned, is_still=is_still),
    )


def _exactness(spec: SavepointSpec, planned: Cut, *, is_still: bool) -> str:
    if not spec.live:
        return "the application stood still: its group had no members when offsets and ends were read"
    if not planned.is_exact:
        return "the application ran and is not known to be exactly once: records behind the cut may be counted twice"
    if not is_still:
        return (
            "the application committed, or was about to, between the two looks: state and offsets may be of different "
            "moments, so that records behind the cut may be counted twice or be missing"
        )
    return "it commits state and offsets together, and did not between the two looks"


def _with_range(topic: CutTopic, logs: Mapping[int, PartitionEnds], committed: Mapping[int, int | None]) -> CutTopic:
    starts, stops = {}, {}
    for p, log in logs.items():
        at = committed.get(p) if topic.is_between else None
        starts[p] = min(max(log.log_start, at or 0), log.high_watermark)
        stops[p] = log.high_watermark
    return replace(topic, starts=starts, stops=stops)


def _copy_run(workflow: Workflow, spec: SavepointSpec, number: int, topic: CutTopic) -> ChildRun:
    return ChildRun(
        f"{workflow.id}-{number}", "replay", copy_data(spec.cluster, topic.name, topic.copy, topic.starts, topic.stops)
    )


def copy_data(
    cluster: str, source: str, target: str, starts: Mapping[int, int], stops: Mapping[int, int]
) -> dict[str, Any]:
    """The data of a replay of [starts, stops) of each partition into an empty topic with as many."""
    there = [p for p in stops if stops[p] > starts[p]]
    return {
        "source": {
            "cluster": cluster,
            "topic": source,
            "partitions": there,
            "from": {"offsets": {str(p): starts[p] for p in there}},
            "to": {"offsets": {str(p): stops[p] for p in there}},
        },
        "target": {"cluster": cluster, "topic": target},
    }


def _delete(workflow: Workflow) -> tuple[WorkflowStep, ...]:
    """To roll a savepoint back is to delete it."""
    made = {
        row.name: row.was_set
        for row in workflow.undo
        if isinstance(row, TopicUndo) and row.to is None and row.was_set and row.state is UndoState.OPEN
    }
    action = DeleteTopics(workflow.spec.cluster, made, is_back=True, with_records=True)
    return (WorkflowStep("delete_copies", action),) if made else ()


SAVEPOINT = WorkflowKind(
    command=Savepoint,
    form=SAVEPOINT_FORM,
    complete=_complete,
    wanted=_wanted,
    plan=_plan,
    claims=lambda spec: frozenset({f"the group {spec.group} on {spec.cluster}", f"the savepoint {spec.name}"}),
    topics=lambda _spec: (),
    after_step=_after_step,
    undo=_delete,
    judge=_judge,
    ends=lambda _spec: "-9999",
)
