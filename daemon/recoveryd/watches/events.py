"""The events of watches: the outcome of a webhook, and how far an application is stopped."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class WebhookEnded:
    """A webhook was delivered, or given up after its retries. `status` is the HTTP status, None without an answer."""

    watch: str
    delivered: bool
    status: int | None
    attempts: int
    message: str


@dataclass(frozen=True, slots=True)
class UnitStopReported:
    """`question`: the number of what was asked. `before` of a look only: how the application ran, None = nobody could
    say.
    """

    watch: str
    question: int
    is_stopped: bool
    message: str
    before: Mapping[str, Any] | None = None
