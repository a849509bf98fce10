"""What has ended keeps no client: a worker of Spark that waits for its next task makes nothing, so nobody would collect
garbage there, and clients in it would stay connected.
"""

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from recoveryd_jobs.contract import ControlSpec, DriverHeartbeat, PartitionRange
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_jobs.progress import ProgressSender
from recoveryd_jobs.shared.garbage import uncollected
from recoveryd_jobs.sinks.transactional import TransactionalTarget
from recoveryd_jobs.verify.plan import make_plan, share_out
from recoveryd_jobs.verify.tasks import show_share
from tests.builders.copying import Cluster, Recovery, rows
from tests.e2e.processes import wait_for
from tests.living_clients import Client, living_clients


@pytest.fixture
def before() -> Iterator[list[Client]]:
    """Clients of others. Meanwhile nobody collects garbage."""
    found = living_clients()
    with uncollected():
        yield found


class Teller:
    """Holds its sender, which holds it."""

    def __init__(self) -> None:
        control = ControlSpec({"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}, "directives", "progress")
        self.sender = ProgressSender(control, "teller", None, self.report)

    def report(self) -> DriverHeartbeat:
        return DriverHeartbeat("r1", 1, "running", host="h", pid=1)


def test_a_closed_sender_has_no_client(before: list[Client]) -> None:
    teller = Teller()
    teller.sender.start()
    assert len(living_clients(but=before, with_garbage=True)) == 1
    teller.sender.close()
    assert living_clients(but=before, with_garbage=True) == []
    teller.sender.nudge()
    assert not teller.sender.send_now(0.1)


@pytest.mark.broker
def test_a_lane_and_a_task_of_the_proof_that_ended_have_no_client(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(1_000))
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 1_000)]])
    spec = replace(recovery.spec, directive=replace(recovery.spec.directive, wanted="verify"))
    others = living_clients()

    def are_gone() -> bool:
        return not living_clients(but=others, with_garbage=True)

    with uncollected():
        assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
        wait_for(are_gone, 30.0, lambda: str(living_clients(but=others, with_garbage=True)))
        plan = make_plan(spec, is_whole=True)
        [share] = share_out(spec, plan, 1)
        show_share(spec, plan, share)
        wait_for(are_gone, 30.0, lambda: str(living_clients(but=others, with_garbage=True)))


@pytest.mark.broker
def test_an_abort_that_fails_at_the_end_hides_no_error_and_leaves_no_thread(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call of the client that fails while delivery reports come in can end as Python's SystemError."""

    def broken(_target: TransactionalTarget, _patience_s: float = 0.0) -> None:
        raise SystemError("returned a result with an exception set")

    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(1_000))
    cluster.delete_records(source, 0, 10)
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 1_000)]])
    monkeypatch.setattr(TransactionalTarget, "abort", broken)
    others = set(threading.enumerate())
    outcome = run_lane(recovery.spec, recovery.spec.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", "data_lost")
    left = {thread.name for thread in set(threading.enumerate()) - others if thread.is_alive()}
    assert not left & {"directives", "progress"}
