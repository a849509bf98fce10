"""All nouns of one kind that a daemon knows. Ended ones are kept apart, so that the cost of a step depends on the live
ones only. What a capability knows of its own besides, and what changes with a new or changed one, is said there.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, ValuesView
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Generic, Self, TypeVar

from recoveryd.kernel.noun import StatusNoun

N = TypeVar("N", bound=StatusNoun)
V = TypeVar("V")


class Joined(Mapping[str, V]):
    """Several mappings as one, which have no id in common. None is copied: who asks for one id pays for one look-up in
    each.
    """

    __slots__ = ("parts",)

    def __init__(self, *parts: Mapping[str, V]) -> None:
        self.parts = parts

    def __getitem__(self, noun_id: str) -> V:
        for part in self.parts:
            found = part.get(noun_id)
            if found is not None:
                return found
        raise KeyError(noun_id)

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self.parts)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def values(self) -> ValuesView[V]:
        return _JoinedValues(self)


class _JoinedValues(ValuesView[V]):
    """Not looked up by their ids one by one."""

    def __init__(self, joined: Joined[V]) -> None:
        super().__init__(joined)
        self._parts = joined.parts

    def __iter__(self) -> Iterator[V]:
        return chain.from_iterable(part.values() for part in self._parts)


@dataclass(frozen=True, slots=True)
class KnownNouns(Generic[N]):
    """Immutable. By id; `live` and `ended` share none."""

    live: Mapping[str, N] = field(default_factory=dict)
    ended: Mapping[str, N] = field(default_factory=dict)

    def get(self, noun_id: str) -> N | None:
        return self.live.get(noun_id) or self.ended.get(noun_id)

    @property
    def by_id(self) -> Mapping[str, N]:
        return Joined(self.live, self.ended)

    def __iter__(self) -> Iterator[N]:
        yield from self.live.values()
        yield from self.ended.values()

    def without(self, forgotten: Collection[str]) -> Self:
        """These, without the ended ones `forgotten`."""
        gone = frozenset(forgotten)
        return replace(self, ended={i: noun for i, noun in self.ended.items() if i not in gone})


def live_and_ended(nouns: Iterable[N], is_over: Callable[[N], bool]) -> tuple[dict[str, N], dict[str, N]]:
    """By id, both in the order given, in which no id comes twice. Made at once, not by putting in one after the other,
    which copies all before it each time: a daemon may know a hundred thousand.
    """
    live: dict[str, N] = {}
    ended: dict[str, N] = {}
    for noun in nouns:
        (ended if is_over(noun) else live)[noun.id] = noun
    return live, ended
