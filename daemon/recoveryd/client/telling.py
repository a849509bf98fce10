"""Says on the control topic how far this member obeys a hold: the signal `hold`."""

import json
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from recoveryd.client.heeding import HoldAck

_AGAIN_S: Final = 5.0
_DELIVERY_MS: Final = 10_000
SIGNAL: Final = "io.recoveryd.signal.hold.v1"
_ONLY_PARTITION: Final = 0  # of the control topic, also where somebody gave it more


def make_record(ack: HoldAck, group: str, client: str, record_id: str, at: datetime) -> bytes:
    """The value of the record; its key is the hold's id."""
    data = {
        "hold": ack.hold,
        "group": group,
        "member": ack.member,
        "client": client,
        "state": ack.state,
        "positions": [{"topic": t, "partition": p, "offset": offset} for t, p, offset in ack.positions],
    }
    event = {
        "specversion": "1.0",
        "id": record_id,
        "source": f"//recoveryd-client/{client or 'consumer'}",
        "type": SIGNAL,
        "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "data": data,
    }
    return json.dumps(event).encode()


class Teller:
    """Delivers in the background; what could not be delivered is wanted again after some seconds."""

    def __init__(self, properties: Mapping[str, Any], topic: str, group: str, client: str) -> None:
        self._topic, self._group, self._client = topic, group, client
        self._open: dict[str, HoldAck] = {}
        self._not_before_s: dict[str, float] = {}
        ours = {"enable.idempotence": True, "delivery.timeout.ms": _DELIVERY_MS, "allow.auto.create.topics": False}
        self._producer = Producer({**properties, **ours})

    def tell(self, ack: HoldAck, delivered: Callable[[HoldAck], None] = lambda _: None) -> None:
        """Send it, unless a word about the same hold is under way or was refused a moment ago."""
        if ack.hold in self._open or time.monotonic() < self._not_before_s.get(ack.hold, 0.0):
            return
        value = make_record(ack, self._group, self._client, str(uuid.uuid4()), datetime.now(UTC))

        def ended(error: object, _message: object) -> None:
            self._open.pop(ack.hold, None)
            if error is None:
                delivered(ack)
            else:
                self._not_before_s[ack.hold] = time.monotonic() + _AGAIN_S

        self._open[ack.hold] = ack
        try:
            self._producer.produce(self._topic, value, ack.hold.encode(), _ONLY_PARTITION, on_delivery=ended)
        except (KafkaException, BufferError):
            ended("not taken", None)

    def poll(self) -> None:
        self._producer.poll(0)

    def flush(self, timeout_s: float) -> None:
        self._producer.flush(timeout_s)
