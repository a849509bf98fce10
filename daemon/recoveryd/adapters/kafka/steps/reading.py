"""What steps ask of logs, of the records that they read, and of committed offsets."""

from collections.abc import Mapping
from typing import Final

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.offsets import EARLIEST, LATEST, read_offsets
from recoveryd.adapters.kafka.topic_admin import TopicShape
from recoveryd.units.facts import Committed, PartitionEnds
from recoveryd.workflows.model.workflow import OffsetUndo

TIMEOUT_S: Final = 15.0


def read_log(admin: AdminClient, shape: TopicShape, *, committed: bool = False) -> dict[int, PartitionEnds]:
    """Where each partition begins and ends; `committed`: to the end of what open transactions leave. Ends are asked for
    last, so that no start lies behind one. Raises `ClusterProblem`.
    """
    starts = read_offsets(admin, shape.keys, EARLIEST, TIMEOUT_S)
    ends = read_offsets(admin, shape.keys, LATEST, TIMEOUT_S, committed=committed)
    return {p: PartitionEnds(starts[p], ends[p]) for _, p in shape.keys}


def is_before(record: Message, ends: Mapping[str, Mapping[int, int]]) -> bool:
    """Whether a record that was read lies in front of the end of its partition."""
    topic, partition, offset = record.topic(), record.partition(), record.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return offset < ends[topic][partition]


def offset_in(found: Mapping[str, Mapping[int, Committed]], row: OffsetUndo) -> int | None:
    """The offset that is committed at the row's place, if there is one."""
    entry = found.get(row.name, {}).get(row.partition)
    return None if entry is None else entry.offset
