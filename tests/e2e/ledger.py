"""Reads receipts with its own JSON decoding, for the history checker. It uses nothing of the product.

A receipt that lacks a field or has one of a wrong type is an `AssertionError` that quotes it: such a ledger proves
nothing.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.e2e.log_reader import read_log

_COUNTS = ("copied", "filtered", "skipped", "lost")


@dataclass(frozen=True, slots=True)
class Run:
    """`count` records from `first` on, in one target partition, written by one chunk for one source partition."""

    partition: int
    first: int
    count: int

    @property
    def stop(self) -> int:
        return self.first + self.count


@dataclass(frozen=True, slots=True)
class Receipt:
    """One record of the ledger. `offset`: its own offset in the receipts topic; `promised`: the sum of its targets'
    `count`; `corrects`: it says of an earlier one, which it replaces, that the same records lie elsewhere.
    """

    offset: int
    topic_partition: int
    key: str
    scope: str
    recovery: str
    lane: int
    attempt: int
    chunk: int
    partition: int
    start: int
    stop: int
    copied: int
    filtered: int
    skipped: int
    lost: int
    runs: tuple[Run, ...]
    promised: int
    corrects: bool = False

    @property
    def name(self) -> str:
        return (
            f"receipt of lane {self.lane} chunk {self.chunk} attempt {self.attempt}, partition {self.partition} "
            f"[{self.start}, {self.stop})"
        )

    @property
    def accounted(self) -> int:
        return self.copied + self.filtered + self.skipped + self.lost


def read_receipts(bootstrap: str, topic: str, recovery: str, *, deadline_s: float = 180.0) -> list[Receipt]:
    """All committed receipts of the recovery in the order of the log, without those that were corrected."""
    found = []
    for records in read_log(bootstrap, topic, deadline_s=deadline_s).values():
        for record in records:
            if record.value is None or not is_of_receipt(record.key):
                continue
            value = json.loads(record.value)
            if value["recovery"] == recovery:
                found.append(parse(record.offset, record.partition, record.key, value))
    return _corrected(sorted(found, key=lambda r: (r.topic_partition, r.offset)))


def is_of_receipt(key: bytes | None) -> bool:
    """Not the sum of a lane's receipts, or its mark, which lie beside them with a number sign behind the recovery's
    name.
    """
    return b"#" not in (key or b"")


def _corrected(receipts: list[Receipt]) -> list[Receipt]:
    """Only where the records lie may be corrected; anything else said twice stays twice."""
    found: dict[object, Receipt] = {}
    for receipt in receipts:
        said = _but_for_runs(receipt)
        before = found.get(said)
        if before is not None and before.runs != receipt.runs:
            del found[said]
            found[said] = replace(receipt, corrects=True)
        else:
            found[said if before is None else receipt] = receipt
    return list(found.values())


def _but_for_runs(receipt: Receipt) -> Receipt:
    return replace(receipt, offset=0, attempt=0, runs=(), corrects=False)


def parse(offset: int, topic_partition: int, key: bytes | None, value: dict[str, Any]) -> Receipt:
    numbers = {n: value.get(n) for n in ("lane", "attempt", "chunk", "partition", "start", "stop", *_COUNTS)}
    if any(type(n) is not int or n < 0 for n in numbers.values()):
        raise AssertionError(f"receipt at offset {offset} has a field that is no count: {value}")
    return Receipt(
        offset=offset,
        topic_partition=topic_partition,
        key=(key or b"").decode(),
        scope=str(value["scope"]),
        recovery=str(value["recovery"]),
        runs=tuple(_runs(value)),
        promised=sum(int(t["count"]) for t in value["targets"]),
        **numbers,  # type: ignore[arg-type]
    )


def _runs(value: dict[str, Any]) -> Iterator[Run]:
    for target in value["targets"]:
        for first, count in target["runs"]:
            yield Run(int(target["partition"]), int(first), int(count))
