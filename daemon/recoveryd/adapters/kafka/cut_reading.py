"""The copies of two savepoints, read and folded for a comparison. Blocking."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.client import Properties, make_admin
from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, read_offsets
from recoveryd.adapters.kafka.reading import pair_of, read_range
from recoveryd.adapters.kafka.topic_admin import describe, read_own_configs
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.workflows.model.cut import Cut, CutTopic
from recoveryd.workflows.model.cut_diff import Fold, StoreDiff, compare, pair_stores, partition_groups

_TIMEOUT_S: Final = 15.0
_PATIENCE_S: Final = 60.0
KEYS_MOST: Final = 5_000_000  # held in memory together, of one partition on both sides
_DIGEST_BYTES: Final = 16


def diff_stores(before: tuple[Cut, Properties], after: tuple[Cut, Properties], samples: int) -> Iterator[StoreDiff]:
    """Store by store. Raises `ClusterProblem`."""
    left, right = make_admin(before[1]), make_admin(after[1])
    for pair in pair_stores(before[0], after[0]):
        old, new = _Copy(before[1], left, pair.before), _Copy(after[1], right, pair.after)
        sides = ((old.fold(partitions), new.fold(partitions)) for partitions in partition_groups(pair))
        found = compare(pair.store, sides, samples)
        yield replace(found, later_before=old.later, later_after=new.later)


class _Copy:
    """One store of a cut. `later`: so many offsets came to its copy after it was made, of partitions that were
    folded.
    """

    def __init__(self, properties: Properties, admin: AdminClient, topic: CutTopic | None) -> None:
        self._properties, self._admin, self._topic = properties, admin, topic
        self.later = 0

    def fold(self, partitions: Sequence[int]) -> Fold:
        """What lies in the copy; nothing where nothing lay in the changelog. Raises `ClusterProblem`."""
        topic, found = self._topic, dict[bytes, bytes]()
        for partition, bounds in ({} if topic is None else _bounds(self._admin, topic, partitions)).items():
            assert topic is not None
            stop = topic.copy_ends.get(partition, 0) if topic.copy_ends else bounds[1]
            self.later += bounds[1] - stop
            asked = self._properties, topic.copy, partition, (bounds[0], stop), _PATIENCE_S
            fold_into(found, map(pair_of, read_range(*asked, enable_partition_eof=True)), topic.name)
        return found


def _bounds(admin: AdminClient, topic: CutTopic, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Where each of them begins and ends now. Raises `ClusterProblem` where the copy is another one, or not whole."""
    if not topic.offsets:
        return {}
    shape = describe(admin, [topic.copy], _TIMEOUT_S)[topic.copy]
    if shape is None:
        raise ClusterProblem(
            f"{topic.copy} is gone, so the savepoint cannot be read", code=Code.NO_SUCH_SAVEPOINT, retriable=False
        )
    if topic.copy_id and shape.topic_id != topic.copy_id:
        message = f"{topic.copy} was created again, and does not hold what lay in {topic.name}"
        raise ClusterProblem(message, code=Code.TOPIC_RECREATED, retriable=False)
    policy = topic.removing_policy(read_own_configs(admin, [topic.copy], _TIMEOUT_S)[topic.copy])
    if policy is not None:
        message = f"{topic.copy} has the cleanup.policy {policy}: compaction may have removed a part of what lay in {topic.name}"
        raise ClusterProblem(message, code=Code.OFFSET_OUTSIDE_LOG, retriable=False)
    keys = [key for key in shape.keys if key[1] in partitions]
    starts, ends = (
        read_offsets(admin, keys, EARLIEST, _TIMEOUT_S),
        read_offsets(admin, keys, LATEST, _TIMEOUT_S, committed=True),
    )
    cut_off = next((p for _, p in keys if starts[p] > 0 or ends[p] < topic.copy_ends.get(p, 0)), None)
    if cut_off is not None:
        message = f"records of {topic.copy} {cut_off} are gone, which were a part of what lay in {topic.name}"
        raise ClusterProblem(message, code=Code.OFFSET_OUTSIDE_LOG, retriable=False)
    return {p: (starts[p], ends[p]) for _, p in keys}


def fold_into(
    found: dict[bytes, bytes], pairs: Iterable[tuple[bytes | None, bytes | None]], topic: str, most: int = KEYS_MOST
) -> None:
    """What the pairs leave of each key. Reads no further than `most` keys. Raises `ClusterProblem`."""
    for key, value in pairs:
        if value is None:
            found.pop(key or b"", None)
            continue
        found[key or b""] = hashlib.blake2b(value, digest_size=_DIGEST_BYTES).digest()
        if len(found) > most:
            message = f"{topic} has more than {most:,} keys in one partition, which is more than is compared"
            raise ClusterProblem(message, retriable=False)
