"""What a status record says at first sight: its state, and whether anything more happens.

For those who send and those who show. Plain JSON as the contract spells it, so that neither pays for loading the core.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

# A status record or an event as the contract spells it: parsed JSON.
Document = dict[str, Any]


class StateName(StrEnum):
    """The states of the contract. Not taken from the core, because help must not pay for loading it; a test compares the two."""

    REQUESTED = "requested"
    PLANNING = "planning"
    PLANNED = "planned"
    AWAITING_APPROVAL = "awaiting_approval"
    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    STOPPING = "stopping"
    VERIFYING = "verifying"
    COMPLETED = "completed"
    STOPPED = "stopped"
    FAILED = "failed"
    REJECTED = "rejected"
    EXPIRED = "expired"


# A dry run ends in `planned`, which is not terminal in the sense of the core, but nothing follows it.
ENDED = frozenset({"planned", "completed", "stopped", "failed", "rejected", "expired"})
OnChange = Callable[[Document], None]


def has_ended(document: Document) -> bool:
    return document["state"] in ENDED


def is_settled(document: Document) -> bool:
    """It ended, or it waits for a person: nothing more happens by itself."""
    return has_ended(document) or document["state"] == "awaiting_approval"
