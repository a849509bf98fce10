"""The proof of a copy that followed a live topic: its ranges have no end but that of their receipts."""

from dataclasses import replace

import pytest

from recoveryd_jobs.contract import JobSpec, PartitionRange
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from tests.builders.copying import Cluster, Recovery, Row, rows
from tests.builders.proving import damaged, places, verify

pytestmark = pytest.mark.broker

COUNT, CUT = 200, 5


def followed(cluster: Cluster, mapping: str, lost: int = 0) -> Recovery:
    """A copy of two partitions that was told to stop when it had all there was, but the last `lost` offsets, which the
    source had lost by then.
    """
    source, target = cluster.topic("in", 2), cluster.topic("out", 2)
    cluster.fill(source, [row for p in range(2) for row in rows(COUNT, p)])
    recovery = Recovery(
        cluster, source, target, ranges=[[PartitionRange(p, 0, COUNT + lost) for p in range(2)]], partitions=2,
        target_more={"mapping": mapping}, on_data_loss="continue", stop_wait_ms=3_000,
    )  # fmt: skip
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    assert sum(r.lost for r in recovery.ledger()) == 2 * lost
    ranges = tuple(replace(r, stop=None) for r in recovery.spec.lanes[0].partitions)
    recovery.spec = replace(recovery.spec, lanes=(replace(recovery.spec.lanes[0], partitions=ranges),))
    return recovery


@pytest.fixture
def _quick_to_believe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoveryd_jobs.verify.plan._CUT_BACK_AFTER_S", 0.0)
    monkeypatch.setattr("recoveryd_jobs.lane.asking.CUT_BACK_AFTER_S", 0.0)


@pytest.mark.parametrize("mapping", ["same", "key_hash"])
@pytest.mark.parametrize("scope", ["source", "digest", "count"])
def test_it_ends_where_its_receipts_end(cluster: Cluster, mapping: str, scope: str) -> None:
    recovery = followed(cluster, mapping)
    cluster.fill(recovery.source, [row for p in range(2) for row in rows(30, p)])  # came after the copy
    found = verify(replace(recovery.spec, verify=scope))
    assert (found.result, found.source_records, found.target_records) == ("match", 2 * COUNT, 2 * COUNT)
    spec: JobSpec = replace(damaged(recovery, lambda stored: stored[:-1]), verify=scope)
    assert verify(spec).result == "mismatch"


@pytest.mark.usefixtures("_quick_to_believe")
@pytest.mark.parametrize("mapping", ["same", "key_hash"])
def test_a_log_that_was_cut_back_since_has_no_verdict(cluster: Cluster, mapping: str) -> None:
    recovery = followed(cluster, mapping, CUT)
    recovery.write_receipts([replace(r, skipped=r.skipped + r.lost, lost=0) for r in recovery.ledger()])
    with pytest.raises(JobError, match=f"ends at {COUNT}, before {COUNT + CUT}: it was cut back") as lost:
        verify(recovery.spec)
    assert lost.value.code == "data_lost"


@pytest.mark.usefixtures("_quick_to_believe")
@pytest.mark.parametrize("mapping", ["same", "key_hash"])
def test_an_end_that_was_cut_back_is_proved_where_receipts_call_it_lost(cluster: Cluster, mapping: str) -> None:
    recovery = followed(cluster, mapping, CUT)
    found = verify(recovery.spec)
    assert (found.result, found.scope, found.source_records) == ("match", "mixed", 2 * COUNT)
    assert found.why == f"{2 * CUT} offsets were lost in the source"

    def alter(stored: list[Row]) -> list[Row]:
        return [replace(stored[3], value=b"x") if row is stored[3] else row for row in stored]

    assert [kind for kind, *_ in places(verify(damaged(recovery, alter)))] == ["altered"]
