"""Which of the journal's transactions landed, told by its topics alone: no reading here, only judging what was read.

The broker's word is not enough. It may call a transaction committed and forget its marker (`journal_session` says
how); its coordinator then no longer knows which partitions were in it, and what it knows is gone with the next client.
So every record says of which transaction it is. `series` is one hold of a leader on the journal. In it the next
`number` is only given once the one before was acknowledged, and `attempt` counts what was tried under a number. Hence:

    a later number of the series was seen       the last attempt of this one landed
    the last attempt of the last number         landed if a reader sees one of its records, or if all of them are there
                                                and no marker ended any

The second half of the last line may make a transaction visible that nobody was told of. That is allowed: it is whole,
whoever wrote it is shut out, and finds it when it looks what became of it.

That it is whole is true only until an abort, and so is the word of a leader who was told and is gone. So before a marker
is written for it, a record that is aborted says in another partition that it landed: an abort takes nothing of that away.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Final

from recoveryd.adapters.kafka.transactions import OutgoingKafkaRecord

STAMP_HEADER: Final = "recoveryd-transaction"
COPY_HEADER: Final = "recoveryd-copy-of"  # the offset of the record that this one brings back
LANDED_HEADER: Final = "recoveryd-landed"  # up to which number of a series all landed

_OURS: Final = frozenset({STAMP_HEADER, COPY_HEADER, LANDED_HEADER})

Place = tuple[str, int]  # topic, partition
Transaction = tuple[str, int]  # series and number
Acknowledged = Mapping[str, int]  # by series, the last number that we know to have landed


@dataclass(frozen=True, slots=True)
class Stamp:
    """Of which transaction a record is; `count` is how many records that has."""

    series: str
    number: int
    attempt: int
    count: int

    def header(self) -> tuple[str, bytes]:
        return STAMP_HEADER, f"{self.series}.{self.number}.{self.attempt}.{self.count}".encode()


def read_stamp(headers: Sequence[tuple[str, bytes | None]]) -> Stamp | None:
    """None where there is none, as in what earlier versions wrote."""
    series, *numbers = (dict(headers).get(STAMP_HEADER) or b"").decode(errors="replace").split(".")
    if len(numbers) != 3 or not all(number.isdecimal() for number in numbers):
        return None
    return Stamp(series, *map(int, numbers))


def landed_header(transaction: Transaction) -> tuple[str, bytes]:
    return LANDED_HEADER, f"{transaction[0]}.{transaction[1]}".encode()


def read_landed(headers: Sequence[tuple[str, bytes | None]]) -> Iterator[Transaction]:
    for name, value in headers:
        series, _, number = (value or b"").decode(errors="replace").partition(".")
        if name == LANDED_HEADER and number.isdecimal():
            yield series, int(number)


@dataclass(frozen=True, slots=True)
class HiddenRecord:
    """A record that no reader of committed records sees. `copy_of`: the offset of what it was to bring back. `told`:
    transactions that it says landed.
    """

    offset: int
    stamp: Stamp | None
    record: OutgoingKafkaRecord  # as it was before it was stamped
    copy_of: int | None = None
    told: tuple[Transaction, ...] = ()


def read_found(offset: int, record: OutgoingKafkaRecord) -> HiddenRecord:
    told = (dict(record.headers).get(COPY_HEADER) or b"").decode(errors="replace")
    kept = tuple((name, value) for name, value in record.headers if name not in _OURS)
    stamp = read_stamp(record.headers)
    copy_of = int(told) if told.isdecimal() else None
    return HiddenRecord(offset, stamp, replace(record, headers=kept), copy_of, tuple(read_landed(record.headers)))


@dataclass(frozen=True, slots=True)
class PartitionTail:
    """One partition behind the last record of it that readers see, whose stamp is `seen`: from there to `end` only
    `found` and markers. What lies at or behind `stable` is not decided. `told`: what the record that is seen says landed.
    """

    place: Place
    stable: int
    end: int
    seen: Stamp | None
    found: Sequence[HiddenRecord]
    told: tuple[Transaction, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.stable < self.end

    def all_told(self) -> Iterator[Transaction]:
        yield from self.told
        for each in self.found:
            yield from each.told

    def undecided(self) -> list[HiddenRecord]:
        """What has a stamp and lies where nothing is decided, in order."""
        return [each for each in self.found if each.offset >= self.stable and each.stamp is not None]

    def unmarked(self) -> list[HiddenRecord]:
        """What has certainly no marker of ours behind it. Where a record of ours is the first that is not decided, that
        is all behind it, since a marker would have decided that one too. Where others hold readers up there, only what
        nothing but our records follows, because a marker takes an offset and does not say whose it is.
        """
        if (undecided := self.undecided()) and undecided[0].offset == self.stable:
            return undecided
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


@dataclass(frozen=True, slots=True)
class Judgement:
    """What has to be done, each in turn and looked at again. `commit`: partitions in which landed records wait for a
    marker. `abort`: those in which something is open that did not land, or is nobody's. `lost`: landed records, in
    order, that no marker can bring back. `unmarked`: of the first two, where a record of ours has certainly no marker
    behind it; elsewhere it may be a foreign transaction that holds readers up, and to do it once is enough. `unproven`:
    what landed there, and of which nothing that an abort leaves says so; `free`: partitions where nothing is open. `told`: by
    series, up to which number the topics themselves say that all landed; their records may have been brought back since.
    """

    commit: Sequence[Place] = ()
    abort: Sequence[Place] = ()
    lost: Sequence[OutgoingKafkaRecord] = ()
    landed: frozenset[Stamp] = frozenset()
    unmarked: frozenset[Place] = frozenset()
    unproven: Sequence[Transaction] = ()
    free: Sequence[Place] = ()
    told: Mapping[str, int] = field(default_factory=dict)


def judge(tails: Sequence[PartitionTail], acknowledged: Acknowledged, given_up: Transaction | None = None) -> Judgement:
    """Call it with what the newest client read, with no transaction of the journal under way. `given_up`: what counts as
    dead unless it is seen, since nobody asked to commit it.
    """
    told = _newest([each for tail in tails for each in tail.all_told()])
    unmarked = Counter(each.stamp for tail in tails for each in tail.unmarked())
    whole = {
        stamp
        for stamp, count in unmarked.items()
        if stamp is not None and stamp.count == count and (stamp.series, stamp.number) != given_up
    }
    landed = frozenset(_landed(tails, _newest([*told.items(), *acknowledged.items()]), whole))
    proven = frozenset(_landed(tails, told, set()))
    commit: list[Place] = []
    abort: list[Place] = []
    lost: list[OutgoingKafkaRecord] = []
    ours: set[Place] = set()
    for tail in tails:
        if tail.is_open:
            (commit if tail.is_covered(landed) else abort).append(tail.place)
            ours |= {tail.place} if any(each.stamp for each in tail.unmarked()) else set()
        lost += _lost(tail, landed)
    waiting = {each.stamp for tail in tails for each in tail.undecided() if each.stamp in landed - proven}
    unproven = _newest([(stamp.series, stamp.number) for stamp in waiting if stamp is not None])
    free = tuple(tail.place for tail in tails if not tail.is_open)
    return Judgement(commit, abort, lost, landed, frozenset(ours), tuple(unproven.items()), free, told)


def _newest(transactions: Sequence[Transaction]) -> dict[str, int]:
    return {series: max(n for name, n in transactions if name == series) for series, _number in transactions}


def _lost(tail: PartitionTail, landed: frozenset[Stamp]) -> Iterator[OutgoingKafkaRecord]:
    """What is decided and nobody sees was aborted. A copy may have been taken away as well: it stands for both."""
    mine = [each for each in tail.found if each.stamp in landed]
    copied = {each.copy_of for each in mine}
    for each in mine:
        if each.offset < tail.stable and each.offset not in copied:
            of = COPY_HEADER, str(each.offset).encode()
            told = [*each.told, (each.stamp.series, each.stamp.number)] if each.stamp is not None else []
            yield replace(each.record, headers=(*each.record.headers, of, *map(landed_header, told)))


def _landed(tails: Sequence[PartitionTail], known: Acknowledged, whole: set[Stamp]) -> Iterator[Stamp]:
    seen = {tail.seen for tail in tails if tail.seen is not None}
    stamps = seen | {each.stamp for tail in tails for each in tail.found if each.stamp is not None}
    newest: dict[tuple[str, int], int] = {}
    last: dict[str, int] = {}
    for stamp in stamps:
        key = stamp.series, stamp.number
        newest[key] = max(newest.get(key, 0), stamp.attempt)
        last[stamp.series] = max(last.get(stamp.series, known.get(stamp.series, 0) + 1), stamp.number)
    for stamp in stamps:
        is_newest = stamp.attempt == newest[stamp.series, stamp.number]
        if is_newest and (stamp.number < last[stamp.series] or stamp in seen or stamp in whole):
            yield stamp
