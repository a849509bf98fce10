"""The last part of a partition of the journal: what readers do not see there, and what they saw last.

Others may write to these topics too. What they write and readers see is passed over, so that it hides neither a record
that was taken away nor the last one of ours that is seen.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, Protocol

from recoveryd.adapters.kafka.journal_stamps import HiddenRecord, Stamp, Transaction

LOOK_BACK: Final = 64  # offsets; the journal's last record is seldom further from the end
_WIDER: Final = 16

Place = tuple[str, int]  # topic, partition


class Log(Protocol):
    """One partition, by ranges of offsets. Raises `ClusterProblem`."""

    @property
    def start(self) -> int: ...

    @property
    def stable(self) -> int: ...

    @property
    def end(self) -> int: ...

    def seen(self, start: int, stop: int) -> Iterable[HiddenRecord]:
        """What readers of committed records see."""
        ...

    def all(self, start: int, stop: int) -> Iterable[HiddenRecord]:
        """What is open or aborted too."""
        ...


@dataclass(frozen=True, slots=True)
class PartitionTail:
    """`found` is what readers do not see, up to `end`, behind the last record of ours that they see. What lies at or
    behind `stable` is not decided. `seen`: stamps of what they saw last. `told`: what both say landed. `since`: the
    series that came after a leader who stamps nothing, as in earlier releases, None where none is among what they saw.
    """

    place: Place
    stable: int
    end: int
    seen: frozenset[Stamp]
    found: Sequence[HiddenRecord]
    told: tuple[Transaction, ...] = ()
    since: frozenset[str] | None = None

    @property
    def is_open(self) -> bool:
        return self.stable < self.end

    @property
    def is_ours(self) -> bool:
        """Whether a record of ours is the first that is not decided."""
        return any(each.offset == self.stable for each in self.undecided())

    def undecided(self) -> list[HiddenRecord]:
        """What has a stamp and lies where nothing is decided, in order."""
        return [each for each in self.found if each.offset >= self.stable and each.stamp is not None]

    def unmarked(self) -> list[HiddenRecord]:
        """What has certainly no marker of ours behind it. Where a record of ours is the first that is not decided, that
        is all behind it, since a marker would have decided that one too. Where others hold readers up there, only what
        nothing but our records follows, because a marker takes an offset and does not say whose it is.
        """
        if self.is_ours:
            return self.undecided()
        ends = zip(range(self.end - 1, self.stable - 1, -1), reversed(self.found), strict=False)
        return [found for _, found in takewhile(lambda pair: pair[0] == pair[1].offset, ends)]

    def is_covered(self, landed: frozenset[Stamp]) -> bool:
        """Whether something landed is not decided and nothing dead can be open behind it, so that a commit marker shows
        that alone.
        """
        undecided = self.undecided()
        last = max((each.offset for each in undecided if each.stamp in landed), default=self.end)
        dead = [each for each in undecided if each.stamp not in landed and each.offset > last]
        return last < self.end and not dead and landed.issuperset(each.stamp for each in self.unmarked())


def make_tail(place: Place, log: Log) -> PartitionTail:
    first, seen = _last_seen(log)
    ours = [each for each in seen if each.stamp is not None]
    behind = ours[-1].offset + 1 if ours else first
    found: list[HiddenRecord] = []
    if log.end - behind > 1 or log.stable < log.end:  # else the marker of the last one, or nothing
        visible = {each.offset for each in seen}
        found = [
            each
            for each in log.all(behind, log.end)
            if each.offset not in visible and (each.stamp is not None or each.offset >= log.stable)
        ]
    stamps = frozenset(each.stamp for each in ours if each.stamp is not None)
    return PartitionTail(
        place, log.stable, log.end, stamps, found, tuple(_told([*seen, *found])), _since(seen, [*ours, *found])
    )


def _last_seen(log: Log) -> tuple[int, list[HiddenRecord]]:
    """Where the last part begins in which readers see anything, and what that is."""
    back = LOOK_BACK
    while log.start < log.stable:
        first = max(log.start, log.stable - back)
        seen = list(log.seen(first, log.stable))
        if seen or first == log.start:
            return first, seen
        back *= _WIDER
    return log.start, []


def _since(seen: Iterable[HiddenRecord], stamped: Iterable[HiddenRecord]) -> frozenset[str] | None:
    last = max((each.offset for each in seen if each.is_mark and each.stamp is None), default=None)
    if last is None:
        return None
    return frozenset(each.stamp.series for each in stamped if each.stamp is not None and each.offset > last)


def _told(these: Iterable[HiddenRecord]) -> Iterator[Transaction]:
    for each in these:
        yield from each.told
