"""Wanted actions as data. They run once the journal holds the decision, and their results come back as events.

Each capability has effects of its own. Each effect is idempotent: running it twice is harmless (ids derive from
subject, step and attempt). Writing to our own topics is not an effect but part of the journal transaction
(`recoveryd.kernel.decision`).
"""

from dataclasses import dataclass

Effect = object  # this one, or one of a capability's own


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send a Tick at `at_ms` (wall-clock time) at the latest. The runtime also ticks each second while something is
    active.
    """

    at_ms: int
