"""Keys may spread each batch over a thousand target partitions: what a record costs does not grow with them."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from recoveryd_jobs import selection
from recoveryd_jobs.contract import JobSpec, LaneSpec, PartitionRange
from recoveryd_jobs.lane.record_copier import Copier, Delivered, Room
from recoveryd_jobs.murmur2 import KeyPartitioner
from recoveryd_jobs.selection import Columns, Selection
from recoveryd_jobs.verify.ledger import ProofLedger
from recoveryd_jobs.verify.reader import Range
from recoveryd_jobs.verify.shown import Shown
from recoveryd_jobs.verify.sides import SourceSide
from tests.builders.lane_log import MemoryTarget, Visible, make_spec

COUNT = 2_000
Take = Callable[[JobSpec, list[Message]], None]


def columns(count: int, *, headed: bool) -> Columns:
    numbers = list(range(count))
    headers: Any = [[("h", b"%d" % n)] if n % 2 else None for n in numbers] if headed else None
    return Columns(
        [7 + n for n in numbers], [b"k%d" % n for n in numbers], [b"v%d" % n for n in numbers], numbers, headers
    )


@given(st.lists(st.integers(0, 9), max_size=40), st.booleans())
def test_records_are_split_by_target_and_stay_in_order(to: list[int], headed: bool) -> None:
    whole = columns(len(to), headed=headed)
    assert list(whole.split(to)) == [(t, whole.only([each == t for each in to])) for t in sorted(set(to))]


def counted(name: str) -> Callable[..., bool]:
    """A comparison of two numbers that counts itself."""

    def compare(one: int, other: int) -> bool:
        Target.looks += 1
        return bool(getattr(int, name)(one, other))

    return compare


class Target(int):
    """The number of a partition that counts how often it was compared."""

    looks = 0
    __hash__ = int.__hash__
    __eq__, __lt__, __le__, __gt__, __ge__ = map(counted, ("__eq__", "__lt__", "__le__", "__gt__", "__ge__"))


class InTurn(KeyPartitioner):
    """Gives each key, a number, the next of the target partitions."""

    def of_key(self, key: bytes) -> int:
        return Target(int(key) % self._partitions)


def copied(spec: JobSpec, messages: list[Message]) -> None:
    Copier(spec, MemoryTarget(), is_stamped=False).copy(0, messages, {}, Room())


def proved(spec: JobSpec, messages: list[Message]) -> None:
    chosen, ledger, shown = Selection(spec.source, spec.target, is_stamped=False), ProofLedger(), Shown()
    side = SourceSide(spec.recovery, chosen, ledger, shown, {}, None, kept=False, compacted=False)
    side.begin(Range(0, 0, COUNT))
    side.feed(0, messages)
    side.finish(0)
    ledger.close()
    assert shown.selected == COUNT


def looks_of(take: Take, targets: int) -> int:
    """How often the target partitions of COUNT records are compared with anything."""
    lane = LaneSpec(0, (PartitionRange(0, 0, COUNT),))
    spec = make_spec(lane, (None, None), {"mapping": "key_hash", "partitions": targets})
    messages = [Visible(0, at, b"%d" % at, b"v", 1).message("source") for at in range(COUNT)]
    Target.looks = 0
    take(spec, messages)
    return Target.looks


@pytest.mark.parametrize("take", [copied, proved])
def test_what_a_record_costs_does_not_grow_with_the_target_partitions(
    monkeypatch: pytest.MonkeyPatch, take: Take
) -> None:
    monkeypatch.setattr(selection, "KeyPartitioner", InTurn)
    few, many = looks_of(take, 10), looks_of(take, 1_000)
    assert few > 0
    assert many <= 3 * few


class Bound(Delivered):
    """Counts how often somebody takes its callback."""

    taken = 0

    @property
    def on_each(self) -> Any:
        Bound.taken += 1
        return super().on_each


def bound_by_one_record(targets: int) -> int:
    """How many callbacks a run of one record takes when a chunk has sent to so many target partitions."""
    lane = LaneSpec(0, (PartitionRange(0, 0, COUNT),))
    spec = make_spec(lane, (None, None), {"mapping": "key_hash", "partitions": targets})
    delivered: dict[int, Delivered] = {number: Bound(number, None) for number in range(targets)}
    Bound.taken = 0
    Copier(spec, MemoryTarget(), is_stamped=False).copy(
        0, [Visible(0, 0, b"k", b"v", 1).message("in")], delivered, Room()
    )
    assert sum(part.count for part in delivered.values()) == 1
    return Bound.taken


def test_a_run_takes_the_callbacks_of_its_own_target_partitions_only() -> None:
    assert bound_by_one_record(10) == bound_by_one_record(1_000) == 1
