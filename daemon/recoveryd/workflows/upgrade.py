"""The plan of `upgrade`: a newer version of an application takes over from the older one, under the same application id.

The old one is stopped and has left its group, and where it stood is noted; then the new one starts exactly there. Nothing is
set, so nothing is processed twice or left out. What the old one made of the records before stays as it is: that range
is named.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.units.compatibility import VersionVerdict
from recoveryd.units.facts import PartitionEnds
from recoveryd.units.model import Unit, UnitKind
from recoveryd.workflows.actions import (
    AskPerson,
    AwaitCaughtUp,
    AwaitEmpty,
    AwaitStarted,
    AwaitStopped,
    LookAtTopics,
    TakeSnapshot,
)
from recoveryd.workflows.events import StepReported
from recoveryd.workflows.facts import Found, GroupWanted, WantedFacts
from recoveryd.workflows.hashing import hash_of
from recoveryd.workflows.kinds import Knows, Planned, WorkflowKind
from recoveryd.workflows.model import (
    Change,
    OffsetUndo,
    StepState,
    UndoState,
    UnitUndo,
    VersionChange,
    Workflow,
    WorkflowPlan,
    WorkflowStep,
)
from recoveryd.workflows.noting import Place
from recoveryd.workflows.params import WorkflowParams
from recoveryd.workflows.positions import Current
from recoveryd.workflows.reprocess import CATCH_UP, CLEAN, EMPTY, LOOK, NOTE, START, STOP, clean_text, is_stateful
from recoveryd.workflows.reset import refuse_group, unit_of
from recoveryd.workflows.size import refuse_size
from recoveryd.workflows.spec import OnIncompatible, UpgradeSpec
from recoveryd.workflows.versions import compared, findings_of, inputs_of, unfixed

CONFIRM, STOP_NEW, EMPTY_AGAIN, START_OLD = (
    "confirm_compatibility", "stop_new_version", "await_empty_again", "start_old_version"
)  # fmt: skip
_UPGRADED: Final = frozenset({UnitKind.STREAMS, UnitKind.GROUP})


def _complete(spec: UpgradeSpec, knows: Knows) -> UpgradeSpec | Refused:
    old, new = unit_of(spec.unit, knows.params), unit_of(spec.to_unit, knows.params)
    if isinstance(old, Refused):
        return old
    if isinstance(new, Refused):
        return replace(new, message=new.message.replace("unit:", "to_unit:", 1))
    problem = _problem_of_units(old, new)
    return problem or replace(spec, cluster=old.cluster, group=old.consumer_group)


def _problem_of_units(old: Unit, new: Unit) -> Refused | None:
    if old.name == new.name:
        hint = "Give the new version a unit of its own, with the same group."
        return Refused(Code.INVALID_VALUE, f"to_unit: {new.name} is the old version itself", hint)
    for unit in (old, new):
        if unit.kind not in _UPGRADED:
            message = f"{unit.name} is of kind {unit.kind.value}, whose versions recoveryd cannot exchange"
            return Refused(Code.GROUP_TYPE, message, "Upgrade it with its own framework.")
    if old.kind is not new.kind:
        message = f"{old.name} is of kind {old.kind.value}, and {new.name} of kind {new.kind.value}"
        return Refused(Code.INVALID_VALUE, message, "Correct one of the units.")
    if (old.cluster, old.consumer_group) != (new.cluster, new.consumer_group):
        message = (
            f"{new.name} reads as {new.consumer_group} on {new.cluster}, and {old.name} as {old.consumer_group} on "
            f"{old.cluster}: it would not find the offsets and the state of the old version"
        )
        return Refused(Code.INVALID_VALUE, message, "Take a savepoint, and restore it for the new unit.")
    return None


def _wanted(spec: UpgradeSpec, params: WorkflowParams) -> WantedFacts:
    read = inputs_of(*_units(spec, params))
    return WantedFacts(
        groups=(GroupWanted(spec.cluster, spec.group, Current(), dict.fromkeys(read, ())),),
        units=(spec.unit, spec.to_unit),
    )


def _units(spec: UpgradeSpec, params: WorkflowParams) -> tuple[Unit, Unit]:
    return params.units[spec.unit], params.units[spec.to_unit]


def _plan(spec: UpgradeSpec, found: Found, params: WorkflowParams) -> Planned | Refused:
    old, new = _units(spec, params)
    problem = _problem(spec, found)
    if problem is not None:
        return problem
    compatibility = compared(old, new, found)
    verdict, differences = compatibility.verdict, compatibility.differences
    if verdict is VersionVerdict.INCOMPATIBLE and spec.on_incompatible is OnIncompatible.FAIL:
        message = f"{new.name} cannot go on where {old.name} stops: {differences[0].message}"
        return Refused(Code.VERSIONS_INCOMPATIBLE, message)
    (group,) = found.groups
    committed = {(look.topic, look.partition): look.committed for look in group.looks}
    logs: dict[str, dict[int, PartitionEnds]] = {}
    for look in group.looks:
        logs.setdefault(look.topic, {})[look.partition] = PartitionEnds(look.log_start, look.high_watermark)
    internal = found.units[old.name].internal
    plan = WorkflowPlan(
        hash=hash_of(
            {
                "units": (old.name, new.name, spec.cluster, spec.group, spec.mode, spec.on_incompatible.value),
                "topics": dict(group.topic_ids),
                "internal": sorted(internal.certain),
                "versions": (verdict.value, [(d.name, d.message) for d in differences if d.name != "between_gone"]),
            }
        ),
        changes=(Change("unit", spec.group, None, old.name, new.name),),
        findings=tuple(findings_of(old, new, found)),
        ambiguous_topics=tuple(name for name, _ in internal.ambiguous),
        version=VersionChange(verdict, differences, *unfixed(spec, old.inputs, committed, logs, "")),
    )
    told = f"{new.name} is to go on where {old.name} stops, and is {verdict.value}"
    return Planned(plan, tuple(_steps(spec, old, new, found, plan)), told, (UnitUndo(old.name),))


def _problem(spec: UpgradeSpec, found: Found) -> Refused | None:
    (group,) = found.groups
    if group.missing:
        return Refused(Code.SOURCE_TOPIC_MISSING, f"topics do not exist: {', '.join(group.missing)}")
    if group.group is None:
        return Refused(Code.NO_SUCH_GROUP, f"the cluster has no group {spec.group}, so there is nothing to go on from")
    return refuse_group(spec.group, group.group) or refuse_size(spec.group, group.looks, group.group.committed)


def _steps(spec: UpgradeSpec, old: Unit, new: Unit, found: Found, plan: WorkflowPlan) -> Iterator[WorkflowStep]:
    cluster, group = spec.cluster, spec.group
    assert plan.version is not None
    names = {difference.name for difference in plan.version.differences}
    is_asked = plan.version.verdict is VersionVerdict.UNKNOWN and spec.on_incompatible is OnIncompatible.FAIL
    if is_asked:
        doubts = [d.message for d in plan.version.differences if d.verdict is VersionVerdict.UNKNOWN]
        yield WorkflowStep(CONFIRM, AskPerson(f"say that {new.name} can go on where {old.name} stops: {doubts[0]}"))
    yield WorkflowStep(STOP, AwaitStopped(cluster, group, old.name))
    yield WorkflowStep(EMPTY, AwaitEmpty(cluster, group))
    facts = found.units[old.name]
    between = tuple(name for name in facts.internal.certain if not name.endswith("-changelog"))
    read = inputs_of(old, new)
    # Two looks, between which nothing may be committed: nobody is there who could go on.
    ids = dict(found.groups[0].topic_ids)
    outputs = tuple(old.outputs)
    yield WorkflowStep(NOTE, TakeSnapshot(cluster, group, (*read, *between), outputs, is_live=True, topic_ids=ids))
    if is_stateful(new) and ("renumbered" in names or plan.version.verdict is VersionVerdict.INCOMPATIBLE):
        yield WorkflowStep(CLEAN, AskPerson(clean_text(new)))
    yield WorkflowStep(START, AwaitStarted(cluster, group, new.name, f", the version after {old.name}"))
    yield WorkflowStep(CATCH_UP, AwaitCaughtUp(cluster, group, {topic: {} for topic in new.inputs}))
    if new.outputs:
        yield WorkflowStep(LOOK, LookAtTopics(cluster, tuple(new.outputs)))


def _after_step(workflow: Workflow, step: WorkflowStep, event: StepReported) -> Workflow | Refused:
    spec = workflow.spec
    assert isinstance(spec, UpgradeSpec)
    if step.name == STOP:
        return _with_stop(workflow, spec, event)
    if step.name == START_OLD:
        rows = (row for row in workflow.undo if isinstance(row, UnitUndo))
        return workflow.with_undo(replace(row, state=UndoState.DONE) for row in rows)
    if step.name != NOTE or workflow.plan is None or workflow.plan.version is None:
        return workflow.with_undo(event.undo)
    noted = {(row.name, row.partition): row.to for row in event.undo if isinstance(row, OffsetUndo)}
    problem = _not_drained(spec, event, noted)
    if problem is not None:
        return problem
    old = tuple(workflow.plan.version.unfixed_range)
    version = VersionChange(
        workflow.plan.version.verdict,
        workflow.plan.version.differences,
        *unfixed(spec, old, noted, event.logs, workflow.id),
    )
    awaited = next(s for s in workflow.steps if s.name == CATCH_UP)
    assert isinstance(awaited.action, AwaitCaughtUp)
    ends = {
        topic: {p: log.high_watermark for p, log in event.logs[topic].items()}
        for topic in awaited.action.ends
        if topic in event.logs
    }
    pinned = replace(awaited, action=AwaitCaughtUp(spec.cluster, spec.group, ends))
    known = replace(workflow, plan=replace(workflow.plan, version=version))
    return known.with_step(pinned).with_undo(event.undo)


def _with_stop(workflow: Workflow, spec: UpgradeSpec, event: StepReported) -> Workflow:
    """As many instances of the new version as there were of the old one, where the same control counts them."""
    before = event.evidence.get("before")
    how = before if isinstance(before, Mapping) else {}
    steps = tuple(
        replace(s, action=replace(s.action, before=how)) if isinstance(s.action, AwaitStarted) else s
        for s in workflow.steps
    )
    row = UnitUndo(spec.unit, was_set="stopped", before=how)
    return replace(workflow, steps=steps).with_undo((row,))


def _not_drained(spec: UpgradeSpec, event: StepReported, noted: Mapping[Place, int | None]) -> Refused | None:
    if event.evidence.get("is_still") is False:
        message = f"somebody committed for {spec.group} after it was left by all of its members"
        return Refused(Code.GROUP_CHANGED, message)
    for (topic, partition), at in noted.items():
        log = event.logs.get(topic, {}).get(partition)
        if at is not None and log is not None and at < log.log_start:
            message = f"{log.log_start - at:,} records of {topic} {partition} went before {spec.unit} had read them"
            return Refused(Code.OFFSET_OUTSIDE_LOG, message)
    return None


def _undo(workflow: Workflow) -> tuple[WorkflowStep, ...]:
    """The old version goes on where the new one stands: offsets and state belong together, and state is not put back."""
    spec = workflow.spec
    assert isinstance(spec, UpgradeSpec)
    row = next((row for row in workflow.undo if isinstance(row, UnitUndo)), None)
    is_begun = any(s.name == STOP and s.began_ms is not None for s in workflow.steps)
    if row is None or not is_begun:
        return ()
    start = AwaitStarted(spec.cluster, spec.group, spec.unit, ", the version before", row.before)
    old = WorkflowStep(START_OLD, start)
    if not any(s.name == START and s.state is not StepState.PENDING and s.began_ms is not None for s in workflow.steps):
        return (old,)
    return (
        WorkflowStep(STOP_NEW, AwaitStopped(spec.cluster, spec.group, spec.to_unit)),
        WorkflowStep(EMPTY_AGAIN, AwaitEmpty(spec.cluster, spec.group)),
        old,
    )


UPGRADE = WorkflowKind(
    spec=UpgradeSpec,
    complete=_complete,
    wanted=_wanted,
    plan=_plan,
    claims=lambda spec: frozenset({f"the group {spec.group} on {spec.cluster}"}),
    topics=lambda _spec: (),
    after_step=_after_step,
    undo=_undo,
)
