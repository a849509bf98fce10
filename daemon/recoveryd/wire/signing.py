"""How a webhook is signed, so that its receiver knows who calls, and recognises a call that it had already.

    X-Recoveryd-Delivery:   the delivery's id, the same for every try and after a restart, to recognise a repeated one
    X-Recoveryd-Timestamp:  seconds since the epoch, of this try
    X-Recoveryd-Signature:  v1= and the hex HMAC-SHA256, keyed with the webhook's secret, over TIMESTAMP "." BODY

A receiver computes the same over the bytes it got, compares in constant time, and refuses old timestamps.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from recoveryd.wire.cloudevents import STRUCTURED_CONTENT_TYPE

DELIVERY_HEADER: Final = "X-Recoveryd-Delivery"
TIMESTAMP_HEADER: Final = "X-Recoveryd-Timestamp"
SIGNATURE_HEADER: Final = "X-Recoveryd-Signature"


def webhook_headers(
    delivery: str, body: bytes, secret: bytes, now_s: int, content_type: str = STRUCTURED_CONTENT_TYPE
) -> Mapping[str, str]:
    """The headers of one try."""
    return {
        "Content-Type": content_type,
        DELIVERY_HEADER: delivery,
        TIMESTAMP_HEADER: str(now_s),
        SIGNATURE_HEADER: f"v1={sign(body, secret, now_s)}",
    }


def sign(body: bytes, secret: bytes, now_s: int) -> str:
    return hmac.new(secret, f"{now_s}.".encode() + body, hashlib.sha256).hexdigest()
