"""A sign of life of a consumer that gives nothing: its client fetches further, as over a long stretch of aborted
records, of which a reader sees none until it is passed.

It is a sign only and never a position: what was fetched may not have been given yet. It counts only where the client
came further than ever, so that one that begins again and again at the same place does not seem to live.
"""

import json
from collections.abc import Mapping

STATISTICS_MS = 5_000
SIGN_S = 15.0  # a sign is believed for so long, and no longer: a thread that hangs then does not seem to live


class Fetching:
    """What consumers of one topic say, one after the other. Not thread-safe: `note` is called in calls of the consumer
    (`stats_cb`).
    """

    def __init__(self) -> None:
        self._told = ""  # the newest statistics, as long as nobody asked for what they say
        self._reached: dict[int, int] = {}

    def restart(self, positions: Mapping[int, int]) -> None:
        """All that counted is over: from here on."""
        self._told, self._reached = "", dict(positions)

    def begin(self, positions: Mapping[int, int]) -> None:
        """A consumer was told to begin here."""
        self._reached |= {p: max(at, self._reached.get(p, at)) for p, at in positions.items()}

    def note(self, statistics: str) -> None:
        self._told = statistics

    def moved(self) -> set[int]:
        """Partitions of which the client has fetched more than ever since the last call."""
        if not self._told:
            return set()
        topics = json.loads(self._told)["topics"].values()
        self._told = ""
        found = {int(p): int(row["next_offset"]) for topic in topics for p, row in topic["partitions"].items()}
        moved = {p: at for p, at in found.items() if at > self._reached.get(p, at)}
        self._reached |= moved
        return set(moved)
