"""Lanes and the pinned place of their receipts: a receipts topic may grow; after one has lost receipts, nothing is
copied again.
"""

from dataclasses import replace
from typing import Any

import pytest

from recoveryd_jobs import receipts
from recoveryd_jobs.contract import JobSpec, PartitionRange, ReceiptsHome
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from tests.builders.copying import DEADLINE_S, Cluster, LaneThread, Recovery, assert_exact, rows

pytestmark = pytest.mark.broker

COUNT = 4_000


@pytest.fixture
def recovery(cluster: Cluster) -> Recovery:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(COUNT))
    made = Recovery(
        cluster, source, target, ranges=[[PartitionRange(0, 0, COUNT)]], chunk=Recovery.chunk_limits(max_records=50)
    )
    home = made.spec.receipts
    assert home is not None
    made.spec = replace(made.spec, receipts=replace(home, partition=1 - home.partition))  # not the partition by its id
    return made


def home_of(recovery: Recovery) -> ReceiptsHome:
    assert recovery.spec.receipts is not None
    return recovery.spec.receipts


def stopped_half_way(recovery: Recovery) -> JobSpec:
    """The lane copied a part and ended; the spec of the next attempt, which knows from the journal how far it came."""
    capped = replace(recovery.spec.lanes[0], max_records=150)
    assert run_lane(replace(recovery.spec, lanes=(capped,)), capped) == LaneOutcome(0, "capped")
    again = recovery.attempt(2)
    ranges = (replace(again.lanes[0].partitions[0], journaled=100),)
    return replace(again, lanes=(replace(again.lanes[0], partitions=ranges),))


def test_a_topic_that_grows_under_a_lane_keeps_its_receipts_where_they_are(
    cluster: Cluster, recovery: Recovery
) -> None:
    again = stopped_half_way(recovery)
    cluster.grow(recovery.receipts, 13)
    assert run_lane(again, again.lanes[0]) == LaneOutcome(0, "done")
    assert [r.content for r in cluster.read(recovery.target)] == [r.content for r in cluster.read(recovery.source)]
    assert_exact(recovery.ledger(), recovery.spec)
    assert {r.partition for r in cluster.read(recovery.receipts, 13)} == {home_of(recovery).partition}


@pytest.mark.parametrize("journaled", [True, False])
def test_an_emptied_ledger_ends_the_lane_before_it_copies_anything_again(
    cluster: Cluster, recovery: Recovery, journaled: bool
) -> None:
    again = stopped_half_way(recovery)
    if not journaled:
        again = replace(again, lanes=recovery.spec.lanes)
    written = len(cluster.read(recovery.target))
    cluster.empty(recovery.receipts, home_of(recovery).partition)
    outcome = run_lane(again, again.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", "ledger_broken")
    assert "Receipts were deleted from" in outcome.error_message
    assert len(cluster.read(recovery.target)) == written


def test_receipts_that_go_just_before_they_are_read_end_the_lane_by_name(
    cluster: Cluster, recovery: Recovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = stopped_half_way(recovery)
    look = receipts._ask

    def look_and_lose(*asked: Any) -> list[int]:
        found = look(*asked)
        cluster.empty(recovery.receipts, home_of(recovery).partition)
        return found

    monkeypatch.setattr("recoveryd_jobs.receipts._ask", look_and_lose)
    outcome = run_lane(again, again.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", "ledger_broken")
    assert outcome.error_message.endswith("holds nothing any more: receipts were deleted.")


def test_receipts_that_end_before_what_the_journal_knows_end_the_lane_by_name(
    cluster: Cluster, recovery: Recovery
) -> None:
    again = stopped_half_way(recovery)
    written = len(cluster.read(recovery.target))
    last = recovery.ledger()[-1]
    unpinned = replace(again, receipts=None)  # and so does a recovery of the release before, whose topic has grown
    ranges = (replace(again.lanes[0].partitions[0], journaled=last.stop),)
    outcome = run_lane(unpinned, replace(again.lanes[0], partitions=ranges))
    assert (outcome.ended, outcome.error_code) == ("failed", "ledger_broken")
    assert (
        outcome.error_message == f"Receipts of partition 0 end at 0, but it was copied to {last.stop}: some are gone."
    )
    assert len(cluster.read(recovery.target)) == written


@pytest.mark.parametrize("partitions", [1, 2], ids=["narrower", "as wide"])
def test_another_topic_of_the_same_name_ends_a_running_lane(
    cluster: Cluster, recovery: Recovery, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    """Not only when the lane has tried for long, also where the other topic lacks the partition of the receipts."""
    monkeypatch.setattr("recoveryd_jobs.lane.life.TROUBLE_BUDGET_S", 100 * DEADLINE_S)
    recovery.spec = replace(recovery.spec, receipts=replace(home_of(recovery), partition=1))
    lane = LaneThread(recovery.slowed(100))
    recovery.await_heartbeat(lambda h: h.positions[0].position >= 100)
    new_id = cluster.recreate(recovery.receipts, partitions, cleanup_policy="compact")
    outcome = lane.outcome()
    assert (outcome.ended, outcome.error_code) == ("failed", "ledger_broken")
    assert outcome.error_message in {
        (
            f"The receipts topic {recovery.receipts} was deleted and made again: its id is {new_id}, planned was "
            f"{home_of(recovery).topic_id}."
        ),
        f"The receipts topic {recovery.receipts} ({home_of(recovery).topic_id}) does not exist any more.",
    }
    again = recovery.attempt(2)
    written = len(cluster.read(recovery.target))
    assert run_lane(again, again.lanes[0]).error_code == "ledger_broken"
    assert len(cluster.read(recovery.target)) == written
