"""Sends commands as any program may: a CloudEvent by a plain producer, and the answer by a plain consumer. That needs
no code of recoveryd.
"""

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from recoveryd_sandbox.errors import CommandRefused, SandboxError

TOPIC, EVENTS = "recovery.control.v1", "recovery.events.v1"
ENDED = frozenset({"completed", "stopped", "failed", "rejected", "expired"})  # states that a recovery does not leave
_ANSWER_DEADLINE_S = 120.0
_ANSWER, _TAKEN = "io.recoveryd.event.command_", frozenset({"accepted", "duplicate"})


def make_command(source: str, verb: str, recovery: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """A CloudEvent; `data` needs a reason, as in every command."""
    return {
        "specversion": "1.0",
        "id": str(uuid.uuid4()),
        "source": source,
        "type": f"io.recoveryd.command.{verb}.v1",
        "subject": recovery,
        "time": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "data": data,
    }


def send(bootstrap: str, record: Mapping[str, Any]) -> None:
    """Returns when the broker has the record. Raises `SandboxError` when it does not take it in time."""
    errors: list[KafkaError] = []

    def note(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            errors.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(TOPIC, json.dumps(record).encode(), record["subject"].encode(), on_delivery=note)
    if producer.flush(_ANSWER_DEADLINE_S) or errors:
        why = str(errors[0]) if errors else f"no answer in {_ANSWER_DEADLINE_S:.0f} s"
        raise SandboxError("the control record could not be written", why)


def carry_out(bootstrap: str, record: Mapping[str, Any], deadline_s: float) -> None:
    """Send a command, and return when it was accepted. Raises `CommandRefused`, and `SandboxError` without an
    answer.
    """
    with _events_from_now(bootstrap) as reader:
        send(bootstrap, record)
        give_up_at_s = time.monotonic() + deadline_s
        while time.monotonic() < give_up_at_s:
            for message in reader.consume(100, 0.2):
                event = json.loads(message.value() or b"{}") if message.error() is None else {}
                if event.get("causationid") == record["id"] and str(event.get("type")).startswith(_ANSWER):
                    _judge(record, event)
                    return
    raise SandboxError(f"nobody answered {_name(record)} in {deadline_s:.0f} s", "look at the daemon's log")


def _judge(record: Mapping[str, Any], event: Mapping[str, Any]) -> None:
    kind = str(event["type"]).removeprefix(_ANSWER).removesuffix(".v1")
    if kind not in _TAKEN:
        told = event.get("data") or {}
        words = " ".join(filter(None, (told.get("code"), told.get("message"))))
        raise CommandRefused(f"{_name(record)} was {kind}: {words}", told.get("hint") or "")


def _name(record: Mapping[str, Any]) -> str:
    verb = str(record["type"]).removeprefix("io.recoveryd.command.").removesuffix(".v1")
    return f"{verb} {record['subject']}"


@contextmanager
def _events_from_now(bootstrap: str) -> Iterator[Consumer]:
    """A reader of the events that come from here on. Raises `SandboxError`."""
    reader = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "recoveryd-sandbox-answers", "enable.auto.commit": False}
    )
    try:
        known = reader.list_topics(EVENTS, _ANSWER_DEADLINE_S).topics[EVENTS].partitions
        places = [TopicPartition(EVENTS, partition) for partition in known]
        ends = [reader.get_watermark_offsets(place, _ANSWER_DEADLINE_S)[1] for place in places]
        reader.assign([TopicPartition(EVENTS, p.partition, end) for p, end in zip(places, ends, strict=True)])
        yield reader
    except KafkaException as error:
        raise SandboxError(f"the answers on {EVENTS} cannot be read: {error.args[0].str()}") from error
    finally:
        reader.close()
