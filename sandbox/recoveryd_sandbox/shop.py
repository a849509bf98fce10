"""An application with a bug, to try on how it is found and mended: `python -m recoveryd_sandbox.shop`.

It adds up orders by customer, ten times too high, and has the wrong sums in its state and in its output. Topics, data and
config are those of docs/units.md; the same data come in the same order each time.
"""

import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import yaml
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from recoveryd_sandbox.broker import Broker
from recoveryd_sandbox.errors import SandboxError
from recoveryd_sandbox.streams_app import AppSpec, Mode, StreamsApp
from recoveryd_sandbox.topics import Topics

UNIT = "order-processor"
ORDERS, CUSTOMERS, TOTALS = "orders", "customers", "customer-totals"
BUG, RIGHT = 10, 1  # by what the application multiplies each order
_PARTITIONS = 4
_CUSTOMERS_TOTAL = 100
_ORDERS_TOTAL = 20_000
_BEGIN_MS = 1_735_689_600_000  # 2025-01-01; orders follow each other by a second, after all customers are known
_KEPT = {"retention.ms": "-1"}  # any retention would end records of that time
_TIMEOUT_S = 60.0
_POLL_S = 0.2

Pair = tuple[str, str]


class Shop:
    """Its topics on the cluster at `bootstrap`, and the application, which works in `folder`."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        spec = AppSpec(UNIT, Mode.TOTALS, (ORDERS, CUSTOMERS), TOTALS, factor=BUG)
        self.app = StreamsApp(folder / UNIT, bootstrap, spec)

    def fill(self) -> None:
        """Create the topics and write customers and orders. Raises `SandboxError`."""
        topics = Topics(self.bootstrap)
        for topic in (ORDERS, CUSTOMERS, TOTALS):
            topics.create(topic, _PARTITIONS, _KEPT)
        _write(self.bootstrap, CUSTOMERS, customers(), _BEGIN_MS - 1_000 * _CUSTOMERS_TOTAL)
        _write(self.bootstrap, ORDERS, orders(), _BEGIN_MS)

    def totals(self) -> dict[str, str]:
        """The sums as a reader of the output has them now: the last of each customer. Raises `SandboxError`."""
        return dict(_read(self.bootstrap, TOTALS))

    def await_totals(self, wanted: dict[str, str], deadline_s: float = _TIMEOUT_S) -> None:
        """Raises `SandboxError` when the output does not say this in time."""
        give_up_at_s = time.monotonic() + deadline_s
        while self.totals() != wanted:
            if time.monotonic() >= give_up_at_s:
                raise SandboxError(f"{TOTALS} does not say what was expected after {deadline_s:.0f} s.")
            time.sleep(_POLL_S)

    def write_config(self) -> Path:
        """The config of a daemon that knows the cluster and the application as a unit. Call it once that has run: its
        topology stands in it.
        """
        unit = {
            "kind": "streams",
            "group": UNIT,
            "inputs": [ORDERS, CUSTOMERS],
            "outputs": {TOTALS: {"behaviour": "append_only", "owner": "billing"}},
            "topology": str(self.app.topology_file),
            "owner": "orders-team",
        }
        clusters = {"main": {"bootstrap.servers": self.bootstrap}}
        file = self.folder / "recoveryd.yaml"
        file.write_text(yaml.safe_dump({"clusters": clusters, "units": {UNIT: unit}}), encoding="utf-8")
        return file


def customers() -> Iterator[Pair]:
    """Each with its id, in the order in which they are written."""
    for number in range(_CUSTOMERS_TOTAL):
        yield _id(number), f"Customer {number}"


def orders() -> Iterator[Pair]:
    """The id of a customer, and an amount."""
    for number in range(_ORDERS_TOTAL):
        yield _id(number * 7 % _CUSTOMERS_TOTAL), str(number * 37 % 100 + 1)


def sums(factor: int) -> dict[str, str]:
    """What the output says when each order was counted once by an application with this factor."""
    added = dict.fromkeys(dict(customers()), 0)
    for customer, amount in orders():
        added[customer] += factor * int(amount)
    return {customer: f"{name}:{added[customer]}" for customer, name in customers()}


def _id(number: int) -> str:
    return f"c{number:03}"


def _write(bootstrap: str, topic: str, pairs: Iterator[Pair], begin_ms: int) -> None:
    failures: list[str] = []

    def note(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error.str())

    producer = Producer({
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "partitioner": "murmur2_random",  # where the application's own topics have the key
        "on_delivery": note,
        "log_level": 0,
    })  # fmt: skip
    for number, (key, value) in enumerate(pairs):
        producer.produce(topic, value.encode(), key.encode(), timestamp=begin_ms + 1_000 * number)
    left = producer.flush(_TIMEOUT_S)
    if left or failures:
        raise SandboxError(f"Could not fill topic {topic}: {failures[0] if failures else f'{left} not acknowledged'}.")


def _read(bootstrap: str, topic: str) -> Iterator[Pair]:
    """Everything up to the end of each partition."""
    settings = {"group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, "isolation.level": "read_committed", **settings})
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(_PARTITIONS)])
        at_end = 0
        while at_end < _PARTITIONS:
            message = consumer.poll(_TIMEOUT_S)
            if message is None:
                raise SandboxError(f"Could not read topic {topic} to its end.")
            error, key, value = message.error(), message.key(), message.value()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  (its public name)
                raise SandboxError(f"Could not read topic {topic}: {error.str()}.")
            at_end += error is not None
            if isinstance(key, bytes) and isinstance(value, bytes):
                yield key.decode(), value.decode()
    finally:
        consumer.close()


def main() -> int:
    """Runs it on a Kafka of its own until Ctrl-C; 1 when it cannot."""
    ended = threading.Event()
    for wanted_end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(wanted_end, lambda *_: ended.set())
    folder = Path(tempfile.mkdtemp(prefix="recoveryd-shop-"))
    try:
        with Broker(folder / "kafka") as broker:
            shop = Shop(folder, broker.bootstrap)
            shop.fill()
            with shop.app:
                shop.await_totals(sums(BUG))
                config = shop.write_config()
                customer, wrong = next(iter(sums(BUG).items()))
                print(f"{UNIT} runs and has a bug: {TOTALS} says {customer} {wrong}, right is {sums(RIGHT)[customer]}.")
                print(f"  recoveryctl unit show {UNIT} --config {config}")
                print(f"  recoveryctl unit lint {UNIT} --config {config}")
                print("Ctrl-C ends it and removes everything.", flush=True)
                ended.wait()
    except SandboxError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
