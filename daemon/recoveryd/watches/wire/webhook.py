"""What is sent to a webhook: one CloudEvent in JSON, signed.

    X-Recoveryd-Delivery:   the delivery's id, the same for every try and after a restart, to recognise a repeated one
    X-Recoveryd-Timestamp:  seconds since the epoch, of this try
    X-Recoveryd-Signature:  v1= and the hex HMAC-SHA256, keyed with the webhook's secret, over TIMESTAMP "." BODY

A receiver computes the same over the bytes it got, compares in constant time, and refuses old timestamps.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Final

from recoveryd.kernel.times import format_time_ms
from recoveryd.watches.effects import CallWebhook
from recoveryd.wire.cloudevents import STRUCTURED_CONTENT_TYPE
from recoveryd.wire.events import event_source
from recoveryd.wire.plain_json import to_json

EVENT_TYPE: Final = "io.recoveryd.webhook.watch_fulfilled.v1"
DELIVERY_HEADER: Final = "X-Recoveryd-Delivery"
TIMESTAMP_HEADER: Final = "X-Recoveryd-Timestamp"
SIGNATURE_HEADER: Final = "X-Recoveryd-Signature"


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


def webhook_headers(delivery: str, body: bytes, secret: bytes, now_s: int) -> Mapping[str, str]:
    """The headers of one try."""
    return {
        "Content-Type": STRUCTURED_CONTENT_TYPE,
        DELIVERY_HEADER: delivery,
        TIMESTAMP_HEADER: str(now_s),
        SIGNATURE_HEADER: f"v1={sign(body, secret, now_s)}",
    }


def sign(body: bytes, secret: bytes, now_s: int) -> str:
    return hmac.new(secret, f"{now_s}.".encode() + body, hashlib.sha256).hexdigest()
