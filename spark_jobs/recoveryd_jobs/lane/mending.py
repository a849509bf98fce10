"""What a lane does before it writes on after a fence or an abort: it makes the target hold what the receipts claim, and
the receipts claim what the target holds. `recoveryd_jobs.lane.lost_markers` says why they may differ, and judges.

    ends what this lane left open      one record of its own and an abort: that marker ends the forgotten ones too
    waits                              where another producer's open transaction hides whether records landed
    writes again                       records that landed and no reader sees, as they lie in the target's log, with
                                       their receipts corrected, all in one transaction

The client library cannot commit a transaction that has no record in a partition, so what landed and waits for its
marker is ended and written again as well. Killed in between, the next attempt finds and does the rest: nothing else is
written before readers see what landed. A lane that goes on without an abort does nothing of all this, because its next
commit counts for what is open; when it comes to rest, `recoveryd_jobs.lane.markers` looks whether there is still
something.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from recoveryd_jobs.contract import JobSpec, LaneSpec, Receipt
from recoveryd_jobs.errors import Doubt, JobError
from recoveryd_jobs.lane.lost_markers import (
    Open,
    Piece,
    Runs,
    Unseen,
    all_go_on,
    landed,
    left_open,
    not_seen,
    pieces_of,
    target_partitions,
)
from recoveryd_jobs.receipts import FoundReceipt
from recoveryd_jobs.topics import LogBounds

_ROUNDS: Final = 5
_PAUSE_S: Final = 0.2
_MARKERS_S: Final = 10.0
_FIRST_LOOK_S: Final = 0.02
_CALM_S: Final = 1.0

Waiting = Callable[[str], None]


class LoggedRecord(NamedTuple):
    """A record as it lies in the target's log."""

    offset: int
    key: bytes | None
    value: bytes | None
    time_ms: int
    headers: Sequence[tuple[str, bytes | None]] | None


class Logs(Protocol):
    """The target's partitions and the lane's partition of the ledger, whoever may read them. Each raises Doubt when the
    cluster does not answer.
    """

    def target(self, partitions: Iterable[int]) -> dict[int, LogBounds]: ...

    def ledger(self) -> LogBounds: ...

    def receipts(self, first: int, stop: int) -> list[Unseen]:
        """The lane's receipts between these offsets of the ledger, also what is open or was aborted."""
        ...

    def is_ours(self, offset: int) -> bool:
        """Whether the record at this offset of the ledger is this lane's."""
        ...

    def seen(self, wanted: Mapping[int, Runs]) -> Collection[int]:
        """The target partitions in which a committed reader sees a record at one of these offsets."""
        ...

    def records(self, partition: int, runs: Runs) -> list[LoggedRecord]:
        """What lies at these offsets of a target partition, also what is open or was aborted."""
        ...


class Pen(Protocol):
    """Writes as this lane. Each raises Doubt."""

    def end_open(self, partitions: Sequence[int], *, ledger: bool) -> Mapping[int, int]:
        """A record and an abort in these partitions of the target, and in the ledger's. Returns where the record lies,
        by target partition. Another producer's open transaction takes no harm.
        """
        ...

    def write_again(
        self, receipts: Sequence[Receipt], records: Mapping[int, Sequence[LoggedRecord]], ledger: int
    ) -> None:
        """One transaction: `records` by target partition, and the receipts, corrected, to a partition of the ledger."""
        ...


@dataclass(frozen=True, slots=True)
class _Known:
    """`found`: what readers see; `more`: receipts that they do not see, of chunks that landed; `landed`: those and all
    others of the lane; `claimed`: where what landed ends, by target partition; `ours`: all that the lane is known to
    have written. `is_short`: what was read may not tell all of this.
    """

    found: FoundReceipt
    more: Sequence[Receipt]
    landed: Sequence[Receipt]
    is_short: bool
    claimed: Mapping[int, int]
    ours: Mapping[int, Sequence[Piece]]


class Mender:
    """Call `settle` right after `init_transactions` or an abort. `read` reads the ledger up to an offset (None = its
    end), as a whole or from the newest head on; `floors`: by source partition, what somebody counts on.
    """

    def __init__(
        self,
        spec: JobSpec,
        lane: LaneSpec,
        logs: Logs,
        pen: Pen,
        read: Callable[[int | None, bool], FoundReceipt],
        waiting: Waiting,
        floors: Mapping[int, int],
    ) -> None:
        self._spec, self._lane = spec, lane
        self._logs, self._pen, self._read, self._waiting = logs, pen, read, waiting
        self._floors = floors
        self._partitions = target_partitions(spec, lane)
        self._suspects = set(self._partitions)  # target partitions in which something was open at each look
        self._ended: set[tuple[int, int]] = set()  # target partition, and where what was open there began
        self._give_up_s = time.monotonic() + spec.stop_wait_ms / 1000.0

    def settle(self) -> FoundReceipt:
        """The ledger, once the target holds what it claims and claims all that landed. Raises Doubt, or JobError
        `stop_blocked` where others do not end, `ledger_broken` where what landed is gone for good.
        """
        for _ in range(_ROUNDS):
            self._calm_down()
            end, is_open = self._readable_end()
            known = self._know(self._read(end, False), end)
            if _newest_attempt(known.found) > self._spec.attempt:
                return known.found  # that attempt sees to it
            if known.found.head is not None and not self._is_sound(known, is_open):
                known = self._know(self._read(end, True), end)
            if not self._mend(known, is_open):
                return known.found
        raise Doubt("a broker forgets the markers of what was written again")

    def _calm_down(self) -> None:
        """Markers come a moment after a transaction is ended. What stays open for longer may lack its own."""
        give_up_s, pause_s = time.monotonic() + _CALM_S, _FIRST_LOOK_S
        while time.monotonic() < give_up_s:
            if all(b.stable >= b.high for b in (self._logs.ledger(), *self._logs.target(self._partitions).values())):
                return
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _PAUSE_S)

    def _readable_end(self) -> tuple[int | None, bool]:
        """How far receipts can be read, and whether what lies there is an open transaction of this lane."""
        if self._spec.receipts is None:
            return None, False
        wanted = self._logs.ledger().high
        while True:
            bounds = self._logs.ledger()
            if bounds.stable >= wanted:
                return bounds.stable, False
            if self._logs.is_ours(bounds.stable):
                return bounds.stable, True
            place = self._spec.receipts
            self._wait(f"{place.topic} partition {place.partition}", bounds)

    def _know(self, found: FoundReceipt, end: int | None) -> _Known:
        number = self._lane.lane
        mine = [r for r in found.receipts if r.lane == number]
        unseen = [] if end is None else self._logs.receipts(found.seen_to + 1, self._logs.ledger().high)
        ours = pieces_of([*mine, *(u.receipt for u in unseen)])
        if found.head is None:
            self._await_others(ours)
        positions = {r.partition: r.start for r in self._lane.partitions}
        claimed = dict(found.head.claimed) if found.head is not None else {}
        for row in found.head.rows if found.head is not None else ():
            positions[row.partition] = row.position
        for receipt in mine:
            positions[receipt.partition] = max(positions.get(receipt.partition, 0), receipt.stop)
        # Asked before readers are: what has not ended yet, they may see later.
        have_ended = found.head is not None and self._have_ended(unseen, end or 0)
        more = landed(unseen, mine, positions, self._floors, end or 0, self._sees)
        are_given_up = have_ended and not more and all_go_on(unseen, positions)
        all_landed = [*{r.key: r for r in [*mine, *more]}.values()]
        for partition, pieces in pieces_of(all_landed).items():
            claimed[partition] = max(claimed.get(partition, 0), *(each.end for each in pieces))
        return _Known(found, more, all_landed, found.head is not None and not are_given_up, claimed, ours)

    def _have_ended(self, unseen: Sequence[Unseen], end: int) -> bool:
        """Whether the transactions of these receipts ended, in the ledger and wherever their records lie: what no
        reader sees of them now, none ever will.
        """
        ends = {p: max(each.end for each in pieces) for p, pieces in pieces_of(u.receipt for u in unseen).items()}
        bounds = self._logs.target(ends)
        return all(u.offset < end for u in unseen) and all(bounds[p].stable >= at for p, at in ends.items())

    def _await_others(self, ours: Mapping[int, Sequence[Piece]]) -> None:
        """Until nobody else's open transaction hides whether records of ours are seen."""
        ends = {p: max(each.end for each in pieces) for p, pieces in ours.items()}
        while True:
            bounds = self._logs.target(self._partitions)
            found = left_open(bounds, ends, ours)
            if not found.unknown:
                return
            perhaps = [p for p in self._perhaps_ours(found, bounds) if p in found.unknown]
            if perhaps:
                self._waiting("ends transactions that may have lost their end")
                self._end(perhaps, (), bounds, is_open=False)
            else:
                self._wait(f"{self._spec.target.topic} partition {found.unknown[0]}", bounds[found.unknown[0]])

    def _sees(self, wanted: Mapping[int, Runs]) -> Collection[int]:
        return self._logs.seen(wanted) if wanted else ()

    def _is_sound(self, known: _Known, is_open: bool) -> bool:
        """Whether a reader sees where each claim ends. Behind what is seen nothing is lacking. Otherwise the receipts
        before the head have to be known.
        """
        if is_open or known.is_short:
            return False
        bounds = self._logs.target(self._partitions)
        ends = {p: end for p, end in known.claimed.items() if p in bounds and end > bounds[p].start}
        if any(bounds[p].stable < end for p, end in ends.items()):
            return False
        return len(ends) == len(self._logs.seen({p: ((end - 1, 1),) for p, end in ends.items()}))

    def _mend(self, known: _Known, is_open: bool) -> bool:
        """Whether anything was done after which the ledger has to be read again."""
        bounds = self._end_open(known, is_open)
        starts = {p: each.start for p, each in bounds.items()}
        pieces = pieces_of(known.landed)
        if known.found.head is not None:  # and each claim is sound
            pieces = {}
        lost = not_seen({p: found for p, found in pieces.items() if p in bounds}, starts, self._logs.seen)
        records: dict[int, list[LoggedRecord]] = {}
        chunks = {receipt.chunk for receipt in known.more}
        for piece in sorted(lost, key=lambda each: each.chunk):
            if rows := self._records(piece):
                records.setdefault(piece.partition, []).extend(rows)
                chunks.add(piece.chunk)
        if chunks:
            self._waiting("writes again what a broker forgot to commit")
            self._pen.write_again([r for r in known.landed if r.chunk in chunks], records, known.found.partition)
        return bool(chunks) or is_open

    def _end_open(self, known: _Known, is_open: bool) -> dict[int, LogBounds]:
        while True:
            bounds = self._logs.target(self._partitions)
            found = left_open(bounds, known.claimed, known.ours)
            perhaps = self._perhaps_ours(found, bounds)
            if found.ours or perhaps or is_open:
                self._waiting("ends transactions that lost their end")
                self._end([*found.ours, *perhaps], found.ours, bounds, is_open=is_open)
                is_open = False
            elif not found.unknown:
                return bounds
            else:
                partition = found.unknown[0]
                self._wait(f"{self._spec.target.topic} partition {partition}", bounds[partition])

    def _perhaps_ours(self, found: Open, bounds: Mapping[int, LogBounds]) -> list[int]:
        """Of the partitions where nobody knows: another's transaction takes no harm by an end of ours, and what landed
        in one of ours is written again. What was closed at one look is only others' when it is open at the next, and
        where they write all the time something is open at each.
        """
        self._suspects.intersection_update({*found.ours, *found.perhaps, *found.unknown})
        often = Counter(partition for partition, _ in self._ended)
        suspects = [p for p in (*found.perhaps, *found.unknown) if p in self._suspects and often[p] < _ROUNDS]
        return [p for p in suspects if (p, bounds[p].stable) not in self._ended]

    def _end(
        self, partitions: Sequence[int], ours: Collection[int], before: Mapping[int, LogBounds], *, is_open: bool
    ) -> None:
        """And wait until the markers are there: they come a moment after the abort is answered."""
        begun = self._logs.ledger().stable
        records = self._pen.end_open(partitions, ledger=is_open)
        self._ended |= {(p, before[p].stable) for p in partitions}
        give_up_s, pause_s = time.monotonic() + _MARKERS_S, _FIRST_LOOK_S
        while True:
            now = self._logs.target(partitions)
            # Where it may be another's transaction, the marker is known by the offset that it takes.
            left = [
                p
                for p, each in now.items()
                if each.stable == before[p].stable and (p in ours or each.high <= records[p] + 1)
            ]
            if not left and not (is_open and self._logs.ledger().stable == begun):
                return
            if time.monotonic() >= give_up_s:
                raise Doubt(f"a broker forgets the markers of aborts; in the target's partitions {left}")
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _PAUSE_S)

    def _records(self, piece: Piece) -> list[LoggedRecord]:
        """None at all of what compaction took whole: whether it was seen before, nobody can tell any more."""
        found = self._logs.records(piece.partition, piece.runs)
        wanted = sum(count for _, count in piece.runs)
        if found and len(found) != wanted:
            raise JobError(
                "ledger_broken",
                f"A broker forgot to commit {wanted} records of {self._spec.target.topic} partition {piece.partition} "
                f"before offset {piece.end}, and only {len(found)} of them are left to be written again.",
            )
        return found

    def _wait(self, where: str, bounds: LogBounds) -> None:
        why = f"holds {where} at {bounds.stable}, its end is {bounds.high}"
        if time.monotonic() > self._give_up_s:
            raise JobError("stop_blocked", f"A foreign transaction {why}.")
        self._waiting(f"waits for another producer's transaction, which {why}")
        time.sleep(_PAUSE_S)


def _newest_attempt(found: FoundReceipt) -> int:
    return max([found.newest_attempt, *(r.attempt for r in (found.head, *found.receipts) if r is not None)])


def moved(receipt: Receipt, new: Mapping[tuple[int, int], int], attempt: int) -> Receipt:
    """The receipt after this attempt wrote records again; `new`: their offsets by target partition and old offset."""
    targets = []
    for run in receipt.targets:
        old = [at for first, count in run.runs for at in range(first, first + count)]
        if all((run.partition, at) in new for at in old):
            run = replace(run, runs=as_runs(sorted(new[run.partition, at] for at in old)))  # noqa: PLW2901
        targets.append(run)
    return replace(receipt, attempt=attempt, targets=tuple(targets))


def as_runs(offsets: Iterable[int]) -> Runs:
    """`offsets` in order."""
    runs: list[tuple[int, int]] = []
    for at in offsets:
        if runs and sum(runs[-1]) == at:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((at, 1))
    return tuple(runs)
