"""The plan of `reset`: wait until the group is empty, note where it was, set its offsets, read them back.

Nothing is changed before every partition has a position. Positions that depend on where the group is (`current`, a
shift) are worked out again when it is empty and has been noted, because until then it moves.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused, nearest_name
from recoveryd.units.approvals import approval_of_all
from recoveryd.units.facts import Group, GroupType
from recoveryd.units.model import ControlKind, Unit, UnitKind
from recoveryd.workflows.kinds.contracts import contracts_of, told_of_contracts
from recoveryd.workflows.kinds.earlier import looked_up, refuse_created_again
from recoveryd.workflows.kinds.frameworks import flink_start, flink_stop, framework_findings, source_connector
from recoveryd.workflows.kinds.global_tables import refuse_table
from recoveryd.workflows.kinds.noting import (
    LEAVES_SOME,
    change_key,
    change_of,
    inside_log,
    moved_with,
    planned_partitions,
    refuse_grown,
    rows_of,
    with_positions,
    with_start_as_before,
)
from recoveryd.workflows.kinds.starting_points import start_findings
from recoveryd.workflows.kinds.state import clean_text, refuse_state, told_of_state
from recoveryd.workflows.machine.kind import Knows, Planned, WorkflowKind
from recoveryd.workflows.machine.starting import started_again
from recoveryd.workflows.machine.undoing import rollback_steps
from recoveryd.workflows.model.actions import (
    AskPerson,
    AwaitEmpty,
    AwaitStarted,
    AwaitStopped,
    LookAtTopics,
    SetOffsets,
    TakeSnapshot,
)
from recoveryd.workflows.model.commands import Reset
from recoveryd.workflows.model.confirming import Confirmation, Kept, as_said, confirmations, question, refuse_open
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.facts import Found, GroupFound, GroupWanted, WantedFacts
from recoveryd.workflows.model.hashing import hash_of
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.positions import (
    AtTopicOffsets,
    NewPosition,
    PartitionLook,
    PositionRefused,
    To,
    meaning,
    moving_notes,
    resolve,
)
from recoveryd.workflows.model.size import refuse_size
from recoveryd.workflows.model.spec import ResetSpec, StateChoice
from recoveryd.workflows.model.step_names import CLEAN, CONFIRM, EMPTY, LOOK_INPUTS, NOTE, SET, START, STOP
from recoveryd.workflows.model.workflow import Workflow, WorkflowPlan, WorkflowStep
from recoveryd.workflows.wire.command import RESET_FORM


def _complete(spec: ResetSpec, knows: Knows) -> ResetSpec | Refused:
    """With what the config says, and what other workflows noted."""
    named = _with_unit(_with_named_topics(spec), knows)
    if isinstance(named, Refused):
        return named
    left_out = refuse_state(named, knows.params.units.get(named.unit or ""))
    if left_out is not None:
        return left_out
    to = looked_up(named.to, named.cluster, named.group, knows.workflows)
    if isinstance(to, Refused):
        return to
    if named.topics is None and isinstance(to, AtTopicOffsets) and to is not named.to:
        return replace(named, to=to, topics=dict.fromkeys(to.offsets, ()))
    return replace(named, to=to)


def _with_unit(spec: ResetSpec, knows: Knows) -> ResetSpec | Refused:
    """With what the config says of the unit. A group that is one's is the unit's also by its own name, so that who
    approves it is asked.
    """
    if spec.unit is None:
        owner = next((u for u in knows.params.units.values() if _reads_as(u) == (spec.cluster, spec.group)), None)
        return spec if owner is None else replace(spec, unit=owner.name)
    unit = unit_of(spec.unit, knows.params)
    if isinstance(unit, Refused):
        return unit
    if unit.connector and not unit.inputs:
        message = f"{unit.name} has no inputs: where a source connector stands is not told by topics and partitions"
        return Refused(Code.GROUP_TYPE, message, source_connector(unit))
    foreign = sorted(set(spec.topics or ()) - set(unit.inputs) - set(unit.intermediate))
    if foreign:
        field = "to" if isinstance(spec.to, AtTopicOffsets) and foreign[0] in spec.to.offsets else "topics"
        message = f"{field}: {foreign[0]} is neither input nor intermediate topic of {unit.name}"
        return Refused(Code.INVALID_VALUE, message, nearest_name(foreign[0], frozenset(unit.inputs)))
    named = replace(spec, cluster=unit.cluster, group=unit.consumer_group)
    if not spec.topics:
        named = replace(named, topics=dict.fromkeys(unit.positioned_inputs, ()), all_inputs=True)
    return refuse_table("topics", named.topics or {}, unit) or named


def _with_named_topics(spec: ResetSpec) -> ResetSpec:
    """With those whose offsets the command gives: one that is misspelt is not to be passed over."""
    if spec.topics is not None or not isinstance(spec.to, AtTopicOffsets):
        return spec
    return replace(spec, topics=dict.fromkeys(spec.to.offsets, ()))


def _reads_as(unit: Unit) -> tuple[str, str]:
    return unit.cluster, unit.consumer_group


def unit_of(name: str, params: WorkflowParams) -> Unit | Refused:
    unit = params.units.get(name)
    if unit is not None:
        return unit
    hint = nearest_name(name, frozenset(params.units)) if params.units else "the config has no units"
    return Refused(Code.UNKNOWN_UNIT, f"unit: the config has no unit {name!r}", hint)


def _wanted(spec: ResetSpec, _params: WorkflowParams) -> WantedFacts:
    asked = () if spec.unit is None else (spec.unit,)
    return WantedFacts((GroupWanted(spec.cluster, spec.group, spec.to, spec.topics),), contracts=asked)


def _plan(spec: ResetSpec, facts: Found, params: WorkflowParams) -> Planned | Refused:
    (found,) = facts.groups
    unit = params.units.get(spec.unit or "")
    refusal = _other_inputs(spec, unit) or _refuse(spec, found)
    if refusal is not None:
        return refusal
    try:
        positions = [resolve(spec.to, look, spec.on_out_of_range, spec.on_no_record) for look in found.looks]
    except PositionRefused as refused:
        return outside_log(refused)
    moved = [(p, look) for p, look in zip(positions, found.looks, strict=True) if p.offset is not None]
    if not moved:
        message = f"no partition of {spec.group} has a position to be set"
        return Refused(Code.NOTHING_TO_DO, message, "Name topics that the group reads.")
    findings = (*moving_notes(spec.to), *(p.note for p in positions if p.note), *_left_alone(spec, positions, found))
    if found.group is None:
        findings = (*findings, f"the cluster has no group {spec.group} yet; it begins with these offsets")
    contracts = contracts_of(unit, facts)
    if isinstance(contracts, Refused):
        return contracts
    findings = (*findings, *start_findings(moved), *told_of_state(spec, unit), *told_of_contracts(contracts))
    changes = tuple(change_of(p, look) for p, look in moved)
    ids = {topic: found.topic_ids[topic] for topic in sorted({p.topic for p, _ in moved})}
    confirmed = _confirmed(spec, unit, moved, found, params)
    refusal = refuse_open(unit, confirmed) if unit is not None else None
    if refusal is not None:
        return refusal
    asked = question(unit, confirmed) if unit is not None else None
    first, last = _around(spec, unit)
    findings = (*findings, *framework_findings(unit))
    connector = "" if unit is None else unit.connector
    steps = (
        *((WorkflowStep(CONFIRM, AskPerson(asked)),) if asked is not None else ()),
        *first,
        WorkflowStep(EMPTY, AwaitEmpty(spec.cluster, spec.group)),
        WorkflowStep(NOTE, TakeSnapshot(spec.cluster, spec.group, tuple(ids), topic_ids=ids, looks_twice=True)),
        WorkflowStep(SET, SetOffsets(spec.cluster, spec.group, connector=connector, topic_ids=ids)),
        *(_cleaned(spec, unit, ids) if unit is not None and _cleans(spec) else ()),
        *last,
    )
    told = f"{len(changes)} offsets of {spec.group} are to be set"
    plan = WorkflowPlan(_hash(spec, found, positions), changes, findings, confirmations=confirmed, contracts=contracts)
    return Planned(plan, steps, told)


def _other_inputs(spec: ResetSpec, unit: Unit | None) -> Refused | None:
    """Where all inputs are meant, and the unit has others now than when the command was taken."""
    if unit is None or not spec.all_inputs:
        return None
    then, now = set(spec.topics or ()), set(unit.positioned_inputs)
    if new := sorted(now - then):
        change = f"reads {new[0]} now, and did not"
    elif gone := sorted(then - now):
        change = f"does not read {gone[0]} any more, and did"
    else:
        return None
    message = f"{unit.name} {change} when the command was taken; nothing was changed"
    return Refused(Code.STALE_PLAN, message, "Send it again: its plan will have the inputs of now.")


def _left_alone(spec: ResetSpec, positions: list[NewPosition], found: GroupFound) -> Iterator[str]:
    """Partitions of the topics for which offsets are named, but none of theirs, as where nothing was committed at a
    cut.
    """
    pairs = zip(positions, found.looks, strict=True)
    left = [look for p, look in pairs if p.offset is None and look.committed is not None]
    if left and isinstance(spec.to, AtTopicOffsets):
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        yield f"no offset is named for {left[0]}{more}: the group stays there where it is"


Steps = tuple[WorkflowStep, ...]


def _around(spec: ResetSpec, unit: Unit | None) -> tuple[Steps, Steps]:
    """What has to come before and behind, for those frameworks of which an empty group says nothing."""
    if unit is None:
        return (), ()
    if unit.kind is UnitKind.FLINK and unit.control is ControlKind.MANUAL:
        return (
            (WorkflowStep(STOP, AskPerson(flink_stop(unit))),),
            (WorkflowStep(START, AskPerson(flink_start(unit))),),
        )
    if unit.connector or unit.kind is UnitKind.FLINK:
        return (
            (WorkflowStep(STOP, AwaitStopped(spec.cluster, spec.group, unit.name)),),
            (WorkflowStep(START, AwaitStarted(spec.cluster, spec.group, unit.name, inputs=unit.positioned_inputs)),),
        )
    return (), ()


def _cleaned(spec: ResetSpec, unit: Unit, topics: Iterable[str]) -> Steps:
    """A person takes their time, and retention goes on meanwhile."""
    look = LookAtTopics(spec.cluster, tuple(topics), group=spec.group)
    return WorkflowStep(CLEAN, AskPerson(clean_text(unit))), WorkflowStep(LOOK_INPUTS, look)


def _confirmed(
    spec: ResetSpec,
    unit: Unit | None,
    moved: list[tuple[NewPosition, PartitionLook]],
    found: GroupFound,
    params: WorkflowParams,
) -> tuple[Confirmation, ...]:
    if unit is None:
        return as_said(spec.confirm)
    approval = approval_of_all(params.approvals, spec.verb, unit, params.units)
    kept = Kept(is_part=any((spec.topics or {}).values()), is_state=unit.keeps_state and not _cleans(spec))
    return confirmations(unit, spec.confirm, moved, found.looks, approval, kept)


def _cleans(spec: ResetSpec) -> bool:
    return spec.state is StateChoice.CLEAN


def outside_log(refused: PositionRefused) -> Refused:
    hint = "Name a position inside the log, or say on_out_of_range or on_no_record."
    return Refused(Code.OFFSET_OUTSIDE_LOG, str(refused), hint)


def _noted(workflow: Workflow, step: WorkflowStep, event: StepReported) -> Workflow | Refused:
    """Once it is known where the group was: what is to be set, and how each of it is put back."""
    spec = workflow.spec
    if isinstance(step.action, AwaitStopped):
        return with_start_as_before(workflow, event)
    if step.name != NOTE or workflow.plan is None or not isinstance(spec, ResetSpec):
        return workflow.with_undo(event.undo)
    grown = refuse_grown(_whole(workflow, spec), event)
    if grown is not None:
        return grown
    noted = rows_of(event)
    after = {change_key(c): moved_with(spec.to, c, event, noted) for c in workflow.plan.changes}
    try:
        inside = inside_log(after, event, spec.on_out_of_range)
    except PositionRefused as refused:
        return outside_log(refused)
    return with_positions(workflow, event, spec.group, inside)


def _whole(workflow: Workflow, spec: ResetSpec) -> dict[str, int]:
    """Topics of which all partitions are meant, with as many as the plan saw."""
    if isinstance(spec.to, LEAVES_SOME):
        return {}
    narrowed = {topic for topic, partitions in (spec.topics or {}).items() if partitions}
    return {topic: count for topic, count in planned_partitions(workflow).items() if topic not in narrowed}


def _refuse(spec: ResetSpec, found: GroupFound) -> Refused | None:
    if found.missing:
        named = ", ".join(found.missing)
        message = f"topics do not exist: {named}; nothing is changed"
        return Refused(Code.SOURCE_TOPIC_MISSING, message, "Correct the names.")
    wanted = {(t, p) for t, partitions in (spec.topics or {}).items() for p in partitions}
    lost = sorted(wanted - {(look.topic, look.partition) for look in found.looks})
    if lost:
        return _missing_partition(*lost[0])
    noted = spec.to.topic_ids if isinstance(spec.to, AtTopicOffsets) else {}
    refused = refuse_created_again(noted, found.topic_ids) or refuse_nowhere(spec.to, spec.topics or {}, found)
    refused = refused or refuse_group(spec.group, found.group)
    committed = found.group.committed if found.group is not None else {}
    return refused or refuse_size(spec.group, found.looks, committed)


def refuse_nowhere(to: To, topics: Mapping[str, tuple[int, ...]], found: GroupFound) -> Refused | None:
    """Of offsets that are given by partition: one of a partition that its topic does not have. `topics` as they are
    wanted: of those that are narrowed down, the others are left out on purpose.
    """
    if not isinstance(to, AtTopicOffsets):
        return None
    there = {look.key for look in found.looks}
    whole = (topic for topic in found.topic_ids if not topics.get(topic))
    lost = sorted((t, p) for t in whole for p in to.offsets.get(t, ()) if (t, p) not in there)
    return _missing_partition(*lost[0]) if lost else None


def _missing_partition(topic: str, partition: int) -> Refused:
    return Refused(Code.SOURCE_PARTITION_MISSING, f"{topic} has no partition {partition}; nothing is changed")


def refuse_group(name: str, group: Group | None) -> Refused | None:
    """Of a type whose offsets nobody can set by committing them. Groups of Streams commit like those of consumers, in
    both protocols.
    """
    match group.type if group is not None else None:
        case GroupType.SHARE:
            message = f"{name} is a share group, whose start offsets are not committed offsets"
            return Refused(Code.GROUP_TYPE, message, "Set them with Kafka's kafka-share-groups.")
        case GroupType.CONNECT:
            message = f"{name} is the group of Connect workers, which commits no offsets"
            return Refused(Code.GROUP_TYPE, message, "Name the group of the sink connector, `connect-` and its name.")
        case GroupType.UNKNOWN:
            assert group is not None
            message = f"{name} is a group of the protocol {group.state}, which is not known to commit offsets"
            return Refused(Code.GROUP_TYPE, message)
        case _:
            return None


def _hash(spec: ResetSpec, found: GroupFound, positions: list[NewPosition]) -> str:
    """Over what is meant: for positions that move the words, for others the numbers."""
    return hash_of({
        "group": (spec.cluster, spec.group),
        "topics": dict(found.topic_ids),
        "to": [meaning(spec.to, look, p) for p, look in zip(positions, found.looks, strict=True)],
        "policies": (spec.on_out_of_range.value, spec.on_no_record.value),
        **({"state": spec.state.value} if spec.state is not None else {}),
    })  # fmt: skip


RESET = WorkflowKind(
    command=Reset,
    form=RESET_FORM,
    complete=_complete,
    wanted=_wanted,
    plan=_plan,
    claims=lambda spec: frozenset({f"the group {spec.group} on {spec.cluster}"}),
    topics=lambda spec: spec.topics or (),
    after_step=_noted,
    undo=lambda workflow: started_again(workflow, rollback_steps(workflow)),
)
