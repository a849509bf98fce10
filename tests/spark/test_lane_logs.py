"""What a lane finds in logs whose first part is gone, as retention leaves them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from recoveryd_jobs.contract import JobSpec, Receipt, chunk_header, encode
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


def of_ledger(spec: JobSpec, at: int, start: int, *, deleted: bool, recovery: str = "") -> Message:
    """A receipt of the lane for one offset of the source, or of another recovery, or what deletes it."""
    said = Receipt(spec.scope, recovery or spec.recovery, 0, 1, 0, 0, start, start + 1, 1, 0, 0, 0, 1)
    value, key = None if deleted else encode(said), said.key.encode()
    return Message(topic="receipts", partition=0, offset=at, key=key, value=value, headers=[chunk_header(1)])


def read_receipts(monkeypatch: pytest.MonkeyPatch, spec: JobSpec, messages: list[Message]) -> list[tuple[int, int]]:
    """(offset, start of the receipt) of what is found among them."""
    monkeypatch.setattr(ClusterLogs, "_read", lambda *_: iter(messages))
    target: Any = Target()
    with ClusterLogs(spec, 0, "test", target) as logs:
        return [(each.offset, each.receipt.start) for each in logs.receipts(0, len(messages))]


def test_a_receipt_that_was_deleted_is_not_found_and_one_behind_that_is(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of("same", 2)
    starts = [(5, False), (6, False), (5, False), (7, True), (5, True), (7, False), (5, False), (6, False)]
    messages = [of_ledger(spec, at, start, deleted=deleted) for at, (start, deleted) in enumerate(starts)]
    assert read_receipts(monkeypatch, spec, messages) == [(1, 6), (5, 7), (6, 5), (7, 6)]


def keys_made(monkeypatch: pytest.MonkeyPatch, count: int) -> int:
    """How often the key of a receipt is put together when so many receipts lie before as many that were deleted: half
    of them of another recovery.
    """
    spec, made, key = spec_of("same", 2), list[None](), vars(Receipt)["key"].fget
    kept = [of_ledger(spec, at, at, deleted=False) for at in range(count)]
    others = [of_ledger(spec, count + at, 2 * at, deleted=True, recovery="other" * (at % 2)) for at in range(count)]

    def counted(receipt: Receipt) -> str:
        made.append(None)
        return key(receipt)

    with monkeypatch.context() as patched:
        patched.setattr(Receipt, "key", property(counted))
        assert len(read_receipts(patched, spec, kept + others)) == count - count // 4
    return len(made)


def test_what_was_deleted_does_not_cost_a_look_at_all_receipts(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = keys_made(monkeypatch, 40), keys_made(monkeypatch, 400)
    assert 0 < many <= 12 * few
