"""All watches of a daemon: the journaled records, and what was observed, which a new daemon samples again. All watches
share one book of lag windows, since two may watch the same group.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from recoveryd.kernel.known import KnownNouns
from recoveryd.live.lag.book import LagBook, Reader, without_unwatched
from recoveryd.watches.model import Watch
from recoveryd.watches.spec import StopUnit, UntilTime


@dataclass(frozen=True, slots=True)
class Span:
    """Evaluations in a row at which the group was caught up. `heard`: the readers looked at since the last evaluation
    that counted.
    """

    since_ms: int
    counted_ms: int
    count: int
    heard: frozenset[Reader]


@dataclass(frozen=True, slots=True)
class WatchSeen:
    """What is not journaled of one watch; a time of 0 means never. `missing`: looks in a row at which a topic did not
    exist, as the broker said, `narrow`: by topic, at which it had no such partition. Of an application that is to
    stop: the questions `asked` by this daemon, how many of them were `void` when it came to know all commands, and the
    newest that was `answered` while it knew them.
    """

    span: Span | None = None
    called_ms: int = 0
    journaled_ms: int = 0
    missing: int = 0
    narrow: Mapping[str, int] = field(default_factory=dict)
    asked: int = 0
    void: int = 0
    answered: int = 0

    @property
    def is_answered(self) -> bool:
        """Whether this daemon was told how far the application is since it knows all commands."""
        return self.answered > self.void


@dataclass(frozen=True, slots=True)
class Watches(KnownNouns[Watch]):
    """`planned` are the partitions a reader's topic had at the last look."""

    seen: Mapping[str, WatchSeen] = field(default_factory=dict)
    planned: Mapping[Reader, tuple[int, ...]] = field(default_factory=dict)
    book: LagBook = LagBook()

    @staticmethod
    def of(watches: Iterable[Watch]) -> "Watches":
        """The watches as a new daemon knows them."""
        made = Watches()
        for watch in watches:
            made = made.with_watch(watch)
        return made

    def seen_of(self, watch_id: str) -> WatchSeen:
        return self.seen.get(watch_id) or WatchSeen()

    def __len__(self) -> int:
        return len(self.live) + len(self.ended)

    def with_watch(self, watch: Watch) -> "Watches":
        """These, with a new or changed watch; what was observed for one that ended is dropped."""
        if not watch.is_terminal:
            return replace(self, live={**self.live, watch.id: watch})
        live = {i: w for i, w in self.live.items() if i != watch.id}
        seen = {i: s for i, s in self.seen.items() if i != watch.id}
        left = replace(self, live=live, ended={**self.ended, watch.id: watch}, seen=seen)
        return left.without_idle_readers()

    def with_seen(self, watch_id: str, seen: WatchSeen) -> "Watches":
        return replace(self, seen={**self.seen, watch_id: seen})

    def without_idle_readers(self) -> "Watches":
        """These, without the lag windows of readers that no live watch needs."""
        watched = frozenset(readers_in_play(self))
        book = without_unwatched(self.book, watched)
        if book is self.book and self.planned.keys() <= watched:
            return self
        planned = {reader: partitions for reader, partitions in self.planned.items() if reader in watched}
        return replace(self, planned=planned, book=book)


def readers_of(watch: Watch) -> tuple[Reader, ...]:
    spec = watch.spec
    return tuple(Reader(spec.cluster, topic, spec.group) for topic in spec.topics)


def readers_in_play(watches: Watches) -> tuple[Reader, ...]:
    """The readers that the collector must sample now, each once, in a stable order. A watch until a time needs none."""
    looking = (w for w in watches.live.values() if w.is_looking and not isinstance(w.spec.until, UntilTime))
    return tuple(dict.fromkeys(reader for watch in looking for reader in readers_of(watch)))


def watch_that_stops(watches: Watches, cluster: str, group: str) -> str | None:
    """The sentence that names a live watch which will stop the application of this group, or None."""
    for watch in watches.live.values():
        spec = watch.spec
        if isinstance(spec.then, StopUnit) and (spec.cluster, spec.group) == (cluster, group):
            return f"watch {watch.id} stops {spec.then.unit} once its condition holds"
    return None
