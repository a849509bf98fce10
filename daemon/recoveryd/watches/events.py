"""What only watches hear: the outcome of a webhook."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebhookEnded:
    """The last word on a webhook: delivered, or given up after its retries. `status` is the HTTP status, None when nobody answered."""

    watch: str
    delivered: bool
    status: int | None
    attempts: int
    message: str
