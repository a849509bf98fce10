"""What a consumer has to do about holds, and how far it is. Pure.

    assigned, not held --pause--> unsettled --drained and committed--> settled --resume--> assigned, not held

A partition is paused at once and settled when nothing of it is open any more. A hold is acknowledged as `draining`
while a partition of its topics is unsettled, and as `paused` once all are settled.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Place = tuple[str, int]  # topic and partition
Offsets = tuple[tuple[str, int, int | None], ...]

DRAINING, PAUSED, LEFT = "draining", "paused", "left"


@dataclass(frozen=True, slots=True)
class HoldAck:
    """`positions`: topic, partition, and the next offset to read (None = not known), of what is settled."""

    hold: str
    member: str
    state: str
    positions: Offsets = ()


@dataclass(frozen=True, slots=True)
class Todo:
    """What is to be paused and resumed now, in this order of places."""

    pause: tuple[Place, ...]
    resume: tuple[Place, ...]


class Heeding:
    def __init__(self) -> None:
        self._held: Mapping[str, frozenset[str]] = {}
        self._assigned: set[Place] = set()
        self._paused: set[Place] = set()
        self._settled: dict[Place, int | None] = {}
        self._told: dict[str, HoldAck] = {}

    @property
    def topics(self) -> frozenset[str]:
        """Those of which holds matter: it has partitions of them, or has said so and has none any more."""
        told = {topic for ack in self._told.values() for topic, _, _ in ack.positions}
        return frozenset(topic for topic, _ in self._assigned) | told

    @property
    def unsettled(self) -> tuple[Place, ...]:
        """Paused partitions of which something may still be open."""
        return tuple(sorted(self._paused - self._settled.keys()))

    def is_paused(self, place: Place) -> bool:
        return place in self._paused

    def assign(self, places: Iterable[Place]) -> None:
        self._assigned |= set(places)

    def revoke(self, places: Iterable[Place]) -> None:
        """They are somebody else's now, who finds the hold too."""
        gone = set(places)
        self._assigned -= gone
        self._paused -= gone
        for place in gone:
            self._settled.pop(place, None)

    def look(self, held: Mapping[str, frozenset[str]]) -> Todo:
        """Compare what is held with what is paused; both parts count as done with this."""
        self._held = held
        wanted = {place for place in self._assigned if place[0] in held}
        todo = Todo(tuple(sorted(wanted - self._paused)), tuple(sorted(self._paused - wanted)))
        self._paused = wanted
        for place in todo.resume:
            self._settled.pop(place, None)
        return todo

    def settle(self, offsets: Mapping[Place, int | None]) -> None:
        """All that was taken from these partitions is finished and committed up to the offset."""
        self._settled |= {place: offset for place, offset in offsets.items() if place in self._paused}

    def due(self, member: str) -> list[HoldAck]:
        """What has to be said, because it was not yet said so. A hold that is over needs no word."""
        holds = {hold for topic in self.topics for hold in self._held.get(topic, ())}
        live = {hold for found in self._held.values() for hold in found}
        self._told = {hold: ack for hold, ack in self._told.items() if hold in live}
        found = []
        for hold in sorted(holds | self._told.keys()):
            ack = self._ack(hold, member)
            if self._told.get(hold) != ack:
                found.append(ack)
        return found

    def told(self, ack: HoldAck) -> None:
        """The word was delivered."""
        self._told[ack.hold] = ack

    def leave(self) -> list[HoldAck]:
        """What is to be said before the member leaves its group."""
        return [HoldAck(ack.hold, ack.member, LEFT) for ack in self._told.values()]

    def _ack(self, hold: str, member: str) -> HoldAck:
        places = sorted(place for place in self._paused if hold in self._held.get(place[0], ()))
        if any(place not in self._settled for place in places):
            return HoldAck(hold, member, DRAINING)
        return HoldAck(hold, member, PAUSED, tuple((*place, self._settled[place]) for place in places))
