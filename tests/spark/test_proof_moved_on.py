"""A source that lost records between copy and proof: the lost ones are proved by receipts and named, never silently a
match.
"""

import time
from dataclasses import replace

import pytest

from recoveryd_jobs.contract import PartitionRange
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from tests.builders.copying import Cluster, Recovery, Row, rows
from tests.builders.proving import damaged, places, verify
from tests.patience import patient_s

pytestmark = pytest.mark.broker

_COMPACT = {
    "cleanup_policy": "compact",
    "segment_ms": "500",
    "min_cleanable_dirty_ratio": "0.001",
    "max_compaction_lag_ms": "1000",
    "min_compaction_lag_ms": "0",
}
_DEADLINE_S = 120.0


def compacted(cluster: Cluster) -> Recovery:
    """A copy of 60 records of 20 keys, of which the source holds fewer now."""
    source, target = cluster.topic("in", 1, **_COMPACT), cluster.topic("out")
    now_ms = time.time_ns() // 1_000_000
    data = [replace(r, key=f"k{r.offset % 20}".encode(), time_ms=now_ms + r.offset) for r in rows(60)]
    cluster.fill(source, data)
    recovery = Recovery(
        cluster, source, target, ranges=[[PartitionRange(0, 0, 60)]], chunk=Recovery.chunk_limits(max_records=15)
    )
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    assert verify(recovery.spec).scope == "source"
    give_up_s = time.monotonic() + patient_s(_DEADLINE_S)
    while len([r for r in cluster.read(source) if r.offset < 60]) == 60:
        assert time.monotonic() < give_up_s, "the broker did not compact the source"
        cluster.fill(source, [Row(0, 0, b"other", b"x", time.time_ns() // 1_000_000)])  # closes the segment
        time.sleep(0.5)
    return recovery


def test_records_that_compaction_took_are_proved_by_receipts_and_damage_among_them_is_found(cluster: Cluster) -> None:
    recovery = compacted(cluster)
    found = verify(recovery.spec)
    left = len([r for r in cluster.read(recovery.source) if r.offset < 60])  # the cleaner may go on meanwhile
    assert (found.result, found.scope, found.source_records, found.target_records) == ("match", "mixed", 60, 60)
    assert 0 < found.records_by_receipts <= 60 - left
    assert found.why == f"{found.records_by_receipts} records were compacted away in the source since"

    spec = damaged(recovery, lambda stored: [*stored[:3], replace(stored[3], value=b"x"), *stored[4:]])
    found = verify(spec)
    assert found.result == "mismatch"
    assert {d.source_partition for d in found.differences if d.kind != "extra"} == {0}
    assert places(found)
