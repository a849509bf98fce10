"""Writes control records as any program would, and reads the answers to them as any program would."""

import json
import time
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from recoveryd.kernel.times import format_time_ms

_FLUSH_DEADLINE_S = 30.0
_BATCH = 1_000


def command(verb: str, recovery: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """A structured CloudEvent; `data` without a reason gets one."""
    return {
        "specversion": "1.0", "id": uuid.uuid4().hex, "source": "//bench",
        "type": f"io.recoveryd.command.{verb}.v1", "subject": recovery, "time": _now(),
        "data": {"reason": "to be measured", **data},
    }  # fmt: skip


def replay(recovery: str, source: str, target: str, **more: Any) -> dict[str, Any]:
    """Data of a replay of all of `source` into a new topic; `more` are further fields of the data, `to` the end of the
    range.
    """
    stop = more.pop("to", "latest")
    data = {"source": {"topic": source, "from": "earliest", "to": stop}, "target": {"topic": target, "create": True}}
    return command("replay", recovery, data | more)


def lag_signal(group: str, topic: str, partitions: int, end: int, at_ms: int | None = None) -> dict[str, Any]:
    """A lag signal of a group that is a little behind on each partition, sampled at `at_ms` or now."""
    sampled_at = _now() if at_ms is None else format_time_ms(at_ms)
    rows = [{"partition": p, "committed": end - p, "end": end, "sampled_at": sampled_at} for p in range(partitions)]
    return {
        "specversion": "1.0", "id": uuid.uuid4().hex, "source": "//bench/monitor", "type": "io.recoveryd.signal.lag.v1",
        "time": sampled_at, "data": {"cluster": "main", "group": group, "topic": topic, "partitions": rows},
    }  # fmt: skip


def encoded(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()


class ControlWriter:
    """One producer on one control topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._errors: list[KafkaError] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "on_delivery": self._note})
        self._producer.list_topics(
            topic, timeout=_FLUSH_DEADLINE_S
        )  # so that the first record needs no look-up of the topic

    def send(self, values: Iterable[bytes]) -> None:
        """Returns when the broker has all records."""
        for value in values:
            self._producer.produce(self._topic, value)
            self._producer.poll(0)
        if self._producer.flush(_FLUSH_DEADLINE_S) or self._errors:
            raise RuntimeError(f"control records could not be written: {self._errors[:1]}")

    def _note(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._errors.append(error)


class AnswerReader:
    """Reads an events topic from its present end on."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": "bench-answers", "isolation.level": "read_committed",
            "enable.auto.commit": False, "fetch.wait.max.ms": 20,
        })  # fmt: skip
        where = TopicPartition(topic, 0)
        where.offset = self._consumer.get_watermark_offsets(where, timeout=_FLUSH_DEADLINE_S)[1]
        self._consumer.assign([where])
        self._consumer.consume(1, 0.2)  # starts the fetcher before something is timed

    def wait_for(self, command_ids: set[str], deadline_s: float) -> dict[str, str]:
        """Type of the answer by command id, once all answers are there. Raises RuntimeError past the deadline."""
        answers: dict[str, str] = {}
        give_up_s = time.monotonic() + deadline_s
        while len(answers) < len(command_ids):
            if time.monotonic() > give_up_s:
                raise RuntimeError(f"{len(answers)} of {len(command_ids)} answers came within {deadline_s:.0f} s")
            for message in self._consumer.consume(_BATCH, 0.02):
                if message.error() is not None:
                    continue
                event = json.loads(message.value() or b"null")
                cause = event.get("causationid")
                if cause in command_ids and ".command_" in event["type"]:
                    answers[cause] = event["type"].split(".")[-2].removeprefix("command_")
        return answers

    def close(self) -> None:
        self._consumer.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
