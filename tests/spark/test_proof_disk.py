"""Where the proof keeps what does not fit into memory, and what a full disk there means: another attempt, not a broken
ledger.
"""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from recoveryd_jobs.contract import JobSpec, PartitionRange
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_jobs.verify.ledger import ProofLedger
from recoveryd_jobs.verify.match import SOURCE
from recoveryd_jobs.verify.plan import make_plan, share_out
from recoveryd_jobs.verify.shown import RowSpool
from recoveryd_jobs.verify.spill import Spill
from recoveryd_jobs.verify.tasks import show_share, spill_share
from tests.builders.copying import Cluster, Recovery, rows
from tests.builders.proving import nothing, two_topics

GOOD = {"partition": 0, "start": 0, "stop": 2, "copied": 2, "filtered": 0, "skipped": 0, "lost": 0}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Spark's folder of a worker, and a proof that holds almost nothing in memory."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    monkeypatch.setattr("recoveryd_jobs.verify.ledger._CACHE_KB", 1)
    monkeypatch.setattr("recoveryd_jobs.verify.spill._CACHE_KB", 1)
    return tmp_path


@contextmanager
def full() -> Iterator[None]:
    """No file of this process can grow any more, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def open_below(folder: Path) -> int:
    """How many files without a name this process has open there."""
    links = [entry.readlink() for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    return sum(str(link).startswith(f"{folder}/") and str(link).endswith("(deleted)") for link in links)


def test_temporary_files_lie_where_spark_spills(folder: Path) -> None:
    ledger, spill, spool = ProofLedger(), Spill(nothing), RowSpool()
    for start in range(200):
        ledger.put(0, start, bytes(1_000))
    spill.put_records([(0, 0, bytes(16), bytes(16), 0, offset) for offset in range(5_000)])
    spool.put((0, 0), SOURCE, bytearray(10))
    assert open_below(folder) == 3
    ledger.close()
    spill.close()
    list(spool.take())
    assert open_below(folder) == 0


@pytest.mark.broker
def test_a_full_disk_is_no_broken_ledger_and_is_named(cluster: Cluster, folder: Path) -> None:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(600))
    recovery = Recovery(
        cluster, source, target, ranges=[[PartitionRange(0, 0, 600)]], chunk=Recovery.chunk_limits(max_records=10)
    )
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    assert_named(show_share, recovery.spec, folder)


@pytest.mark.broker
def test_a_full_disk_is_named_where_each_record_is_kept(cluster: Cluster, folder: Path) -> None:
    data = rows(5_000)
    assert_named(spill_share, two_topics(cluster, data, data, target_more={"mapping": "key_hash"}), folder)


def assert_named(work: Any, spec: JobSpec, folder: Path) -> None:
    plan = make_plan(spec, is_whole=True)
    [share] = share_out(spec, plan, 1)
    with full(), pytest.raises(JobError) as found:
        work(spec, plan, share)
    assert (found.value.code, f"temporary files in {folder} of" in found.value.message) == ("internal", True)
    work(spec, plan, share)  # with space on the disk


@pytest.mark.parametrize(
    "odd",
    [
        b"{",
        b"[]",
        b"7",
        b"[" * 100_000,
        *(
            json.dumps(GOOD | change).encode()
            for change in (
                {"stop": 2**63},
                {"stop": 1.5},
                {"copied": True},
                {"lost": [1]},
                {"targets": "all"},
                {"targets": [7]},
                {"targets": [{"partition": 0, "count": 1, "digest": 5, "digest_form": 2, "runs": []}]},
                {"targets": [{"partition": 0, "count": 1, "runs": [[0, 1, 2]]}]},
                {"targets": [{"partition": 0, "count": 1, "runs": [[0, "1"]]}]},
                {"targets": [{"partition": 0, "count": 2**70, "runs": []}]},
                {"targets": 2 * [{"partition": 0, "count": 0, "runs": []}]},
            )
        ),
    ],
)
def test_a_record_that_is_no_receipt_breaks_the_ledger(odd: bytes) -> None:
    ledger = ProofLedger()
    ledger.put(0, 0, odd)
    with pytest.raises(JobError, match="The receipt of partition 0 at 0 cannot be read") as broken:
        ledger.settle()
    assert broken.value.code == "ledger_broken"
    ledger.close()
