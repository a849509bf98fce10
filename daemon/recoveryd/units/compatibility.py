"""Whether a new version of an application of Kafka Streams can go on where the old one stopped, under the same
application id: told from both texts of `Topology#describe` and the internal topics that exist.

State is found again by name: a store by that of its changelog, what is under way by that of its repartition topic, a
local directory by the number of its sub-topology. What no text tells is how keys and values are written, how long
windows are, what a function does and which of two operations that Streams named alike is which, so `compatible` says
that everything is found again, not that the code means the same.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from recoveryd.units.internal_topics import changelog_of, internal_names
from recoveryd.units.topology import Node, NodeKind, Topology

_INDEX: Final = re.compile(r"-\d{10}(?=-|$)", re.ASCII)
_KIND: Final = re.compile(r"((?:KSTREAM|KTABLE|COGROUPKSTREAM)-[A-Z]+(?:-[A-Z]+)*)-\d{10}", re.ASCII)
_TABLE: Final = re.compile(r"(.+)-STATE-STORE-\d{10}", re.ASCII)

_COUNTING: Final = frozenset({"between_gone", "between_moved"})


class VersionVerdict(StrEnum):
    """`unknown` needs a person, and is never taken for one of the others."""

    COMPATIBLE = "compatible"
    UNKNOWN = "unknown"
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True, slots=True)
class VersionDifference:
    """`name` is short and does not change. One that is `compatible` is worth knowing, and stands in nobody's way."""

    name: str
    verdict: VersionVerdict
    message: str

    @property
    def meant(self) -> tuple[str, str]:
        """What somebody agrees to; without the number of unread records, which moves while the old version runs."""
        return self.name, self.message.partition(": ")[0] if self.name in _COUNTING else self.message


@dataclass(frozen=True, slots=True)
class Compatibility:
    differences: tuple[VersionDifference, ...] = ()

    @property
    def verdict(self) -> VersionVerdict:
        """The worst of them."""
        return max((d.verdict for d in self.differences), key=_SEVERITY.index, default=VersionVerdict.COMPATIBLE)


@dataclass(frozen=True, slots=True)
class Existing:
    """What is on the cluster. `partitions` of each topic that the unit names or owns; `unread`: how many records of a
    topic the group has not read yet, where that is known.
    """

    application_id: str
    partitions: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)

    def name(self, topology: Topology, topic: str) -> str:
        """The whole name of what a topology calls so."""
        return f"{self.application_id}-{topic}" if topic in internal_names(topology) else topic


@dataclass(frozen=True, slots=True)
class _Versions:
    old: Topology
    new: Topology
    existing: Existing


def compare_versions(old: Topology | None, new: Topology | None, existing: Existing) -> Compatibility:
    """Every difference that counts, the worst first. None = nobody gave the text."""
    if old is None or new is None:
        which = "neither version" if old is None and new is None else f"the {'old' if old is None else 'new'} version"
        told = f"{which} has a topology" if old is None and new is None else f"{which} has no topology"
        return Compatibility(
            (VersionDifference("no_topology", VersionVerdict.UNKNOWN, f"{told}, so nothing can be compared"),)
        )
    versions = _Versions(old, new, existing)
    found = (difference for rule in _RULES for difference in rule(versions))
    return Compatibility(tuple(sorted(found, key=lambda d: -_SEVERITY.index(d.verdict))))


def _stores(v: _Versions) -> Iterator[VersionDifference]:
    """A store that is not found again begins empty, while the inputs go on where they are."""
    gone, new = v.old.stores - v.new.stores, v.new.stores - v.old.stores
    moved = dict(_moved(gone, new))
    for before, now in moved.items():
        yield _moved_store(v, before, now)
    left, begun = sorted(gone - moved.keys()), sorted(new - set(moved.values()))
    for store in left:
        renamed = f"; was it renamed to {begun[0]}?" if len(left) == len(begun) == 1 else ""
        yield _no("store_gone", f"the store {store} is gone, and what it held with it{renamed}")
    for store in begun:
        yield _no("store_new", f"the store {store} is new: it begins empty, without what was processed before")


def _moved_store(v: _Versions, before: str, now: str) -> VersionDifference:
    table = _TABLE.fullmatch(before)
    changelog = changelog_of(v.existing.application_id, before)
    if table is not None and table[1] in v.new.read and changelog not in v.existing.partitions:
        message = (
            f"the table {before} is now {now} and has no changelog: is it read again from {table[1]} (optimisation)?"
        )
        return _maybe("table_moved", message)
    message = f"the store {before} is now {now}, because the code in front of it changed: its state is not found again"
    return _no("index_moved", message)


def _moved(gone: frozenset[str], new: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Generated names of which only the index is another, in the order of their indexes."""
    bare = {_INDEX.sub("", name) for name in gone if _INDEX.search(name)}
    for start in sorted(bare):
        yield from zip(_named_like(start, gone), _named_like(start, new), strict=False)


def _named_like(bare: str, names: frozenset[str]) -> list[str]:
    return sorted(name for name in names if _INDEX.search(name) and _INDEX.sub("", name) == bare)


def _between(v: _Versions) -> Iterator[VersionDifference]:
    """What lies in a topic of the old version is read by nobody when the new one does not know it."""
    old = frozenset(name for name in v.old.through if name in internal_names(v.old))
    new = frozenset(name for name in v.new.through if name in internal_names(v.new))
    moved = dict(_moved(old - new, new - old))
    for topic in sorted(old - new):
        left = v.existing.unread.get(v.existing.name(v.old, topic))
        told = "records in it, how many is not known," if left is None else f"{left:,} records in it"
        lost = "nothing is left in it" if left == 0 else f"{told} would never be read"
        what = f"is now {moved[topic]}" if topic in moved else "is not in the new version"
        yield _no("between_moved" if topic in moved else "between_gone", f"the topic {topic} {what}: {lost}")
    for topic in sorted(new - old - set(moved.values())):
        message = f"the topic {topic} is new: keys get to other instances than those that hold their state"
        yield _no("between_new", message)


def _operations(v: _Versions) -> Iterator[VersionDifference]:
    """A store of the same name that another operation writes holds something else than that operation expects."""
    for store in sorted(v.old.stores & v.new.stores):
        before, now = _kinds(v.old, store), _kinds(v.new, store)
        if before != now:
            message = f"the store {store} was used by {_told(before)}, and now by {_told(now)}"
            yield _no("operation_changed", message)


def _kinds(topology: Topology, store: str) -> Counter[str]:
    """Of operations whose names Streams chose; one that somebody named tells nothing of its kind."""
    users = (node for part in topology.parts for node in part.nodes if store in node.stores)
    matches = (_KIND.fullmatch(node.name) for node in users)
    return Counter("a named processor" if match is None else match[1] for match in matches)


def _feeds(v: _Versions) -> Iterator[VersionDifference]:
    """What reaches a store, through whatever lies between."""
    old, new = _reached(v.old), _reached(v.new)
    for store in sorted(v.old.stores & v.new.stores):
        more, less = sorted(new[store] - old[store]), sorted(old[store] - new[store])
        if more or less:
            changed = [f"{t} reaches it now" for t in more] + [f"{t} does no longer" for t in less]
            message = f"the store {store} is fed by other inputs: {', '.join(changed)}"
            yield _no("feed_changed", message)


def _reached(topology: Topology) -> dict[str, set[str]]:
    """By store, the inputs (or patterns of them) from which records get to it."""
    nodes = {node.name: node for part in topology.parts for node in part.nodes}
    found: dict[str, set[str]] = {store: set() for store in topology.stores}
    for node in nodes.values():
        for name in _from_outside(topology, node):
            for reached in _downstream(nodes, node):
                for store in reached.stores:
                    found.setdefault(store, set()).add(name)
    return found


def _from_outside(topology: Topology, node: Node) -> Iterator[str]:
    if node.kind is NodeKind.SOURCE:
        yield from (name for name in node.topics if name not in topology.through)
        if node.pattern is not None:
            yield node.pattern


def _downstream(nodes: Mapping[str, Node], start: Node) -> Iterator[Node]:
    seen, todo = {start.name}, [start]
    while todo:
        node = todo.pop()
        yield node
        after = [nodes[name] for name in node.successors]
        if node.kind is NodeKind.SINK:
            after += [n for n in nodes.values() if n.kind is NodeKind.SOURCE and set(n.topics) & set(node.topics)]
        for reached in after:
            if reached.name not in seen:
                seen.add(reached.name)
                todo.append(reached)


def _inputs(v: _Versions) -> Iterator[VersionDifference]:
    """Inputs that reach no store; those that do are told by their store."""
    told = {name for topology in (v.old, v.new) for names in _reached(topology).values() for name in names}
    old, new = _outside(v.old), _outside(v.new)
    for topic in sorted(new - old - told):
        yield _maybe(
            "input_new", f"the input {topic} is new: without a commit there auto.offset.reset says where it begins"
        )
    for topic in sorted(old - new - told):
        yield _maybe("input_gone", f"the input {topic} is not read any more: what is written there stays unprocessed")


def _outside(topology: Topology) -> frozenset[str]:
    nodes = (node for part in topology.parts for node in part.nodes)
    return frozenset(name for node in nodes for name in _from_outside(topology, node))


def _numbers(v: _Versions) -> Iterator[VersionDifference]:
    """Local directories are named after sub-topologies. Changelogs are not, so the state itself is not lost."""
    old, new = _owners(v.old), _owners(v.new)
    for store in sorted(old.keys() & new.keys()):
        if old[store] != new[store]:
            message = (
                f"the store {store} was in sub-topology {old[store]} and is now in {new[store]}: instances must begin with"
                " clean local state, all at once, and read it from the changelog"
            )
            yield _maybe("renumbered", message)


def _owners(topology: Topology) -> dict[str, int]:
    return {store: part.number for part in topology.parts if not part.is_global for store in part.stores}


def _changelogs(v: _Versions) -> Iterator[VersionDifference]:
    """A changelog has as many partitions as its sub-topology has tasks, or Streams does not start."""
    for part in v.new.parts:
        counts = [v.existing.partitions.get(v.existing.name(v.new, topic)) for topic in sorted(part.read)]
        known = [count for count in counts if count is not None]
        for store in sorted(part.stores & v.old.stores & v.new.stores):
            changelog = changelog_of(v.existing.application_id, store)
            has = v.existing.partitions.get(changelog)
            if has is None and _TABLE.fullmatch(store) is None:
                message = f"the store {store} has no changelog: only the disks of instances hold its state"
                yield _maybe("changelog_missing", message)
            elif has is not None and known and len(known) == len(counts) and has != max(known):
                message = f"{changelog} has {has} partitions, and sub-topology {part.number} has {max(known)} tasks"
                yield _no("changelog_partitions", message)


def _outputs(v: _Versions) -> Iterator[VersionDifference]:
    new, gone = (
        sorted(v.new.written - v.old.written - v.new.through),
        sorted(v.old.written - v.new.written - v.old.through),
    )
    for topic in new:
        yield VersionDifference("output_new", VersionVerdict.COMPATIBLE, f"it writes {topic} too, from here on")
    for topic in gone:
        yield VersionDifference("output_gone", VersionVerdict.COMPATIBLE, f"it does not write {topic} any more")


def _told(kinds: Counter[str]) -> str:
    return ", ".join(kind if count == 1 else f"{count} {kind}" for kind, count in sorted(kinds.items()))


def _no(name: str, message: str) -> VersionDifference:
    return VersionDifference(name, VersionVerdict.INCOMPATIBLE, message)


def _maybe(name: str, message: str) -> VersionDifference:
    return VersionDifference(name, VersionVerdict.UNKNOWN, message)


_SEVERITY: Final = (VersionVerdict.COMPATIBLE, VersionVerdict.UNKNOWN, VersionVerdict.INCOMPATIBLE)
_RULES: Final[tuple[Callable[[_Versions], Iterator[VersionDifference]], ...]] = (
    _stores,
    _between,
    _operations,
    _feeds,
    _inputs,
    _numbers,
    _changelogs,
    _outputs,
)
