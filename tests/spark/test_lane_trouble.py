"""A lane whose topics or records change: it goes on exactly, or ends with the exact reason."""

import random
import time
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from recoveryd_jobs.clients import make_reader
from recoveryd_jobs.contract import PartitionRange
from recoveryd_jobs.errors import Doubt
from recoveryd_jobs.lane import hearing, life
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_jobs.lane.loop import LaneLoop
from recoveryd_jobs.sources import range_reader
from tests.builders.copying import KEEP, AheadClock, Cluster, LaneThread, Recovery, Row, assert_exact, rows
from tests.builders.odd_headers import write_odd
from tests.builders.proving import verify
from tests.e2e.data import add_time_zero
from tests.e2e.processes import wait_for

pytestmark = pytest.mark.broker

COUNT = 20_000


def make(cluster: Cluster, **more: Any) -> Recovery:
    """20,000 records at 400 a second."""
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(COUNT))
    directive = Recovery.run_directive(cluster, max_records_per_s=400.0)
    return Recovery(
        cluster, source, target, **{"ranges": [[PartitionRange(0, 0, COUNT)]], "directive": directive, **more}
    )


def test_records_deleted_before_the_start_are_named_exactly(cluster: Cluster) -> None:
    recovery = make(cluster)
    cluster.delete_records(recovery.source, 0, 1_234)
    outcome = run_lane(recovery.spec, recovery.spec.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", "data_lost")
    assert f"Offsets [0, 1234) of {recovery.source} partition 0" in outcome.error_message
    assert [(r.start, r.stop, r.copied, r.lost) for r in recovery.ledger()] == [(0, 1_234, 0, 1_234)]


def test_a_loss_that_was_recorded_ends_every_later_attempt_too(cluster: Cluster) -> None:
    """The report of the attempt that met the loss may be lost with its driver."""
    recovery = make(cluster)
    cluster.delete_records(recovery.source, 0, 1_234)
    run_lane(recovery.spec, recovery.spec.lanes[0])
    ledger = recovery.ledger()
    again = recovery.attempt(2)
    outcome = run_lane(again, again.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", "data_lost")
    assert f"1234 offsets of {recovery.source} partition 0 before 1234 are gone" in outcome.error_message
    assert recovery.ledger() == ledger


def test_records_deleted_before_the_start_are_counted_as_lost_when_that_is_allowed(cluster: Cluster) -> None:
    recovery = make(cluster, on_data_loss="continue", directive=Recovery.run_directive(cluster))
    cluster.delete_records(recovery.source, 0, 1_234)
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    assert (sum(r.lost for r in recovery.ledger()), sum(r.copied for r in recovery.ledger())) == (1_234, COUNT - 1_234)
    assert_exact(recovery.ledger(), recovery.spec)
    assert [r.content for r in cluster.read(recovery.target)] == [r.content for r in rows(COUNT)[1_234:]]


def test_a_range_that_is_gone_whole_is_lost_whole(cluster: Cluster) -> None:
    recovery = make(cluster, ranges=[[PartitionRange(0, 10, 500)]], on_data_loss="continue")
    cluster.delete_records(recovery.source, 0, 1_000)
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    assert [(r.start, r.stop, r.copied, r.lost) for r in recovery.ledger()] == [(10, 500, 0, 490)]


@pytest.mark.parametrize("allowed", [False, True])
def test_records_deleted_while_copying_are_found_where_reading_meets_the_hole(cluster: Cluster, allowed: bool) -> None:
    chance = random.Random(3)
    source, target = cluster.topic("in"), cluster.topic("out")
    data = [
        Row(0, i, b"k", chance.randbytes(20_000), i + 1) for i in range(5_000)
    ]  # 100 MB: more than is fetched ahead
    cluster.fill(source, data)
    directive = Recovery.run_directive(cluster, max_bytes_per_s=400_000.0)
    recovery = Recovery(
        cluster, source, target, ranges=[[PartitionRange(0, 0, 5_000)]], directive=directive,
        on_data_loss="continue" if allowed else "fail",
    )  # fmt: skip
    lane = LaneThread(recovery.spec)
    recovery.await_heartbeat(lambda h: h.positions[0].position > 0)
    cluster.delete_records(source, 0, 4_900)
    recovery.direct("run")
    outcome = lane.outcome()
    ledger = recovery.ledger()
    if allowed:
        assert outcome == LaneOutcome(0, "done")
        assert_exact(ledger, recovery.spec)
        found = [r.content for r in cluster.read(target)]
        assert found == [r.content for r in data[: len(found) - 100] + data[4_900:]]
        assert sum(r.lost for r in ledger) == 5_000 - sum(r.copied for r in ledger) > 0
    else:
        assert (outcome.ended, outcome.error_code) == ("failed", "data_lost")
        assert f", 4900) of {source} partition 0 were deleted" in outcome.error_message
        assert_exact(ledger, recovery.spec, whole=False)
        copied = sum(r.copied for r in ledger)
        assert (sum(r.lost for r in ledger), ledger[-1].stop) == (4_900 - copied, 4_900)
        assert [r.content for r in cluster.read(target)] == [r.content for r in data[:copied]]


@pytest.mark.parametrize("allowed", [False, True])
def test_a_log_shorter_than_planned_is_read_to_its_end_and_the_rest_is_lost(cluster: Cluster, allowed: bool) -> None:
    recovery = make(
        cluster, ranges=[[PartitionRange(0, 0, COUNT + 7)]], directive=Recovery.run_directive(cluster),
        on_data_loss="continue" if allowed else "fail", stop_wait_ms=3_000,
    )  # fmt: skip
    outcome = run_lane(recovery.spec, recovery.spec.lanes[0])
    assert outcome.error_code == ("" if allowed else "data_lost")
    if not allowed:
        assert f"Offsets [{COUNT}, {COUNT + 7}) of {recovery.source} partition 0" in outcome.error_message
        assert f"beyond the end {COUNT}" in outcome.error_message
    assert_exact(recovery.ledger(), recovery.spec)
    assert (sum(r.copied for r in recovery.ledger()), sum(r.lost for r in recovery.ledger())) == (COUNT, 7)
    assert [r.content for r in cluster.read(recovery.target)] == [r.content for r in rows(COUNT)]


def test_a_position_behind_the_end_of_a_followed_log_is_data_lost_after_the_same_patience(cluster: Cluster) -> None:
    recovery = make(cluster, ranges=[[PartitionRange(0, COUNT + 7, None)]], stop_wait_ms=3_000)
    outcome = run_lane(recovery.spec, recovery.spec.lanes[0])
    assert (outcome.error_code, f"ends at {COUNT}, before the position {COUNT + 7}" in outcome.error_message) == (
        "data_lost",
        True,
    )


def test_an_end_that_a_followed_log_reaches_in_time_is_waited_for(cluster: Cluster) -> None:
    recovery = make(
        cluster,
        ranges=[[PartitionRange(0, COUNT + 7, None)]],
        directive=Recovery.run_directive(cluster),
        stop_wait_ms=300_000,
    )
    lane = LaneThread(recovery.spec)
    recovery.await_heartbeat(lambda h: "copying" in h.state or "starting" in h.state)
    cluster.fill(recovery.source, rows(20))
    recovery.await_heartbeat(lambda h: h.positions[0].position == COUNT + 20)
    recovery.direct("stop")
    assert lane.outcome() == LaneOutcome(0, "stopped")
    assert [r.content for r in cluster.read(recovery.target)] == [r.content for r in rows(20)[7:]]


@pytest.mark.parametrize(("when", "side"), [
    ("before", "source"),
    ("before", "target"),
    pytest.param("while copying", "source", marks=pytest.mark.wide(
        "tests/faults/test_topics_changed.py::test_row_12_a_source_made_again_is_not_taken_for_the_old_one"
    )),
    ("while copying", "target"),
])  # fmt: skip
def test_a_topic_made_again_is_never_read_or_written(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, side: str, when: str
) -> None:
    monkeypatch.setattr("recoveryd_jobs.topics._GONE_AFTER_S", 60.0)  # a busy machine needs a while to make it again
    recovery = make(cluster)
    topic = recovery.source if side == "source" else recovery.target
    lane = LaneThread(recovery.spec) if when != "before" else None
    if lane is not None:
        recovery.await_heartbeat(lambda h: h.chunk_open)
    cluster.recreate(topic, 1, **KEEP)
    cluster.fill(topic, [Row(0, 0, b"other", b"other", 1)] * (COUNT * 2))  # longer than before
    outcome = lane.outcome() if lane is not None else run_lane(recovery.spec, recovery.spec.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", "topic_recreated")
    assert f"The {side} topic {topic} was deleted and made again" in outcome.error_message
    if side == "source":
        assert b"other" not in {r.key for r in cluster.read(recovery.target)}
    else:
        assert {r.key for r in cluster.read(recovery.target)} == {b"other"}


def test_a_deleted_source_is_named(cluster: Cluster) -> None:
    recovery = make(cluster)
    lane = LaneThread(recovery.spec)
    recovery.await_heartbeat(lambda h: h.chunk_open)
    cluster.delete(recovery.source)
    outcome = lane.outcome(60.0)
    assert (outcome.ended, outcome.error_code) == ("failed", "topic_recreated")
    assert f"The source topic {recovery.source}" in outcome.error_message
    assert "does not exist any more" in outcome.error_message


def test_a_foreign_transaction_before_the_stop_blocks_with_a_reason_until_it_ends(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(100))
    foreign = cluster.foreign(source, Row(0, 0, b"open", b"open", 1))
    cluster.fill(source, rows(50))
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 151)]])
    lane = LaneThread(recovery.spec)
    blocked = recovery.await_heartbeat(lambda h: h.state == "blocked")
    assert "a foreign transaction holds" in blocked.why
    assert "last stable offset 100, high watermark 151, stop 151" in blocked.why
    recovery.await_heartbeat(lambda h: h.positions[0].position == 100)  # what could be read is committed before
    foreign.commit_transaction(60)
    assert lane.outcome() == LaneOutcome(0, "done")
    assert len(cluster.read(target)) == 151
    assert_exact(recovery.ledger(), recovery.spec)


def test_a_foreign_transaction_that_stays_ends_the_attempt_with_its_name(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out")
    foreign = cluster.foreign(source, Row(0, 0, b"open", b"open", 1))
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 1)]], stop_wait_ms=3_000)
    outcome = run_lane(recovery.spec, recovery.spec.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", "stop_blocked")
    assert f"a foreign transaction holds {source} partition 0" in outcome.error_message
    foreign.abort_transaction(60)


def half_held(cluster: Cluster, **more: Any) -> tuple[Recovery, Producer]:
    """A copy that follows two partitions, and the producer whose transaction is open on the second one."""
    source, target = cluster.topic("in", 2), cluster.topic("out", 2)
    cluster.fill(source, [*rows(100, 0), *rows(100, 1)])
    foreign = cluster.foreign(source, Row(1, 0, b"open", b"open", 1))
    cluster.fill(source, rows(50, 1))
    ranges = [[PartitionRange(0, 0, None), PartitionRange(1, 0, None)]]
    return Recovery(cluster, source, target, ranges=ranges, partitions=2, stop_wait_ms=2_000, **more), foreign


def test_a_partition_that_is_followed_for_ever_says_what_holds_it_and_the_others_go_on(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearing, "QUIET_S", 0.5)
    recovery, foreign = half_held(cluster, is_endless=True)
    lane = LaneThread(recovery.spec)
    held = recovery.await_heartbeat(lambda h: [p.state for p in h.positions] == ["copying", "blocked"])
    why = f"a foreign transaction holds {recovery.source} partition 1: last stable offset 100, high watermark 151"
    assert (held.state, held.why, held.positions[1].position) == ("copying", why, 100)
    recovery.await_heartbeat(lambda h: h.positions[1].state == "blocked" and h.sent_ms > held.sent_ms + 4_000)
    cluster.fill(recovery.source, rows(30, 0))
    recovery.await_heartbeat(lambda h: h.positions[1].state == "blocked" and h.positions[0].position == 130)
    foreign.commit_transaction(60)
    recovery.await_heartbeat(lambda h: h.positions[1].state == "copying" and h.positions[1].copied == 151)
    recovery.direct("stop")
    assert lane.outcome() == LaneOutcome(0, "stopped")
    assert len(cluster.read(recovery.target, 2)) == 130 + 151
    assert_exact(recovery.ledger(), recovery.spec, whole=False)


def test_a_transaction_that_holds_a_copy_which_is_to_catch_up_for_too_long_ends_it_by_name(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearing, "QUIET_S", 0.5)
    recovery, foreign = half_held(cluster)
    outcome = LaneThread(recovery.spec).outcome(60.0)
    assert (outcome.ended, outcome.error_code) == ("failed", "stop_blocked")
    assert f"a foreign transaction holds {recovery.source} partition 1: last stable" in outcome.error_message
    foreign.abort_transaction(60)


def test_a_foreign_transaction_on_the_receipts_topic_is_waited_for(cluster: Cluster) -> None:
    recovery = make(cluster, directive=Recovery.run_directive(cluster))
    foreign = cluster.foreign_receipts(recovery.receipts)
    lane = LaneThread(recovery.spec)
    recovery.await_heartbeat(lambda h: "reads receipts" in h.why)
    assert cluster.end(recovery.target) == 0
    foreign.abort_transaction(60)
    assert lane.outcome() == LaneOutcome(0, "done")
    assert len(cluster.read(recovery.target)) == COUNT


def test_trouble_before_a_pause_is_not_held_against_what_comes_after_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = AheadClock()
    monkeypatch.setattr("recoveryd_jobs.lane.life.time", clock)
    recovery = make(cluster)
    lane = LaneThread(recovery.spec)
    recovery.await_heartbeat(lambda h: h.state == "copying" and h.chunk_open)
    recovery.fence(0)
    paused = recovery.direct("pause")
    recovery.await_heartbeat(lambda h: h.state == "paused" and h.directive_sequence == paused)
    clock.ahead_s += 10 * life.TROUBLE_BUDGET_S  # the length of the pause
    recovery.fence(0)
    recovery.direct("run")
    assert lane.outcome() == LaneOutcome(0, "done")
    assert_exact(recovery.ledger(), recovery.spec)


def test_trouble_before_an_idle_time_is_not_held_against_what_comes_after_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, made, begin, troubles = AheadClock(), [], life.Lane._begin, [Doubt("the cluster does not answer")]
    monkeypatch.setattr("recoveryd_jobs.lane.life.time", clock)

    def doubtful(lane: life.Lane, target: Any) -> Any:
        if troubles:
            raise troubles.pop()
        return begin(lane, target)

    def make_loop(*parts: Any) -> LaneLoop:
        made.append(LaneLoop(*parts))
        return made[0]

    monkeypatch.setattr(life.Lane, "_begin", doubtful)
    monkeypatch.setattr(life, "LaneLoop", make_loop)
    source, target = cluster.topic("in"), cluster.topic("out")
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, None)]])
    lane = LaneThread(recovery.spec)
    wait_for(lambda: bool(made) and made[0]._intake.is_idle and made[0].positions, 30.0, lambda: "it is not idle")
    time.sleep(0.5)
    clock.ahead_s += 10 * life.TROUBLE_BUDGET_S  # the length of the idle time
    recovery.fence(0)
    cluster.fill(source, rows(10))
    wait_for(lambda: recovery.ledger() or not lane.is_running, 60.0, lambda: "nothing is copied")
    recovery.direct("stop")
    assert lane.outcome() == LaneOutcome(0, "stopped")
    assert [r.content for r in cluster.read(target)] == [r.content for r in rows(10)]
    assert_exact(recovery.ledger(), recovery.spec, whole=False)


@pytest.mark.scenario("S-CASTLE-1a")
def test_a_record_too_large_for_the_target_is_named(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out", 1, max_message_bytes="50000")
    chance = random.Random(2)
    data = [Row(0, i, b"k", chance.randbytes(90_000 if i == 33 else 1_000), i + 1) for i in range(60)]
    cluster.fill(source, data)
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 60)]])
    outcome = run_lane(recovery.spec, recovery.spec.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", "record_too_large")
    assert "source partition 0 at offset 33" in outcome.error_message
    assert (cluster.read(target), recovery.ledger()) == ([], [])


def with_an_odd_header(cluster: Cluster, **more: Any) -> tuple[Recovery, int]:
    """Twenty records, an earlier one with a header name that is not UTF-8, and twenty more; with its offset."""
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(20))
    odd = write_odd(cluster.client["bootstrap.servers"], source, b"odd", time_ms=rows(1)[0].time_ms - 1)
    cluster.fill(source, rows(20))
    return Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, odd + 21)]], **more), odd


def test_a_header_name_that_is_not_utf8_is_named(cluster: Cluster) -> None:
    """The client library cannot give such a name; what it gives instead ends a process that reads it twice."""
    recovery, odd = with_an_odd_header(cluster)
    outcome = run_lane(recovery.spec, recovery.spec.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", "record_refused")
    said = f"Record {odd} of partition 0 of {recovery.source} has a header with a name that is not UTF-8"
    assert said in outcome.error_message
    assert (cluster.read(recovery.target), recovery.ledger()) == ([], [])


def test_a_header_name_that_is_not_utf8_does_no_harm_outside_the_wanted_times(cluster: Cluster) -> None:
    recovery, _ = with_an_odd_header(cluster)
    source = replace(recovery.spec.source, from_time_ms=rows(1)[0].time_ms)
    spec = replace(recovery.spec, source=source)
    assert run_lane(spec, spec.lanes[0]) == LaneOutcome(0, "done")
    assert (sum(r.copied for r in recovery.ledger()), sum(r.filtered for r in recovery.ledger())) == (40, 1)
    assert verify(spec).result == "match"


def with_time_zero(cluster: Cluster, **target: str) -> Recovery:
    """Twenty records, one with time 0 behind them, and twenty more."""
    source = cluster.topic("in")
    cluster.fill(source, rows(20))
    add_time_zero(cluster.client["bootstrap.servers"], source, 0, 1)
    cluster.fill(source, rows(20))
    return Recovery(cluster, source, cluster.topic("out", 1, **target), ranges=[[PartitionRange(0, 0, 41)]])


def test_time_zero_which_the_client_takes_for_now_is_named(cluster: Cluster) -> None:
    recovery = with_time_zero(cluster)
    outcome = run_lane(recovery.spec, recovery.spec.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", "record_refused")
    assert "Record 20 of source partition 0 has time 0" in outcome.error_message
    assert (cluster.read(recovery.target), recovery.ledger()) == ([], [])


@pytest.mark.parametrize("how", ["outside the wanted times", "the target stamps its own"])
def test_time_zero_does_no_harm_where_it_is_not_written(cluster: Cluster, how: str) -> None:
    stamps = how == "the target stamps its own"
    recovery = with_time_zero(cluster, **({"message_timestamp_type": "LogAppendTime"} if stamps else {}))
    spec = recovery.spec if stamps else replace(recovery.spec, source=replace(recovery.spec.source, from_time_ms=1))
    assert run_lane(spec, spec.lanes[0]) == LaneOutcome(0, "done")
    counts = [sum(r.copied for r in recovery.ledger()), sum(r.filtered for r in recovery.ledger())]
    assert counts == ([41, 0] if stamps else [40, 1])
    assert verify(spec).result == "match"


def test_a_time_that_the_target_refuses_is_named(cluster: Cluster) -> None:
    source = cluster.topic("in")
    target = cluster.topic("out", 1, message_timestamp_before_max_ms="1000")
    cluster.fill(source, rows(10))
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 10)]])
    outcome = run_lane(recovery.spec, recovery.spec.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", "record_refused")
    assert "source partition 0 at offset 0" in outcome.error_message


def test_a_missing_receipts_topic_is_named(cluster: Cluster) -> None:
    recovery = make(cluster)
    spec = replace(recovery.spec, receipts_topic=f"{cluster.unique}nowhere", receipts=None)
    outcome = run_lane(spec, spec.lanes[0])
    assert (outcome.error_code, f"{cluster.unique}nowhere is missing" in outcome.error_message) == (
        "ledger_broken",
        True,
    )


def test_receipts_that_do_not_fit_together_end_the_attempt(cluster: Cluster) -> None:
    recovery = make(cluster, directive=Recovery.run_directive(cluster))
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    first = recovery.ledger()[0]
    recovery.write_receipts([replace(first, start=first.stop + 5, stop=first.stop + 6, copied=1)])
    again = recovery.attempt(2)
    outcome = run_lane(again, again.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", "ledger_broken")


BYTES = sum(len(row.key or b"") + len(row.value or b"") for row in rows(20))


@pytest.mark.parametrize("caps", [(20, None), (7, None), (None, BYTES), (None, BYTES - 30), (20, BYTES), (30, BYTES)])
def test_a_header_name_that_is_not_utf8_does_no_harm_behind_the_cap(
    cluster: Cluster, caps: tuple[int | None, int | None]
) -> None:
    recovery, _ = with_an_odd_header(cluster, caps=caps)
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "capped")
    copied = [r.content for r in cluster.read(recovery.target)]
    assert len(copied) == (7 if caps[0] == 7 else 19 if caps[1] == BYTES - 30 else 20)
    assert copied == [r.content for r in rows(20)][: len(copied)]
    assert_exact(recovery.ledger(), recovery.spec, whole=False)


@pytest.mark.parametrize("caps", [(21, None), (None, BYTES + 1)])
def test_a_header_name_that_is_not_utf8_is_named_where_the_cap_reaches_it(
    cluster: Cluster, caps: tuple[int | None, int | None]
) -> None:
    recovery, odd = with_an_odd_header(cluster, caps=caps)
    outcome = run_lane(recovery.spec, recovery.spec.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", "record_refused")
    assert f"Record {odd} of partition 0" in outcome.error_message


class CutNotice:
    """What a client is told by a new leader whose log lacks what was read last."""

    def __init__(self, topic: str, text: str) -> None:
        self._topic, self._text = topic, text

    def error(self) -> KafkaError:
        return KafkaError(KafkaError._AUTO_OFFSET_RESET, self._text)

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return -1001

    def topic(self) -> str:
        return self._topic


class CutReader:
    """A real consumer whose broker cuts its log off once `count` records were given. `notices`: what it says of that,
    to one consumer.
    """

    def __init__(self, real: Consumer, count: int, notices: list[CutNotice]) -> None:
        self._real, self._left, self._notices = real, count, notices

    def consume(self, count: int, wait_s: float) -> list[Any]:
        if self._left <= 0 and self._notices:
            return [self._notices.pop()]
        found = self._real.consume(min(count, self._left) if self._left > 0 else count, wait_s)
        self._left -= sum(message.error() is None for message in found)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


CUT = (
    "Partition log truncation detected at offset 100 (leader epoch 3): broker end offset is {} (offset leader epoch 3). "
    "Reset to INVALID.: Local: Partition log truncation detected (broker 1)"
)
OTHER = (
    "No epoch found less or equal to offset 100 (leader epoch 3): broker end offset is 90 (offset leader epoch 4). Reset "
    "using configured policy.: Local: Partition log truncation detected (broker 1)"
)


def cutting(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, text: str, planned: PartitionRange, count: int = 200, **more: Any
) -> tuple[Recovery, LaneOutcome]:
    """A lane whose source holds `count` records, and says `text` once 100 of them were read."""
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(count))
    notices = [CutNotice(source, text)]
    monkeypatch.setattr(range_reader, "_error_of", lambda message: message.error())
    monkeypatch.setattr(
        range_reader, "make_reader", lambda *arguments, **some: CutReader(
            make_reader(*arguments, **some), 100, notices
        ),
    )  # fmt: skip
    recovery = Recovery(cluster, source, target, ranges=[[planned]], **more)
    outcome = LaneThread(recovery.spec).outcome()
    assert not notices
    return recovery, outcome


@pytest.mark.parametrize("stop", [None, 200])
def test_a_log_that_was_cut_back_and_is_long_enough_again_is_not_read_on(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, stop: int | None
) -> None:
    small = Recovery.chunk_limits(max_records=10)
    recovery, outcome = cutting(cluster, monkeypatch, CUT.format(90), PartitionRange(0, 0, stop), chunk=small)
    assert (outcome.ended, outcome.error_code) == ("failed", "data_lost")
    assert f"{recovery.source} partition 0 was cut back to 90, before the position 100" in outcome.error_message
    assert sum(r.copied for r in recovery.ledger()) == 100


def test_a_cut_behind_what_is_committed_loses_nothing_and_what_is_there_now_is_copied(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunk is open that holds what was cut off."""
    recovery, outcome = cutting(cluster, monkeypatch, CUT.format(90), PartitionRange(0, 0, 200))
    assert outcome == LaneOutcome(0, "done")
    assert [r.content for r in cluster.read(recovery.target)] == [r.content for r in rows(200)]
    assert (sum(r.copied for r in recovery.ledger()), sum(r.lost for r in recovery.ledger())) == (200, 0)


def test_what_was_cut_off_and_not_written_anew_is_lost_where_that_is_allowed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = PartitionRange(0, 0, 200)
    recovery, outcome = cutting(cluster, monkeypatch, CUT.format(100), planned, 100, on_data_loss="continue")
    assert outcome == LaneOutcome(0, "done")
    assert sum(r.lost for r in recovery.ledger()) == 100


@pytest.mark.parametrize("text", [CUT.format(100), OTHER])
def test_a_cut_behind_what_was_read_harms_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    recovery, outcome = cutting(cluster, monkeypatch, text, PartitionRange(0, 0, 200))
    assert outcome == LaneOutcome(0, "done")
    assert [r.content for r in cluster.read(recovery.target)] == [r.content for r in rows(200)]
