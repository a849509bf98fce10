"""What is different between two cuts: how far the inputs moved, and which keys of each store came, changed or went.

Stores are found again by their names without the application id, so that cuts of two versions can be compared too. Each
side of a store is folded to what its application would have restored: the last value of each key, no tombstones.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from recoveryd.units.internal_topics import store_of
from recoveryd.workflows.model.cut import Cut, CutTopic

Fold = Mapping[bytes, bytes]  # by key, something that is equal for equal values


@dataclass(frozen=True, slots=True)
class StorePair:
    """A store in both cuts; None = it is not in that one."""

    store: str
    before: CutTopic | None
    after: CutTopic | None


@dataclass(frozen=True, slots=True)
class StoreDiff:
    """Numbers of keys; `samples` has some keys of each kind that has any. `later_before` and `later_after`: at most so
    many records came to the copies after they were made, and are not compared.
    """

    store: str
    keys_before: int = 0
    keys_after: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    samples: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    later_before: int = 0
    later_after: int = 0

    @property
    def is_same(self) -> bool:
        return not (self.added or self.changed or self.removed)


@dataclass(frozen=True, slots=True)
class InputMove:
    """How far a group moved in a partition; None = without a commit."""

    topic: str
    partition: int
    before: int | None
    after: int | None


def pair_stores(before: Cut, after: Cut) -> tuple[StorePair, ...]:
    left, right = _stores(before), _stores(after)
    return tuple(StorePair(name, left.get(name), right.get(name)) for name in sorted({*left, *right}))


def partition_groups(pair: StorePair) -> tuple[tuple[int, ...], ...]:
    """What has to be folded together: a partition each, unless a key lies in another one on the other side."""
    counts = {topic.form.partitions for topic in (pair.before, pair.after) if topic is not None}
    every = tuple(range(max(counts, default=0)))
    return tuple((p,) for p in every) if len(counts) == 1 else (every,)


def compare(store: str, sides: Iterable[tuple[Fold, Fold]], samples: int) -> StoreDiff:
    """`sides`: before and after, one pair per group of partitions."""
    total = StoreDiff(store)
    for before, after in sides:
        found = {
            "added": [key for key in after if key not in before],
            "changed": [key for key, value in after.items() if key in before and before[key] != value],
            "removed": [key for key in before if key not in after],
        }
        total = StoreDiff(
            store,
            total.keys_before + len(before),
            total.keys_after + len(after),
            total.added + len(found["added"]),
            total.changed + len(found["changed"]),
            total.removed + len(found["removed"]),
            _joined(total.samples, found, samples),
        )
    return total


def moves(before: Cut, after: Cut) -> tuple[InputMove, ...]:
    """Partitions in which the two cuts stand at different places."""
    return tuple(_moves(before, after))


def _moves(before: Cut, after: Cut) -> Iterator[InputMove]:
    for topic in sorted({*before.offsets, *after.offsets}):
        left, right = before.offsets.get(topic, {}), after.offsets.get(topic, {})
        for partition in sorted({*left, *right}):
            if left.get(partition) != right.get(partition):
                yield InputMove(topic, partition, left.get(partition), right.get(partition))


def _stores(cut: Cut) -> dict[str, CutTopic]:
    return {store_of(cut.group, topic.name): topic for topic in cut.topics if not topic.is_between}


def _joined(
    known: Mapping[str, tuple[bytes, ...]], found: Mapping[str, list[bytes]], most: int
) -> dict[str, tuple[bytes, ...]]:
    joined = {kind: (*known.get(kind, ()), *keys)[:most] for kind, keys in found.items()}
    return {kind: keys for kind, keys in joined.items() if keys}
