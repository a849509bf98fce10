"""The view from outside: commands are sent and answered, status and events can be read and followed."""

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from recoveryd.adapters.kafka import status_reader
from recoveryd.adapters.kafka.status_reader import Document, Expected, StatusReader
from recoveryd.adapters.kafka.topic_admin import describe_patiently
from recoveryd.adapters.memory import MemoryRecord
from recoveryd.errors import ClusterProblem, PerhapsWritten
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.decision import Answer, Notice
from recoveryd.kernel.state import DaemonRecord
from recoveryd.kernel.states import State
from recoveryd.ports import JournalBatch
from recoveryd_sandbox.broker import Broker
from tests.builders.golden import FILES, records
from tests.builders.records import make_recovery
from tests.contract.harness import KafkaHarness
from tests.contract.journals import is_retriable
from tests.e2e.log_reader import await_markers
from tests.e2e.processes import wait_for
from tests.patience import until_it_works

pytestmark = pytest.mark.broker

DEADLINE_S = 120.0


@pytest.fixture
def reader(kafka: KafkaHarness) -> Iterator[StatusReader]:
    made = StatusReader(kafka.properties, kafka.names)
    yield made
    made.close()


async def patiently(ask: Callable[[], Awaitable[object]]) -> None:
    """As the daemon does: again after a retriable problem, as long as its transactions have no coordinator."""
    await until_it_works(ask, is_retriable, 10)


async def commit(kafka: KafkaHarness, *batches: JournalBatch) -> None:
    journal = kafka.journal()
    await patiently(journal.open)
    for batch in batches:
        await patiently(partial(journal.commit, batch))
    await journal.close()
    for topic in (kafka.names.status, kafka.names.events):
        await_markers(kafka.properties["bootstrap.servers"], topic)


def answer(command_id: str, kind: str = "accepted", subject: str = "r1", offset: int = 0) -> JournalBatch:
    return JournalBatch(answers=[Answer(kind, "replay", command_id, subject, "", "planned", "", offset)])


def next_of(documents: Iterator[Document | None], wanted: Callable[[Document], bool]) -> Document:
    give_up_s = time.monotonic() + DEADLINE_S
    for document in documents:
        if document is not None and wanted(document):
            return document
        assert time.monotonic() < give_up_s, "it did not come"
    raise AssertionError("the stream ended")


def test_a_record_is_sent_whole_and_its_place_and_broker_time_are_known(
    kafka: KafkaHarness, reader: StatusReader
) -> None:
    before_ms = kafka.now_ms()
    first = reader.write(b"r1", b'{"a": 1}', [("content-type", b"application/json")])
    second = reader.write(None, b"x")
    assert (first.offset, second.offset) == (0, 1)
    assert first.broker_ms is not None
    assert before_ms - 1_000 <= first.broker_ms <= kafka.now_ms() + 1_000
    [written, _] = kafka.read(kafka.names.control)
    assert (written.key, written.value, written.headers) == (
        b"r1",
        b'{"a": 1}',
        (("content-type", b"application/json"),),
    )


def test_a_record_lies_where_the_daemon_reads_also_on_a_topic_that_got_more_partitions(
    kafka: KafkaHarness, reader: StatusReader
) -> None:
    kafka.widen(kafka.names.control, 8)
    assert reader.write(b"r1", b"x").offset == 0
    assert [record.key for record in kafka.read(kafka.names.control)] == [b"r1"]


async def test_the_answer_to_a_sent_command_is_found_among_other_events(
    kafka: KafkaHarness, reader: StatusReader
) -> None:
    await commit(kafka, answer("mine", "rejected"))  # written before the command was sent, so not its answer
    reader.write(b"r1", b"x")
    told = Notice("recovery_planned", "r1", {}, causation_id="mine")
    await commit(kafka, JournalBatch(notices=[told]), answer("other"), answer("mine"))
    [(_, found)] = reader.await_answers([Expected("mine", "r1", 0)], DEADLINE_S)
    assert (found["type"], found["causationid"]) == ("io.recoveryd.event.command_accepted.v1", "mine")


@pytest.mark.parametrize("file", FILES)
def test_events_of_an_earlier_release_are_read_by_recovery_and_from_a_time_on(
    kafka: KafkaHarness, reader: StatusReader, file: str
) -> None:
    left, now_ms = records(file, "events"), kafka.now_ms()
    half = len(left) // 2
    kafka.write(kafka.names.events, [replace(r, timestamp_ms=now_ms - 1_000 * (n < half)) for n, r in enumerate(left)])
    told = [(r.key, json.loads(r.value or b"")) for r in left]
    assert reader.read_events() == [event for _, event in told]
    assert reader.read_events(since_ms=now_ms) == [event for _, event in told[half:]]
    for name in {key for key, _ in told if key is not None}:
        assert reader.read_events(name.decode()) == [event for key, event in told if key == name]


def test_a_write_without_a_word_of_the_broker_may_be_there_and_is_told_so(
    broker: Broker | None, kafka: KafkaHarness, reader: StatusReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broker is None:
        pytest.skip("the broker of this run is not ours to pause")
    reader.write(b"r1", b"first")
    monkeypatch.setattr(status_reader, "_SEND_S", 3.0)
    broker.pause()
    try:
        with pytest.raises(PerhapsWritten):
            reader.write(b"r1", b"second")
    finally:
        broker.cont()
    wait_for(lambda: len(kafka.read(kafka.names.control)) == 2, DEADLINE_S)


def test_a_write_that_the_broker_refuses_is_not_there(kafka: KafkaHarness, reader: StatusReader) -> None:
    names = replace(kafka.names, prefix=f"{kafka.names.prefix}small-")
    kafka.create(names.control, **{"max.message.bytes": "100"})
    kafka.create(names.events)
    small = StatusReader(kafka.properties, names)
    with pytest.raises(ClusterProblem) as caught:
        small.write(b"r1", os.urandom(1_000))
    small.close()
    assert type(caught.value) is ClusterProblem


def test_ctrl_c_is_heard_while_the_broker_stands_still(
    broker: Broker | None, reader: StatusReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broker is None:
        pytest.skip("the broker of this run is not ours to pause")
    reader.write(b"r1", b"first")
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # ignored where a run was started in the background
    awake, pressed = threading.Timer(20.0, broker.cont), threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    broker.pause()
    try:
        awake.start()
        pressed.start()
        with pytest.raises(KeyboardInterrupt):
            reader.write(b"r1", b"second")
        assert awake.is_alive(), "heard only once the broker went on"
    finally:
        pressed.join()
        awake.cancel()
        broker.cont()
        signal.signal(signal.SIGINT, before)


def test_without_an_answer_the_wait_ends_in_time(reader: StatusReader) -> None:
    reader.write(b"r1", b"x")
    assert list(reader.await_answers([Expected("mine", "r1", 0)], 0.7)) == []


async def test_an_answer_to_another_record_with_the_same_id_is_not_taken(
    kafka: KafkaHarness, reader: StatusReader
) -> None:
    first, second = reader.write(b"r1", b"x"), reader.write(b"r2", b"y")
    await commit(kafka, answer("4711"), answer("4711", "rejected", "r2", 1), answer("8", "accepted", "r3", 2))
    asked = [Expected("4711", "r2", second.offset), Expected("8", "r3", None)]
    assert [
        (one, event["subject"], event["type"].split(".")[3]) for one, event in reader.await_answers(asked, 60.0)
    ] == [
        (asked[0], "r2", "command_rejected"),
        (asked[1], "r3", "command_accepted"),
    ]
    assert list(reader.await_answers([Expected("4711", "r3", None), Expected("4711", "r1", 7)], 0.7)) == []
    [(_, found)] = reader.await_answers([Expected("4711", "r1", first.offset)], DEADLINE_S)
    assert found["subject"] == "r1"


async def test_statuses_are_the_newest_of_each_recovery(kafka: KafkaHarness, reader: StatusReader) -> None:
    assert reader.statuses() == {}
    assert reader.status("r1") is None
    await commit(
        kafka,
        JournalBatch(changed=[make_recovery("r1"), make_recovery("r2")], daemon=DaemonRecord(1)),
        JournalBatch(changed=[make_recovery("r1", state=State.PAUSED, version=2)]),
    )
    kafka.write(kafka.names.status, [MemoryRecord(b"r2", None, kafka.now_ms())])
    kafka.write(kafka.names.status, [MemoryRecord(b"odd", b"not json", kafka.now_ms())])
    assert {name: (d["state"], d["version"]) for name, d in reader.statuses().items()} == {"r1": ("paused", 2)}
    status = reader.status("r1")
    assert status is not None
    assert (status["recovery"], status["state"]) == ("r1", "paused")
    assert reader.status("r2") is None
    assert reader.status("nobody") is None


async def test_following_tells_the_present_state_and_then_each_change(
    kafka: KafkaHarness, reader: StatusReader
) -> None:
    await commit(kafka, JournalBatch(changed=[make_recovery("r1")]))
    stream = reader.follow("r1")
    present = next(stream)
    assert present is not None
    assert present["state"] == "running"
    await commit(
        kafka,
        JournalBatch(changed=[make_recovery("r2", state=State.FAILED)]),
        JournalBatch(changed=[make_recovery("r1", state=State.PAUSING)]),
        JournalBatch(changed=[make_recovery("r1", state=State.PAUSED)]),
    )
    assert next_of(stream, lambda _: True)["state"] == "pausing"
    assert next_of(stream, lambda _: True)["state"] == "paused"
    assert next(stream) is None


async def test_events_can_be_read_by_recovery_and_from_a_time_on(kafka: KafkaHarness, reader: StatusReader) -> None:
    await commit(kafka, JournalBatch(notices=[Notice("a", "r1", {}), Notice("b", "r2", {})]))
    [first, *_] = kafka.read(kafka.names.events)
    await asyncio.sleep(0.01)  # the next events get a later millisecond
    await commit(kafka, JournalBatch(notices=[Notice("c", "r1", {})]))

    def types(events: list[Document]) -> list[str]:
        return [event["type"].split(".")[3] for event in events]

    assert types(reader.read_events()) == ["a", "b", "c"]
    assert types(reader.read_events("r1")) == ["a", "c"]
    assert types(reader.read_events("r1", since_ms=first.timestamp_ms + 1)) == ["c"]
    assert reader.read_events(since_ms=kafka.now_ms() + 60_000) == []


async def test_an_open_transaction_of_the_daemon_is_not_waited_for(kafka: KafkaHarness, reader: StatusReader) -> None:
    await commit(kafka, JournalBatch(changed=[make_recovery("r1")]))
    with kafka.open_transaction(kafka.names.status):
        assert list(reader.statuses()) == ["r1"], "who waits for its end gets no answer"


def test_a_cluster_that_does_not_answer_is_told(kafka: KafkaHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_reader, "_ASK_S", 1.0)
    lost = StatusReader({"bootstrap.servers": "127.0.0.1:1"}, kafka.names)
    with pytest.raises(ClusterProblem) as caught:
        lost.status("r1")
    assert caught.value.code is Code.CLUSTER_UNREACHABLE


def test_a_broker_that_took_the_connection_and_is_late_is_asked_again(
    broker: Broker | None, bootstrap: str, unique: str
) -> None:
    if broker is None:
        pytest.skip("the broker of this run is not ours to pause")
    broker.pause()
    awake = threading.Timer(3.0, broker.cont)
    awake.start()
    try:
        assert describe_patiently({"bootstrap.servers": bootstrap}, [unique], 0.5, DEADLINE_S) == {unique: None}
    finally:
        awake.join()


def test_an_address_where_nothing_listens_is_not_asked_again() -> None:
    never_s: Any = None  # to ask with it would be another error
    with pytest.raises(ClusterProblem) as caught:
        describe_patiently({"bootstrap.servers": "127.0.0.1:1"}, ["x"], 10.0, never_s)
    assert caught.value.code is Code.CLUSTER_UNREACHABLE
