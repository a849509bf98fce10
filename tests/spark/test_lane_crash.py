"""A lane that dies anywhere is continued exactly by the next attempt, and an old lane cannot commit any more."""

import signal
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from recoveryd_jobs.contract import PartitionRange
from recoveryd_jobs.failpoints import POINTS
from recoveryd_jobs.lane import life
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_jobs.lane.loop import LaneLoop
from tests.builders.copying import Cluster, LaneProcess, Recovery, assert_exact, rows

pytestmark = pytest.mark.broker

COUNT = 3_000
FIRST_OR_THIRD = ("lane.after_consume", "lane.after_produce", "lane.after_flush", "lane.after_receipt_produced", "lane.before_commit", "lane.after_commit")  # fmt: skip

IN_THE_FIRST = pytest.mark.wide(
    "tests/spark/test_lane_crash.py::test_the_next_attempt_goes_on_where_the_killed_one_stopped"
)


@pytest.fixture
def recovery(cluster: Cluster) -> Recovery:
    """3,000 records in chunks of 700."""
    source, target = cluster.topic("in", 2), cluster.topic("out", 2)
    cluster.fill(source, rows(COUNT // 2, 0) + rows(COUNT // 2, 1))
    ranges = [PartitionRange(0, 0, COUNT // 2), PartitionRange(1, 0, COUNT // 2)]
    limits = Recovery.chunk_limits(max_records=700)
    return Recovery(cluster, source, target, ranges=[ranges], partitions=2, chunk=limits)


def assert_all_there_once(recovery: Recovery, cluster: Cluster) -> None:
    assert [r.content for r in cluster.read(recovery.target, 2)] == [
        r.content for r in cluster.read(recovery.source, 2)
    ]
    assert_exact(recovery.ledger(), recovery.spec)


def test_every_point_of_a_lane_is_tried() -> None:
    lane_points = {p for p in POINTS if p.startswith("lane.")}
    assert {*FIRST_OR_THIRD, "lane.after_init", "lane.after_receipts_read", "lane.drained"} == lane_points


@pytest.mark.scenario("S-CASTLE-3")
@pytest.mark.parametrize(
    "point",
    [
        "lane.after_init",
        "lane.after_receipts_read",
        "lane.drained",
        *(pytest.param(f"{p}:{n}", marks=IN_THE_FIRST if n == 1 else ()) for p in FIRST_OR_THIRD for n in (1, 3)),
    ],
)
def test_the_next_attempt_goes_on_where_the_killed_one_stopped(
    recovery: Recovery, cluster: Cluster, point: str
) -> None:
    code, _ = LaneProcess(recovery.spec, failpoint=point).wait()
    assert code == -signal.SIGKILL
    again = recovery.attempt(2)
    assert run_lane(again, again.lanes[0]) == LaneOutcome(0, "done")
    assert_all_there_once(recovery, cluster)


@pytest.mark.wide("tests/spark/test_lane_crash.py::test_the_next_attempt_goes_on_where_the_killed_one_stopped")
def test_killed_again_and_again_it_still_ends_exact(recovery: Recovery, cluster: Cluster) -> None:
    for attempt, point in enumerate(
        ["lane.before_commit:2", "lane.after_commit", "lane.after_init", "lane.after_flush:2"], 1
    ):
        spec = recovery.spec if attempt == 1 else recovery.attempt(attempt)
        assert LaneProcess(spec, failpoint=point).wait()[0] == -signal.SIGKILL
    last = recovery.attempt(5)
    assert run_lane(last, last.lanes[0]) == LaneOutcome(0, "done")
    assert_all_there_once(recovery, cluster)
    assert len({r.chunk for r in recovery.ledger()}) == max(r.chunk for r in recovery.ledger()) + 1


def test_an_attempt_frozen_until_the_next_one_is_done_changes_nothing(recovery: Recovery, cluster: Cluster) -> None:
    slow = recovery.slowed(100.0)
    zombie = LaneProcess(slow)
    recovery.await_heartbeat(lambda h: h.chunk_open and h.positions[0].position > 0)
    zombie.send(signal.SIGSTOP)
    again = recovery.attempt(2)
    assert run_lane(again, again.lanes[0]) == LaneOutcome(0, "done")
    before = recovery.ledger()
    zombie.send(signal.SIGCONT)
    assert zombie.wait() == (0, "left")
    assert recovery.ledger() == before
    assert_all_there_once(recovery, cluster)


def test_an_attempt_that_finds_all_done_ends_at_once(recovery: Recovery, cluster: Cluster) -> None:
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    before = recovery.ledger()
    again = recovery.attempt(2)
    assert run_lane(again, again.lanes[0]) == LaneOutcome(0, "done")
    assert recovery.ledger() == before


def test_a_producer_fenced_without_a_newer_attempt_starts_over_from_the_ledger(
    recovery: Recovery, cluster: Cluster
) -> None:
    """The lane is fenced as by a broker that ended its transaction because it took too long."""
    slow = recovery.slowed(100.0)
    lane = LaneProcess(slow)
    recovery.await_heartbeat(lambda h: h.chunk_open and h.positions[0].position > 0)
    recovery.fence(0)
    recovery.direct("run")
    assert lane.wait() == (0, "done")
    assert_all_there_once(recovery, cluster)


@pytest.mark.parametrize(
    "step", ["Mender.settle", "TransactionalTarget.flush", "TransactionalTarget.send", "LaneLoop._copy_slice"]
)
def test_a_producer_fenced_at_any_step_starts_over_from_the_ledger(
    recovery: Recovery, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Also between opening the session and the first chunk: a coordinator under load may end a session twice."""
    owner: Any = life
    *path, name = step.split(".")
    for part in path:
        owner = getattr(owner, part)
    made: Callable[..., Any] = getattr(owner, name)
    fenced: list[str] = []

    def after_a_fence(*args: Any, **more: Any) -> Any:
        if not fenced:
            fenced.append(step)
            recovery.fence(0)
        return made(*args, **more)

    monkeypatch.setattr(owner, name, after_a_fence)
    again = recovery.attempt(2)
    assert run_lane(again, again.lanes[0]) == LaneOutcome(0, "done")
    assert fenced == [step]
    assert_all_there_once(recovery, cluster)


def test_what_the_client_raises_where_nobody_expects_it_starts_the_lane_over(
    recovery: Recovery, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, raised = LaneLoop._commit, []

    def commit(loop: LaneLoop) -> None:
        if not raised:
            raised.append(KafkaException(KafkaError(KafkaError._FATAL, "fenced between two calls", fatal=True)))
            raise raised[0]
        made(loop)

    monkeypatch.setattr(LaneLoop, "_commit", commit)
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    assert_all_there_once(recovery, cluster)
