"""What is sent to the webhook of a watch: one CloudEvent in JSON, signed as all webhooks are (`wire/signing.py`)."""

from typing import Any, Final

from recoveryd.kernel.times import format_time_ms
from recoveryd.watches.effects import CallWebhook
from recoveryd.wire.events import event_source
from recoveryd.wire.plain_json import to_json

EVENT_TYPE: Final = "io.recoveryd.webhook.watch_fulfilled.v1"


def encode_webhook(effect: CallWebhook, scope: str) -> bytes:
    """The body: the same bytes for the same delivery."""
    data: dict[str, Any] = {name: value for name, value in effect.body.items() if name != "at_ms"}
    at = format_time_ms(int(str(effect.body["at_ms"])))
    event = {
        "specversion": "1.0",
        "id": effect.delivery,
        "source": event_source(scope),
        "type": EVENT_TYPE,
        "subject": effect.watch,
        "time": at,
        "datacontenttype": "application/json",
        "data": {**data, "at": at},
    }
    return to_json(event)
