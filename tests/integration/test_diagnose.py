"""Diagnoses of real groups on a real broker: one situation of each class, made with real consumers."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.raw_requests import connected
from recoveryd.adapters.kafka.topic_admin import await_topic
from recoveryd.adapters.kafka.unit_watch import Patience, UnitWatch
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.diagnosis.diagnose import Diagnosis, diagnose
from recoveryd.units.diagnosis.runtime import UnitPace
from recoveryd.units.diagnosis.seen import Watched
from recoveryd.units.model import Behaviour, Output, Unit, UnitKind
from tests.builders.history import create_topics
from tests.cli.scripted import run_on
from tests.e2e.clients import commit
from tests.e2e.processes import wait_for

pytestmark = pytest.mark.broker

DEADLINE_S = 120.0
SHORT = Patience(1.0, 2.0)
STORE = "KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog"


class Application:
    """A unit with an input of two partitions, an output and a changelog."""

    def __init__(self, bootstrap: str, unique: str) -> None:
        self.bootstrap, self.properties = bootstrap, {"bootstrap.servers": bootstrap}
        self.source, self.out, self.group = f"{unique}in", f"{unique}out", f"{unique}app"
        self.changelog = f"{self.group}-{STORE}"
        create_topics(bootstrap, {self.source: 2, self.out: 1, self.changelog: 2})
        self.admin = AdminClient(self.properties)
        for topic in (self.source, self.out, self.changelog):
            await_topic(self.admin, topic, DEADLINE_S)
        outputs = {self.out: Output(Behaviour.IDEMPOTENT)}
        self.unit = Unit("app", UnitKind.STREAMS, "main", self.group, (self.source,), outputs=outputs)

    def produce(self, topic: str, partition: int, *values: bytes) -> None:
        """Each in a batch of its own, since brokers give out whole batches."""
        producer = Producer(self.properties | {"batch.num.messages": 1})
        for value in values:
            producer.produce(topic, value, partition=partition)
        assert producer.flush(DEADLINE_S) == 0

    def commit(self, *offsets: int) -> None:
        consumer = Consumer(self.properties | {"group.id": self.group})
        at = [TopicPartition(self.source, p, offset) for p, offset in enumerate(offsets)]
        commit(consumer, at)
        consumer.close()

    def delete_before(self, topic: str, offset: int) -> None:
        for answer in self.admin.delete_records([TopicPartition(topic, p, offset) for p in range(2)]).values():
            answer.result(DEADLINE_S)

    @contextmanager
    def member(self, **more: object) -> Iterator[Consumer]:
        """It joins, and then reads nothing."""
        named = {"enable.auto.commit": False, "group.protocol": "consumer", "auto.offset.reset": "error"}
        config = {name if name.endswith("_cb") else name.replace("_", "."): value for name, value in more.items()}
        consumer = Consumer(self.properties | named | {"group.id": self.group} | config)
        consumer.subscribe([self.source])
        wait_for(lambda: [consumer.poll(0.1), consumer.assignment()][1], DEADLINE_S)
        try:
            yield consumer
        finally:
            consumer.close()

    def watch(self, patience: Patience = SHORT) -> Watched:
        watch = UnitWatch(self.properties, ClientAccess(self.bootstrap), self.unit)
        return watch.watch([self.unit], patience, lambda: int(time.time() * 1000))

    def diagnosis(self, patience: Patience = SHORT) -> Diagnosis:
        return diagnose(self.unit, self.watch(patience))


@pytest.fixture
def app(bootstrap: str, unique: str) -> Application:
    """Ten records in each partition of the input, of which five were read; a changelog that holds some."""
    made = Application(bootstrap, unique)
    for partition in range(2):
        made.produce(made.source, partition, *(b'{"amount": %d}' % n for n in range(10)))
        made.produce(made.changelog, partition, b"1", b"2")
    made.commit(5, 5)
    return made


@contextmanager
def going_on(step: Callable[[], object]) -> Iterator[None]:
    """`step` again and again, in a thread, until the block ends."""
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            step()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def first_of(found: Diagnosis) -> tuple[UnitPace, str, str]:
    return found.course.pace, found.faults[0].value, found.causes[0].name


@pytest.mark.scenario("S-RUN-20")
def test_a_group_without_members_is_stopped(app: Application) -> None:
    found = app.diagnosis()
    assert first_of(found) == (UnitPace.STOPPED, "runtime", "no_members")
    assert found.point is not None
    assert (found.point.path, found.point.positions) == ("resume", ((app.source, 0, 5), (app.source, 1, 5)))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_does_nothing_is_found(app: Application, protocol: str) -> None:
    with app.member(group_protocol=protocol):
        assert first_of(app.diagnosis()) == (UnitPace.STALLED, "runtime", "hung")


@pytest.mark.scenario("S-RUN-20")
def test_a_member_that_starts_again_and_again_is_a_loop_and_not_a_member_that_hangs(app: Application) -> None:
    def start() -> None:
        with app.member():
            pass

    with going_on(start):
        found = app.diagnosis(Patience(1.0, DEADLINE_S * 3))
    assert first_of(found) == (UnitPace.RESTARTING, "runtime", "restart_loop")
    assert found.point is not None
    assert found.point.path == "resume"


@pytest.mark.scenario("S-RUN-20")
def test_records_of_another_schema_are_told_from_a_worker_that_hangs(app: Application) -> None:
    app.produce(app.source, 1, b'{"amount": "ten"}')
    app.commit(10, 10)
    with app.member():
        found = app.diagnosis()
    assert first_of(found) == (UnitPace.STALLED, "schema", "form_changed")
    assert "field amount was a number and is text" in found.causes[0].message
    assert found.point is not None
    assert (found.point.path, found.point.positions) == ("escalate", ((app.source, 1, 10),))


@pytest.mark.scenario("S-RUN-20")
def test_records_that_were_deleted_before_they_were_read_are_counted(app: Application) -> None:
    app.delete_before(app.source, 8)
    with app.member():
        found = app.diagnosis()
    assert first_of(found) == (UnitPace.STALLED, "kafka_input", "offset_below_log")
    assert found.causes[0].message.startswith("6 records were deleted")


@pytest.mark.scenario("S-RUN-20")
def test_a_changelog_that_was_emptied_is_found(app: Application) -> None:
    app.delete_before(app.changelog, 2)
    with app.member():
        found = app.diagnosis()
    assert first_of(found) == (UnitPace.STALLED, "state", "changelog_emptied")
    assert found.point is not None
    assert found.point.path == "restore_state"


@pytest.mark.scenario("S-RUN-20")
def test_an_output_that_takes_no_writes_is_found(app: Application, unique: str) -> None:
    full = f"{unique}full"
    create_topics(app.bootstrap, {full: 1}, {"min.insync.replicas": "2"})
    await_topic(app.admin, full, DEADLINE_S)
    app.unit = replace(app.unit, outputs={full: Output(Behaviour.IDEMPOTENT), f"{unique}gone": Output()})
    with app.member():
        found = app.diagnosis()
    assert (found.course.pace, [fault.value for fault in found.faults]) == (UnitPace.STALLED, ["sink"])
    assert [cause.name for cause in found.causes][:2] == ["output_missing", "output_not_writable"]


def test_an_open_transaction_before_the_records_is_found(app: Application, unique: str) -> None:
    producer = Producer(app.properties | {"transactional.id": f"{unique}writer", "transaction.timeout.ms": 600_000})
    producer.init_transactions(DEADLINE_S)
    app.commit(10, 10)
    producer.begin_transaction()
    producer.produce(app.source, b"1", partition=0)
    assert producer.flush(DEADLINE_S) == 0
    with app.member():
        found = app.diagnosis()
    producer.abort_transaction(DEADLINE_S)
    assert first_of(found) == (UnitPace.STALLED, "kafka_input", "input_blocked")


async def quota(bootstrap: str, client_id: str, bytes_per_s: float | None) -> None:
    async with connected(ClientAccess(bootstrap), "test", "set a quota", DEADLINE_S) as client:
        ops = [("consumer_byte_rate", bytes_per_s or 0.0, bytes_per_s is None)]
        await client.alter_client_quotas("client-id", {client_id: ops})


@pytest.mark.scenario("S-RUN-20", "S-RUN-28")
async def test_a_group_that_a_quota_slows_is_throttled_and_not_stalled(app: Application, unique: str) -> None:
    client_id, slowed = f"{unique}slow", threading.Event()
    app.produce(app.source, 0, *(bytes(1_000) for _ in range(500)))
    await quota(app.bootstrap, client_id, 2_000.0)
    throttle = {"client_id": client_id, "throttle_cb": lambda event: slowed.set() if event.throttle_time else None}
    try:
        with (
            app.member(enable_auto_commit=True, auto_commit_interval_ms=200, **throttle) as member,
            going_on(lambda: member.poll(0.1)),
        ):
            assert await asyncio.to_thread(slowed.wait, DEADLINE_S)
            watched = await asyncio.to_thread(app.watch)
    finally:
        await quota(app.bootstrap, client_id, None)
    assert watched.quotas is not None
    assert [(q.on, q.value, q.clients) for q in watched.quotas] == [(f"client id {client_id}", 2_000.0, 1)]
    assert first_of(diagnose(app.unit, watched)) == (UnitPace.THROTTLED, "capacity", "throttled")


def test_a_unit_that_reads_all_there_is_gets_on_well(app: Application) -> None:
    with app.member(enable_auto_commit=True, auto_commit_interval_ms=200) as member, going_on(lambda: member.poll(0.1)):
        found = app.diagnosis(Patience(1.0, DEADLINE_S * 3))
    assert (found.course.pace, found.is_well, found.point) == (UnitPace.WELL, True, None)


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_group_that_stands_before_the_marker_of_a_transaction_gets_on_well(
    app: Application, unique: str, is_committed: bool
) -> None:
    """As librdkafka commits: behind the last record, which is before its marker, and before what was aborted."""
    producer = Producer(app.properties | {"transactional.id": f"{unique}writer"})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    for partition in range(2):
        producer.produce(app.source, b'{"amount": 1}', partition=partition)
    assert producer.flush(DEADLINE_S) == 0
    (producer.commit_transaction if is_committed else producer.abort_transaction)(DEADLINE_S)
    at = 11 if is_committed else 10
    app.commit(at, at)
    with app.member() as member, going_on(lambda: member.poll(0.1)):
        found = app.diagnosis()
    assert [(move.after, move.end_after, move.lag) for move in found.moves] == [(at, 12, 0)] * 2
    assert (found.course.pace, found.is_well, found.point) == (UnitPace.WELL, True, None)


def test_the_command_line_tells_it_to_people_and_programs(app: Application, bootstrap: str, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    unit = {"kind": "streams", "group": app.group, "inputs": [app.source], "outputs": {app.out: None}}
    config.write_text(yaml.safe_dump({"clusters": {"main": {"bootstrap.servers": bootstrap}}, "units": {"app": unit}}))

    def run(*args: str) -> tuple[int, str]:
        done = run_on(config, "diagnose", *args, "--for", "1s")
        return done.exit_code, done.stdout + done.stderr

    code, shown = run("app", "-o", "json")
    document = json.loads(shown)
    assert (code, document["pace"], document["classes"]) == (1, "stopped", ["runtime"])
    assert document["recovery_point"]["path"] == "resume"
    assert document["watched"]["lag_records"] == 10
    assert document["not_known"][0].startswith("which recoveries are at work is not known")
    code, shown = run("app")
    assert (code, shown.split(",")[0]) == (1, "app: STOPPED")
    assert "path resume" in shown
    code, shown = run("ap")
    assert (code, shown.split()[0]) == (3, "RCV-1040")
