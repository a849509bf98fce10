"""What lanes are compared with: plain loops over confluent-kafka, as a good engineer would write them for one job on
one evening.

Each runs in a process of its own, started by `run`, and times itself from before its first client to after its last
commit: with a fresh heap, and without threads of the product. The copy keeps what a copy must keep (key, value, time,
headers, partition) in transactions of about 32 MB, reads committed records only, and checks deliveries by the commit.
It has no receipts, cannot resume, and counts records to find the end, which is right only for these topics.
"""

import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from recoveryd_sandbox.process import process_cpu_s

_ROOT = Path(__file__).resolve().parents[1]
_DEADLINE_S = 170.0
# never None on what a consumer returns
_partition_of: Callable[[Message], int] = Message.partition  # type: ignore[assignment]
_BATCH = 10_000
_WAIT_S = 1.0
_TRANSACTION_TIMEOUT_S = 60.0
_SAMPLE_RECORDS = 50_000


@dataclass(frozen=True, slots=True)
class Task:
    """`kind`: copy | copy_plain (without transactions) | consume | produce (records of the source, from memory).
    `chunk_bytes` bounds a transaction.
    """

    kind: str
    bootstrap: str
    source: str
    target: str
    ends: tuple[int, ...]
    name: str
    codec: str = "lz4"
    chunk_bytes: int = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall and CPU seconds of the client, and the broker's CPU seconds during that time."""

    wall_s: float
    client_cpu_s: float
    broker_cpu_s: float


def run(task: Task, broker_pid: int) -> Timing:
    """Run the loop in a fresh process. Raises RuntimeError with what it printed when it fails."""
    command = [sys.executable, "-m", "bench.loops", json.dumps(asdict(task))]
    before_s = process_cpu_s(broker_pid)
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S, check=False, cwd=_ROOT)
    if done.returncode != 0:
        raise RuntimeError(f"the {task.kind} loop failed: {done.stderr[-2000:]}")
    wall_s, client_cpu_s = json.loads(done.stdout)
    return Timing(wall_s, client_cpu_s, process_cpu_s(broker_pid) - before_s)


def main() -> None:
    task = Task(**json.loads(sys.argv[1]))
    kinds = {"copy": copy, "copy_plain": copy_plain, "consume": consume}
    if task.kind == "produce":
        rows = _sample(task)
        began_s, began_cpu_s = time.monotonic(), _own_cpu_s()
        produce(task, rows)
    else:
        began_s, began_cpu_s = time.monotonic(), _own_cpu_s()
        kinds[task.kind](task)
    sys.stdout.write(json.dumps([time.monotonic() - began_s, _own_cpu_s() - began_cpu_s]))


def copy(task: Task) -> None:
    """Copy exactly once, in transactions."""
    consumer, producer = _consumer(task), _producer(task, transactional=True)
    producer.init_transactions(_TRANSACTION_TIMEOUT_S)
    left = sum(task.ends)
    while left > 0:
        producer.begin_transaction()
        size = 0
        while left > 0 and size < task.chunk_bytes:
            messages = consumer.consume(min(_BATCH, left), _WAIT_S)
            size += _forward(producer, task.target, messages)
            left -= len(messages)
        producer.commit_transaction(_TRANSACTION_TIMEOUT_S)
    consumer.close()


def copy_plain(task: Task) -> None:
    """Copy without transactions: idempotent, at least once."""
    consumer, producer = _consumer(task), _producer(task, transactional=False)
    left = sum(task.ends)
    while left > 0:
        messages = consumer.consume(min(_BATCH, left), _WAIT_S)
        _forward(producer, task.target, messages)
        left -= len(messages)
    _flush(producer)
    consumer.close()


def consume(task: Task) -> None:
    """Only read: an upper bound."""
    consumer = _consumer(task)
    left = sum(task.ends)
    while left > 0:
        left -= len(consumer.consume(min(_BATCH, left), _WAIT_S))
    consumer.close()


Kept = tuple[bytes | None, bytes | None, int, int]


def produce(task: Task, rows: Sequence[Kept]) -> None:
    """Only write, from memory: an upper bound."""
    producer = _producer(task, transactional=False)
    send, poll, topic = producer.produce, producer.poll, task.target
    left = sum(task.ends)
    while left > 0:
        for value, key, partition, time_ms in rows[:left]:
            while True:
                try:
                    send(topic, value, key, partition, timestamp=time_ms)
                    break
                except BufferError:
                    poll(0.05)
        poll(0)
        left -= min(left, len(rows))
    _flush(producer)


def _forward(producer: Producer, topic: str, messages: list[Message]) -> int:
    send, size = producer.produce, 0
    for message in messages:
        error = message.error()
        if error is not None:
            raise RuntimeError(str(error))
        value, headers = message.value(), message.headers()
        while True:
            try:
                if headers:
                    send(
                        topic,
                        value,
                        message.key(),
                        _partition_of(message),
                        timestamp=message.timestamp()[1],
                        headers=headers,
                    )
                else:
                    send(topic, value, message.key(), _partition_of(message), timestamp=message.timestamp()[1])
                break
            except BufferError:
                producer.poll(0.05)
        size += len(value or b"")
    producer.poll(0)
    return size


def _consumer(task: Task) -> Consumer:
    consumer = Consumer({
        "bootstrap.servers": task.bootstrap, "group.id": task.name, "isolation.level": "read_committed",
        "enable.auto.commit": False, "auto.offset.reset": "error", "queued.min.messages": 1_000_000,
        "queued.max.messages.kbytes": 131_072, "fetch.message.max.bytes": 8 * 1024 * 1024,
    })  # fmt: skip
    consumer.assign([TopicPartition(task.source, p, 0) for p in range(len(task.ends))])
    return consumer


def _producer(task: Task, *, transactional: bool) -> Producer:
    config: dict[str, str | int | bool] = {
        "bootstrap.servers": task.bootstrap, "enable.idempotence": True, "compression.type": task.codec,
        "linger.ms": 20,
        "batch.size": 1_000_000, "batch.num.messages": 100_000, "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 131_072,
    }  # fmt: skip
    if transactional:
        config |= {"transactional.id": task.name, "transaction.timeout.ms": int(_TRANSACTION_TIMEOUT_S * 1000)}
        config |= {"message.timeout.ms": 45_000}
    return Producer(config)


def _flush(producer: Producer) -> None:
    if producer.flush(_TRANSACTION_TIMEOUT_S):
        raise RuntimeError("not all records were delivered")


def _sample(task: Task) -> list[Kept]:
    consumer = _consumer(task)
    rows: list[Kept] = []
    while len(rows) < min(_SAMPLE_RECORDS, sum(task.ends)):
        for message in consumer.consume(_BATCH, _WAIT_S):
            partition = message.partition()
            assert partition is not None
            rows.append((message.value(), message.key(), partition, message.timestamp()[1]))
    consumer.close()
    gc.freeze()
    return rows


def _own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
