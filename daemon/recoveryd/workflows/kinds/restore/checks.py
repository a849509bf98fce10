"""What is looked at before a unit begins with a cut: what forbids it, and what its owner has to know."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.units.internal_topics import changelog_of
from recoveryd.units.model import Unit, UnitKind
from recoveryd.workflows.kinds.earlier import refuse_created_again
from recoveryd.workflows.kinds.global_tables import missing_tables, told_uncommitted
from recoveryd.workflows.kinds.outputs import findings_of_outputs, new_names, output_problem
from recoveryd.workflows.kinds.reset import refuse_group
from recoveryd.workflows.kinds.restore.names import name_now
from recoveryd.workflows.kinds.state import refuse_unclear
from recoveryd.workflows.model.colliding import refuse_collision
from recoveryd.workflows.model.cut import Cut, CutTopic
from recoveryd.workflows.model.facts import Found, TopicFound
from recoveryd.workflows.model.positions import NewPosition, PartitionLook
from recoveryd.workflows.model.size import refuse_copy, refuse_sizes
from recoveryd.workflows.model.spec import RestoreSpec


def problem_of_unit(unit: Unit, cut: Cut) -> Refused | None:
    if unit.cluster != cut.cluster:
        message = f"{unit.name} is on {unit.cluster}, and the savepoint on {cut.cluster}"
        return Refused(Code.INVALID_VALUE, message, "Restore it on its own cluster.")
    left = sorted({*unit.positioned} - set(cut.offsets))
    if left:
        message = f"the savepoint has no offsets of {left[0]}, which {unit.name} reads"
        return Refused(Code.INVALID_VALUE, message, "Let the unit read what the one of the savepoint read.")
    foreign = next((t.name for t in cut.topics if not t.name.startswith(f"{cut.group}-")), None)
    if foreign is not None and unit.consumer_group != cut.group:
        message = f"{foreign} is not named after {cut.group}, so it is not known what {unit.name} calls it"
        return Refused(Code.AMBIGUOUS_TOPICS, message, f"Restore it for {cut.unit}.")
    return None


def find_problem(spec: RestoreSpec, unit: Unit, cut: Cut, found: Found) -> Refused | None:
    (group,) = found.groups
    missing = (*group.missing, *missing_tables(unit, found.units[spec.unit]))
    if missing:
        return Refused(Code.SOURCE_TOPIC_MISSING, f"topics do not exist: {', '.join(missing)}")
    between = (place_between(spec, cut, t, p)[1] for t in cut.topics if t.is_between for p in range(t.form.partitions))
    noted = replace(group, looks=(*group.looks, *between))
    names = [name_now(spec, cut, topic) for topic in cut.topics]
    ahead = f"would stay ahead of {spec.savepoint}"
    refused = (
        refuse_created_again(cut.topic_ids, group.topic_ids, "the savepoint noted its offsets")
        or refuse_group(spec.group, group.group)
        or refuse_unclear(unit, found.units[spec.unit].internal, ahead, names)
        or refuse_sizes([(spec.group, noted)], sum(topic.form.partitions for topic in cut.topics))
        or _grown(spec, unit, cut, Counter(look.topic for look in group.looks))
    )
    if refused is not None:
        return refused
    for topic in cut.topics:
        if topic.offsets and (lost := _lost_copy(spec, topic, found.topics.get(topic.copy))) is not None:
            return lost
        name = name_now(spec, cut, topic)
        if (uncopied := refuse_copy(name, topic.copy_ends)) is not None:
            return uncopied
        there = found.topics.get(name)
        if there is not None and there.records_most and spec.group != cut.group:
            message = f"{name} has records: {unit.name} has state of its own already"
            return Refused(Code.TARGET_NOT_EMPTY, message, "Delete its internal topics, or choose another unit.")
    problems = (output_problem(spec, unit, name, found) for name in spec.outputs)
    problem = next((problem for problem in problems if problem is not None), None)
    return problem or refuse_collision((*names, *new_names(spec)), found.names)


def place_between(spec: RestoreSpec, cut: Cut, topic: CutTopic, partition: int) -> tuple[NewPosition, PartitionLook]:
    """What was written and not read yet is all that lies there."""
    name = name_now(spec, cut, topic)
    return NewPosition(name, partition, 0), PartitionLook(name, partition, 0, 0)


def _grown(spec: RestoreSpec, unit: Unit, cut: Cut, partitions: Mapping[str, int]) -> Refused | None:
    """Whether an input got partitions since the cut: Streams does not start where a changelog has fewer than there are
    tasks.
    """
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


def findings_of(spec: RestoreSpec, unit: Unit, cut: Cut, found: Found) -> Iterator[str]:
    if not cut.is_exact:
        yield cut.why
    for topic in cut.topics:
        if later := _later(topic, found.topics.get(topic.copy)):
            yield f"{topic.copy} has up to {later:,} records that are not of the savepoint, but came later: they are left out"
    stores = unit.topology.stores if unit.topology is not None else frozenset()
    known = {name_now(spec, cut, topic) for topic in cut.topics}
    for store in sorted(stores):
        if changelog_of(spec.group, store) not in known:
            yield f"the savepoint has no state of the store {store}, which begins empty"
    read = (offsets for topic, offsets in cut.offsets.items() if topic not in unit.read_globally)
    bare = sum(at is None for offsets in read for at in offsets.values())
    if bare:
        yield f"{bare} partitions had no commit when the cut was made: {unit.name} begins there by its auto.offset.reset"
    new = [str(look) for look in found.groups[0].looks if look.partition not in cut.offsets.get(look.topic, {})]
    if new:
        yield f"{new[0]} and {len(new) - 1} more came since the cut: {unit.name} begins there by its auto.offset.reset"
    for look in found.groups[0].looks:
        more = look.high_watermark - cut.ends.get(look.topic, {}).get(look.partition, look.high_watermark)
        if look.topic in unit.intermediate and more > 0:
            yield f"{more:,} records were written to {look} since the cut, and are read beside those that {unit.name} writes"
    committed = {topic: [at for at in offsets.values() if at is not None] for topic, offsets in cut.offsets.items()}
    yield from told_uncommitted(unit, found.groups[0].looks, committed)
    yield from findings_of_outputs(spec, unit, found)


def _later(topic: CutTopic, there: TopicFound | None) -> int:
    """At most so many records came to the copy after it was verified; 0 of a cut that does not say where it ended."""
    if there is None or not topic.copy_ends:
        return 0
    return sum(log.high_watermark - topic.copy_ends.get(p, 0) for p, log in there.ends.items())
