"""What directives make a lane do: pause and resume, stop, limits, leases, caps, leave."""

import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from recoveryd_jobs import directives
from recoveryd_jobs.clients import make_reader
from recoveryd_jobs.contract import LaneHeartbeat, PartitionRange
from recoveryd_jobs.directives import Directives
from recoveryd_jobs.lane import life
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_sandbox.ports import free_ports
from tests.builders.copying import Cluster, LaneThread, Recovery, assert_exact, rows
from tests.e2e.processes import wait_for
from tests.patience import patient_s

pytestmark = pytest.mark.broker

COUNT = 60_000
CLOCK_MS = 20  # receipts have times of a clock that may be set, which intervals do not use
SLOW = {"max_records_per_s": 400.0}


@pytest.fixture(scope="module")
def full(bootstrap: str, module_unique: str) -> str:
    """A topic of 60,000 records, which no test changes."""
    cluster = Cluster(bootstrap, module_unique)
    topic = cluster.topic("in", 2)
    cluster.fill(topic, rows(COUNT // 2, 0) + rows(COUNT // 2, 1))
    return topic


@pytest.fixture
def slow(cluster: Cluster, full: str) -> Recovery:
    """A recovery of 60,000 records that would need 150 s."""
    ranges = [PartitionRange(0, 0, COUNT // 2), PartitionRange(1, 0, COUNT // 2)]
    directive = Recovery.run_directive(cluster, **SLOW)
    return Recovery(cluster, full, cluster.topic("out", 2), ranges=[ranges], partitions=2, directive=directive)


def copied(recovery: Recovery) -> int:
    return sum(r.copied for r in recovery.ledger())


def all_copied(beat: LaneHeartbeat) -> int:
    """What it had committed then."""
    return sum(p.copied for p in beat.positions)


def positions(beat: LaneHeartbeat) -> list[tuple[int, int, int]]:
    return [(p.partition, p.position, p.copied) for p in beat.positions]


def ledger_positions(recovery: Recovery) -> list[tuple[int, int, int]]:
    found = []
    for partition in (0, 1):
        mine = [r for r in recovery.ledger() if r.partition == partition]
        found.append((partition, max((r.stop for r in mine), default=0), sum(r.copied for r in mine)))
    return found


@pytest.mark.scenario("S-WIKI-C1a")
def test_a_pause_commits_what_is_open_and_names_exact_positions(slow: Recovery, cluster: Cluster) -> None:
    lane = LaneThread(slow.spec)
    slow.await_heartbeat(lambda h: h.state == "copying" and h.chunk_open)
    sequence = slow.direct("pause")
    paused = slow.await_heartbeat(lambda h: h.state == "paused" and h.directive_sequence == sequence)
    assert not paused.chunk_open
    assert positions(paused) == ledger_positions(slow)
    assert 0 < copied(slow) < COUNT
    before = [cluster.end(slow.target, p) for p in (0, 1)]
    beats = len(slow.heartbeats())
    slow.await_heartbeat(lambda h: len(slow.heartbeats()) >= beats + 2)  # it sends heartbeats but copies nothing
    assert [cluster.end(slow.target, p) for p in (0, 1)] == before
    slow.direct("run")
    assert lane.outcome() == LaneOutcome(0, "done")
    assert_exact(slow.ledger(), slow.spec)
    assert [r.content for r in cluster.read(slow.target, 2)] == [r.content for r in cluster.read(slow.source, 2)]


def test_a_stop_ends_the_lane_at_a_chunk_boundary(slow: Recovery, cluster: Cluster) -> None:
    lane = LaneThread(slow.spec)
    slow.await_heartbeat(lambda h: h.state == "copying" and h.chunk_open)
    slow.direct("stop", **SLOW)
    assert lane.outcome(5.0) == LaneOutcome(0, "stopped")
    assert 0 < copied(slow) < COUNT
    assert_exact(slow.ledger(), slow.spec, whole=False)
    assert len(cluster.read(slow.target, 2)) == copied(slow)
    last = slow.heartbeats()[-1]
    assert (last.state, last.chunk_open, positions(last)) == ("done", False, ledger_positions(slow))


def test_a_lane_that_hears_no_word_of_what_is_wanted_copies_nothing(
    slow: Recovery, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its spec says was wanted when it was launched, and may be long over."""
    monkeypatch.setattr(directives, "_REFRESH_S", 0.2)
    monkeypatch.setattr(life, "TROUBLE_BUDGET_S", 2.0)
    deaf = replace(slow.spec.control, client={"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"})
    outcome = run_lane(replace(slow.spec, control=deaf), slow.spec.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", "internal")
    assert "could not be read" in outcome.error_message
    assert [cluster.end(slow.target, p) for p in (0, 1)] == [0, 0]


class Refusal:
    """What a reader of the directives is told that lacks the right to read them."""

    def error(self) -> KafkaError:
        return KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)

    def offset(self) -> None: ...


class RefusedReader:
    def __init__(self, real: Consumer) -> None:
        self._real = real

    def consume(self, count: int, _wait_s: float) -> list[Refusal]:
        time.sleep(0.01)
        return [Refusal()] if count == 1 else []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def test_words_are_heard_although_a_client_for_them_cannot_be_made_for_a_while(
    slow: Recovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while the files of its certificates are being replaced."""
    makes: list[object] = []

    def make(*arguments: Any, **more: Any) -> Consumer:
        makes.append(arguments)
        if len(makes) in {1, 3, 4}:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG))
        return make_reader(*arguments, **more)

    monkeypatch.setattr(directives, "make_reader", make)
    monkeypatch.setattr(directives, "_AGAIN_S", 0.05)
    monkeypatch.setattr(directives, "_QUICK_S", 0.5)
    heard = Directives(slow.spec, "directives")
    wait_for(lambda: len(makes) >= 5 or not heard._thread.is_alive(), 10.0, lambda: f"{len(makes)} were made")
    sequence = slow.direct("pause")
    wait_for(lambda: heard.current().directive.sequence == sequence, 1.0, lambda: "the word is not heard")
    assert heard.refresh(30.0)
    heard.close()


def test_a_lane_that_may_not_read_what_is_wanted_names_the_right_that_it_lacks(
    slow: Recovery, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow.direct("run")
    monkeypatch.setattr(directives, "_REFRESH_S", 0.5)
    monkeypatch.setattr(
        "recoveryd_jobs.directives.make_reader", lambda *a, **more: RefusedReader(make_reader(*a, **more))
    )
    outcome = run_lane(slow.spec, slow.spec.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", "not_authorised")
    assert f"the user lacks Read on Topic {slow.directives}" in outcome.error_message
    assert [cluster.end(slow.target, p) for p in (0, 1)] == [0, 0]


@pytest.mark.parametrize("word", ["exit", "newer attempt"])
def test_a_lane_leaves_without_commit_when_told_or_replaced(slow: Recovery, cluster: Cluster, word: str) -> None:
    lane = LaneThread(slow.spec)
    slow.await_heartbeat(lambda h: h.state == "copying" and h.chunk_open)
    if word == "exit":
        slow.direct("exit")
    else:
        slow.direct("run", attempt=2)
    assert lane.outcome(5.0) == LaneOutcome(0, "left")
    assert len(cluster.read(slow.target, 2)) == copied(slow)


def test_directives_of_an_earlier_recovery_of_the_same_id_are_not_obeyed(slow: Recovery) -> None:
    slow.direct("exit", attempt=5, begun_at=3)
    lane = LaneThread(replace(slow.spec, directive=replace(slow.spec.directive, begun_at=9)))
    slow.await_heartbeat(lambda h: h.state == "copying" and h.chunk_open)
    slow.direct("stop", begun_at=9)
    assert lane.outcome().ended == "stopped"


def test_a_late_attempt_does_not_fence_a_newer_one(slow: Recovery) -> None:
    newer = slow.attempt(2)
    newer = replace(newer, directive=replace(newer.directive, max_records_per_s=1_000.0))
    slow.direct("run", attempt=2, max_records_per_s=1_000.0)
    lane = LaneThread(newer)
    slow.await_heartbeat(lambda h: h.attempt == 2 and h.state == "copying" and h.chunk_open)
    assert run_lane(slow.spec, slow.spec.lanes[0]) == LaneOutcome(0, "left")
    slow.direct("run", attempt=2)
    assert lane.outcome() == LaneOutcome(0, "done")
    assert {r.attempt for r in slow.ledger()} == {2}


def test_a_limit_and_its_change_are_never_exceeded(slow: Recovery, cluster: Cluster) -> None:
    """Counted against the time that really passed, so a busy machine changes nothing; how near a rate is reached is
    measured in `bench`.
    """

    def written() -> int:
        return sum(cluster.end(slow.target, p) for p in (0, 1))

    def keep_to(rate: float, more: int) -> None:
        at_s, before = time.monotonic(), written()
        while (now := written()) < before + more:
            assert now - before <= rate * (time.monotonic() - at_s) + rate  # a second's worth may be saved up
            time.sleep(0.05)

    lane = LaneThread(slow.spec)
    slow.await_heartbeat(lambda h: h.state == "copying" and h.chunk_open)
    keep_to(400.0, 1_200)
    sequence = slow.direct("run", max_records_per_s=100.0)
    heard = slow.await_heartbeat(lambda h: h.directive_sequence == sequence)
    # What it took at the rate before may be on its way until it has committed.
    slow.await_heartbeat(lambda h: h.directive_sequence == sequence and all_copied(h) > all_copied(heard))
    keep_to(100.0, 400)
    slow.direct("stop")
    assert lane.outcome().ended == "stopped"


def test_a_lane_says_when_all_it_took_is_committed_and_only_its_rate_keeps_it_waiting(slow: Recovery) -> None:
    slow.spec = slow.slowed(0.001)  # one record, and the next one after 17 minutes
    lane = LaneThread(slow.spec)
    waiting = slow.await_heartbeat(lambda h: h.throttled)
    assert (waiting.state, sum(p.position for p in waiting.positions), copied(slow)) == ("copying", 1, 1)
    sequence = slow.direct("run", **SLOW)
    slow.await_heartbeat(lambda h: h.directive_sequence == sequence and h.chunk_open and not h.throttled)
    slow.direct("stop")
    assert lane.outcome().ended == "stopped"


def test_silence_slows_the_lane_down_and_then_pauses_it_until_the_daemon_speaks(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(20_000))
    short = Recovery.run_directive(cluster, max_records_per_s=200.0, lease_ttl_ms=1_500)
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 20_000)]], directive=short)
    lane = LaneThread(recovery.spec)
    silent = recovery.await_heartbeat(lambda h: h.state == "leaseless", deadline_s=10.0)
    assert not silent.chunk_open
    assert silent.positions[0].position == max((r.stop for r in recovery.ledger()), default=0) < 20_000
    recovery.direct("run")
    assert lane.outcome() == LaneOutcome(0, "done")
    assert_exact(recovery.ledger(), recovery.spec)


def test_a_cap_on_records_is_exact_over_attempts(slow: Recovery, cluster: Cluster) -> None:
    first = LaneThread(slow.spec)
    slow.await_heartbeat(lambda h: h.state == "copying" and h.chunk_open)
    slow.direct("stop")
    assert first.outcome().ended == "stopped"
    before = copied(slow)
    again = slow.attempt(2)
    again = replace(again, lanes=(replace(again.lanes[0], max_records=before + 12_345),))
    assert run_lane(again, again.lanes[0]) == LaneOutcome(0, "capped")
    assert copied(slow) == before + 12_345 == len(cluster.read(slow.target, 2))
    assert slow.heartbeats()[-1].why == "capped"
    later = slow.attempt(3)
    later = replace(later, lanes=(replace(later.lanes[0], max_records=before),))
    assert run_lane(later, later.lanes[0]) == LaneOutcome(0, "capped")
    assert copied(slow) == before + 12_345


def test_a_cap_on_bytes_is_passed_by_one_record_at_most(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(1_000, size=98))  # keys k0..k999 of 2 to 4 bytes
    ranges = [[PartitionRange(0, 0, 1_000)]]
    recovery = Recovery(cluster, source, target, ranges=ranges, caps=(None, 10_001))
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "capped")
    sizes = [len(r.key or b"") + len(r.value or b"") for r in cluster.read(target)]
    assert sum(sizes[:-1]) < 10_001 <= sum(sizes)
    assert recovery.ledger()[-1].stop == len(sizes)


def test_following_the_head_ends_only_when_told(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(100))
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 50, None)]])
    lane = LaneThread(recovery.spec)
    recovery.await_heartbeat(lambda h: h.positions[0].position == 100)
    cluster.foreign(source, *rows(20)).commit_transaction(60)
    head = cluster.settled_end(source)  # behind the marker, which is no record
    caught_up = recovery.await_heartbeat(lambda h: h.positions[0].position == head == 121)
    assert (caught_up.positions[0].stop, caught_up.positions[0].copied) == (None, 70)
    assert lane.is_running
    recovery.direct("stop")
    assert lane.outcome() == LaneOutcome(0, "stopped")
    wanted = rows(100)[50:] + rows(20)
    assert [r.content for r in cluster.read(target)] == [r.content for r in wanted]
    assert_exact(recovery.ledger(), recovery.spec, whole=False)


def test_a_lane_that_nobody_leads_any_more_leaves(slow: Recovery) -> None:
    lane = LaneThread(replace(slow.spec, orphan_after_ms=4_000))
    while not slow.ledger() and lane.is_running:
        slow.direct("run", **SLOW)
    assert lane.outcome() == LaneOutcome(0, "left")
    assert copied(slow) < COUNT


def test_a_trickle_that_is_followed_makes_at_most_one_receipt_per_partition_and_chunk_interval(
    cluster: Cluster,
) -> None:
    """Records that arrive one at a time wait for the interval, so that a year of them gives a receipt per interval, not
    per record.
    """
    source, target = cluster.topic("in", 2), cluster.topic("out", 2)
    interval_ms = 1_000
    recovery = Recovery(
        cluster, source, target, ranges=[[PartitionRange(0, 0, None), PartitionRange(1, 0, None)]], partitions=2,
        chunk=Recovery.chunk_limits(max_ms=interval_ms),
    )  # fmt: skip
    lane = LaneThread(recovery.spec)
    recovery.await_heartbeat(lambda h: h.state == "copying")
    give_up_s, sent = time.monotonic() + patient_s(20.0), 0
    while any(len([r for r in recovery.ledger() if r.partition == p]) < 4 for p in (0, 1)):
        assert time.monotonic() < give_up_s, "nothing is followed"
        cluster.fill(source, [row for p in (0, 1) for row in rows(1, p)])
        sent += 1
        time.sleep(0.05)
    followed = recovery.ledger()
    recovery.direct("stop")
    assert lane.outcome() == LaneOutcome(0, "stopped")
    assert len(cluster.read(target, 2)) == 2 * sent
    for partition in (0, 1):
        written_ms = [r.written_ms for r in followed if r.partition == partition]
        gaps_ms = [after - before for before, after in pairwise(written_ms)]
        assert min(gaps_ms) >= interval_ms - CLOCK_MS, gaps_ms
        assert len(written_ms) < sent, "several records share a receipt"
