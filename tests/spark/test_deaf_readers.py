"""A consumer that hears no more of its partitions, as librdkafka 2.16 may after a broker stood still, is made anew:
each record is read once. It is a real one here that gives nothing any more after some calls, whatever it is assigned.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message

from recoveryd_jobs import directives
from recoveryd_jobs.clients import make_reader
from recoveryd_jobs.contract import PartitionRange
from recoveryd_jobs.directives import Directives
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.lane import hearing
from recoveryd_jobs.lane.life import LaneOutcome
from recoveryd_jobs.sources import range_reader
from recoveryd_jobs.verify import closer_look, reader, silence
from recoveryd_jobs.verify.closer_look import Look
from recoveryd_jobs.verify.judge import PairQuestion
from recoveryd_jobs.verify.ledger import ProofLedger
from recoveryd_jobs.verify.match import SOURCE
from recoveryd_jobs.verify.plan import Asked, ProofPlan
from recoveryd_jobs.verify.reader import Place, Range, RangeReader
from tests.builders.copying import Cluster, LaneThread, Recovery, assert_exact, rows
from tests.builders.proving import FreeGuest
from tests.e2e.processes import wait_for

pytestmark = pytest.mark.broker

COUNT = 3_000


class DeafConsumer:
    def __init__(self, real: Consumer, calls: int) -> None:
        self._real, self._calls = real, calls

    def consume(self, count: int, wait_s: float) -> list[Message]:
        self._calls -= 1
        if self._calls >= 0:
            return self._real.consume(count, wait_s)
        time.sleep(min(wait_s, 0.02))
        return []

    @property
    def is_deaf(self) -> bool:
        return self._calls < 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def deaf_at_first(made: list[Any], deaf: int, calls: int) -> Callable[..., Any]:
    """Instead of `make_reader`: the first `deaf` consumers give nothing after `calls` calls. `made`: all of them."""

    def make(*arguments: Any, **more: Any) -> Any:
        real = make_reader(*arguments, **more)
        made.append(DeafConsumer(real, calls) if len(made) < deaf else real)
        return made[-1]

    return make


@pytest.mark.parametrize("deaf", [1, 2])
def test_a_lane_goes_on_with_a_new_consumer_and_copies_each_record_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, deaf: int
) -> None:
    monkeypatch.setattr(hearing, "QUIET_S", 0.3)
    monkeypatch.setattr(hearing, "DEAF_S", 0.3)
    made: list[Any] = []
    monkeypatch.setattr(range_reader, "make_reader", deaf_at_first(made, deaf, 3))
    source, target = cluster.topic("in", 2), cluster.topic("out", 2)
    cluster.fill(source, [*rows(COUNT, 0), *rows(COUNT, 1)])
    recovery = Recovery(
        cluster, source, target, ranges=[[PartitionRange(0, 0, COUNT), PartitionRange(1, 0, COUNT)]],
        directive=Recovery.run_directive(cluster, max_records_per_s=4_000.0),
    )  # fmt: skip
    lane = LaneThread(replace(recovery.spec, stop_wait_ms=600_000))
    assert lane.outcome() == LaneOutcome(0, "done")
    assert len(made) > deaf
    assert_exact(recovery.ledger(), recovery.spec)
    for partition in range(2):
        found = [r.content for r in cluster.read(target, 2) if r.partition == partition]
        assert found == [r.content for r in rows(COUNT, partition)]


class Kept:
    def __init__(self) -> None:
        self.offsets: dict[int, list[int]] = defaultdict(list)
        self.done: set[int] = set()

    def begin(self, ranged: Range) -> None: ...

    def feed(self, partition: int, messages: list[Message]) -> int:
        self.offsets[partition] += [m.offset() or 0 for m in messages]
        return 0

    def deleted(self, partition: int, position: int, log_start: int) -> None:
        raise AssertionError((partition, position, log_start))

    def finish(self, partition: int) -> None:
        self.done.add(partition)


def range_reader_of(cluster: Cluster, topic: str, kept: Kept, patience_s: float) -> RangeReader:
    spec = Recovery(cluster, topic, cluster.topic("out"), ranges=[[PartitionRange(0, 0, COUNT)]]).spec
    return RangeReader(Place(cluster.client, topic, "source", Asked(spec, SOURCE)), FreeGuest(100), kept, patience_s)  # type: ignore[arg-type]


def test_the_proof_reads_on_with_a_new_consumer_and_leaves_held_partitions_alone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "PROBE_S", 0.3)
    made: list[Any] = []
    monkeypatch.setattr(reader, "make_reader", deaf_at_first(made, 1, 3))
    topic, kept = cluster.topic("in", 3), Kept()
    cluster.fill(topic, [row for partition in range(3) for row in rows(COUNT, partition)])
    reading = range_reader_of(cluster, topic, kept, 120.0)
    reading.begin([Range(partition, 0, COUNT) for partition in range(3)])
    reading.hold([2])
    while {0, 1} - kept.done:
        reading.step(100, 0.1)
    held = len(kept.offsets[2])
    assert len(made) > 1
    reading.hold([])
    while reading.is_open:
        reading.step(100, 0.1)
    reading.close()
    assert held < COUNT
    assert kept.offsets == {partition: list(range(COUNT)) for partition in range(3)}


def test_patience_with_consumers_that_stay_deaf_ends(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "PROBE_S", 0.4)
    made: list[Any] = []
    monkeypatch.setattr(reader, "make_reader", deaf_at_first(made, 1_000, 0))
    topic = cluster.topic("in")
    cluster.fill(topic, rows(10))
    reading = range_reader_of(cluster, topic, Kept(), 6.0)
    with pytest.raises(JobError, match="the broker does not give what it has") as silent:
        reading.read([Range(0, 0, 10)])
    reading.close()
    assert silent.value.code == "source_unavailable"
    assert 2 <= len(made) <= 5, "each one waits longer than the one before"


@pytest.mark.parametrize("deaf", [1, 3])
def test_the_closer_look_goes_on_with_new_consumers_and_finds_the_one_that_is_missing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, deaf: int
) -> None:
    monkeypatch.setattr(silence, "PROBE_S", 0.3)
    made: list[Any] = []
    monkeypatch.setattr(closer_look, "make_reader", deaf_at_first(made, deaf, 3))
    source, target = cluster.topic("in"), cluster.topic("out")
    cluster.fill(source, rows(COUNT))
    cluster.fill(target, [row for number, row in enumerate(rows(COUNT)) if number != COUNT - 7])
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, COUNT)]])
    spec = replace(recovery.spec, kind="verification", receipts_topic="", stop_wait_ms=120_000)
    plan = ProofPlan((Range(0, 0, COUNT),), (Range(0, 0, COUNT - 1),), {0: 0}, False, False, frozenset())
    ledger = ProofLedger()
    ledger.settle()
    look = Look(spec, plan, ledger, FreeGuest(100))  # type: ignore[arg-type]
    found = look.answer(PairQuestion((0, 0), (0,), {}))
    look.close()
    assert [(d.kind, d.source_offset) for d in found.differences] == [("missing", COUNT - 7)]
    assert len(made) >= 2 + deaf, "each deaf one was made anew, and so is one that hears late on a busy machine"


def followed(cluster: Cluster) -> Recovery:
    return Recovery(cluster, cluster.topic("in"), cluster.topic("out"), ranges=[[PartitionRange(0, 0, None)]])


def deaf_to_directives(monkeypatch: pytest.MonkeyPatch, *how: int) -> list[Any]:
    """The readers that are made from now on, deaf as `deaf_at_first` says."""
    made: list[Any] = []
    monkeypatch.setattr(directives, "make_reader", deaf_at_first(made, *how))
    return made


def test_words_are_heard_by_a_new_reader_where_the_first_ones_hear_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directives, "_QUICK_S", 0.3)
    monkeypatch.setattr(directives, "_DEAF_S", 0.5)
    made = deaf_to_directives(monkeypatch, 3, 0)
    recovery = followed(cluster)
    sequence = recovery.direct("pause")
    heard = Directives(recovery.spec, "directives")
    assert heard.refresh(60.0)
    assert heard.current().directive.sequence == sequence
    heard.close()
    assert len(made) > 3


def test_a_word_is_heard_soon_although_the_reader_that_follows_went_deaf(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directives, "_QUIET_S", 0.5)
    monkeypatch.setattr(directives, "_DEAF_S", 0.5)
    made = deaf_to_directives(monkeypatch, 2, 100)
    recovery = followed(cluster)
    heard = Directives(recovery.spec, "directives")
    assert heard.refresh(60.0)
    wait_for(lambda: len(made) > 1 and made[1].is_deaf, 60.0, lambda: f"{len(made)} readers were made")
    assert len(made) == 2, "nothing was said that it could leave out"
    sequence = recovery.direct("pause")
    wait_for(lambda: heard.current().directive.sequence == sequence, 20.0, lambda: "the word is not heard")
    heard.close()
    assert len(made) > 2


class Gone:
    """What a reader is told that asks for what the topic does not hold any more; it stops for good then."""

    def error(self) -> KafkaError:
        return KafkaError(KafkaError._AUTO_OFFSET_RESET)

    def offset(self) -> int:
        return 7


class StoppedReader(DeafConsumer):
    def consume(self, count: int, wait_s: float) -> list[Any]:
        return [Gone()] if count == 1 and not self.is_deaf else super().consume(count, wait_s)


def test_a_reader_that_stopped_where_nothing_is_any_more_is_made_anew_from_the_beginning(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    def make(*arguments: Any, **more: Any) -> Any:
        real = make_reader(*arguments, **more)
        made.append(real if made else StoppedReader(real, 2))
        return made[-1]

    monkeypatch.setattr(directives, "make_reader", make)
    monkeypatch.setattr(directives, "_QUICK_S", 60.0)
    recovery = followed(cluster)
    sequence = recovery.direct("pause")
    heard = Directives(recovery.spec, "directives")
    assert heard.refresh(60.0)
    assert heard.current().directive.sequence == sequence
    heard.close()
