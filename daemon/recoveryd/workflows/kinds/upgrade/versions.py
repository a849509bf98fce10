"""Two versions of an application side by side: whether the newer one can go on where the older one stops, what its
owner has to know, and which results the exchange does not mend.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from recoveryd.units.compatibility import Compatibility, Existing, compare_versions
from recoveryd.units.facts import PartitionEnds
from recoveryd.units.model import Unit
from recoveryd.workflows.kinds.global_tables import commits_of, told_uncommitted
from recoveryd.workflows.kinds.noting import Place
from recoveryd.workflows.model.facts import Found, GroupFound
from recoveryd.workflows.model.size import named_after
from recoveryd.workflows.model.spec import UpgradeSpec

UnfixedRange = Mapping[str, Mapping[int, tuple[int, int]]]


def inputs_of(old: Unit, new: Unit) -> tuple[str, ...]:
    """What either of them reads and commits on, apart from internal topics."""
    return tuple(dict.fromkeys((*old.positioned, *new.positioned)))


def compared(old: Unit, new: Unit, found: Found) -> Compatibility:
    """Without state and without topology there is nothing that has to be found again."""
    if old.topology is None and new.topology is None and not old.keeps_state and not new.keeps_state:
        return Compatibility()
    partitions, unread = {}, {}
    for facts in (found.units[old.name], found.units[new.name]):
        committed = facts.group.committed if facts.group is not None else {}
        for name, topic in facts.topics.items():
            partitions[name] = topic.partitions
            read = {p: entry.offset for p, entry in committed.get(name, {}).items()}
            unread[name] = sum(
                max(0, ends.high_watermark - read.get(p, ends.log_start)) for p, ends in topic.ends.items()
            )
    return compare_versions(old.topology, new.topology, Existing(old.consumer_group, partitions, unread))


def findings_of(old: Unit, new: Unit, found: Found) -> Iterator[str]:
    """Sentences for the person who approves it."""
    (group,) = found.groups
    yield f"between {old.name} and {new.name} nothing is processed: from the stop until the new version runs"
    if found.units[old.name].is_exactly_once is not True:
        yield (
            f"{old.name} is not known to be exactly once: its offsets are its positions if it is stopped cleanly; what it "
            "had not committed when it is killed is processed again"
        )
    bare = bare_places(group)
    if bare:
        yield f"{bare} has no commit: {new.name} begins there by its auto.offset.reset"
    yield from told_uncommitted(new, group.looks, commits_of(group))
    for name in sorted(set(new.outputs) - set(old.outputs)):
        yield f"{new.name} writes {name}, which {old.name} does not"
    for name in sorted(set(old.outputs) - set(new.outputs)):
        yield f"{new.name} does not write {name} any more"
    for name, reason in found.units[old.name].internal.ambiguous:
        yield f"{name} may be an internal topic of {old.name}: {reason}"
    yield from found.units[old.name].problems


def bare_places(group: GroupFound) -> str:
    """Partitions without a commit of the group, in words; empty if there is none."""
    bare = [f"{look.topic} {look.partition}" for look in group.looks if look.committed is None]
    return ", ".join(bare[:5]) + (f" and {len(bare) - 5} more" if len(bare) > 5 else "")


def unfixed(
    spec: UpgradeSpec,
    inputs: Iterable[str],
    committed: Mapping[Place, int | None],
    logs: Mapping[str, Mapping[int, PartitionEnds]],
    run: str,
) -> tuple[UnfixedRange, tuple[Mapping[str, Any], ...]]:
    """What the old version has processed and is still there, and the replays of it, which are known once the cut is:
    `run` is the workflow that made it.
    """
    ranges: dict[str, dict[int, tuple[int, int]]] = {topic: {} for topic in inputs}
    for (topic, partition), at in committed.items():
        log = logs.get(topic, {}).get(partition)
        if topic in ranges and at is not None and log is not None:
            ranges[topic][partition] = (min(log.log_start, at), at)
    fix = tuple(_replay(spec, topic, found, run) for topic, found in ranges.items() if _has_records(found))
    return ranges, fix if run else ()


def _has_records(ranges: Mapping[int, tuple[int, int]]) -> bool:
    return any(stop > start for start, stop in ranges.values())


def _replay(spec: UpgradeSpec, topic: str, ranges: Mapping[int, tuple[int, int]], run: str) -> dict[str, Any]:
    there = {p: bounds for p, bounds in ranges.items() if bounds[1] > bounds[0]}
    return {
        "source": {
            "cluster": spec.cluster,
            "topic": topic,
            "partitions": list(there),
            "from": {"offsets": {str(p): start for p, (start, _) in there.items()}},
            "to": {"offsets": {str(p): stop for p, (_, stop) in there.items()}},
        },
        "target": {"cluster": spec.cluster, "topic": named_after(topic, f".before-{run}"), "create": True},
    }
