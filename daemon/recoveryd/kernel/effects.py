"""Wanted actions as data. The journal holds the intent first; then they are run, and their results come back as events.

Each capability has effects of its own. Every one is idempotent: doing it twice is harmless (ids derive from subject, step and attempt). What goes onto our own
topics is no effect: it is part of the journal transaction itself (`recoveryd.kernel.decision`).
"""

from dataclasses import dataclass

Effect = object  # this one, or one of a capability's own


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send a Tick no later than this wall-clock time. The runtime also ticks each second while something is active."""

    at_ms: int
