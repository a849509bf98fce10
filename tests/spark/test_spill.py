"""The comparison on disk, which may take long and reads no record meanwhile: it obeys and counts its steps."""

import hashlib

import pytest

from recoveryd_jobs.verify.guest import Stopped
from recoveryd_jobs.verify.match import SOURCE, TARGET
from recoveryd_jobs.verify.spill import Spill

RECORDS = 20_000


def filled(spill: Spill, *, latest: bool) -> Spill:
    for side in (SOURCE, TARGET):
        hashes = [hashlib.sha256(b"%d" % n).digest()[:16] for n in range(RECORDS)]
        if latest:
            spill.put_latest([(side, 0, found, 0, n, found) for n, found in enumerate(hashes)])
        else:
            spill.put_records([(side, 0, found, found, 0, n) for n, found in enumerate(hashes)])
    return spill


@pytest.mark.parametrize("latest", [True, False])
def test_a_comparison_on_disk_goes_in_steps(latest: bool) -> None:
    steps: list[None] = []
    found = filled(Spill(lambda: steps.append(None)), latest=latest).compare(latest=latest)
    assert (found.source, found.target, found.total) == (RECORDS, RECORDS, 0)
    assert len(steps) > 2


@pytest.mark.parametrize("latest", [True, False])
def test_a_comparison_on_disk_stops_when_told(latest: bool) -> None:
    def told() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        filled(Spill(told), latest=latest).compare(latest=latest)


def work_on(count: int) -> int:
    """Steps of comparing so many records of one partition and a tenth of them in a second one."""
    steps: list[None] = []
    spill = Spill(lambda: steps.append(None))
    for side in (SOURCE, TARGET):
        hashes = [hashlib.sha256(b"%d" % n).digest()[:16] for n in range(count)]
        for partition, some in enumerate((hashes, hashes[: count // 10])):
            spill.put_records([(side, 0, found, found, partition, n) for n, found in enumerate(some)])
    assert spill.compare(latest=False).total == 0
    spill.close()
    return len(steps)


def test_the_work_on_a_record_does_not_grow_with_what_several_partitions_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoveryd_jobs.verify.disk._STEP_INSTRUCTIONS", 1_000)
    few, many = work_on(1_000), work_on(4_000)
    assert many <= 6 * few
