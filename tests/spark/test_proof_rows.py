"""Where keys choose the partition, each side of a pair is read by another task: their rows meet in a third one, and the
driver gets those that differ.
"""

import pickle
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoveryd_jobs.contract import PartitionRange, Receipt
from recoveryd_jobs.driver import kinds
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_jobs.verify.judge import differing, judge
from recoveryd_jobs.verify.match import SOURCE, TARGET
from recoveryd_jobs.verify.plan import ProofPlan, ProofShare
from recoveryd_jobs.verify.reader import Range
from recoveryd_jobs.verify.shown import ROW, RowSpool, Shown
from tests.builders.copying import Cluster, Recovery, Row, rows
from tests.builders.proving import agreed, places, verify
from tests.spark.test_mending import spec_of

PAIR = (0, 1)


class LocalJobs:
    """Runs the tasks of a job in this process, and keeps what comes to the driver. Values pass through bytes, as in
    Spark.
    """

    def __init__(self) -> None:
        self.collected: list[list[Any]] = []
        self.met: list[set[Any]] = []  # by task: the pairs of which it got rows
        self._parts: list[list[Any]] = []

    def parallelize(self, items: list[Any], parts: int) -> "LocalJobs":
        self._parts = [items[n::parts] for n in range(parts)]
        return self

    def mapPartitions(self, task: Callable[[Iterable[Any]], Iterable[Any]]) -> "LocalJobs":  # noqa: N802  (Spark's)
        self._parts = [list(task(iter(part))) for part in self._parts]
        return self

    def partitionBy(self, parts: int, place: Callable[[Any], int]) -> "LocalJobs":  # noqa: N802  (Spark's)
        found = [item for part in self._parts for item in part]
        self._parts = [[pickle.loads(pickle.dumps(i)) for i in found if place(i[0]) % parts == n] for n in range(parts)]
        self.met = self.met or [{key for key, _ in part if isinstance(key, tuple)} for part in self._parts]
        return self

    def collect(self) -> list[Any]:
        self.collected.append([item for part in self._parts for item in part])
        return self.collected[-1]

    @property
    def rows(self) -> int:
        """How many rows came to the driver."""
        told = [item for collected in self.collected for item in collected]
        shown = [found for item in told for found in (item, *(item if isinstance(item, tuple) else ()))]
        shown = [found for found in shown if isinstance(found, Shown)]
        pairs = [item[1] for item in told if isinstance(item, tuple) and isinstance(item[0], tuple)]
        size = sum(len(held) for s in shown for side in (s.sources, s.targets) for held in side.values())
        return (size + sum(len(held) for sides in pairs for held in sides)) // ROW.size


_sides = st.dictionaries(st.integers(0, 6), st.tuples(st.integers(0, 2), st.sampled_from([b"a" * 16, b"b" * 16])))


@settings(max_examples=300, deadline=None)
@given(_sides, _sides, st.sets(st.integers(0, 6)), st.booleans())
def test_rows_that_are_the_same_on_both_sides_change_no_verdict(
    source: dict[int, tuple[int, bytes]], target: dict[int, tuple[int, bytes]], tails: set[int], is_cut: bool
) -> None:
    whole, odd = Shown(), Shown()
    for side, told in ((SOURCE, source), (TARGET, target)):
        for start, (records, digest) in told.items():
            whole.tell(PAIR, side, ROW.pack(start, records, digest))
    odd.sources[PAIR], odd.targets[PAIR] = differing(*(side.get(PAIR, b"") for side in (whole.sources, whole.targets)))
    for shown in (whole, odd):
        shown.cut = {PAIR[0]: [(2, 4)]} if is_cut else {}
        shown.tails = {PAIR: bytearray(b"".join(ROW.pack(at, 1, b"c" * 16) for at in tails - source.keys()))}
    spec = replace(spec_of("key_hash", 1), verify="source")
    assert judge(spec, [whole]) == judge(spec, [odd])
    assert source != target or not odd.sources[PAIR] + odd.targets[PAIR]


def test_a_task_holds_few_rows_however_many_it_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoveryd_jobs.verify.shown._HELD_BYTES", 100 * ROW.size)
    shown, told = Shown(spool=RowSpool()), dict[tuple[tuple[int, int], int], bytes]()
    for n in range(10_000):
        pair, side, row = (n % 3, n % 5), n % 2, ROW.pack(n, 1, b"d" * 16)
        told[pair, side] = told.get((pair, side), b"") + row
        shown.tell(pair, side, row)
        assert sum(map(len, (*shown.sources.values(), *shown.targets.values()))) <= 100 * ROW.size
    taken = dict[tuple[tuple[int, int], int], bytes]()
    for pair, (side, piece) in shown.take_rows():
        taken[pair, side] = taken.get((pair, side), b"") + piece
    assert (taken, list(pickle.loads(pickle.dumps(shown)).take_rows())) == (told, [])


@pytest.fixture(params=[
    pytest.param(2**20, id="held", marks=pytest.mark.wide(
        "tests/spark/test_proof_rows.py::test_of_a_damaged_copy_by_key_the_rows_that_differ_come_to_the_driver"
    )),
    pytest.param(1, id="on disk"),
])  # fmt: skip
def jobs(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> LocalJobs:
    """`param`: so many bytes of rows a task holds before they go to its disk."""
    monkeypatch.setattr("recoveryd_jobs.verify.shown._HELD_BYTES", request.param)
    monkeypatch.setattr("recoveryd_jobs.driver.task_slots.count", lambda _context: 3)
    return LocalJobs()


def copied(cluster: Cluster) -> Recovery:
    """By key, of two partitions to three, in many receipts."""
    source, target = cluster.topic("in", 2), cluster.topic("out", 3)
    cluster.fill(source, rows(300, 0) + rows(300, 1))
    ranges = [[PartitionRange(p, 0, 300) for p in range(2)]]
    recovery = Recovery(
        cluster, source, target, ranges=ranges, partitions=3, target_more={"mapping": "key_hash"},
        chunk=Recovery.chunk_limits(max_records=20),
    )  # fmt: skip
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    assert len(recovery.ledger()) >= 30
    return recovery


@pytest.mark.broker
def test_rows_of_a_long_range_meet_in_more_tasks_than_it_has_partitions(
    cluster: Cluster, jobs: LocalJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "_EACH_OFFSETS", 100)
    assert kinds.run_verification(jobs, copied(cluster).spec, is_whole=True) is not None
    assert sorted(map(sorted, jobs.met)) == [[(source, target)] for source in range(2) for target in range(3)]


def rows_met(monkeypatch: pytest.MonkeyPatch, targets: int, each_offsets: int) -> list[int]:
    """By task, how many it gets of one side: 20 source partitions of 1,000 offsets have receipts of 25 records."""
    sources, met = tuple(Range(p, 0, 1_000) for p in range(20)), list[int]()

    def shown(_spec: object, _plan: object, share: ProofShare) -> Shown:
        found = Shown()
        for at in range(0, 1_000, 25) if share.task == 0 else ():
            for pair in ((r.partition, (at + n) % targets) for r in sources for n in range(min(targets, 25))):
                found.tell(pair, SOURCE, ROW.pack(at, 1, b"d" * 16))
        return found

    def counted(items: Iterable[Any]) -> Iterable[Any]:
        told = [item for item in items if isinstance(item[0], tuple)]
        met.append(sum(len(rows) for _, (_, rows) in told) // ROW.size)
        return []

    monkeypatch.setattr(kinds, "show_share", shown)
    monkeypatch.setattr(kinds, "_differing_task", counted)
    monkeypatch.setattr(kinds, "_EACH_OFFSETS", each_offsets)
    spec = replace(spec_of("key_hash", 1), verify="source")
    spec = replace(spec, target=replace(spec.target, partitions=targets))
    plan = ProofPlan(sources, (), {}, is_stamped=False, is_compacted=False, is_open=frozenset(), width=targets)
    kinds._show(LocalJobs(), spec, plan, [ProofShare(n, 2) for n in range(2)])
    return met


@pytest.mark.parametrize("targets", [1, 5, 25, 500])
def test_rows_that_meet_in_a_task_do_not_grow_with_the_partitions_of_the_target(
    monkeypatch: pytest.MonkeyPatch, targets: int
) -> None:
    assert max(rows_met(monkeypatch, targets, 25 * 200)) <= 200


def test_rows_meet_in_no_more_tasks_than_there_are_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows_met(monkeypatch, 3, 500) == [1_000 // 25] * 60


def test_rows_meet_in_few_tasks_for_each_that_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """They tell nothing, so many of them would look like a proof that stands still."""
    monkeypatch.setattr(kinds, "_SLOT_TASKS", 7)
    assert len(rows_met(monkeypatch, 25, 25 * 200)) == 2 * 7


@pytest.mark.broker
def test_of_a_good_copy_by_key_no_row_comes_to_the_driver(cluster: Cluster, jobs: LocalJobs) -> None:
    spec = copied(cluster).spec
    found = kinds.run_verification(jobs, spec, is_whole=True)
    assert found is not None
    assert (replace(found, target_ends={}), jobs.rows) == (verify(spec), 0)
    assert (found.result, found.scope, found.source_records) == ("match", "source", 600)


@pytest.mark.broker
def test_of_a_damaged_copy_by_key_the_rows_that_differ_come_to_the_driver(cluster: Cluster, jobs: LocalJobs) -> None:
    recovery = copied(cluster)
    receipts = recovery.ledger()

    def changed(receipt: Receipt, stored: list[Row]) -> list[Row]:
        is_chosen = receipt == receipts[5] and stored[0].partition == 1
        return [replace(stored[0], value=b"x"), *stored[1:]] if is_chosen else stored

    spec = agreed(recovery, receipts, changed)
    found = kinds.run_verification(jobs, spec, is_whole=True)
    assert found is not None
    assert (places(found), jobs.rows) == (places(verify(spec)), 2)
    assert [kind for kind, *_ in places(found)] == ["altered"]


@pytest.mark.broker
def test_what_the_source_of_a_copy_by_key_does_not_hold_any_more_is_proved_by_receipts(
    cluster: Cluster, jobs: LocalJobs
) -> None:
    recovery = copied(cluster)
    cluster.delete_records(recovery.source, 0, 105)
    found = kinds.run_verification(jobs, recovery.spec, is_whole=True)
    assert found is not None
    assert replace(found, target_ends={}) == verify(recovery.spec)
    assert (found.result, found.scope, found.records_by_receipts) == ("match", "mixed", 105)


@pytest.mark.broker
def test_a_partition_that_the_source_of_a_copy_of_all_got_since_is_told_beside_the_verdict(
    cluster: Cluster, jobs: LocalJobs
) -> None:
    recovery = copied(cluster)
    cluster.grow(recovery.source, 3)
    cluster.fill(recovery.source, rows(4, 2))
    spec = replace(recovery.spec, source=replace(recovery.spec.source, partitions=2))
    found = kinds.run_verification(jobs, spec, is_whole=True)
    assert found is not None
    assert (found.result, found.uncopied) == ("match", {2: 4})
