"""The effect of watches: call a webhook."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallWebhook:
    """A signed POST to the URL that the config has under this name, retried → WebhookEnded. `delivery` is the
    idempotency key, the same after a restart.
    """

    watch: str
    webhook: str
    delivery: str
    body: Mapping[str, object]
