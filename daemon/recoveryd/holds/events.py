"""What holds need to hear of consumer groups."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SeenMember:
    """`topics`: those of which it has a partition now."""

    id: str
    client: str
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """The members of a group, as the broker said to a question that was asked at `asked_at_ms`."""

    cluster: str
    group: str
    asked_at_ms: int
    members: tuple[SeenMember, ...]
