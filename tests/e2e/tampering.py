"""Damages a copy and its ledger by hand, without the product's knowledge and code."""

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.e2e.clients import writer
from tests.e2e.follower import Document
from tests.e2e.ledger import is_of_receipt
from tests.e2e.log_reader import QUIET, Record, insist, offsets, read_log
from tests.e2e.processes import await_gone, kill, wait_for
from tests.e2e.stack import Stack

_TIMEOUT_S = 120.0
_SETTLED_S = 60.0


class Plain(NamedTuple):
    """A record as it is written, or read with its `offset`."""

    partition: int
    key: bytes | None
    value: bytes | None
    time_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = -1


def fill(bootstrap: str, topic: str, records: Iterable[Plain]) -> int:
    """Write these records. Returns the offset of the last one."""
    producer = writer(bootstrap, linger_ms=5)
    offsets: list[int] = []
    for record in records:
        headers = list(record.headers) or None
        producer.produce(
            topic, record.value, record.key, record.partition, timestamp=record.time_ms, headers=headers,
            on_delivery=lambda _, message: offsets.append(message.offset() or 0),
        )  # fmt: skip
    assert producer.flush(_TIMEOUT_S) == 0
    return offsets[-1] if offsets else -1


def delete_records(bootstrap: str, topic: str, partition: int, before: int) -> None:
    """Move the log start."""
    place = TopicPartition(topic, partition, before)
    client = AdminClient({"bootstrap.servers": bootstrap, **QUIET})  # held until the answer is there
    insist(lambda: client.delete_records([place])[place].result(_TIMEOUT_S))


class Tampering:
    """Changes the target and the receipts of one paused recovery."""

    def __init__(self, stack: Stack, recovery: str, target: str) -> None:
        self._stack, self._recovery, self.target, self.bootstrap = stack, recovery, target, stack.bootstrap

    def await_settled(self) -> None:
        """Until all that was committed can be seen: a broker answers a commit before its markers are written, and a
        receipt that is not seen yet would not be the newest one.
        """
        for topic in (self._stack.receipts_topic, self.target):
            wait_for(partial(self._is_settled, topic), _SETTLED_S, partial("{} has an open transaction".format, topic))

    def _is_settled(self, topic: str) -> bool:
        stable = offsets(self.bootstrap, topic, end=True, committed=True)
        return stable == offsets(self.bootstrap, topic, end=True)

    def stored(self, partition: int) -> list[Plain]:
        """What a committed reader sees of a target partition."""
        return [
            Plain(partition, r.key, r.value, r.time_ms, r.headers, r.offset) for r in self._read(self.target)[partition]
        ]

    def write(self, records: Iterable[Plain]) -> int:
        return fill(self._stack.bootstrap, self.target, records)

    def newest(self, partition: int) -> int:
        """The number of the newest receipt of a source partition, whose records may move to the target's end without
        changing the order.
        """
        return max(n for n, (_, receipt, _) in enumerate(self._receipts()) if receipt["partition"] == partition)

    def claimed(self, number: int) -> list[Plain]:
        """The records that receipt `number` says it wrote to its first target partition; 0 is the oldest one of
        partition 0.
        """
        run = self._receipts()[number][1]["targets"][0]
        offsets = {at for first, count in run["runs"] for at in range(first, first + count)}
        return [r for r in self.stored(run["partition"]) if r.offset in offsets]

    def covered(self, number: int) -> tuple[int, int]:
        """The range of source offsets that receipt `number` covers."""
        receipt = self._receipts()[number][1]
        return receipt["start"], receipt["stop"]

    def claim(self, number: int, offsets: list[int], *, skipped: int = 0) -> None:
        """Change the receipt so that it claims these offsets instead, and `skipped` more offsets of its range without a
        record.
        """

        def change(receipt: Document) -> Document:
            receipt["targets"][0] |= {"count": len(offsets), "runs": _runs(offsets)}
            return receipt | {"copied": receipt["copied"] - skipped, "skipped": receipt["skipped"] + skipped}

        self.rewrite_receipt(change, number)

    def call_the_next_skipped(self, partition: int, count: int) -> None:
        """Let the newest receipt of a source partition cover `count` offsets more, without a record: the next attempt
        goes on behind them, so that these are never copied. No attempt may know better.
        """
        processes = self._stack.application(self._recovery)
        for process in processes:
            kill(process)
        await_gone(processes)
        self.rewrite_receipt(
            lambda receipt: receipt | {"stop": receipt["stop"] + count, "skipped": receipt["skipped"] + count},
            self.newest(partition),
        )

    def written_by(self, number: int) -> list[Plain]:
        """The records of receipt `number`, in all its target partitions."""
        runs = [(run["partition"], run["runs"]) for run in self._receipts()[number][1]["targets"]]
        return [
            record
            for partition, found in runs
            for record in self.stored(partition)
            if any(first <= record.offset < first + count for first, count in found)
        ]

    def rewrite_receipt(self, change: Callable[[Document], Document], number: int) -> None:
        """Replace a receipt by what `change` makes of it."""
        home, receipt, key = self._receipts()[number]
        producer = writer(self._stack.bootstrap)
        producer.produce(self._stack.receipts_topic, json.dumps(change(receipt)).encode(), key, home)
        assert producer.flush(_TIMEOUT_S) == 0

    def ends_in_large_receipt(self, partition: int) -> bool:
        """Whether the newest receipt of this source partition is among those with numbers."""
        newest = {receipt["partition"]: key for _, receipt, key in self._receipts(least=1)}
        return newest[partition] in {key for _, _, key in self._receipts()}

    def _receipts(self, least: int = 11) -> list[tuple[int, Document, bytes]]:
        """Those with at least so many records in their first target partition, by source partition and start."""
        found: list[tuple[int, Document, bytes]] = []
        for partition, records in self._read(self._stack.receipts_topic).items():
            for record in records:
                if not is_of_receipt(record.key):
                    continue
                receipt = json.loads(record.value or b"{}")
                if receipt.get("recovery") != self._recovery or not receipt["targets"]:
                    continue
                if receipt["targets"][0]["count"] >= least:
                    found.append((partition, receipt, record.key or b""))
        newest = {key: (partition, receipt, key) for partition, receipt, key in found}
        return sorted(newest.values(), key=lambda f: (f[1]["partition"], f[1]["start"]))

    def _read(self, topic: str) -> dict[int, list[Record]]:
        """What can be seen now: others may have transactions open."""
        ends = offsets(self.bootstrap, topic, end=True, committed=True)
        return read_log(self.bootstrap, topic, {partition: (0, end) for partition, end in ends.items()})


def _runs(offsets: list[int]) -> list[list[int]]:
    """[first, count] of each run of consecutive offsets, in order."""
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and runs[-1][0] + runs[-1][1] == offset:
            runs[-1][1] += 1
        else:
            runs.append([offset, 1])
    return runs
