"""Wanted actions as data. They run once the journal holds the decision, and their results come back as events.

Each capability has effects of its own. Each effect is idempotent: running it twice is harmless (ids derive from
subject, step and attempt). Writing to our own topics is not an effect but part of the journal transaction
(`recoveryd.kernel.decision`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

Effect = object  # one of these, or of a capability's own


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send a Tick at `at_ms` (wall-clock time) at the latest. The runtime also ticks each second while something is
    active.
    """

    at_ms: int


@dataclass(frozen=True, slots=True)
class SendCommand:
    """Write a command to the control topic, as any producer could → nothing, or CommandNotSent.

    This is how a capability has something done that another one does. The command is read, decided and answered like
    every other; the capability knows it again by `id` and `source`, its idempotency key. Whoever wants it journals the
    intent with these two and `data` first, and asks for the effect again, with the same values, until the command was
    read from the control topic: a second copy is answered as a duplicate and nothing else happens, so it is carried out
    once whatever dies in between. `about` is the id of the noun that wants it, `at_ms` the time in the record.
    """

    about: str
    verb: str
    subject: str
    data: Mapping[str, object]
    id: str
    source: str
    at_ms: int
