"""What a status record says at first sight: its state, and whether anything more happens.

For those who send and those who show: plain JSON as the contract spells it.
"""

from collections.abc import Callable
from typing import Any

from recoveryd.kernel.states import ENDED, State

# A status record or an event as the contract spells it: parsed JSON.
Document = dict[str, Any]
OnChange = Callable[[Document], None]


def has_ended(document: Document) -> bool:
    return document["state"] in ENDED


def told_why(document: Document) -> str:
    """Its sentence, behind the code of what failed, so that nobody has to look for that elsewhere."""
    return ": ".join(str(part) for part in (document.get("error_code"), document.get("why")) if part)


def is_settled(document: Document) -> bool:
    """It ended, or it waits for a person: nothing more happens by itself."""
    return has_ended(document) or document["state"] == State.AWAITING_APPROVAL
