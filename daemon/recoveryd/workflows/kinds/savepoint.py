"""The plan of `savepoint`: a named cut of an application that can begin again from it, also under another name.

Its state is what lies in its changelogs, which are copied by recoveries of their own, each verified. Until the copies
are whole nothing may be taken out of the changelogs, so their compaction and retention stand still for that time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.recovery.kept_topics import FOREVER
from recoveryd.units.facts import UnitFacts
from recoveryd.units.internal_topics import changelog_of, is_changelog
from recoveryd.units.model import ControlKind, Unit, UnitKind
from recoveryd.workflows.kinds.copies import copy_form, planned_copies, told_sizes
from recoveryd.workflows.kinds.cut_making import after_step, ended_cleanly
from recoveryd.workflows.kinds.earlier import savepoint_of
from recoveryd.workflows.kinds.noting import with_new_topics_told
from recoveryd.workflows.kinds.reset import refuse_group, unit_of
from recoveryd.workflows.machine.kind import Around, Knows, Planned, WorkflowKind
from recoveryd.workflows.machine.leases import lease_keys, lease_rows, lease_step, nothing_goes
from recoveryd.workflows.model.actions import (
    AwaitEmpty,
    AwaitStopped,
    CreateTopics,
    DeleteTopics,
    RunChildren,
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
    return replace(
        spec, name=name, cluster=unit.cluster, group=unit.consumer_group, was_clean=ended_cleanly(knows.before)
    )


def _wanted(spec: SavepointSpec, params: WorkflowParams) -> WantedFacts:
    unit = params.units[spec.unit]
    named = dict.fromkeys((*unit.inputs, *unit.intermediate), ())
    return WantedFacts(
        groups=(GroupWanted(spec.cluster, spec.group, Current(), named),),
        units=(unit.name,),
        internal=True,
        with_sizes=True,
        copied_as=copied_as(spec.name),
        names_on=spec.cluster,
    )


def _plan(spec: SavepointSpec, found: Found, params: WorkflowParams) -> Planned | Refused:
    unit, facts = params.units[spec.unit], found.units[spec.unit]
    problem = _problem(spec, found, facts)
    if problem is not None:
        return problem
    forms = {name: topic.form for name in facts.internal.certain if (topic := found.topics.get(name)) is not None}
    copies = tuple(copy_form(copied_as(spec.name) + form.name, form) for form in forms.values())
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
    there = tuple(topic for name in forms if (topic := found.topics[name]) is not None)
    plan = WorkflowPlan(
        hash=hash_of(
            {
                "unit": (spec.unit, spec.cluster, spec.group, spec.name, spec.live),
                "topics": {name: topic.id for name, topic in found.topics.items() if topic is not None},
            }
        ),
        changes=tuple(Change("topic", f.name, None, None, f"empty, {f.partitions} partitions") for f in copies),
        findings=tuple(_findings(spec, unit, facts, is_bare=not forms)),
        copies=planned_copies(there),
    )
    ids = dict(found.groups[0].topic_ids)
    run = RunChildren(told=told_sizes(there))
    steps = tuple(_steps(spec, unit, forms, copies, rows, {} if spec.live else ids, run))
    topics = tuple(
        CutTopic(form.name, copy.name, form, not is_changelog(form.name))
        for form, copy in zip(forms.values(), copies, strict=True)
    )
    # One that commits its offsets after its state leaves that ahead of them where it is killed.
    is_exact = facts.is_exactly_once is True or (not spec.live and not forms)
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


def _findings(spec: SavepointSpec, unit: Unit, facts: UnitFacts, *, is_bare: bool) -> Iterator[str]:
    if not spec.live and not is_bare and facts.is_exactly_once is not True:
        yield (
            f"{unit.name} {_not_once(facts)}: the cut is exact only if it is stopped cleanly; where it is killed its state is "
            "ahead of its offsets, so that records behind the cut are counted twice"
        )
    if spec.live and facts.is_exactly_once is not True:
        yield (
            f"{unit.name} is cut while it runs, and {_not_once(facts)}: state and offsets can be of different "
            "moments, so that records behind the cut may be counted twice"
        )
    if spec.live and facts.is_exactly_once:
        yield f"{unit.name} is exactly once ({facts.guarantee_why}): the cut is exact if nothing is committed meanwhile"
    between = [name for name in facts.internal.certain if not is_changelog(name)] if spec.live else []
    if between and unit.kind is UnitKind.STREAMS:
        yield (
            f"{', '.join(between)}: while it runs, Kafka Streams deletes what it has read there each "
            "repartition.purge.interval.ms (30 s when nothing is said), which no config of the topic holds back. If records behind "
            "the cut go before they are copied, the savepoint fails (RCV-3001): let the application run with a longer interval "
            "meanwhile, or take the savepoint without `live`"
        )
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
    """Refuse a copy's name that is taken, for instance by a savepoint that failed."""
    if there is None:
        return None
    hint = "Choose another name, or take the copy away: `rollback` of the workflow that made it does so."
    return Refused(Code.INVALID_VALUE, f"name: {copy} exists already", hint)


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
    run: RunChildren,
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
    yield WorkflowStep(NOTE, replace(note, unit=unit.name, looks_twice=not spec.live))
    if copies:
        yield WorkflowStep(CREATE, CreateTopics(cluster, copies, is_own=True))
        yield WorkflowStep(COPY, run)


def _judge(workflow: Workflow, _step: WorkflowStep, event: StepReported, _around: Around) -> StepReported:
    topics = () if workflow.cut is None else workflow.cut.topics
    return with_new_topics_told(workflow, event, (topic.name for topic in topics))


def _delete(workflow: Workflow) -> tuple[WorkflowStep, ...]:
    """To roll a savepoint back is to delete it."""
    made = {
        row.name: row.was_set
        for row in workflow.undo
        if isinstance(row, TopicUndo) and row.to is None and row.was_set and row.state is UndoState.OPEN
    }
    action = DeleteTopics(workflow.spec.cluster, made, is_ours=True, with_records=True)
    return (WorkflowStep("delete_copies", action),) if made else ()


SAVEPOINT = WorkflowKind(
    command=Savepoint,
    form=SAVEPOINT_FORM,
    complete=_complete,
    wanted=_wanted,
    plan=_plan,
    claims=lambda spec: frozenset({f"the group {spec.group} on {spec.cluster}", f"the savepoint {spec.name}"}),
    topics=lambda _spec: (),
    after_step=after_step,
    undo=_delete,
    judge=_judge,
    ends=lambda _spec: "-9999",
)
