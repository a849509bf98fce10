"""Sends control records with a plain Kafka producer, as an operator with only kcat would. It uses nothing of the
product.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Message

from tests.e2e.clients import writer

_TIMEOUT_S = 120.0


class Control:
    """Writes to one control topic. Each method returns the command's id once the broker has the record."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.topic = f"{prefix}control.v1"
        self._producer = writer(bootstrap, linger_ms=5, message_max_bytes=20_000_000)

    def replay(
        self,
        recovery: str,
        source: str,
        target: str,
        *,
        start: Any = "earliest",
        stop: Any = "latest",
        command_id: str | None = None,
        **more: Any,
    ) -> str:
        """`more`: other data fields; `source_*` and `target_*` go into those objects, the rest to the top (limits,
        verify, dry_run ...).
        """
        data: dict[str, Any] = {
            "reason": "a test wants it",
            "source": {"topic": source, "from": start, "to": stop},
            "target": {"topic": target},
        }
        for name, value in more.items():
            side, _, field = name.partition("_")
            if side in {"source", "target"}:
                data[side][field] = value
            else:
                data[name] = value
        return self.command("replay", recovery, data, command_id=command_id)

    def command(
        self,
        verb: str,
        recovery: str,
        data: Mapping[str, Any] | None = None,
        *,
        command_id: str | None = None,
        **envelope: Any,
    ) -> str:
        event = make_command(verb, recovery, data, command_id=command_id, **envelope)
        self.raw(json.dumps(event).encode(), recovery.encode())
        return str(event["id"])

    def raw(
        self, value: bytes | None, key: bytes | None = None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> int:
        """Any bytes at all. Returns the record's offset."""
        return self.many([(value, key, headers)])[0]

    def many(
        self, records: Sequence[tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]]
    ) -> list[int]:
        """Offsets in the order given, once the broker has all of them."""
        offsets: dict[int, int] = {}

        def delivered(index: int) -> Any:
            def note(error: object, message: Message) -> None:
                assert error is None, error
                offsets[index] = message.offset() or 0

            return note

        for index, (value, key, headers) in enumerate(records):
            extras: dict[str, Any] = {"headers": list(headers)} if headers else {}
            self._producer.produce(self.topic, value, key, on_delivery=delivered(index), **extras)
            self._producer.poll(0)
        assert self._producer.flush(_TIMEOUT_S) == 0, "the control records were not delivered"
        return [offsets[index] for index in range(len(records))]


def make_command(
    verb: str, recovery: str, data: Mapping[str, Any] | None = None, *, command_id: str | None = None, **envelope: Any
) -> dict[str, Any]:
    """A structured CloudEvent; `data` without a reason gets one."""
    return {
        "specversion": "1.0",
        "id": command_id or uuid.uuid4().hex,
        "source": "//tests/operator",
        "type": f"io.recoveryd.command.{verb}.v1",
        "subject": recovery,
        **envelope,
        "data": {"reason": "a test wants it", **(data or {})},
    }
