"""Topics, records and job specs for tests of the copying itself, with real topics on the run's broker."""

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from recoveryd_jobs.contract import (
    ChunkLimits,
    ControlSpec,
    Directive,
    DriverHeartbeat,
    JobSpec,
    LaneHeartbeat,
    LaneSpec,
    PartitionRange,
    Receipt,
    ReceiptsHome,
    SourceSpec,
    TargetSpec,
    decode,
    decode_progress,
    encode,
    receipts_partition,
    transactional_id,
)
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_sandbox.topics import make_topics
from tests.builders.tail import Tail
from tests.e2e.clients import met
from tests.e2e.log_reader import PASSING, await_markers, insist, offsets, undecided
from tests.patience import patient_s

DEADLINE_S = 120.0
KEEP = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)}


@dataclass(frozen=True, slots=True)
class Row:
    """One record as a reader sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    time_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def content(self) -> tuple[object, ...]:
        return self.key, self.value, self.time_ms, self.headers


class Cluster:
    """The run's broker, with topics that only one test uses: `<unique><name>`."""

    def __init__(self, bootstrap: str, unique: str) -> None:
        self.client = {"bootstrap.servers": bootstrap}
        self.unique = unique
        self.admin = AdminClient(self.client)
        self._ids: dict[str, str] = {}

    def topic(self, name: str, partitions: int = 1, **configs: str) -> str:
        topic = f"{self.unique}{name}"
        config = {**KEEP, **{k.replace("_", "."): v for k, v in configs.items()}}
        self._create(NewTopic(topic, partitions, 1, config=config))
        self.topic_id(topic)
        return topic

    def _create(self, topic: NewTopic) -> None:
        make_topics(self.admin, [topic], DEADLINE_S)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(DEADLINE_S)

    def topic_id(self, topic: str) -> str:
        deadline_s = time.monotonic() + DEADLINE_S
        while True:
            try:
                return str(self.admin.describe_topics(TopicCollection([topic]))[topic].result(DEADLINE_S).topic_id)
            except KafkaException:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.05)

    def grow(self, topic: str, partitions: int) -> None:
        """Returns when the broker knows the new partitions too: the controller answers a moment earlier, and what is
        written to a partition that the broker does not know is not delivered.
        """
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(DEADLINE_S)
        deadline_s = time.monotonic() + DEADLINE_S
        asked = TopicCollection([topic])
        while len(insist(lambda: self.admin.describe_topics(asked)[topic].result(DEADLINE_S)).partitions) < partitions:
            assert time.monotonic() < deadline_s, f"{topic} has no {partitions} partitions"
            time.sleep(0.05)

    def recreate(self, topic: str, partitions: int, **configs: str) -> str:
        """Delete the topic and create another one with the same name. Returns the new id."""
        before = self.topic_id(topic)
        self.delete(topic)
        config = {k.replace("_", "."): v for k, v in configs.items()}
        deadline_s = time.monotonic() + DEADLINE_S
        while True:
            try:
                self._create(NewTopic(topic, partitions, 1, config=config))
            except KafkaException:  # the old one is not deleted completely yet
                assert time.monotonic() < deadline_s, f"{topic} could not be made again"
                time.sleep(0.1)
            else:
                break
        while (found := self.topic_id(topic)) == before:
            assert time.monotonic() < deadline_s, f"{topic} is still the old one"
            time.sleep(0.05)
        return found

    def empty(self, topic: str, partition: int) -> None:
        """Delete all records of a compacted topic, for which it gets another cleanup policy meanwhile."""
        before = self.end(topic, partition)
        deadline_s = time.monotonic() + DEADLINE_S
        self.set_config(topic, "cleanup.policy", "delete")
        while True:
            try:
                self.delete_records(topic, partition, before)
            except KafkaException:  # the new policy is not effective yet
                assert time.monotonic() < deadline_s, f"{topic} could not be emptied"
                time.sleep(0.1)
            else:
                break
        self.set_config(topic, "cleanup.policy", "compact")

    def set_config(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        at = TopicPartition(topic, partition, before)
        insist(lambda: self.admin.delete_records([at])[at].result(DEADLINE_S))

    def end(self, topic: str, partition: int = 0) -> int:
        """High watermark."""
        return offsets(self.client["bootstrap.servers"], topic, end=True)[partition]

    def settled_end(self, topic: str, partition: int = 0) -> int:
        """High watermark once no transaction is open: the marker of an abort is written a moment after the call
        returned.
        """
        await_markers(self.client["bootstrap.servers"], topic)
        return self.end(topic, partition)

    def producer(self, transactional_id: str | None = None, **more: Any) -> Producer:
        config = {**self.client, "linger.ms": 0, "enable.idempotence": True, **more}
        if transactional_id is not None:  # its transactions stay open for as long as a test on a busy machine may need
            patient = {"transaction.timeout.ms": 600_000}
            config = {**patient, **config, "transactional.id": f"{self.unique}{transactional_id}"}
        producer = met(Producer(config))
        if transactional_id is not None:
            producer.init_transactions(DEADLINE_S)
        return producer

    def abort(self, producer: Producer, transactional_id: str, topic: str) -> None:
        """Abort its transaction on the topic. One whose broker was silent may have given up, or asks one that is not
        ready: then the next producer of the same id aborts it. And a broker that stood still may forget the markers
        (2 of 32 times with Kafka 4.3.1): those of one more transaction end the records too.
        """
        try:
            producer.abort_transaction(DEADLINE_S / 2)
        except KafkaException as raised:
            if not raised.args[0].retriable():
                raise
            producer = self.producer(transactional_id)
        give_up_s = time.monotonic() + DEADLINE_S
        while held := self._held(topic):
            assert time.monotonic() < give_up_s, f"a transaction holds partitions {held} of {topic}"
            producer.begin_transaction()
            for partition in held:
                put(producer, topic, Row(partition, 0, b"more", b"more", 1))
            producer.flush(60)
            producer.abort_transaction(DEADLINE_S / 2)

    def _held(self, topic: str) -> list[int]:
        """The partitions on which a transaction is still open after the time that markers usually take."""
        enough_s = time.monotonic() + 5.0
        while (held := undecided(self.client["bootstrap.servers"], topic)) and time.monotonic() < enough_s:
            time.sleep(0.1)
        return held

    def foreign(self, topic: str, *rows: Row) -> Producer:
        """Somebody else, whose transaction with these rows stays open."""
        producer = self.producer("foreign")
        producer.begin_transaction()
        for row in rows:
            put(producer, topic, row)
        assert producer.flush(60) == 0
        return producer

    def foreign_receipts(self, topic: str) -> Producer:
        """The same on both partitions of a receipts topic."""
        return self.foreign(topic, *(Row(partition, 0, b"test/other/0/0", b"{}", 1) for partition in (0, 1)))

    def fill(self, topic: str, rows: Iterable[Row]) -> None:
        """Write rows as they are; their offsets are ignored."""
        refused: list[str] = []

        def note(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                refused.append(error.str())

        producer = self.producer(on_delivery=note)
        for row in rows:
            put(producer, topic, row)
        assert producer.flush(DEADLINE_S) == 0
        assert not refused, f"{len(refused)} records were not written to {topic}: {refused[0]}"

    def read(self, topic: str, partitions: int = 1, isolation: str = "read_committed") -> list[Row]:
        """Everything visible up to the present end, by partition and offset."""
        consumer = Consumer({
            **self.client, "group.id": "reader", "isolation.level": isolation, "enable.auto.commit": False,
            "enable.partition.eof": True, "auto.offset.reset": "error", "fetch.wait.max.ms": 10,
        })  # fmt: skip
        consumer.list_topics(
            topic, timeout=DEADLINE_S
        )  # partitions assigned before the client is connected wait for a timer of a second
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
        rows: list[Row] = []
        ended: set[int] = set()
        deadline_s = time.monotonic() + DEADLINE_S
        while len(ended) < partitions:
            assert time.monotonic() < deadline_s, f"{topic} was not read to its end"
            for message in consumer.consume(1000, 0.1):
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF or error.code() in PASSING, error.str()
                    if error.code() == KafkaError._PARTITION_EOF:
                        ended.add(message.partition())
                    continue
                ended.discard(message.partition())
                rows.append(
                    Row(
                        message.partition(), message.offset(), message.key(), message.value(), message.timestamp()[1],
                        tuple(message.headers() or ()),
                    )
                )  # fmt: skip
        consumer.close()
        return sorted(rows, key=lambda r: (r.partition, r.offset))


def put(producer: Producer, topic: str, row: Row) -> None:
    headers = list(row.headers) or None
    while True:
        try:
            producer.produce(topic, row.value, row.key, row.partition, timestamp=row.time_ms, headers=headers)
        except BufferError:
            producer.poll(0.1)
        else:
            return


def rows(count: int, partition: int = 0, size: int = 20, first_ms: int = 1_357_000_000_000) -> list[Row]:
    """Distinct plain records, 1 s apart."""
    return [
        Row(partition, i, f"k{i}".encode(), f"{partition}-{i}-".encode().ljust(size, b"x"), first_ms + i * 1000)
        for i in range(count)
    ]


class Recovery:
    """A recovery as the daemon would set it up: source, target and own topics, one spec, and methods that publish
    directives.
    """

    def __init__(self, cluster: Cluster, source: str, target: str, **spec: Any) -> None:
        self.cluster = cluster
        self.source, self.target = source, target
        self.receipts = cluster.topic("receipts", 2, cleanup_policy="compact", max_message_bytes="8388608")
        self.directives = cluster.topic("directives", 1, cleanup_policy="compact")
        self.progress = cluster.topic("progress", 1)
        self._told = Tail(cluster.client, self.progress, decode_progress)
        self.id = f"{cluster.unique}rec"
        self._producer = cluster.producer()
        self._sequence = 1
        self.spec = self._spec(**spec)

    def _spec(
        self, ranges: Sequence[Sequence[PartitionRange]], partitions: int = 1, source_more: dict[str, Any] | None = None,
        target_more: dict[str, Any] | None = None, caps: tuple[int | None, int | None] = (None, None), **more: Any,
    ) -> JobSpec:  # fmt: skip
        client = self.cluster.client
        spec = JobSpec(
            kind="replay",
            scope="test",
            recovery=self.id,
            attempt=1,
            lanes=tuple(LaneSpec(i, tuple(r), *caps) for i, r in enumerate(ranges)),
            source=SourceSpec("main", self.source, self.cluster.topic_id(self.source), client, **(source_more or {})),
            target=TargetSpec(
                "main", self.target, self.cluster.topic_id(self.target), partitions, client, **(target_more or {})
            ),
            control=ControlSpec(client, self.directives, self.progress),
            receipts_topic=self.receipts,
            directive=Directive(self.id, 1, 1, "run", 60_000),
            chunk=ChunkLimits(max_ms=2_000),
            stop_wait_ms=20_000,
            receipts=ReceiptsHome(
                self.receipts, self.cluster.topic_id(self.receipts), receipts_partition(self.id, 2), 2
            ),
        )
        return replace(spec, **more)

    @staticmethod
    def run_directive(cluster: Cluster, **more: Any) -> Directive:
        """The directive of a spec that begins with limits."""
        return Directive(
            **{
                "recovery": f"{cluster.unique}rec",
                "attempt": 1,
                "sequence": 1,
                "wanted": "run",
                "lease_ttl_ms": 600_000,
                **more,
            }
        )

    @staticmethod
    def chunk_limits(**more: int) -> ChunkLimits:
        return replace(ChunkLimits(max_ms=2_000), **more)

    def attempt(self, number: int, **more: Any) -> JobSpec:
        """The spec of a later attempt, with its directive on the topic, as the daemon does before it launches."""
        self.direct("run", attempt=number)
        directive = Directive(self.id, number, self._sequence, "run", 60_000)
        return replace(self.spec, attempt=number, directive=directive, **more)

    def direct(self, wanted: str, attempt: int = 1, **more: Any) -> int:
        """Publish a directive. Returns its sequence. A client that has lost its brokers while one hung finds them no
        more (librdkafka 2.16), so another one tries then; a directive may be told twice.
        """
        self._sequence += 1
        directive = Directive(
            **{
                "recovery": self.id,
                "attempt": attempt,
                "sequence": self._sequence,
                "wanted": wanted,
                "lease_ttl_ms": 600_000,
                **more,
            }
        )
        self._producer.produce(self.directives, encode(directive), self.id.encode())
        if self._producer.flush(DEADLINE_S / 4) > 0:
            self._producer = self.cluster.producer()
            self._producer.produce(self.directives, encode(directive), self.id.encode())
            assert self._producer.flush(DEADLINE_S) == 0
        return self._sequence

    def slowed(self, records_per_s: float) -> JobSpec:
        return replace(self.spec, directive=replace(self.spec.directive, max_records_per_s=records_per_s))

    def fence(self, lane: int) -> None:
        """End the lane's transaction and session, as the broker does when a transaction takes too long."""
        producer = Producer({**self.cluster.client, "transactional.id": transactional_id("test", self.id, lane)})
        producer.init_transactions(DEADLINE_S)

    def write_receipts(self, receipts: Iterable[Receipt]) -> None:
        """Write receipts that no lane wrote to the ledger."""
        home = receipts_partition(self.id, 2)
        for receipt in receipts:
            self._producer.produce(self.receipts, encode(receipt), receipt.key.encode(), home)
        assert self._producer.flush(DEADLINE_S) == 0

    def erase_receipts(self, receipts: Iterable[Receipt]) -> None:
        for receipt in receipts:
            self._producer.produce(self.receipts, None, receipt.key.encode(), receipts_partition(self.id, 2))
        assert self._producer.flush(DEADLINE_S) == 0

    def ledger(self) -> list[Receipt]:
        """The newest receipt of each key."""
        newest = {r.key: r.value for r in self.cluster.read(self.receipts, 2) if b"#" not in (r.key or b"")}
        found = [decode(Receipt, value) for value in newest.values() if value is not None]
        return sorted(found, key=lambda r: (r.partition, r.start))

    def reports(self) -> list[LaneHeartbeat | DriverHeartbeat]:
        """All that lanes and driver told of themselves until now."""
        return self._told.up_to(self.cluster.end(self.progress), DEADLINE_S)

    def heartbeats(self, lane: int = 0) -> list[LaneHeartbeat]:
        return [h for h in self.reports() if isinstance(h, LaneHeartbeat) and h.lane == lane]

    def await_heartbeat(self, fits: Any, lane: int = 0, deadline_s: float = DEADLINE_S) -> LaneHeartbeat:
        """The first heartbeat of the lane, from the beginning of the topic, for which `fits` is true."""

        def is_it(report: LaneHeartbeat | DriverHeartbeat) -> bool:
            return isinstance(report, LaneHeartbeat) and report.lane == lane and bool(fits(report))

        return self.await_report(
            is_it, patient_s(deadline_s), lambda: f"no such heartbeat; the last is {self.heartbeats(lane)[-1:]}"
        )

    def await_report(self, fits: Callable[[Any], bool], deadline_s: float, lacking: Callable[[], str]) -> Any:
        """The first report, from the beginning of the topic, for which `fits` is true."""
        give_up_s = time.monotonic() + deadline_s
        while True:
            for report in self._told.so_far:
                if fits(report):
                    return report
            assert time.monotonic() < give_up_s, lacking()
            self._told.read_on(0.25)


class AheadClock:
    """The module `time` with a clock that a test puts forward instead of waiting."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.sleep = time.sleep

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s


class LaneThread:
    """A lane at work in a thread of this process."""

    def __init__(self, spec: JobSpec, lane: int = 0) -> None:
        self._outcome: LaneOutcome | None = None
        self._thread = threading.Thread(target=self._run, args=(spec, spec.lanes[lane]), daemon=True)
        self._thread.start()

    def _run(self, spec: JobSpec, lane: LaneSpec) -> None:
        self._outcome = run_lane(spec, lane)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def outcome(self, deadline_s: float = DEADLINE_S) -> LaneOutcome:
        self._thread.join(patient_s(deadline_s))
        assert self._outcome is not None, f"the lane did not end; it is here:\n{self._where()}"
        return self._outcome

    def _where(self) -> str:
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "its thread has ended" if frame is None else "".join(traceback.format_stack(frame))


_LANE_MAIN = """
import sys
from recoveryd_jobs.contract import JobSpec, decode
from recoveryd_jobs.lane.life import run_lane
spec = decode(JobSpec, sys.stdin.buffer.read())
outcome = run_lane(spec, spec.lanes[int(sys.argv[1])])
print(outcome.ended, outcome.error_code)
"""


class LaneProcess:
    """A lane in a process of its own, to be killed, stopped and continued. `failpoint` as in RECOVERYD_FAILPOINT."""

    def __init__(self, spec: JobSpec, lane: int = 0, failpoint: str = "") -> None:
        env = {**os.environ, "RECOVERYD_FAILPOINT": failpoint}
        env.pop("RECOVERYD_FAILPOINT_ONCE", None)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LANE_MAIN, str(lane)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdin is not None
        self._process.stdin.write(encode(spec))
        self._process.stdin.close()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self, deadline_s: float = DEADLINE_S) -> tuple[int, str]:
        """(exit code, negative = signal; the end that the lane printed)."""
        try:
            code = self._process.wait(patient_s(deadline_s))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(DEADLINE_S)
            raise
        assert self._process.stdout is not None
        with self._process.stdout as said:
            return code, said.read().decode().strip()


def assert_exact(receipts: Sequence[Receipt], spec: JobSpec, *, whole: bool = True) -> None:
    """I10, I12 of docs/guarantees.md: receipts are contiguous from the planned start, to the stop if `whole`, and
    explain every offset.
    """
    for planned in (r for lane in spec.lanes for r in lane.partitions):
        at = planned.start
        for receipt in (r for r in receipts if r.partition == planned.partition):
            assert receipt.start == at
            explained = receipt.copied + receipt.filtered + receipt.skipped + receipt.lost
            assert (receipt.stop - receipt.start, receipt.copied) == (explained, sum(t.count for t in receipt.targets))
            at = receipt.stop
        assert not whole or at == planned.stop, f"partition {planned.partition} is covered to {at}"
