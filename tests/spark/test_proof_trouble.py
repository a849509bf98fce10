"""Errors that end a reading of the proof, and what it waits for: each is named, and no wait is longer than needed."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer

from recoveryd_jobs.clients import make_reader
from recoveryd_jobs.contract import ControlSpec, Directive, JobSpec, LaneSpec, PartitionRange, SourceSpec, TargetSpec
from recoveryd_jobs.driver.driver import copied_by
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_jobs.verify import ledger as proof_ledger
from recoveryd_jobs.verify.closer_look import Look
from recoveryd_jobs.verify.judge import PairFinding, PairQuestion
from recoveryd_jobs.verify.ledger import ProofLedger
from recoveryd_jobs.verify.match import SOURCE
from recoveryd_jobs.verify.plan import Asked, ProofPlan, make_plan, share_out
from recoveryd_jobs.verify.reader import Place, Range, RangeReader
from recoveryd_jobs.verify.segments import segments
from recoveryd_jobs.verify.shown import Shown
from recoveryd_jobs.verify.tasks import show_share
from recoveryd_sandbox.ports import free_ports
from tests.builders.copying import KEEP, AheadClock, Cluster, Recovery, Row, rows
from tests.builders.proving import FreeGuest

_PATIENCE_S = 60.0


class Heard:
    """Calls `then` with the first records."""

    def __init__(self, then: Callable[[], object] = list) -> None:
        self._then = then
        self.records = 0

    def begin(self, ranged: Range) -> None: ...

    def feed(self, partition: int, messages: list[Message]) -> int:
        if not self.records:
            self._then()
        self.records += len(messages)
        return 0

    def deleted(self, partition: int, position: int, log_start: int) -> None: ...

    def finish(self, partition: int) -> None: ...


@pytest.mark.broker
def test_a_topic_that_is_deleted_while_it_is_read_is_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoveryd_jobs.verify.silence.PROBE_S", 1.0)
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
    return look.answer(PairQuestion((0, 0), (0,), {}))


def told(code: int) -> Message:
    return Message(topic="in", partition=0, offset=0, error=KafkaError(code))


def test_a_closer_look_outlives_a_lost_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    end = Message(topic="in", partition=0, offset=1, error=KafkaError(KafkaError._PARTITION_EOF))
    found = closer_look(monkeypatch, iter([told(KafkaError._TRANSPORT), end, told(KafkaError._ALL_BROKERS_DOWN), end]))
    assert [d.kind for d in found.differences] == ["altered"]  # both sides are empty now


def silent(reading: Callable[[], object]) -> JobError:
    with pytest.raises(JobError) as found:
        reading()
    return found.value


def held(cluster: Cluster, topic: str) -> Producer:
    """A producer whose transaction is open behind the ten records of the topic; its record is one more."""
    return cluster.foreign(topic, Row(0, 0, b"k", b"v", 1))


@pytest.mark.broker
def test_a_target_that_was_cut_back_since_the_plan_has_no_verdict(ten: Recovery) -> None:
    stops = ((0, ten.cluster.end(ten.target) + 3),)
    spec = replace(ten.spec, receipts_topic="", target=replace(ten.spec.target, stops=stops), stop_wait_ms=600_000)
    cut = silent(lambda: make_plan(spec, is_whole=True))
    assert (cut.code, f"{ten.target} partition 0 ends at" in cut.message) == ("data_lost", True)


def look_at(spec: JobSpec, stop: int) -> PairFinding:
    plan = ProofPlan((Range(0, 0, stop),), (Range(0, 0, 10),), {0: 0}, False, False, frozenset())
    ledger = ProofLedger()
    ledger.settle()
    look = Look(replace(spec, receipts_topic=""), plan, ledger, FreeGuest())  # type: ignore[arg-type]
    try:
        return look.answer(PairQuestion((0, 0), (0,), {}))
    finally:
        look.close()


def read_range(spec: JobSpec, stop: int) -> None:
    place = Place(spec.source.client, spec.source.topic, "source", Asked(spec, SOURCE))
    reader = RangeReader(place, FreeGuest(), Heard(), spec.stop_wait_ms / 1000.0)  # type: ignore[arg-type]
    try:
        reader.read([Range(0, 0, stop)])
    finally:
        reader.close()


@pytest.fixture
def ten(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Recovery:
    """Ten records on both sides, and a proof that waits two seconds for more."""
    monkeypatch.setattr("recoveryd_jobs.verify.plan._CUT_BACK_AFTER_S", 0.0)
    monkeypatch.setattr("recoveryd_jobs.verify.plan.PATIENCE_S", 1.0)
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(10))
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 10)]], stop_wait_ms=2_000)
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    return recovery


@pytest.mark.broker
@pytest.mark.parametrize("reading", [read_range, look_at])
def test_a_silence_is_somebodys_transaction_only_where_readers_do_not_see_the_end(
    ten: Recovery, reading: Callable[[JobSpec, int], object]
) -> None:
    cut = silent(lambda: reading(ten.spec, 12))
    assert (cut.code, "ends at 10, before 12" in cut.message) == ("data_lost", True)
    foreign = held(ten.cluster, ten.source)
    blocked = silent(lambda: reading(ten.spec, 11))
    assert (blocked.code, "a foreign transaction that began at 10 is open" in blocked.message) == ("stop_blocked", True)
    foreign.abort_transaction(60)


@pytest.mark.broker
@pytest.mark.parametrize("reading", [read_range, look_at])
def test_a_cluster_that_does_not_answer_blocks_nothing(
    ten: Recovery, reading: Callable[[JobSpec, int], object]
) -> None:
    away = {**ten.spec.source.client, "bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"}
    spec = replace(ten.spec, source=replace(ten.spec.source, client=away))
    assert silent(lambda: reading(spec, 10)).code == "source_unavailable"


@pytest.mark.broker
def test_receipts_behind_a_transaction_are_waited_for_as_lanes_do_and_those_of_a_deaf_broker_are_read_again(
    ten: Recovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load() -> object:
        return proof_ledger.load(ten.spec, lambda _partition: True)

    foreign = ten.cluster.foreign_receipts(ten.receipts)
    began_s = time.monotonic()
    assert silent(load).code == "stop_blocked"
    assert 2.0 <= time.monotonic() - began_s < 60.0
    foreign.abort_transaction(60)
    monkeypatch.setattr(
        "recoveryd_jobs.verify.ledger.make_reader", lambda *args, **more: _Deaf(make_reader(*args, **more))
    )
    assert silent(load).code == "target_unavailable"


class _Deaf:
    """A real consumer that hears nothing any more, as librdkafka's may after a broker stood still."""

    def __init__(self, real: Consumer) -> None:
        self._real = real

    def consume(self, _count: int, wait_s: float) -> list[Message]:
        time.sleep(min(wait_s, 0.02))
        return []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.mark.broker
def test_what_the_client_refuses_is_called_by_its_side(ten: Recovery) -> None:
    """A property that no client takes: no answer of the cluster says whose it is."""
    plan, odd = make_plan(ten.spec, is_whole=True), {"ssl.ca.location": "/nowhere", "security.protocol": "ssl"}
    for side in ("source", "target"):
        place = getattr(ten.spec, side)
        spec = replace(ten.spec, **{side: replace(place, client={**place.client, **odd})})
        assert silent(lambda spec=spec: make_plan(spec, is_whole=True)).code == f"{side}_unavailable"
        assert (
            silent(lambda spec=spec: show_share(spec, plan, share_out(spec, plan, 1)[0])).code == f"{side}_unavailable"
        )


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
    foreign = cluster.foreign_receipts(recovery.receipts)
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


def broken_ledger(spec: JobSpec) -> str:
    with pytest.raises(JobError) as ended:
        proof_ledger.load(spec, lambda _partition: True).close()
    assert ended.value.code == "ledger_broken"
    return ended.value.message


@pytest.mark.broker
def test_a_ledger_that_was_made_again_or_lacks_what_was_copied_proves_nothing(cluster: Cluster) -> None:
    """Else a copy whose range ends with its receipts would be called a match, without any record compared."""
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(10))
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 10)]])
    outcome = run_lane(recovery.spec, recovery.spec.lanes[0])
    assert (outcome, outcome.positions) == (LaneOutcome(0, "done"), {0: 10})
    spec = copied_by(recovery.spec, [outcome])
    assert [r.journaled for r in spec.lanes[0].partitions] == [10]
    proof_ledger.load(spec, lambda _partition: True).close()
    home = recovery.spec.receipts
    assert home is not None
    behind = replace(recovery.spec, receipts=replace(home, start=cluster.end(home.topic, home.partition) + 1))
    assert "was cut back: it ends at" in broken_ledger(behind)
    recovery.erase_receipts(recovery.ledger())
    assert "Receipts of partition 0 end at 0, but it was copied to 10" in broken_ledger(spec)
    proof_ledger.load(spec, lambda partition: partition != 0).close()
    cluster.recreate(home.topic, 2, **KEEP)
    assert "was deleted and made again" in broken_ledger(recovery.spec)
