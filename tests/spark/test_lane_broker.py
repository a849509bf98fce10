"""A lane survives a broker that hangs, dies or stays away for longer than a transaction may last."""

import time
from collections.abc import Iterator

import pytest

from recoveryd_jobs.clients import ASK_TIMEOUT_S
from recoveryd_jobs.contract import PartitionRange
from recoveryd_jobs.lane.life import LaneOutcome
from recoveryd_sandbox.broker import Broker
from tests.builders.copying import AheadClock, Cluster, LaneThread, Recovery, assert_exact, rows

pytestmark = [pytest.mark.broker, pytest.mark.faults]

COUNT = 15_000
TRANSACTION_TIMEOUT_S = 10.0


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that these tests may kill and freeze."""
    with Broker(tmp_path_factory.mktemp("hurt"), heap="512m") as broker:
        yield broker


def stay_away(seconds: float) -> None:
    """The length of the fault itself, which is no wait for a condition."""
    time.sleep(seconds)


@pytest.mark.parametrize("fault", [
    pytest.param("hangs", marks=pytest.mark.wide(
        "tests/faults/test_standstill.py::test_row_31_a_broker_that_stands_still_leaves_the_same_daemon_leading"
    )),
    pytest.param("is killed", marks=pytest.mark.wide(
        "tests/spark/test_lane_broker.py::test_the_copy_stays_exact_when_the_broker"
    )),
    "is away for longer than a transaction may last",
])  # fmt: skip
def test_the_copy_stays_exact_when_the_broker(own_broker: Broker, unique: str, fault: str) -> None:
    cluster = Cluster(own_broker.bootstrap, unique)
    source, target = cluster.topic("in", 2), cluster.topic("out", 2)
    cluster.fill(source, rows(COUNT, 0) + rows(COUNT, 1))
    recovery = Recovery(
        cluster, source, target, ranges=[[PartitionRange(0, 0, COUNT), PartitionRange(1, 0, COUNT)]], partitions=2,
        transaction_timeout_ms=int(TRANSACTION_TIMEOUT_S * 1000),
        directive=Recovery.run_directive(cluster, max_records_per_s=400.0, lease_ttl_ms=300_000),
    )  # fmt: skip
    lane = LaneThread(recovery.spec)
    recovery.await_heartbeat(lambda h: h.chunk_open and h.positions[0].position > 0)
    if fault == "hangs":
        own_broker.pause()
        stay_away(6.0)
        own_broker.cont()
    else:
        own_broker.kill()
        stay_away(TRANSACTION_TIMEOUT_S + 3.0 if "away" in fault else 0.5)
        own_broker.start()
    recovery.direct("run", lease_ttl_ms=300_000)
    assert lane.outcome(60.0) == LaneOutcome(0, "done")
    assert_exact(recovery.ledger(), recovery.spec)
    assert [r.content for r in cluster.read(target, 2)] == [r.content for r in rows(COUNT, 0) + rows(COUNT, 1)]


def test_a_silent_broker_is_not_taken_for_a_foreign_transaction_on_the_receipts(
    own_broker: Broker, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = AheadClock()
    monkeypatch.setattr("recoveryd_jobs.receipts.time", clock)
    cluster = Cluster(own_broker.bootstrap, unique)
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(100))
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 100)]], stop_wait_ms=600_000)
    foreign = cluster.foreign_receipts(recovery.receipts)
    lane = LaneThread(recovery.spec)
    recovery.await_heartbeat(lambda h: "reads receipts" in h.why)
    own_broker.pause()
    clock.ahead_s += 2 * recovery.spec.stop_wait_ms / 1000.0
    stay_away(ASK_TIMEOUT_S + 3.0)
    own_broker.cont()
    cluster.abort(foreign, "foreign", recovery.receipts)
    assert lane.outcome(60.0) == LaneOutcome(0, "done")
    assert [r.content for r in cluster.read(target)] == [r.content for r in rows(100)]
