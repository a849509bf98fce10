"""The copies of two savepoints, read and folded for a comparison. Blocking."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.client import Properties, make_admin
from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, read_offsets
from recoveryd.adapters.kafka.reading import pair_of, read_range
from recoveryd.adapters.kafka.topic_admin import describe
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
        sides = (
            (_fold(before[1], left, pair.before, partitions), _fold(after[1], right, pair.after, partitions))
            for partitions in partition_groups(pair)
        )
        yield compare(pair.store, sides, samples)


def _fold(properties: Properties, admin: AdminClient, topic: CutTopic | None, partitions: Sequence[int]) -> Fold:
    """What lies in the copy; nothing where nothing lay in the changelog."""
    found: dict[bytes, bytes] = {}
    if topic is None or not topic.offsets:
        return found
    shape = describe(admin, [topic.copy], _TIMEOUT_S)[topic.copy]
    if shape is None:
        raise ClusterProblem(
            f"{topic.copy} is gone, so the savepoint cannot be read", code=Code.NO_SUCH_SAVEPOINT, retriable=False
        )
    if topic.copy_id and shape.topic_id != topic.copy_id:
        message = f"{topic.copy} was created again, and does not hold what lay in {topic.name}"
        raise ClusterProblem(message, code=Code.TOPIC_RECREATED, retriable=False)
    keys = [key for key in shape.keys if key[1] in partitions]
    starts, ends = (
        read_offsets(admin, keys, EARLIEST, _TIMEOUT_S),
        read_offsets(admin, keys, LATEST, _TIMEOUT_S, committed=True),
    )
    cut_off = next((p for _, p in keys if starts[p] > 0), None)
    if cut_off is not None:
        message = f"records of {topic.copy} {cut_off} are gone, which were a part of what lay in {topic.name}"
        raise ClusterProblem(message, code=Code.OFFSET_OUTSIDE_LOG, retriable=False)
    for _, partition in keys:
        bounds = (starts[partition], ends[partition])
        messages = read_range(properties, topic.copy, partition, bounds, _PATIENCE_S, enable_partition_eof=True)
        fold_into(found, map(pair_of, messages), topic.name)
    return found


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
