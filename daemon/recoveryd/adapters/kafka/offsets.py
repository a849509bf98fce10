"""Questions about offsets: log starts, ends and the offset of a time, for many partitions at once.

Several questions can be under way together: `ask` sends, `collect` waits. A partition the broker gives no offset for is told apart from one that
does not exist, because the first is a hint to try later and the second ends a recovery.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import OffsetSpec as _OffsetSpec  # type: ignore[attr-defined]

from recoveryd.adapters.kafka.client import is_no_such_topic, problem
from recoveryd.errors import ClusterProblem

OffsetSpec: Any = _OffsetSpec  # the library does not type it

EARLIEST: Final = OffsetSpec.earliest()
LATEST: Final = OffsetSpec.latest()

Partition = tuple[str, int]  # topic, partition
_RETRY_S = 0.05

Asked = Mapping[TopicPartition, "Future[Any]"]


@dataclass(frozen=True, slots=True)
class Offsets:
    """`found` by (topic, partition); `missing` do not exist; `failed` got no answer this time, with the reason."""

    found: dict[Partition, int] = field(default_factory=dict)
    missing: set[Partition] = field(default_factory=set)
    failed: dict[Partition, ClusterProblem] = field(default_factory=dict)

    def of(self, topic: str) -> dict[int, int]:
        return {partition: offset for (name, partition), offset in self.found.items() if name == topic}


def at_time(time_ms: int) -> Any:
    """The first record whose timestamp is at or after `time_ms`; answered with -1 when there is none."""
    return OffsetSpec.for_timestamp(
        max(time_ms, 0)
    )  # negative numbers are Kafka's codes for earliest, latest and so on


def ask(
    admin: AdminClient, partitions: Iterable[Partition], spec: Any, timeout_s: float, *, committed: bool = False
) -> Asked:
    """Send one question. With `committed` LATEST is the last stable offset, otherwise the high watermark."""
    wanted = {TopicPartition(topic, partition): spec for topic, partition in partitions}
    if not wanted:
        return {}
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    return admin.list_offsets(wanted, isolation_level=level, request_timeout=timeout_s)


def collect(asked: Asked, deadline_s: float) -> Offsets:
    """Wait for the answers until `deadline_s` on the monotonic clock."""
    offsets = Offsets()
    for partition, answer in asked.items():
        key = (partition.topic, partition.partition)
        try:
            offsets.found[key] = int(answer.result(max(deadline_s - time.monotonic(), 0.01)).offset)
        except KafkaException as error:
            if is_no_such_topic(error):
                offsets.missing.add(key)
            else:
                offsets.failed[key] = problem(error, f"read offsets of {key[0]}", "Describe", key[0])
        except FutureTimeoutError:
            offsets.failed[key] = ClusterProblem(f"Could not read offsets of {key[0]}: no answer in time")
    return offsets


def read_offsets(
    admin: AdminClient, partitions: Sequence[Partition], spec: Any, timeout_s: float, *, committed: bool = False
) -> dict[int, int]:
    """The answers for all of one topic's partitions, by partition. Asks again for those whose leader is not ready yet; raises `ClusterProblem`."""
    deadline_s = time.monotonic() + timeout_s
    found: dict[int, int] = {}
    waiting: set[Partition] = set(partitions)
    while waiting:
        left_s = max(deadline_s - time.monotonic(), 0.1)
        answers = collect(ask(admin, waiting, spec, left_s, committed=committed), time.monotonic() + left_s)
        found |= {partition: offset for (_topic, partition), offset in answers.found.items()}
        for topic, partition in sorted(answers.missing):
            raise ClusterProblem(f"Partition {partition} of {topic} does not exist.", retriable=False)
        for reason in answers.failed.values():
            if not reason.retriable or time.monotonic() >= deadline_s:
                raise reason
        waiting = set(answers.failed)
        if waiting:
            time.sleep(_RETRY_S)
    return found


def log_range(admin: AdminClient, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
    """(log start, high watermark) with open transactions included. Raises `ClusterProblem`.

    Not `Consumer.get_watermark_offsets`: that tells a read_committed consumer the last stable offset, and would miss what lies behind a dead
    writer's open transaction.
    """
    key = [(topic, partition)]
    start = read_offsets(admin, key, EARLIEST, timeout_s)[partition]
    return start, read_offsets(admin, key, LATEST, timeout_s)[partition]
