"""What the proof reads counts in the unit of the copy: keys, values and headers, on either side."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from recoveryd_jobs.contract import JobSpec, PartitionRange
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_jobs.selection import Selection
from recoveryd_jobs.verify import ledger as proof_ledger
from recoveryd_jobs.verify.closer_look import Look
from recoveryd_jobs.verify.judge import PairQuestion
from recoveryd_jobs.verify.match import SOURCE, TARGET
from recoveryd_jobs.verify.plan import make_plan, share_out
from recoveryd_jobs.verify.reading import ShareReading, open_reader
from recoveryd_jobs.verify.shown import Shown
from recoveryd_jobs.verify.spill import Spill, SpillSide
from tests.builders.copying import Cluster, Recovery, rows
from tests.builders.proving import FreeGuest, nothing

pytestmark = pytest.mark.broker

COUNT = 60
DATA = [
    replace(row, key=None if row.offset % 7 == 0 else b"k" * 11, headers=(("name", b"x" * 50), ("none", None)))
    for row in rows(COUNT)
]
SIZE = sum(len(row.key or b"") + len(row.value or b"") + len("name") + 50 + len("none") for row in DATA)
KEYS_AND_VALUES = sum(len(row.key or b"") + len(row.value or b"") for row in DATA)


class CountingGuest(FreeGuest):
    def __init__(self) -> None:
        super().__init__()
        self.records = self.bytes = 0

    def took(self, records: int, size: int, offsets: int) -> None:
        self.records += records
        self.bytes += size


def shown(spec: JobSpec, guest: CountingGuest) -> None:
    plan = make_plan(spec, is_whole=True)
    ledger = proof_ledger.load(spec, lambda _partition: True)
    [share] = share_out(spec, plan, 1)
    ShareReading(spec, plan, share, guest, ledger, Shown()).read()  # type: ignore[arg-type]
    ledger.close()


def spilled(spec: JobSpec, guest: CountingGuest) -> None:
    plan, spill = make_plan(spec, is_whole=True), Spill(nothing)
    for side, ranges in ((SOURCE, plan.sources), (TARGET, plan.targets)):
        listener = SpillSide(spill, Selection(spec.source, spec.target, is_stamped=False), side, latest=False)
        reader = open_reader(spec, side, guest, listener, [0, 0])  # type: ignore[arg-type]
        reader.read(ranges)
        reader.close()
    spill.close()


def looked(spec: JobSpec, guest: CountingGuest) -> None:
    ledger = proof_ledger.load(spec, lambda _partition: True)
    look = Look(spec, make_plan(spec, is_whole=True), ledger, guest)  # type: ignore[arg-type]
    assert look.answer(PairQuestion((0, 0), (0,), {})).differences
    look.close()
    ledger.close()


@pytest.mark.parametrize("mapping", ["same", "key_hash"])
@pytest.mark.parametrize("reading", [shown, spilled, looked])
def test_keys_and_headers_count_whatever_reads_them(
    cluster: Cluster, mapping: str, reading: Callable[[JobSpec, CountingGuest], None]
) -> None:
    guest = CountingGuest()
    reading(copied(cluster, mapping), guest)
    assert (guest.records, guest.bytes) == (2 * COUNT, 2 * SIZE)


def test_a_proof_that_only_counts_does_not_look_at_headers(cluster: Cluster) -> None:
    guest = CountingGuest()
    shown(replace(copied(cluster, "same"), verify="count"), guest)
    assert (guest.records, guest.bytes) == (COUNT, KEYS_AND_VALUES)


def copied(cluster: Cluster, mapping: str) -> JobSpec:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, DATA)
    recovery = Recovery(
        cluster, source, target, ranges=[[PartitionRange(0, 0, COUNT)]], target_more={"mapping": mapping}
    )
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    return recovery.spec
