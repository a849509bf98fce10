"""Sends commands as any program may: a CloudEvent by a plain producer. That needs no code of recoveryd."""

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from recoveryd_sandbox.errors import SandboxError

TOPIC = "recovery.control.v1"
ENDED = frozenset({"completed", "stopped", "failed", "rejected", "expired"})  # states that a recovery does not leave
_ANSWER_DEADLINE_S = 120.0


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
