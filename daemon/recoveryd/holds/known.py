"""All holds of a daemon, and the index by topic that other capabilities ask. It is the same object until a topic is
held or let go, so that a step can tell cheaply whether that happened.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from recoveryd.holds.model import Hold
from recoveryd.kernel.known import KnownNouns, live_and_ended

Topic = tuple[str, str]  # cluster and name


class HeldBy(NamedTuple):
    """What a hold says to those that meet it."""

    hold: str
    owner: str
    reason: str
    reads: bool


@dataclass(frozen=True, slots=True)
class Holds(KnownNouns[Hold]):
    """`held`: by topic, the holds on it, the oldest first."""

    held: Mapping[Topic, tuple[HeldBy, ...]] = field(default_factory=dict)

    @staticmethod
    def of(holds: Iterable[Hold]) -> "Holds":
        in_order = sorted(holds, key=lambda one: (one.created_ms, one.id))
        live, ended = live_and_ended(in_order, lambda hold: hold.is_terminal)
        return Holds(live, ended, _index(live.values()))

    def __len__(self) -> int:
        return len(self.live) + len(self.ended)

    def with_hold(self, hold: Hold) -> "Holds":
        """These, with a new or changed hold."""
        known = self.live.get(hold.id)
        before, after = known.topics if known else (), () if hold.is_terminal else hold.topics
        if hold.is_terminal:
            live = {i: h for i, h in self.live.items() if i != hold.id}
            made = replace(self, live=live, ended={**self.ended, hold.id: hold})
        else:
            made = replace(self, live={**self.live, hold.id: hold})
        return made if before == after else replace(made, held=_index(made.live.values()))


def groups_heard(holds: Holds) -> list[tuple[str, str]]:
    """Cluster and name of each consumer group of which somebody said that it obeys a hold."""
    return list(dict.fromkeys((hold.cluster, m.group) for hold in holds.live.values() for m in hold.members))


def _index(live: Iterable[Hold]) -> Mapping[Topic, tuple[HeldBy, ...]]:
    held: dict[Topic, tuple[HeldBy, ...]] = {}
    for hold in sorted(live, key=lambda one: (one.created_ms, one.id)):  # as after a restart
        by = HeldBy(hold.id, hold.owner, hold.command.reason, hold.reads)
        for topic in hold.topics:
            key = hold.cluster, topic
            held[key] = (*held.get(key, ()), by)
    return held
