"""What a daemon knows of groups that workflows wait for to be near the ends of what they read."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.live.lag.book import LagBook, Reader


@dataclass(frozen=True, slots=True)
class Near:
    """Looks in a row that were within the limit, all of the same `revision` of what was planned."""

    revision: str
    since_ms: int
    seen_ms: int


@dataclass(frozen=True, slots=True)
class Readiness:
    """What is known of the groups that workflows wait for; soft. `topics`: id and partitions of each. `near` by
    workflow.
    """

    book: LagBook = LagBook()
    topics: Mapping[Reader, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    near: Mapping[str, Near] = field(default_factory=dict)
