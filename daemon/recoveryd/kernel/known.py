"""All nouns of one kind that a daemon knows. Ended ones are kept apart, so that the cost of a step depends on the live
ones only. What a capability knows of its own besides, and what changes with a new or changed one, is said there.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Self, TypeVar

N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class KnownNouns(Generic[N]):
    """Immutable. By id; `live` and `ended` share none."""

    live: Mapping[str, N] = field(default_factory=dict)
    ended: Mapping[str, N] = field(default_factory=dict)

    def get(self, noun_id: str) -> N | None:
        return self.live.get(noun_id) or self.ended.get(noun_id)

    def __iter__(self) -> Iterator[N]:
        yield from self.live.values()
        yield from self.ended.values()

    def without(self, forgotten: Collection[str]) -> Self:
        """These, without the ended ones `forgotten`."""
        gone = frozenset(forgotten)
        return replace(self, ended={i: noun for i, noun in self.ended.items() if i not in gone})
