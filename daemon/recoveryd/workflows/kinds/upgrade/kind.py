"""The plan of `upgrade`: a newer version of an application takes over from the older one.

The old one is stopped and has left its group, and where it stood is noted; then the new one starts exactly there. Under
the same application id nothing is set, so nothing is processed twice or left out; under another one offsets and state
are taken over (`other_id`). What the old one made of the records before stays as it is: that range is named.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.states import State
from recoveryd.units.compatibility import VersionVerdict
from recoveryd.units.facts import PartitionEnds
from recoveryd.units.internal_topics import is_changelog
from recoveryd.units.model import ControlKind, Unit, UnitKind
from recoveryd.workflows.kinds.global_tables import missing_tables
from recoveryd.workflows.kinds.reset import refuse_group, unit_of
from recoveryd.workflows.kinds.state import clean_text
from recoveryd.workflows.kinds.upgrade.draining import (
    not_drained,
    places_of,
    ran_before,
    with_old_version_back,
    with_stop,
)
from recoveryd.workflows.kinds.upgrade.names import CONFIRM, EMPTY_AGAIN, START_OLD, STOP_NEW
from recoveryd.workflows.kinds.upgrade.online import judge_online, plan_online, wanted_online
from recoveryd.workflows.kinds.upgrade.online_back import stays_online, undo_online
from recoveryd.workflows.kinds.upgrade.online_checks import complete_online, left_over
from recoveryd.workflows.kinds.upgrade.online_cut import ENDS_OF_TAIL, after_step_online
from recoveryd.workflows.kinds.upgrade.other_id import (
    ENDS,
    after_step_elsewhere,
    copies_elsewhere,
    findings_elsewhere,
    problem_elsewhere,
    stays_elsewhere,
    steps_elsewhere,
    taken_names,
    undo_elsewhere,
)
from recoveryd.workflows.kinds.upgrade.versions import compared, findings_of, inputs_of, unfixed
from recoveryd.workflows.machine.kind import Around, Knows, Planned, WorkflowKind
from recoveryd.workflows.model.actions import (
    AskPerson,
    AwaitCaughtUp,
    AwaitEmpty,
    AwaitStarted,
    AwaitStopped,
    LookAtTopics,
    TakeSnapshot,
)
from recoveryd.workflows.model.commands import Upgrade
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.facts import Found, GroupWanted, WantedFacts
from recoveryd.workflows.model.hashing import hash_of
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.positions import Current
from recoveryd.workflows.model.size import refuse_size
from recoveryd.workflows.model.spec import OnIncompatible, UpgradeMode, UpgradeSpec
from recoveryd.workflows.model.step_names import CATCH_UP, CLEAN, EMPTY, LOOK, NOTE, START, STOP
from recoveryd.workflows.model.workflow import Change, UnitUndo, VersionChange, Workflow, WorkflowPlan, WorkflowStep
from recoveryd.workflows.wire.upgrade import UPGRADE_FORM

_UPGRADED: Final = frozenset({UnitKind.STREAMS, UnitKind.GROUP})


def _complete(spec: UpgradeSpec, knows: Knows) -> UpgradeSpec | Refused:
    old, new = unit_of(spec.unit, knows.params), unit_of(spec.to_unit, knows.params)
    if isinstance(old, Refused):
        return old
    if isinstance(new, Refused):
        return replace(new, message=new.message.replace("unit:", "to_unit:", 1))
    problem = _problem_of_units(old, new)
    if problem is not None:
        return problem
    named = replace(spec, cluster=old.cluster, group=old.consumer_group, to_group=new.consumer_group, run=knows.run)
    if _is_online(spec):
        return complete_online(named, knows)
    return left_over(spec) or (taken_names(named, knows) if named.is_other_id else None) or named


def _is_online(spec: UpgradeSpec) -> bool:
    return spec.mode is UpgradeMode.ONLINE


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
    if old.cluster != new.cluster:
        message = f"{new.name} is on {new.cluster}, and {old.name} on {old.cluster}: it would not find the old state"
        return Refused(Code.INVALID_VALUE, message, "Give both units the same cluster.")
    return None


def _wanted(spec: UpgradeSpec, params: WorkflowParams) -> WantedFacts:
    if _is_online(spec):
        return wanted_online(spec, params)
    read = inputs_of(*_units(spec, params))
    return WantedFacts(
        groups=(GroupWanted(spec.cluster, spec.group, Current(), dict.fromkeys(read, ())),),
        units=(spec.unit, spec.to_unit),
        names_on=spec.cluster if spec.is_other_id else "",
        internal=spec.is_other_id,
        with_sizes=spec.is_other_id,
    )


def _units(spec: UpgradeSpec, params: WorkflowParams) -> tuple[Unit, Unit]:
    return params.units[spec.unit], params.units[spec.to_unit]


def _plan(spec: UpgradeSpec, found: Found, params: WorkflowParams) -> Planned | Refused:
    if _is_online(spec):
        return plan_online(spec, found, params)
    old, new = _units(spec, params)
    problem = _problem(spec, old, new, found)
    if problem is None and spec.is_other_id:
        problem = problem_elsewhere(spec, old, new, found, params)
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
                "units": (old.name, new.name, spec.cluster, spec.group, spec.mode.value, spec.on_incompatible.value),
                "topics": dict(group.topic_ids),
                "internal": sorted(internal.certain),
                "versions": (verdict.value, [difference.meant for difference in differences]),
            }
        ),
        changes=(Change("unit", spec.group, None, old.name, new.name), *_taken_over(spec, old, new)),
        findings=(*findings_of(old, new, found), *(findings_elsewhere(old, new, found) if spec.is_other_id else ())),
        ambiguous_topics=tuple(name for name, _ in internal.ambiguous),
        version=VersionChange(verdict, differences, *unfixed(spec, old.positioned_inputs, committed, logs, "")),
        copies=copies_elsewhere(old, found) if spec.is_other_id else None,
    )
    told = f"{new.name} is to go on where {old.name} stops, and is {verdict.value}"
    stopped = UnitUndo(old.name, is_told=old.control is ControlKind.MANUAL)
    copied = internal.certain if spec.is_other_id else ()
    return Planned(plan, tuple(_steps(spec, old, new, found, plan)), told, (stopped,), reads=copied)


def _taken_over(spec: UpgradeSpec, old: Unit, new: Unit) -> Iterator[Change]:
    """Offsets that the restore sets for another application id; under the same one nothing is set."""
    for topic in new.positioned if spec.is_other_id else ():
        yield Change("offset", topic, None, None, f"where {old.name} is stopped")


def _problem(spec: UpgradeSpec, old: Unit, new: Unit, found: Found) -> Refused | None:
    (group,) = found.groups
    tables = (name for unit in (old, new) for name in missing_tables(unit, found.units[unit.name]))
    missing = dict.fromkeys((*group.missing, *tables))
    if missing:
        return Refused(Code.SOURCE_TOPIC_MISSING, f"topics do not exist: {', '.join(missing)}")
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
    between = tuple(name for name in facts.internal.certain if not is_changelog(name))
    read = inputs_of(old, new)
    if spec.is_other_id:
        yield from steps_elsewhere(spec, old, new, (*read, *between), found)
        return
    # Two looks, between which nothing may be committed: nobody is there who could go on.
    ids = dict(found.groups[0].topic_ids)
    outputs = tuple(old.outputs)
    yield WorkflowStep(NOTE, TakeSnapshot(cluster, group, (*read, *between), outputs, is_live=True, topic_ids=ids))
    if new.keeps_state and ("renumbered" in names or plan.version.verdict is VersionVerdict.INCOMPATIBLE):
        yield WorkflowStep(CLEAN, AskPerson(clean_text(new)))
    is_told = new.control is ControlKind.MANUAL  # the group of both is the same
    note = f", the version after {old.name}"
    yield WorkflowStep(START, AwaitStarted(cluster, group, new.name, note, is_told=is_told))
    ends: dict[str, dict[int, int]] = {topic: {} for topic in new.positioned_inputs}
    yield WorkflowStep(CATCH_UP, AwaitCaughtUp(cluster, group, ends, brings_state=new.keeps_state))
    if new.outputs:
        yield WorkflowStep(LOOK, LookAtTopics(cluster, tuple(new.outputs)))


def _after_step(workflow: Workflow, step: WorkflowStep, event: StepReported) -> Workflow | Refused:
    spec = workflow.spec
    assert isinstance(spec, UpgradeSpec)
    if step.name == STOP:
        return with_stop(workflow, event)
    if step.name == START_OLD:
        return with_old_version_back(workflow)
    own = after_step_online if _is_online(spec) else after_step_elsewhere if spec.is_other_id else _after_own_step
    return own(workflow, spec, step, event)


def _after_own_step(
    workflow: Workflow, spec: UpgradeSpec, step: WorkflowStep, event: StepReported
) -> Workflow | Refused:
    if step.name != NOTE or workflow.plan is None or workflow.plan.version is None:
        return workflow.with_undo(event.undo)
    problem = not_drained(spec.unit, spec.group, event)
    if problem is not None:
        return problem
    old = tuple(workflow.plan.version.unfixed_range)
    version = VersionChange(
        workflow.plan.version.verdict,
        workflow.plan.version.differences,
        *unfixed(spec, old, places_of(event), event.logs, workflow.id),
    )
    awaited = next(s for s in workflow.steps if s.name == CATCH_UP)
    assert isinstance(awaited.action, AwaitCaughtUp)
    ends = {
        topic: {p: log.high_watermark for p, log in event.logs[topic].items()}
        for topic in awaited.action.ends
        if topic in event.logs
    }
    pinned = replace(awaited, action=replace(awaited.action, ends=ends))
    known = replace(workflow, plan=replace(workflow.plan, version=version))
    return known.with_step(pinned).with_undo(event.undo)


def _undo(workflow: Workflow) -> tuple[WorkflowStep, ...]:
    """The old version goes on where the new one stands: offsets and state belong together, and state is not put
    back.
    """
    spec = workflow.spec
    assert isinstance(spec, UpgradeSpec)
    if _is_online(spec):
        return undo_online(workflow, spec)
    if spec.is_other_id:
        return undo_elsewhere(workflow, spec)
    row = next((row for row in workflow.undo if isinstance(row, UnitUndo)), None)
    is_begun = any(s.name == STOP and s.began_ms is not None for s in workflow.steps)
    if row is None or not is_begun:
        return ()
    start = AwaitStarted(spec.cluster, spec.group, spec.unit, ", the version before", ran_before(workflow))
    if not any(s.name == START and s.has_begun for s in workflow.steps):
        return (WorkflowStep(START_OLD, start),)
    old = WorkflowStep(START_OLD, replace(start, is_told=row.is_told))
    return (
        WorkflowStep(STOP_NEW, AwaitStopped(spec.cluster, spec.group, spec.to_unit)),
        WorkflowStep(EMPTY_AGAIN, AwaitEmpty(spec.cluster, spec.group)),
        old,
    )


def _stays(workflow: Workflow) -> tuple[str, ...]:
    spec = workflow.spec
    assert isinstance(spec, UpgradeSpec)
    return stays_online(workflow, spec) if _is_online(spec) else stays_elsewhere(workflow, spec)


def _judge(workflow: Workflow, _step: WorkflowStep, event: StepReported, around: Around) -> StepReported:
    return judge_online(workflow, event, around.units)


def _is_beneath(workflow: Workflow, later: Workflow) -> bool:
    """Whether `later` took over from what this one would take away."""
    spec = later.spec
    if not isinstance(spec, UpgradeSpec) or later.state is State.ROLLED_BACK:
        return False
    is_stopped = any(step.name == STOP and step.began_ms is not None for step in later.steps)
    return is_stopped and bool(_claims(spec) & _claims(workflow.spec))  # type: ignore[arg-type]


def _units_of(spec: UpgradeSpec) -> tuple[str, ...]:
    return tuple(name for name in (spec.unit, spec.to_unit, spec.staged_unit, spec.tail_unit) if name is not None)


def _ends(spec: UpgradeSpec) -> str:
    """The longest that ids of what it begins have behind its own."""
    if _is_online(spec):
        return ENDS_OF_TAIL if spec.tail_unit is not None else ""
    return ENDS if spec.is_other_id else ""


def _claims(spec: UpgradeSpec) -> frozenset[str]:
    groups = dict.fromkeys((spec.group, spec.to_group or spec.group))
    return frozenset(f"the group {group} on {spec.cluster}" for group in groups)


UPGRADE = WorkflowKind(
    command=Upgrade,
    form=UPGRADE_FORM,
    complete=_complete,
    wanted=_wanted,
    plan=_plan,
    claims=_claims,
    topics=lambda _spec: (),
    after_step=_after_step,
    undo=_undo,
    stays=_stays,
    judge=_judge,
    units=_units_of,
    ends=_ends,
    is_beneath=_is_beneath,
)
