"""An upgrade in which the new version runs beside the old one, into outputs of its own, until it is ready.

Then both are stopped one after the other, and the cut is where the old one stood. The new one is stopped first, so it
never is beyond the cut; `exact`, it then gets just what lies between the two stops, from topics that hold nothing else
(the tail), and writes what comes of it where nobody reads. It stands exactly at the cut then, like the old one, and
begins to write where readers look with the first record behind it. So no output has to be told apart by the input that
it came from. Under `at_least_once` it goes on where it was stopped, and what lies between comes from both.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.units.compatibility import VersionVerdict
from recoveryd.units.facts import PartitionEnds, UnitFacts
from recoveryd.units.model import ControlKind, Unit
from recoveryd.workflows.kinds.copies import copy_form
from recoveryd.workflows.kinds.upgrade.names import (
    COMPARE,
    COPY_TAIL,
    CREATE_TAIL,
    DELETE_TAIL,
    EMPTY_BESIDE,
    EMPTY_TAIL,
    LOOK_BESIDE,
    NOTE_BESIDE,
    NOTE_TAIL,
    OLD_THERE,
    READ_TAIL,
    READY,
    SET_TAIL,
    START_BESIDE,
    START_TAIL,
    STOP_BESIDE,
    STOP_TAIL,
)
from recoveryd.workflows.kinds.upgrade.online_checks import (
    between_of,
    problem_of_roles,
    problem_of_state,
    problem_online,
)
from recoveryd.workflows.kinds.upgrade.versions import bare_places, unfixed
from recoveryd.workflows.machine.kind import Planned
from recoveryd.workflows.model.actions import (
    AwaitCaughtUp,
    AwaitEmpty,
    AwaitReady,
    AwaitStarted,
    AwaitStopped,
    CreateTopics,
    DeleteTopics,
    LookAtTopics,
    LookAtUnit,
    RunChildren,
    SetOffsets,
    TakeSnapshot,
    TopicForm,
)
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.facts import Found, GroupWanted, WantedFacts
from recoveryd.workflows.model.hashing import hash_of
from recoveryd.workflows.model.matter import matter_of
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.positions import Current
from recoveryd.workflows.model.spec import Cutover, UpgradeSpec
from recoveryd.workflows.model.step_names import CATCH_UP, EMPTY, LOOK, NOTE, SET, START, STOP
from recoveryd.workflows.model.workflow import Change, UnitUndo, VersionChange, Workflow, WorkflowPlan, WorkflowStep


def wanted_online(spec: UpgradeSpec, params: WorkflowParams) -> WantedFacts:
    if _problem_of_config(spec, params) is not None:
        return WantedFacts()  # the plan says so
    new, tails = params.units[spec.to_unit], tails_of(spec, params)
    named = dict.fromkeys(new.positioned_inputs, ())
    return WantedFacts(
        groups=tuple(GroupWanted(spec.cluster, group, Current(), named) for group in (spec.group, spec.to_group)),
        units=(spec.unit, spec.to_unit),
        topics=tuple((spec.cluster, name) for name in (*tails, *tails.values())),
        names_on=spec.cluster if tails else "",
    )


def _problem_of_config(spec: UpgradeSpec, params: WorkflowParams) -> Refused | None:
    """It may be another one since the command was taken."""
    lost = next((name for name in _roles(spec) if name not in params.units), None)
    if lost is not None:
        return Refused(Code.UNKNOWN_UNIT, f"the config has no unit {lost!r} any more", "Put it back, and try again.")
    return problem_of_roles(spec, params)


def _roles(spec: UpgradeSpec) -> tuple[str, ...]:
    """The units by their role in the upgrade."""
    return tuple(n for n in (spec.unit, spec.to_unit, spec.staged_unit, spec.tail_unit) if n is not None)


def tails_of(spec: UpgradeSpec, params: WorkflowParams) -> dict[str, str]:
    """By input, the topic that gets what lies between the two stops."""
    if spec.tail_unit is None:
        return {}
    new, tail = params.units[spec.to_unit], params.units[spec.tail_unit]
    return dict(zip(new.positioned_inputs, tail.positioned_inputs, strict=True))


def plan_online(spec: UpgradeSpec, found: Found, params: WorkflowParams) -> Planned | Refused:
    changed = _problem_of_config(spec, params)
    if changed is not None:
        return changed
    old, new, tails = params.units[spec.unit], params.units[spec.to_unit], tails_of(spec, params)
    problem = problem_online(spec, found, tails)
    if problem is not None:
        return problem
    group = found.groups[0]
    committed = {(look.topic, look.partition): look.committed for look in group.looks}
    logs: dict[str, dict[int, PartitionEnds]] = {}
    for look in group.looks:
        logs.setdefault(look.topic, {})[look.partition] = PartitionEnds(look.log_start, look.high_watermark)
    forms = tuple(
        copy_form(tail, topic.form) for source, tail in tails.items() if (topic := found.topics[source]) is not None
    )
    assert spec.ready is not None
    goal = f"the cut of {old.name}" if spec.cutover is Cutover.EXACT else f"where {spec.staged_unit} is stopped"
    plan = WorkflowPlan(
        hash=hash_of(
            {
                "units": (spec.unit, spec.to_unit, spec.staged_unit, spec.tail_unit, spec.cluster),
                "groups": (spec.group, spec.to_group),
                "how": (spec.mode.value, spec.cutover.value, spec.ready.lag_ms, spec.ready.hold_ms),
                "topics": dict(group.topic_ids),
                "tails": tails,
                "roles": {name: matter_of(params.units[name]) for name in _roles(spec)},
                "partitions": {topic: len(found) for topic, found in logs.items()},
            }
        ),
        changes=(
            Change("unit", spec.to_group, None, old.name, new.name),
            *(Change("offset", topic, None, None, goal) for topic in new.positioned_inputs),
            *(Change("topic", form.name, None, None, f"empty, {form.partitions} partitions") for form in forms),
        ),
        findings=tuple(_findings(spec, old, new, found)),
        version=VersionChange(
            VersionVerdict.COMPATIBLE, (), *unfixed(spec, new.positioned_inputs, committed, logs, "")
        ),
    )
    told = f"{new.name} is to run beside {old.name} as {spec.staged_unit}, and to take over {spec.cutover.value}"
    steps = tuple(_steps(spec, params, found, tails, forms))
    return Planned(plan, steps, told, (UnitUndo(old.name),), reads=tuple(tails))


def _findings(spec: UpgradeSpec, old: Unit, new: Unit, found: Found) -> Iterator[str]:
    was = found.groups[1].group
    if was is not None and any(was.committed.values()):
        yield f"{spec.staged_unit} begins where {spec.to_group} stands, with the state that it has"
    else:
        yield f"{spec.staged_unit} begins by its auto.offset.reset, with empty state"
    yield f"from the stop of {old.name} until {new.name} writes nothing new comes out"
    if found.units[old.name].is_exactly_once is not True:
        yield (
            f"{old.name} is not known to be exactly once: its offsets are its positions if it is stopped cleanly; what it "
            "had not committed when it is killed comes out again"
        )
    if spec.cutover is Cutover.AT_LEAST_ONCE:
        yield f"what lies between the stops of {spec.staged_unit} and of {old.name} comes out of both"
    elif spec.tail_unit is None:
        yield f"{new.name} keeps no state, so it passes over what lies between the stops of {spec.staged_unit} and of {old.name}"
    bare = bare_places(found.groups[0])
    if bare:
        yield f"{bare} has no commit of {spec.group} yet; if records lie there, it cannot be told where it stands"
    yield from found.units[old.name].problems


def _steps(
    spec: UpgradeSpec, params: WorkflowParams, found: Found, tails: Mapping[str, str], forms: tuple[TopicForm, ...]
) -> Iterator[WorkflowStep]:
    """Roles that people start are told by them: all of them have the same group."""
    old, new = params.units[spec.unit], params.units[spec.to_unit]
    told = {name for name, unit in params.units.items() if unit.control is ControlKind.MANUAL}
    cluster, before, after, staged = spec.cluster, spec.group, spec.to_group, spec.staged_unit
    assert staged is not None
    assert spec.ready is not None
    ids = dict(found.groups[0].topic_ids)
    units = _roles(spec)
    planned = {name: matter_of(params.units[name]) for name in units}
    read = new.positioned_inputs
    partitions = Counter(look.topic for look in found.groups[0].looks)
    note = f", beside {old.name}"
    yield WorkflowStep(START_BESIDE, AwaitStarted(cluster, after, staged, note, is_told=staged in told))
    ready = AwaitReady(cluster, after, read, spec.ready.lag_ms, spec.ready.hold_ms, units, planned, dict(partitions))
    yield WorkflowStep(READY, ready)
    yield WorkflowStep(LOOK_BESIDE, LookAtUnit(cluster, after, staged))
    yield WorkflowStep(STOP_BESIDE, AwaitStopped(cluster, after, staged))
    yield WorkflowStep(EMPTY_BESIDE, AwaitEmpty(cluster, after))
    yield WorkflowStep(NOTE_BESIDE, TakeSnapshot(cluster, after, read, is_live=True, topic_ids=ids))
    yield WorkflowStep(OLD_THERE, AwaitCaughtUp(cluster, before))
    yield WorkflowStep(STOP, AwaitStopped(cluster, before, old.name))
    yield WorkflowStep(EMPTY, AwaitEmpty(cluster, before))
    outputs_of_old = tuple(old.outputs)
    yield WorkflowStep(NOTE, TakeSnapshot(cluster, before, read, outputs_of_old, is_live=True, topic_ids=ids))
    if forms:
        yield from _tail_steps(spec, tuple(tails.values()), forms, is_told=spec.tail_unit in told)
    yield WorkflowStep(SET, SetOffsets(cluster, after))
    if forms:
        yield WorkflowStep(DELETE_TAIL, DeleteTopics(cluster, {}, is_ours=True, group=after, with_records=True))
    yield WorkflowStep(COMPARE, TakeSnapshot(cluster, before, read, is_live=True, topic_ids=ids))
    note = f", in place of {old.name}"
    yield WorkflowStep(START, AwaitStarted(cluster, after, new.name, note, is_told=new.name in told))
    yield WorkflowStep(CATCH_UP, AwaitCaughtUp(cluster, after, brings_state=new.keeps_state))
    if new.outputs:
        yield WorkflowStep(LOOK, LookAtTopics(cluster, tuple(new.outputs)))


def _tail_steps(
    spec: UpgradeSpec, topics: tuple[str, ...], forms: tuple[TopicForm, ...], *, is_told: bool
) -> Iterator[WorkflowStep]:
    cluster, group, tail = spec.cluster, spec.to_group, spec.tail_unit
    assert tail is not None
    yield WorkflowStep(CREATE_TAIL, CreateTopics(cluster, forms, is_own=True))
    yield WorkflowStep(COPY_TAIL, RunChildren())
    yield WorkflowStep(NOTE_TAIL, TakeSnapshot(cluster, group, topics))
    yield WorkflowStep(SET_TAIL, SetOffsets(cluster, group, topics=topics))
    note = f", to read {', '.join(topics)} to the end"
    yield WorkflowStep(START_TAIL, AwaitStarted(cluster, group, tail, note, is_told=is_told))
    yield WorkflowStep(READ_TAIL, AwaitCaughtUp(cluster, group))
    yield WorkflowStep(STOP_TAIL, AwaitStopped(cluster, group, tail))
    yield WorkflowStep(EMPTY_TAIL, AwaitEmpty(cluster, group))


def judge_online(workflow: Workflow, event: StepReported, units: Mapping[str, Unit]) -> StepReported:
    """What the new version made for itself is known once it runs. It is the last look before something is stopped, so
    all has to be as it was planned: `units` are those of the config now.
    """
    spec = workflow.spec
    assert isinstance(spec, UpgradeSpec)
    assert spec.staged_unit is not None
    facts = None if event.found is None else event.found.units.get(spec.staged_unit)
    if facts is None:
        why = f"the config has no unit {spec.staged_unit!r} any more"
        return replace(event, outcome=Outcome.FAILED, why=why, code=Code.UNKNOWN_UNIT.value)
    changed = _not_as_planned(workflow, facts, units)
    if changed is not None:
        return replace(event, outcome=Outcome.FAILED, why=changed, code=Code.STALE_PLAN.value)
    kept = problem_of_state(spec, spec.staged_unit, facts)
    if kept is not None:
        return replace(event, outcome=Outcome.FAILED, why=kept.message, code=kept.code.value)
    between = between_of(facts)
    if between is not None:
        why = f"{spec.staged_unit} has {between}, and of what is under way there nobody can tell which input it belongs to"
        return replace(event, outcome=Outcome.FAILED, why=why, code=Code.VERSIONS_INCOMPATIBLE.value)
    return replace(event, evidence={"internal": list(facts.internal.certain)})


def _not_as_planned(workflow: Workflow, facts: UnitFacts, units: Mapping[str, Unit]) -> str | None:
    """What is another thing now than the plan saw, in words."""
    ready = next(step.action for step in workflow.steps if step.name == READY)
    assert isinstance(ready, AwaitReady)
    for name, matter in ready.planned.items():
        if matter_of(units.get(name)) != matter:
            return f"{name} is another one in the config than when the plan was made"
    for topic, count in ready.partitions.items():
        now = facts.topics.get(topic)
        if now is not None and now.partitions != count:
            return f"{topic} has {now.partitions} partitions, and had {count} when the plan was made"
    return None
