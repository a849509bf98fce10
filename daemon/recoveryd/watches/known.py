"""All watches of a daemon: the journaled records, and what was observed, which a new daemon samples again. All watches
share one book of lag windows, since two may watch the same group.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from recoveryd.kernel.known import KnownNouns, live_and_ended
from recoveryd.live.lag.book import LagBook, Reader, without_unwatched
from recoveryd.watches.clauses import Judged
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
    newest that was `answered` while it knew them. `judged`: what was found of each reader, while it looks.
    """

    span: Span | None = None
    called_ms: int = 0
    journaled_ms: int = 0
    missing: int = 0
    narrow: Mapping[str, int] = field(default_factory=dict)
    asked: int = 0
    void: int = 0
    answered: int = 0
    judged: Mapping[Reader, Judged] = field(default_factory=dict)

    @property
    def is_answered(self) -> bool:
        """Whether this daemon was told how far the application is since it knows all commands."""
        return self.answered > self.void


@dataclass(frozen=True, slots=True)
class Watches(KnownNouns[Watch]):
    """`planned` are the partitions a reader's topic had at the last look. `waiting`: by reader, the ids of the watches
    that wait for looks at it, in the order of `live`; a look at a group comes for each of thousands of readers.
    """

    seen: Mapping[str, WatchSeen] = field(default_factory=dict)
    planned: Mapping[Reader, tuple[int, ...]] = field(default_factory=dict)
    book: LagBook = LagBook()
    waiting: Mapping[Reader, tuple[str, ...]] = field(default_factory=dict)

    @staticmethod
    def of(watches: Iterable[Watch]) -> "Watches":
        """The watches as a new daemon knows them."""
        live, ended = live_and_ended(watches, lambda watch: watch.is_terminal)
        return Watches(live, ended, waiting=_waiting(live.values()))

    def seen_of(self, watch_id: str) -> WatchSeen:
        return self.seen.get(watch_id) or WatchSeen()

    def __len__(self) -> int:
        return len(self.live) + len(self.ended)

    def with_watch(self, watch: Watch) -> "Watches":
        """These, with a new or changed watch; what was observed for one that ended is dropped."""
        before = self.live.get(watch.id)
        live = (
            {i: w for i, w in self.live.items() if i != watch.id}
            if watch.is_terminal
            else {**self.live, watch.id: watch}
        )
        # What a watch asks for stays the same: only its begin and its end change for which readers it waits.
        is_same = (before is not None and _needs_looks(before)) is _needs_looks(watch)
        made = replace(self, live=live, waiting=self.waiting if is_same else _waiting(live.values()))
        if not watch.is_terminal:
            return made
        seen = {i: s for i, s in self.seen.items() if i != watch.id}
        return replace(made, ended={**self.ended, watch.id: watch}, seen=seen).without_idle_readers()

    def with_seen(self, watch_id: str, seen: WatchSeen) -> "Watches":
        return replace(self, seen={**self.seen, watch_id: seen})

    def without_idle_readers(self) -> "Watches":
        """These, without the lag windows of readers that no live watch needs."""
        book = without_unwatched(self.book, self.waiting)
        if book is self.book and self.planned.keys() <= self.waiting.keys():
            return self
        planned = {reader: partitions for reader, partitions in self.planned.items() if reader in self.waiting}
        return replace(self, planned=planned, book=book)


def readers_of(watch: Watch) -> tuple[Reader, ...]:
    spec = watch.spec
    return tuple(Reader(spec.cluster, topic, spec.group) for topic in spec.topics)


def _waiting(live: Iterable[Watch]) -> Mapping[Reader, tuple[str, ...]]:
    waiting: dict[Reader, tuple[str, ...]] = {}
    for watch in filter(_needs_looks, live):
        for reader in readers_of(watch):
            waiting[reader] = (*waiting.get(reader, ()), watch.id)
    return waiting


def _needs_looks(watch: Watch) -> bool:
    """Whether it waits for looks at its group. A watch until a time needs none."""
    return watch.is_looking and not isinstance(watch.spec.until, UntilTime)


def readers_in_play(watches: Watches) -> tuple[Reader, ...]:
    """The readers that the collector must sample now, each once, in the order of the watches."""
    return tuple(watches.waiting)


def watch_that_stops(watches: Watches, cluster: str, group: str) -> str | None:
    """The sentence that names a live watch which will stop the application of this group, or None."""
    for watch in watches.live.values():
        spec = watch.spec
        if isinstance(spec.then, StopUnit) and (spec.cluster, spec.group) == (cluster, group):
            return f"watch {watch.id} stops {spec.then.unit} once its condition holds"
    return None
