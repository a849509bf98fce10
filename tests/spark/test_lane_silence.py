"""A lane whose source is silent: it waits, and obeys directives nevertheless."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from recoveryd_jobs.contract import ChunkLimits, JobSpec, PartitionRange
from recoveryd_jobs.lane import loop
from recoveryd_jobs.lane.life import LaneOutcome
from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.probe import answers
from tests.builders.copying import Cluster, LaneThread, Recovery, assert_exact, put, rows
from tests.e2e.processes import wait_for

pytestmark = pytest.mark.broker

COUNT, HELD = 20, 5


@pytest.fixture(scope="module")
def far_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("far")) as started:
        yield started


@pytest.fixture
def far(far_broker: Broker, unique: str) -> Iterator[Cluster]:
    yield Cluster(far_broker.bootstrap, unique)
    far_broker.cont()
    wait_for(lambda: answers(far_broker.bootstrap), 20.0)  # before the next test makes topics there


def read_from(recovery: Recovery, far: Cluster, source: str) -> JobSpec:
    """Its spec with a source on the other cluster."""
    place = replace(recovery.spec.source, cluster="far", topic_id=far.topic_id(source), client=far.client)
    return replace(recovery.spec, source=place, stop_wait_ms=600_000)


@pytest.mark.parametrize(("word", "ended"), [("pause", "done"), ("stop", "stopped"), ("exit", "left")])
def test_a_lane_obeys_while_its_source_stands_still(
    cluster: Cluster, far: Cluster, far_broker: Broker, word: str, ended: str
) -> None:
    """An open foreign transaction before the stop makes the lane ask repeatedly."""
    source, target = far.topic("in"), cluster.topic("out")
    cluster.topic("in")
    far.fill(source, rows(COUNT))
    other = far.producer("other")
    other.begin_transaction()
    for row in rows(HELD):
        put(other, source, row)
    other.flush()
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, COUNT + HELD)]])
    spec = read_from(recovery, far, source)
    lane = LaneThread(spec)
    recovery.await_heartbeat(lambda h: h.state == "blocked" and h.positions[0].copied == COUNT)
    far_broker.pause()
    recovery.await_heartbeat(lambda h: h.why == "waits for the source to answer")

    sequence = recovery.direct(word)
    if word == "pause":
        recovery.await_heartbeat(lambda h: h.state == "paused" and h.directive_sequence == sequence)
        far_broker.cont()
        far.abort(other, "other", source)
        recovery.direct("run")
    assert lane.outcome() == LaneOutcome(0, ended)
    assert_exact(recovery.ledger(), spec, whole=word == "pause")
    assert [r.content for r in cluster.read(target)] == [r.content for r in rows(COUNT)]


@pytest.mark.parametrize("word", ["pause", "stop"])
def test_a_lane_obeys_with_an_open_chunk_that_its_silent_source_must_confirm(
    cluster: Cluster, far: Cluster, far_broker: Broker, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """The chunk is given up and, after a pause, copied again."""
    monkeypatch.setattr(loop, "_CHUNK_AGE_MAX_S", 600.0)
    source, target = far.topic("in"), cluster.topic("out")
    cluster.topic("in")
    far.fill(source, rows(COUNT))
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, None)]])
    spec = replace(read_from(recovery, far, source), transaction_timeout_ms=600_000, chunk=ChunkLimits(max_ms=600_000))
    lane = LaneThread(spec)
    recovery.await_heartbeat(lambda h: h.positions[0].copied == COUNT)
    far.fill(source, rows(HELD))
    recovery.await_heartbeat(lambda h: h.chunk_open and h.positions[0].copied == COUNT)
    far_broker.pause()

    sequence = recovery.direct(word)
    if word == "pause":
        paused = recovery.await_heartbeat(lambda h: h.state == "paused" and h.directive_sequence == sequence)
        assert (paused.chunk_open, paused.positions[0].position) == (False, COUNT)
        far_broker.cont()
        recovery.direct("run")
        recovery.await_heartbeat(lambda h: h.chunk_open and h.directive_sequence > sequence)
        recovery.direct("stop")
    assert lane.outcome() == LaneOutcome(0, "stopped")
    assert_exact(recovery.ledger(), spec, whole=False)
    there = [*rows(COUNT), *(rows(HELD) if word == "pause" else [])]
    assert [r.content for r in cluster.read(target)] == [r.content for r in there]


def test_a_lane_that_starts_leaves_while_its_source_stands_still(
    cluster: Cluster, far: Cluster, far_broker: Broker
) -> None:
    source, target = far.topic("in"), cluster.topic("out")
    cluster.topic("in")
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 0)]])
    spec = read_from(recovery, far, source)
    far_broker.pause()
    lane = LaneThread(spec)
    recovery.await_heartbeat(lambda h: h.why == "waits for the clusters to answer")
    recovery.direct("exit")
    assert lane.outcome() == LaneOutcome(0, "left")
