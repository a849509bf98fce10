"""Questions about the offsets of one topic: log starts, ends and the offset of a time, exact and complete or not at
all.

Very many partitions every few seconds, of which some may have no answer, are `bulk_offsets`; what is asked so is
sampled by `sampling`, which knows the topics. Jobs have a way of their own, since they never import the daemon.
"""

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final, NamedTuple

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import OffsetSpec as _OffsetSpec

from recoveryd.adapters.kafka.client import is_no_such_topic, problem
from recoveryd.errors import ClusterProblem
from recoveryd_jobs.shared.leaders import learn_leaders

OffsetSpec: Any = _OffsetSpec  # the library does not type it

EARLIEST: Final = OffsetSpec.earliest()
LATEST: Final = OffsetSpec.latest()

_RETRY_S = 0.05


def at_time(time_ms: int) -> Any:
    """The first record whose timestamp is at or after `time_ms`; answered with -1 when there is none."""
    return OffsetSpec.for_timestamp(
        max(time_ms, 0)
    )  # negative numbers are Kafka's codes for earliest, latest and so on


class FirstAt(NamedTuple):
    """By partition, `found`: the first offset at or after a time, -1 = no record was that new; `ends`: the high
    watermarks before that was asked.
    """

    found: dict[int, int]
    ends: dict[int, int]

    def by(self, ends: dict[int, int]) -> dict[int, int]:
        """The offsets by ends that were asked for later: what came meanwhile may be as new as the time, and is not left
        out.
        """
        return {p: self.ends[p] if at < 0 and self.ends[p] < ends[p] else at for p, at in self.found.items()}


def read_first_at(admin: AdminClient, partitions: Sequence[tuple[str, int]], time_ms: int, timeout_s: float) -> FirstAt:
    """Of all of one topic's partitions. Raises `ClusterProblem`."""
    ends = read_offsets(admin, partitions, LATEST, timeout_s)
    return FirstAt(read_offsets(admin, partitions, at_time(time_ms), timeout_s), ends)


def read_offsets(
    admin: AdminClient, partitions: Sequence[tuple[str, int]], spec: Any, timeout_s: float, *, committed: bool = False
) -> dict[int, int]:
    """The answers for all of one topic's partitions, by partition. Asks again for those whose leader is not ready yet;
    raises `ClusterProblem`.

    With `committed` LATEST is the last stable offset, otherwise the high watermark.
    """
    answers = _read(admin, partitions, spec, timeout_s, committed=committed)
    return {partition: int(answer.offset) for partition, answer in answers.items()}


def _read(
    admin: AdminClient, partitions: Sequence[tuple[str, int]], spec: Any, timeout_s: float, *, committed: bool
) -> dict[int, Any]:
    deadline_s = time.monotonic() + timeout_s
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    found: dict[int, Any] = {}
    waiting = [TopicPartition(topic, partition) for topic, partition in partitions]
    while waiting:
        _learn_leaders(admin, {where.topic for where in waiting}, deadline_s)
        left_s = max(deadline_s - time.monotonic(), 0.1)
        asked = admin.list_offsets(dict.fromkeys(waiting, spec), isolation_level=level, request_timeout=left_s)
        waiting = []
        for where, answer in asked.items():
            try:
                found[where.partition] = answer.result(max(deadline_s - time.monotonic(), 0.01))
                continue
            except KafkaException as error:
                if is_no_such_topic(error):
                    text = f"Partition {where.partition} of {where.topic} does not exist."
                    raise ClusterProblem(text, retriable=False) from error
                reason = problem(error, f"read offsets of {where.topic}", "Describe", where.topic)
            except FutureTimeoutError:
                reason = ClusterProblem(f"Could not read offsets of {where.topic}: no answer in time")
            if not reason.retriable or time.monotonic() >= deadline_s:
                raise reason
            waiting.append(TopicPartition(where.topic, where.partition))
        if waiting:
            time.sleep(_RETRY_S)
    return found


class LogEnd(NamedTuple):
    """`epoch`: of the leader who told it, -1 where it did not tell."""

    offset: int
    epoch: int


def read_end(admin: AdminClient, topic: str, partition: int, timeout_s: float) -> LogEnd:
    """Its high watermark, and who says so. Raises `ClusterProblem`."""
    info = _read(admin, [(topic, partition)], LATEST, timeout_s, committed=False)[partition]
    return LogEnd(int(info.offset), -1 if info.leader_epoch is None else int(info.leader_epoch))


def _learn_leaders(admin: AdminClient, topics: Iterable[str], deadline_s: float) -> None:
    for topic in topics:
        try:
            learn_leaders(admin, topic, max(deadline_s - time.monotonic(), 0.1))
        except KafkaException as error:
            raise problem(error, f"read offsets of {topic}", "Describe", topic) from error


def log_range(admin: AdminClient, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
    """(log start, high watermark) with open transactions included. Raises `ClusterProblem`.

    Not `Consumer.get_watermark_offsets`: that tells a read_committed consumer the last stable offset, and would miss
    what lies behind a dead writer's open transaction.
    """
    key = [(topic, partition)]
    start = read_offsets(admin, key, EARLIEST, timeout_s)[partition]
    return start, read_offsets(admin, key, LATEST, timeout_s)[partition]
