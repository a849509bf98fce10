"""Errors that end a reading of the proof, and what it waits for: each is named, and no wait is longer than needed."""

import json
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError, Message

from recoveryd_jobs.contract import ControlSpec, Directive, JobSpec, LaneSpec, PartitionRange, SourceSpec, TargetSpec
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_jobs.verify import ledger as proof_ledger
from recoveryd_jobs.verify.closer_look import Look
from recoveryd_jobs.verify.judge import PairFinding, PairQuestion
from recoveryd_jobs.verify.ledger import ProofLedger
from recoveryd_jobs.verify.plan import Asked, ProofPlan
from recoveryd_jobs.verify.reader import Place, Range, RangeReader
from recoveryd_jobs.verify.segments import segments
from recoveryd_jobs.verify.shown import Shown
from tests.builders.copying import AheadClock, Cluster, Recovery, Row, put, rows
from tests.builders.proving import FreeGuest

_PATIENCE_S = 60.0


class Heard:
    """Calls `then` with the first records."""

    def __init__(self, then: Callable[[], object] = list) -> None:
        self._then = then
        self.records = 0

    def begin(self, ranged: Range) -> None: ...

    def feed(self, partition: int, messages: list[Message]) -> None:
        if not self.records:
            self._then()
        self.records += len(messages)

    def deleted(self, partition: int, position: int, log_start: int) -> None: ...

    def finish(self, partition: int) -> None: ...


@pytest.mark.broker
def test_a_topic_that_is_deleted_while_it_is_read_is_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoveryd_jobs.verify.reader.PROBE_S", 1.0)
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(10))
    spec = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 20)]]).spec
    place = Place(spec.source.client, source, "source", Asked(spec, 0))
    reader = RangeReader(place, FreeGuest(), Heard(lambda: cluster.delete(source)), _PATIENCE_S)  # type: ignore[arg-type]
    try:
        with pytest.raises(JobError) as gone:
            reader.read([Range(0, 0, 20)])
    finally:
        reader.close()
    assert gone.value.code == "topic_recreated"
    assert f"The source topic {source}" in gone.value.message
    assert "does not exist any more" in gone.value.message


@pytest.mark.broker
def test_a_shorter_topic_of_the_same_name_is_not_taken_for_a_log_that_was_cut_back(cluster: Cluster) -> None:
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(10))
    spec = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 10)]]).spec
    cluster.recreate(source, 1)
    reader = RangeReader(Place(spec.source.client, source, "source", Asked(spec, 0)), FreeGuest(), Heard(), _PATIENCE_S)  # type: ignore[arg-type]
    try:
        with pytest.raises(JobError) as found:
            reader.read([Range(0, 5, 10)])
    finally:
        reader.close()
    assert found.value.code == "topic_recreated"


def closer_look(monkeypatch: pytest.MonkeyPatch, answers: Iterator[Message | None]) -> PairFinding:
    """The result of looking at one segment when both readers get these answers, one at a time."""

    class Reader:
        def assign(self, _where: object) -> None: ...

        def unassign(self) -> None: ...

        def consume(self, _count: int, _wait_s: float) -> list[Message]:
            answer = next(answers)
            return [] if answer is None else [answer]

        def close(self) -> None: ...

    monkeypatch.setattr("recoveryd_jobs.verify.closer_look.make_reader", lambda *_args, **_more: Reader())
    monkeypatch.setattr("recoveryd_jobs.verify.closer_look.meet", lambda _reader, _topic: None)
    source, target = SourceSpec("main", "in", "i", {}), TargetSpec("main", "out", "o", 1, {})
    lane = LaneSpec(0, (PartitionRange(0, 0, 1),))
    directive = Directive("r", 1, 1, "verify", 60_000)
    spec = JobSpec(
        "verification", "test", "r", 1, (lane,), source, target, ControlSpec({}, "", ""), "", directive, stop_wait_ms=50
    )
    plan = ProofPlan((Range(0, 0, 1),), (Range(0, 0, 1),), {0: 0}, False, False, frozenset())
    ledger = ProofLedger()
    ledger.settle()
    look = Look(spec, plan, ledger, FreeGuest())  # type: ignore[arg-type]
    return look.answer(PairQuestion((0, 0), (0,), frozenset()))


def told(code: int) -> Message:
    return Message(topic="in", partition=0, offset=0, error=KafkaError(code))


def test_a_closer_look_outlives_a_lost_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    end = Message(topic="in", partition=0, offset=1, error=KafkaError(KafkaError._PARTITION_EOF))
    found = closer_look(monkeypatch, iter([told(KafkaError._TRANSPORT), end, told(KafkaError._ALL_BROKERS_DOWN), end]))
    assert [d.kind for d in found.differences] == ["altered"]  # both sides are empty now


def test_a_closer_look_does_not_wait_for_ever_because_something_is_told_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def again_and_again() -> Iterator[Message | None]:
        while True:
            time.sleep(0.001)  # a client that waits
            yield told(KafkaError._TRANSPORT)

    with pytest.raises(JobError) as blocked:
        closer_look(monkeypatch, again_and_again())
    assert blocked.value.code == "stop_blocked"


def test_a_closer_look_that_is_refused_says_which_right_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobError) as refused:
        closer_look(monkeypatch, iter([told(KafkaError.TOPIC_AUTHORIZATION_FAILED)]))
    assert refused.value.code == "not_authorised"
    assert refused.value.message.endswith("the user lacks Read on Topic in.")


@pytest.mark.broker
def test_a_pause_while_the_receipts_are_read_is_no_silence_of_the_topic(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = AheadClock()
    monkeypatch.setattr("recoveryd_jobs.verify.ledger.time", clock)
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(10))
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 10)]])
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    foreign = cluster.producer("foreign")
    foreign.begin_transaction()
    for partition in (0, 1):
        put(foreign, recovery.receipts, Row(partition, 0, b"test/other/0/0", b"{}", 1))
    foreign.flush(60)
    paused = iter([True])

    def pause() -> None:
        if next(paused, False):
            clock.ahead_s += 10_000.0  # the length of the pause, longer than the patience
            foreign.abort_transaction(60)

    ledger = proof_ledger.load(recovery.spec, lambda _partition: True, pause)
    assert [claim.stop for claim in ledger.claims(0)] == [10]
    ledger.close()


def test_offsets_behind_the_range_are_never_called_uncovered() -> None:
    ledger, shown = ProofLedger(), Shown()
    for start, stop in ((0, 12), (15, 20)):
        receipt = {
            "partition": 0,
            "start": start,
            "stop": stop,
            "copied": 0,
            "filtered": stop - start,
            "skipped": 0,
            "lost": 0,
        }
        ledger.put(0, start, json.dumps(receipt).encode())
    ledger.settle()
    list(segments(0, 0, 10, ledger, shown, kept=True))
    assert [(d.source_offset, d.count) for d in shown.differences] == [(10, 2), (15, 5)]
    assert {d.message for d in shown.differences} == {"A receipt goes past the end of the range."}
