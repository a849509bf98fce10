"""The event of watches: the outcome of a webhook."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebhookEnded:
    """A webhook was delivered, or given up after its retries. `status` is the HTTP status, None without an answer."""

    watch: str
    delivered: bool
    status: int | None
    attempts: int
    message: str
