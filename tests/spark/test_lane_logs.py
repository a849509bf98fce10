"""What a lane finds in logs whose first part is gone, as retention leaves them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from recoveryd_jobs.lane import logs as lane_logs
from recoveryd_jobs.lane.logs import ClusterLogs
from recoveryd_jobs.topics import LogBounds
from tests.spark.test_mending import spec_of

START, END = 20, 30


@dataclass
class FoundMessage:
    at: int
    failed: int | None = None

    def partition(self) -> int:
        return 0

    def topic(self) -> str:
        return "out"

    def offset(self) -> int:
        return self.at

    def error(self) -> KafkaError | None:
        return None if self.failed is None else KafkaError(self.failed)

    def key(self) -> None:
        return None

    value = headers = key

    def timestamp(self) -> tuple[int, int]:
        return 1, 0


class Reader:
    """Of a partition that begins at START. Whoever begins before that gets an error and nothing else."""

    def __init__(self, *_: object, **__: object) -> None:
        self._left: list[FoundMessage] = []

    def assign(self, partitions: list[TopicPartition]) -> None:
        [where] = partitions
        if where.offset < START:
            self._left = [FoundMessage(where.offset, KafkaError._AUTO_OFFSET_RESET)]
        else:
            self._left = [FoundMessage(at) for at in range(where.offset, END)]

    def consume(self, _count: int, _wait_s: float) -> list[FoundMessage]:
        found, self._left = self._left, []
        return found

    def close(self) -> None:
        """Nothing."""


class Target:
    name = "out"

    def bounds(self, partitions: Iterable[int]) -> dict[int, LogBounds]:
        return dict.fromkeys(partitions, LogBounds(START, END, END))


def test_of_records_whose_first_ones_are_gone_the_others_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_logs, "make_reader", Reader)
    monkeypatch.setattr(lane_logs, "meet", lambda _reader, _topic: None)
    monkeypatch.setattr(lane_logs, "headers_of", lambda messages: [None] * len(messages))
    target: Any = Target()
    with ClusterLogs(spec_of("same", 2), 0, "test", target) as logs:
        assert logs.seen({0: ((START - 5, 10),)}) == {0}
        assert logs.seen({0: ((START - 5, 5),)}) == set(), "nothing is left"
        assert [each.offset for each in logs.records(0, ((START - 5, 7),))] == [START, START + 1]
