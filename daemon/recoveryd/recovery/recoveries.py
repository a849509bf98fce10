"""All recoveries of a daemon, the live ones apart from the ended ones.

A daemon knows thousands of ended recoveries and a few live ones. The cost of a step must depend on the live ones only:
it copies and walks `live`, and of the ended ones it reads totals, which are updated with each change. The only rule
here is the one that tells live from ended.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Final

from recoveryd.kernel.states import ENDED, State
from recoveryd.live.traffic import Copied
from recoveryd.recovery.model import Recovery

_NOTHING: Final[Mapping[str, Recovery]] = MappingProxyType({})


def is_over(recovery: Recovery) -> bool:
    """Whether no state follows its own. None follows that of a dry run either: it stays planned."""
    return recovery.state in ENDED


def is_live(recovery: Recovery) -> bool:
    """Whether time alone can change something about it."""
    return not is_over(recovery) or not recovery.attempt.released


@dataclass(frozen=True, slots=True)
class EndedTotals:
    """Sums over ended recoveries: their number by (kind, state), what they copied by (cluster, topic). Zeros are left
    out.
    """

    counts: Mapping[tuple[str, State], int]
    copied: Mapping[tuple[str, str], Copied]


class Recoveries(Mapping[str, Recovery]):
    """Immutable: its dicts never change. `live` and `ended` share no id; `ended` is in the order of last changes."""

    __slots__ = ("ended", "live", "totals")

    def __init__(self, recoveries: Mapping[str, Recovery] = _NOTHING) -> None:
        self.live: dict[str, Recovery] = {i: r for i, r in recoveries.items() if is_live(r)}
        self.ended: dict[str, Recovery] = {i: r for i, r in recoveries.items() if i not in self.live}
        self.totals = _moved(EndedTotals({}, {}), (), self.ended.values())

    def with_changes(self, changed: Mapping[str, Recovery]) -> "Recoveries":
        """These, with `changed` put in. The cost depends on the live ones; the ended ones are copied only when one is
        added or changes.
        """
        if not changed:
            return self
        made = Recoveries.__new__(Recoveries)
        ending = {i: r for i, r in changed.items() if not is_live(r)}
        live = {**self.live, **changed}
        made.live = {i: r for i, r in live.items() if i not in ending} if ending else live
        left = [self.ended[i] for i in changed if i in self.ended]
        if ending or left:
            stay = {i: r for i, r in self.ended.items() if i not in changed} if left else self.ended
            made.ended = {**stay, **ending}
            made.totals = _moved(self.totals, left, ending.values())
        else:
            made.ended, made.totals = self.ended, self.totals
        return made

    def without(self, forgotten: Iterable[str], in_play: Collection[tuple[str, str]]) -> "Recoveries":
        """These, without the ended ones `forgotten`. What those copied stays counted for the topics `in_play`, because
        live traffic there is computed from it.
        """
        gone = [self.ended[i] for i in forgotten if i in self.ended]
        made = Recoveries.__new__(Recoveries)
        made.live = self.live
        ids = {r.id for r in gone}
        made.ended = {i: r for i, r in self.ended.items() if i not in ids}
        counts = Counter(self.totals.counts)
        counts.subtract((r.kind, r.state) for r in gone)
        known = {t for r in (*made.live.values(), *made.ended.values()) for t in _topics(r)} | set(in_play)
        made.totals = EndedTotals(
            {key: count for key, count in counts.items() if count},
            {key: one for key, one in self.totals.copied.items() if key in known},
        )
        return made

    def changed_since(self, earlier: "Recoveries") -> Iterator[Recovery]:
        """The recoveries that are new or changed since `earlier`, from which this was made by `with_changes`."""
        for recovery in self.live.values():
            if earlier.get(recovery.id) is not recovery:
                yield recovery
        if self.ended is not earlier.ended:
            for recovery in reversed(self.ended.values()):
                if earlier.ended.get(recovery.id) is recovery:
                    return  # all before it in the dict changed even earlier
                yield recovery

    def find(self, recovery_id: str) -> Recovery | None:
        """As `get`, which asks for the item and catches what that raises: each rule of each step asks."""
        return self.live.get(recovery_id) or self.ended.get(recovery_id)

    def __getitem__(self, recovery_id: str) -> Recovery:
        found = self.live.get(recovery_id)
        return self.ended[recovery_id] if found is None else found

    def __iter__(self) -> Iterator[str]:
        return chain(self.live, self.ended)

    def __len__(self) -> int:
        return len(self.live) + len(self.ended)


def _topics(recovery: Recovery) -> tuple[tuple[str, str], tuple[str, str]]:
    source, target = recovery.spec.source, recovery.spec.target
    return (source.cluster, source.topic), (target.cluster, target.topic)


def copied_by(recoveries: Iterable[Recovery]) -> dict[tuple[str, str], Copied]:
    """What these recoveries copied, by (cluster, topic) of source and target."""
    found: dict[tuple[str, str], Copied] = {}
    for recovery in recoveries:
        progress = recovery.progress
        records, size = progress.records, progress.bytes
        if records == 0 == size:
            continue
        source, target = recovery.spec.source, recovery.spec.target
        for key, into in (((source.cluster, source.topic), 0), ((target.cluster, target.topic), records)):
            found[key] = found.get(key, Copied()).plus(Copied(into, records, size))
    return found


def _moved(totals: EndedTotals, left: Iterable[Recovery], joined: Iterable[Recovery]) -> EndedTotals:
    left, joined = tuple(left), tuple(joined)
    counts = Counter(totals.counts)
    counts.update((r.kind, r.state) for r in joined)
    counts.subtract((r.kind, r.state) for r in left)
    copied = dict(totals.copied)
    for part, times in ((left, -1), (joined, 1)):
        for key, one in copied_by(part).items():
            copied[key] = copied.get(key, Copied()).plus(one, times)
    return EndedTotals(
        {key: count for key, count in counts.items() if count},
        {key: one for key, one in copied.items() if one != Copied()},
    )
