"""The effects of watches: call a webhook, stop an application."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CallWebhook:
    """A signed POST to the URL that the config has under this name, retried → WebhookEnded. `delivery` is the
    idempotency key, the same after a restart.
    """

    watch: str
    webhook: str
    delivery: str
    body: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class StopApplication:
    """Let whoever controls the unit's application bring it nearer to a stop → UnitStopReported. `before` None = only
    look how it runs. `since_ms`: when this was first wanted. `question` counts those of this daemon for the watch.
    """

    watch: str
    unit: str
    since_ms: int
    question: int
    before: Mapping[str, Any] | None = None
