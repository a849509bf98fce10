"""Which chunks of a lane landed, and what of them no reader sees: no reading here, only judging what was read.

A broker that comes back from a freeze may find a partition without a leader for a moment, take it for deleted, and drop
the marker of a transaction whose end it has answered (Kafka 4.3, TransactionMarkerChannelManager: "likely deleted
already and hence can be skipped"). Nothing of Kafka's writes it later. What is left open there is decided by the next
marker of the same transactional id in that partition, whatever its transaction was:

    an abort was lost, the next one commits     duplicates
    a commit was lost in the target             its records go with the next abort, and the receipt stays
    a commit was lost in the ledger             its receipts go with the next abort, and the records stay
    a commit was lost and nothing comes         readers stand still before it

So whoever begins to write, and whoever aborted, compares the two sides first (`recoveryd_jobs.lane.mending`). Receipts
tell where records lie, and they are produced after all records of the chunk were confirmed, with a mark that says how
many receipts it has. Hence, of a chunk whose receipts no committed reader sees:

    one of its records is seen                  it landed
    the lane or the daemon counted on it        it landed
    one that landed goes on from where it ends  it landed: nobody begins there before the commit is answered
    all of its receipts are there, none ended   it may have landed; it is whole, and whoever wrote it is shut out
    another chunk was begun at the same place   it did not land
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from recoveryd_jobs.contract import JobSpec, LaneSpec, Receipt
from recoveryd_jobs.topics import LogBounds

Runs = tuple[tuple[int, int], ...]  # [first offset, count], in order


def target_partitions(spec: JobSpec, lane: LaneSpec) -> list[int]:
    """Every target partition that the lane may have written to."""
    if spec.target.mapping == "key_hash":
        return list(range(spec.target.partitions))
    return [r.partition for r in lane.partitions]


@dataclass(frozen=True, slots=True)
class Unseen:
    """A receipt that no reader of committed records sees. `chunk`, `count`: as `read_chunk_header` tells."""

    offset: int
    receipt: Receipt
    chunk: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """What a chunk wrote to one target partition."""

    partition: int
    chunk: int
    runs: Runs

    @property
    def end(self) -> int:
        return max(first + count for first, count in self.runs)

    def holds(self, offset: int) -> bool:
        return any(first <= offset < first + count for first, count in self.runs)


def pieces_of(receipts: Iterable[Receipt]) -> dict[int, list[Piece]]:
    """By target partition, in the order in which they were written."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for receipt in receipts:
        for run in receipt.targets:
            found.setdefault((run.partition, receipt.chunk), []).extend(run.runs)
    pieces: dict[int, list[Piece]] = {}
    for (partition, chunk), runs in sorted(found.items()):
        if runs:
            pieces.setdefault(partition, []).append(Piece(partition, chunk, tuple(sorted(runs))))
    return pieces


def landed(
    unseen: Iterable[Unseen],
    seen: Iterable[Receipt],
    positions: Mapping[int, int],
    floors: Mapping[int, int],
    stable: int,
    sees: Callable[[Mapping[int, Runs]], Collection[int]],
) -> list[Receipt]:
    """Receipts of chunks that landed and that no reader sees, in order: those that continue the ledger from
    `positions`, and those that correct one of `seen` after its records were written again. `floors`: by source
    partition, what somebody counts on. `stable`: the last stable offset of the ledger. `sees`: the target partitions in
    which a reader sees a record there; it is asked at most once for a chunk.
    """
    known, counted = {r.key: r for r in seen}, dict(floors)
    found: list[list[Receipt]] = []
    for chunk in reversed(_going_on(_chunks(unseen), positions, known)):
        receipts = sorted((u.receipt for u in chunk), key=lambda r: r.start)
        is_whole = len(chunk) == chunk[0].count and chunk[0].offset >= stable
        is_known = any(positions.get(r.partition, r.stop) < r.stop <= counted.get(r.partition, 0) for r in receipts)
        if is_whole or is_known or sees(_new_runs(receipts, known)):
            found.append(receipts)
            for receipt in receipts:  # whoever began there counted on what came before
                counted[receipt.partition] = max(counted.get(receipt.partition, 0), receipt.start)
    return [receipt for receipts in reversed(found) for receipt in receipts]


def all_go_on(unseen: Iterable[Unseen], positions: Mapping[int, int]) -> bool:
    """Whether each chunk goes on from these positions or from another of them: then `landed` says the same of them
    whatever was `seen` before.
    """
    chunks = _chunks(unseen)
    return len(_going_on(chunks, positions, {})) == len(chunks)


def _chunks(unseen: Iterable[Unseen]) -> list[list[Unseen]]:
    """And what was written again at once; of each key the newest."""
    newest = {each.receipt.key: each for each in sorted(unseen, key=lambda u: u.offset)}
    chunks: dict[object, list[Unseen]] = {}
    for each in sorted(newest.values(), key=lambda u: u.offset):
        chunks.setdefault(each.chunk or each.offset, []).append(each)
    return list(chunks.values())


def _going_on(
    chunks: Iterable[list[Unseen]], positions: Mapping[int, int], known: Mapping[str, Receipt]
) -> list[list[Unseen]]:
    """The chunks that continue the ledger or correct it, each behind those from which it goes on: in the ledger, one
    that was written again lies behind what goes on from it.
    """
    at, found, left = dict(positions), list[list[Unseen]](), list(chunks)
    while left:
        later: list[list[Unseen]] = []
        for chunk in left:
            then = _followed(sorted((u.receipt for u in chunk), key=lambda r: r.start), at, known)
            if then is None:
                later.append(chunk)
            else:
                found.append(chunk)
                at = then
        if len(later) == len(left):
            break
        left = later
    return found


def _followed(
    receipts: Sequence[Receipt], at: Mapping[int, int], known: Mapping[str, Receipt]
) -> dict[int, int] | None:
    """Positions after these receipts; None where one of them neither goes on from there nor corrects a known one."""
    then = dict(at)
    for receipt in receipts:
        if then.get(receipt.partition) == receipt.start:
            then[receipt.partition] = receipt.stop
        elif receipt.key not in known or known[receipt.key].stop != receipt.stop:
            return None
    return then


def _new_runs(receipts: Iterable[Receipt], known: Mapping[str, Receipt]) -> dict[int, Runs]:
    """By target partition, what receipts of one chunk say and those that they correct do not."""
    found: dict[int, list[tuple[int, int]]] = {}
    for receipt in receipts:
        old = {run.partition: run.runs for run in known[receipt.key].targets} if receipt.key in known else {}
        for run in receipt.targets:
            if run.runs and run.runs != old.get(run.partition):
                found.setdefault(run.partition, []).extend(run.runs)
    return {partition: tuple(sorted(runs)) for partition, runs in found.items()}


class Open(NamedTuple):
    """Target partitions with an open transaction: `ours` certainly; `perhaps`, and then nothing that landed is in it;
    `unknown`, perhaps too, where only its end will tell whether what landed behind it was ended.
    """

    ours: list[int]
    perhaps: list[int]
    unknown: list[int]


def left_open(
    bounds: Mapping[int, LogBounds], claimed: Mapping[int, int], ours: Mapping[int, Collection[Piece]]
) -> Open:
    """`claimed`: where what landed ends; `ours`: all that we know to have written. The first open transaction of a
    partition begins at its last stable offset: if that record is ours, so is the transaction. Otherwise it may be
    another producer's, or one of ours that left no receipt.
    """
    found = Open([], [], [])
    for partition, each in sorted(bounds.items()):
        if each.stable >= each.high:
            continue
        if any(piece.holds(each.stable) for piece in ours.get(partition, ())):
            found.ours.append(partition)
        elif claimed.get(partition, 0) <= each.stable:
            found.perhaps.append(partition)
        else:
            found.unknown.append(partition)
    return found


def not_seen(
    pieces: Mapping[int, Sequence[Piece]],
    starts: Mapping[int, int],
    sees: Callable[[Mapping[int, Runs]], Collection[int]],
) -> list[Piece]:
    """Pieces of which no reader sees anything, where nothing is open any more. What lies before one that is seen was
    looked at before that was written. `starts`: log starts; what lies before them is nobody's business any more.
    """
    left = {p: [each for each in found if each.end > starts.get(p, 0)] for p, found in pieces.items()}
    found: list[Piece] = []
    while left := {p: rest for p, rest in left.items() if rest}:
        seen = sees({p: rest[-1].runs for p, rest in left.items()})
        found += [rest[-1] for p, rest in left.items() if p not in seen]
        left = {p: rest[:-1] for p, rest in left.items() if p not in seen}
    return found
