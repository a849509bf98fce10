"""What is looked at before an application begins again: what forbids it, and what its owner has to know."""

from collections.abc import Iterator, Mapping, Sequence

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.recovery.spec import AtTime, Earliest
from recoveryd.units.facts import Committed, Group, GroupType
from recoveryd.units.model import Unit, UnitKind
from recoveryd.workflows.kinds.earlier import refuse_created_again
from recoveryd.workflows.kinds.global_tables import commits_of, missing_tables, told_uncommitted
from recoveryd.workflows.kinds.noting import Place
from recoveryd.workflows.kinds.outputs import findings_of_outputs, output_problem
from recoveryd.workflows.kinds.reset import refuse_group, refuse_nowhere
from recoveryd.workflows.kinds.state import refuse_unclear
from recoveryd.workflows.model.facts import Found, GroupFound
from recoveryd.workflows.model.positions import AtTopicOffsets, NewPosition, PartitionLook
from recoveryd.workflows.model.size import refuse_size
from recoveryd.workflows.model.spec import ReprocessSpec

Positions = Sequence[tuple[NewPosition, PartitionLook]]


def find_problem(spec: ReprocessSpec, unit: Unit, found: Found, positions: Positions) -> Refused | None:
    """The first reason why nothing may be changed."""
    inputs, between = found.groups
    missing = (*inputs.missing, *between.missing, *missing_tables(unit, found.units[unit.name]))
    if missing:
        message = f"topics of {unit.name} do not exist: {', '.join(missing)}; nothing is changed"
        return Refused(Code.SOURCE_TOPIC_MISSING, message, "Correct the unit, or make the topics.")
    noted = spec.to.topic_ids if isinstance(spec.to, AtTopicOffsets) else {}
    for problem in (
        refuse_created_again(noted, inputs.topic_ids),
        refuse_nowhere(spec.to, {}, inputs),
        _refuse_unnamed(spec, inputs),
        refuse_group(spec.group, inputs.group),
        refuse_size(spec.group, [look for _, look in positions], _committed(found)),
        _wrong_group(unit, inputs.group),
        refuse_unclear(unit, found.units[unit.name].internal, "would not be taken away"),
        _input_problem(spec, positions),
        *(output_problem(spec, unit, name, found) for name in spec.outputs),
    ):
        if problem is not None:
            return problem
    return None


def _refuse_unnamed(spec: ReprocessSpec, inputs: GroupFound) -> Refused | None:
    """A partition that is left where it is would go on there with empty state, and nobody would see what it lacks."""
    to = spec.to
    if not isinstance(to, AtTopicOffsets):
        return None
    committed = (look for look in inputs.looks if look.committed is not None and not to.is_bare(*look.key))
    left = [look for look in committed if look.partition not in to.offsets.get(look.topic, {})]
    if not left:
        return None
    more = f" and {len(left) - 5} more" if len(left) > 5 else ""
    message = (
        f"from: no offset is named for {', '.join(map(str, left[:5]))}{more}: {spec.group} has a commit there, and would "
        "go on with empty state; nothing is changed"
    )
    return Refused(Code.INVALID_VALUE, message, "Name an offset for each partition of the inputs.")


def _committed(found: Found) -> Mapping[str, Mapping[int, Committed]]:
    return {topic: rows for side in found.groups if side.group for topic, rows in side.group.committed.items()}


def missing_in(spec: ReprocessSpec, places: Mapping[Place, tuple[int, int | None]]) -> dict[Place, int]:
    """By place, how many records in front of where it begins are gone at most; `places` have log start and position.
    For a point inside the log nothing is missing.
    """
    if isinstance(spec.to, Earliest):
        return {place: start for place, (start, _) in places.items() if start > 0}
    behind = {place: start - at for place, (start, at) in places.items() if at is not None and at < start}
    if isinstance(spec.to, AtTime):
        return {place: start for place, (start, at) in places.items() if start > 0 and at == start} | behind
    return behind


def _places(spec: ReprocessSpec, positions: Positions) -> dict[Place, tuple[int, int | None]]:
    return {
        (p.topic, p.partition): (look.log_start, p.offset) for p, look in positions if p.topic not in spec.intermediate
    }


def _wrong_group(unit: Unit, group: Group | None) -> Refused | None:
    is_plain = group is not None and group.is_streams is False and group.type is not GroupType.STREAMS
    if is_plain and unit.kind is UnitKind.STREAMS:
        message = f"{unit.name} is of kind streams, and the members of {unit.consumer_group} are not"
        return Refused(Code.GROUP_TYPE, message, "Correct the unit's kind or group.")
    return None


def _input_problem(spec: ReprocessSpec, positions: Positions) -> Refused | None:
    missing = missing_in(spec, _places(spec, positions))
    count = sum(missing.values())
    if count <= spec.accept_missing:
        return None
    named = ", ".join(f"{topic} {partition} lacks {n:,}" for (topic, partition), n in list(missing.items())[:5])
    least = "" if isinstance(spec.to, Earliest) else "up to "
    message = f"{least}{count:,} records of the inputs are gone: {named}; nothing is changed"
    return Refused(Code.INPUT_INCOMPLETE, message, f"Begin at a later point, or say accept_missing {count}.")


def findings_of(spec: ReprocessSpec, unit: Unit, found: Found, positions: Positions) -> tuple[str, ...]:
    """Sentences for the person who approves it."""
    return (
        *_of_inputs(spec, unit, found, positions),
        *told_uncommitted(unit, found.groups[0].looks, commits_of(found.groups[0])),
        *findings_of_outputs(spec, unit, found),
        *_of_internal(unit, found),
        *found.units[unit.name].problems,
    )


def _of_inputs(spec: ReprocessSpec, unit: Unit, found: Found, positions: Positions) -> Iterator[str]:
    missing = missing_in(spec, _places(spec, positions))
    if missing:
        yield f"{sum(missing.values()):,} records in front of the inputs may be gone, which was accepted"
    if isinstance(spec.to, AtTopicOffsets) and (bare := sum(spec.to.is_bare(*k.key) for k in found.groups[0].looks)):
        yield f"{bare} partitions of the inputs had no commit then: {unit.name} begins there by its auto.offset.reset"
    topics = found.units[unit.name].topics
    for name in unit.inputs:
        if (topic := topics.get(name)) is not None and topic.is_compacted:
            yield f"{name} is compacted: what was replaced in it since the first run is not processed again"
    if found.groups[0].group is None:
        yield f"the cluster has no group {spec.group} yet; it begins with these offsets"


def _of_internal(unit: Unit, found: Found) -> Iterator[str]:
    facts = found.units[unit.name]
    for name, reason in facts.internal.ambiguous:
        yield f"{name} may be an internal topic of {unit.name}, and is left alone: {reason}"
    if facts.containing_ids:
        yield f"other application ids begin with {unit.group}: {', '.join(facts.containing_ids)}; their topics stay"
    if unit.stateful is None and unit.keeps_state and unit.topology is None:
        yield f"nobody said whether {unit.name} has state, so its local state has to be cleaned"
