"""Which of the journal's transactions landed, told by its topics alone: no reading here, only judging what was read.

The broker's word is not enough. It may call a transaction committed and forget its marker (`journal_mending` says
how); its coordinator then no longer knows which partitions were in it, and what it knows is gone with the next client.
So every record says of which transaction it is (`journal_stamps`). Hence:

    a later number of the series was seen       the last attempt of this one landed
    the last attempt of the last number         landed if a reader sees one of its records, or if all of them are there
                                                and no marker ended any

The second half of the last line may make a transaction visible that nobody was told of. That is allowed: it is whole,
whoever wrote it is shut out, and finds it when it looks what became of it.

That it is whole is true only until an abort, and so is the word of a leader who was told and is gone. So before a
marker is written for it, a record that is aborted says in another partition that it landed: an abort takes nothing of
that away.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from recoveryd.adapters.kafka.journal_stamps import HiddenRecord, Stamp, Transaction
from recoveryd.adapters.kafka.journal_tails import PartitionTail, Place

Acknowledged = Mapping[str, int]  # by series, the last number that we know to have landed


@dataclass(frozen=True, slots=True)
class Judgement:
    """What has to be done, each in turn and looked at again.

    `commit`: partitions in which landed records wait for a marker. `abort`: those in which something is open that did
    not land, or is nobody's. `unmarked`: of both, where a record of ours has certainly no marker behind it; elsewhere
    it may be a foreign transaction that holds readers up, and to do it once is enough. `lost`: landed records, in
    order, that no marker can bring back. `unproven`: what landed and is open, and of which nothing that an abort leaves
    says so. `free`: partitions where nothing is open. `told`: by series, up to which number the topics themselves say
    that all landed; their records may have been brought back since. `held_up`: from which offset on a foreign
    transaction keeps readers from seeing anything.
    """

    commit: Sequence[Place] = ()
    abort: Sequence[Place] = ()
    lost: Sequence[tuple[Place, HiddenRecord]] = ()
    landed: frozenset[Stamp] = frozenset()
    unmarked: frozenset[Place] = frozenset()
    unproven: Sequence[Transaction] = ()
    free: Sequence[Place] = ()
    told: Mapping[str, int] = field(default_factory=dict)
    held_up: Mapping[Place, int] = field(default_factory=dict)


def judge(tails: Sequence[PartitionTail], acknowledged: Acknowledged, given_up: Transaction | None = None) -> Judgement:
    """Call it with what the newest client read, with no transaction of the journal under way. `given_up`: what counts
    as dead unless it is seen, since nobody asked to commit it.
    """
    told = _newest(each for tail in tails for each in tail.told)
    counts = Counter(each.stamp for tail in tails for each in tail.unmarked() if each.stamp is not None)
    whole = {stamp for stamp, count in counts.items() if stamp.count == count and stamp.transaction != given_up}
    landed = frozenset(_landed(tails, _newest([*told.items(), *acknowledged.items()]), whole))
    proven = frozenset(_landed(tails, told, set()))
    waiting = {each.stamp for tail in tails for each in tail.undecided()} & (landed - proven)
    since = [tail.since.union(acknowledged) for tail in tails if tail.since is not None]
    open_tails = [tail for tail in tails if tail.is_open]
    return Judgement(
        commit=[tail.place for tail in open_tails if tail.is_covered(landed)],
        abort=[tail.place for tail in open_tails if not tail.is_covered(landed)],
        lost=[(tail.place, found) for tail in tails for found in _lost(tail, landed) if _is_wanted(found, since)],
        landed=landed,
        unmarked=frozenset(tail.place for tail in open_tails if any(each.stamp for each in tail.unmarked())),
        unproven=tuple(_newest(stamp.transaction for stamp in waiting if stamp is not None).items()),
        free=tuple(tail.place for tail in tails if not tail.is_open),
        told=told,
        held_up={tail.place: tail.stable for tail in open_tails if not tail.is_ours},
    )


def _newest(transactions: Iterable[Transaction]) -> dict[str, int]:
    newest: dict[str, int] = {}
    for series, number in transactions:
        newest[series] = max(newest.get(series, 0), number)
    return newest


def _lost(tail: PartitionTail, landed: frozenset[Stamp]) -> Iterator[HiddenRecord]:
    """What is decided and nobody sees was aborted. A copy may have been taken away as well: it stands for both."""
    mine = [each for each in tail.found if each.stamp in landed]
    copied = {each.copy_of for each in mine}
    return (each for each in mine if each.offset < tail.stable and each.offset not in copied)


def _is_wanted(lost: HiddenRecord, since: Sequence[frozenset[str]]) -> bool:
    """A leader of an earlier release looks for nothing that was taken away, and goes on without. What it wrote is
    newer, and would not count any more behind what is brought back.
    """
    return lost.stamp is not None and all(lost.stamp.series in series for series in since)


def _landed(tails: Sequence[PartitionTail], known: Acknowledged, whole: set[Stamp]) -> Iterator[Stamp]:
    seen = {stamp for tail in tails for stamp in tail.seen}
    stamps = seen | {each.stamp for tail in tails for each in tail.found if each.stamp is not None}
    newest: dict[Transaction, int] = {}
    last: dict[str, int] = {}
    for stamp in stamps:
        newest[stamp.transaction] = max(newest.get(stamp.transaction, 0), stamp.attempt)
        last[stamp.series] = max(last.get(stamp.series, known.get(stamp.series, 0) + 1), stamp.number)
    for stamp in stamps:
        is_newest = stamp.attempt == newest[stamp.transaction]
        if is_newest and (stamp.number < last[stamp.series] or stamp in seen or stamp in whole):
            yield stamp
