"""Makes the verdict from what the tasks of the proof saw. Pure.

Where the rows of a pair of partitions agree, the source itself proves the copy. Where they differ, a question for a
closer look is made. Where the source cannot be read any more, a segment is proved by its receipt if the target holds
exactly what the receipt says; the report counts these records. Where only the end of a segment can still be read in the
source, its last records must be the last ones in the target too; the closer look finds that out. What was read before
it was deleted counts as well: no receipt excuses a difference that was seen, and what was read and could not be
compared is named.

Compaction takes from the source only. So what was read of a segment is never more than the target holds of an honest
copy, and where it is as much, both are the same.
"""

import hashlib
from array import array
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from recoveryd_jobs.contract import Difference, JobSpec, Verification
from recoveryd_jobs.verify.shown import DIFFERENCES_MAX, ROW, Pair, Shown

_NAMED_MAX = 5
_NO_ROW = (0, b"")
NOTHING = "neither side holds a record of the range, so nothing was compared"


class Tail(NamedTuple):
    """The last records of a segment, which are all that could be read of it in the source. `before`: how many the
    target has of the segment besides as many last ones; negative when it has fewer.
    """

    start: int
    records: int
    digest: bytes
    before: int


class Head(NamedTuple):
    """The first records of a segment, which were read in the source before others of it were deleted. `room`: how many
    the target has of the segment besides all that were read; negative when it has fewer.
    """

    start: int
    records: int
    digest: bytes
    room: int


class PairQuestion(NamedTuple):
    """Segments of a pair, by their start, where source and target differ. `agreed`: those of them, and of `tails`,
    where the target is what the receipt says, and nothing was seen that compaction does not explain; with what was read
    in the source, (records, digest), the digest being zeros or nothing where no record is left to compare. `tails` and
    `heads` are still to be compared. `cuts`: the offsets that were deleted when the source was read.
    """

    pair: Pair
    starts: tuple[int, ...]
    agreed: Mapping[int, tuple[int, bytes]]
    tails: tuple[Tail, ...] = ()
    heads: tuple[Head, ...] = ()
    cuts: tuple[tuple[int, int], ...] = ()


class Doubts(NamedTuple):
    """Segments, as (pair, start). `dissent`: the target is not what the receipt says. `undigested`: the receipt has no
    digest to compare.
    """

    dissent: set[tuple[Pair, int]]
    undigested: set[tuple[Pair, int]]

    def has(self, place: tuple[Pair, int]) -> bool:
        return place in self.dissent or place in self.undigested


class PairRows(NamedTuple):
    """What tasks saw of a pair, by the start of each segment: (records, digest). `cuts` and `denied` as in `Shown`."""

    source: Mapping[int, tuple[int, bytes]]
    target: Mapping[int, tuple[int, bytes]]
    tails: Mapping[int, tuple[int, bytes]]
    heads: Mapping[int, tuple[int, bytes]]
    cuts: tuple[tuple[int, int], ...]
    denied: frozenset[int]

    def is_cut(self, start: int) -> bool:
        return any(first <= start < stop for first, stop in self.cuts)

    def read(self, start: int) -> tuple[int, bytes]:
        """What was read in the source of a segment, or of its end where that is all that is left."""
        return self.tails.get(start) or self.source.get(start, _NO_ROW)

    def room(self, start: int) -> int:
        """How many records compaction can have taken before the source was read: as many as the target has of the
        segment besides those that were read.
        """
        read = (side.get(start, _NO_ROW)[0] for side in (self.source, self.heads, self.tails))
        return self.target.get(start, _NO_ROW)[0] - sum(read)


@dataclass(slots=True)
class PairFinding:
    """What a closer look showed of one pair or of many (`summed`): differences, and how many `more` are not listed.

    The rest counts records that only receipts prove. `taken`: compaction took them before the source was read.
    `uncompared`: they were read there, and were gone when they were to be compared. `heads`: they are in heads that
    could not be compared; the verdict counts these as proved by receipts already.
    """

    differences: list[Difference] = field(default_factory=list)
    more: int = 0
    taken: int = 0
    uncompared: int = 0
    heads: int = 0


@dataclass(slots=True)
class ProofVerdict:
    """The sum of all tasks, before the closer look."""

    differences: list[Difference] = field(default_factory=list)
    more: int = 0
    questions: list[PairQuestion] = field(default_factory=list)
    source_records: int = 0
    target_records: int = 0
    by_receipts: int = 0
    extra: dict[int, int] = field(default_factory=dict)
    digest: str = ""
    notes: list[str] = field(default_factory=list)
    uncopied: dict[int, int] = field(default_factory=dict)  # as in the report
    has_read_all: bool = True
    has_read_some: bool = False


def judge(spec: JobSpec, shown: Iterable[Shown], notes: Iterable[str] = ()) -> ProofVerdict:
    tasks, verdict = list(shown), ProofVerdict(notes=list(notes))
    assert all(s.spool is None for s in tasks), "rows were left on the disk of a task"
    verdict.differences = [d for s in tasks for d in s.differences]
    verdict.more = sum(s.differences_more for s in tasks)
    verdict.target_records = sum(s.claimed for s in tasks)
    folds = {pair: fold for s in tasks for pair, fold in s.folds.items()}
    doubts = Doubts(_places(s.dissent for s in tasks), _places(s.undigested for s in tasks))
    if spec.verify == "source":
        verdict.source_records = sum(s.selected for s in tasks)
        verdict.has_read_some = verdict.source_records > 0 or not folds
        _compare_all(verdict, tasks, doubts, kept=bool(spec.receipts_topic))
        _note_unread(verdict, tasks, {p: at for s in tasks for p, at in s.readable_from.items()})
        _note_uncompared(verdict, tasks)
    else:
        verdict.source_records = verdict.by_receipts = sum(s.promised for s in tasks)
        verdict.has_read_all = False
        for pair, start in sorted(doubts.undigested):
            _add(
                verdict,
                Difference(
                    "ledger",
                    pair[0],
                    start,
                    pair[1],
                    None,
                    1,
                    "The receipt has no digest that this release could compare.",
                ),
            )
    for pair, start in sorted(doubts.dissent):
        message = f"What the receipt from {start} on says of target partition {pair[1]} is not what stands there."
        kind = "ledger" if spec.verify == "source" else "altered"
        _add(verdict, Difference(kind, pair[0], start, pair[1], None, 1, message))
    _judge_extra(spec, verdict, tasks)
    if spec.verify != "count":
        verdict.digest = _whole(folds)
    verdict.notes += untimed_note(s.untimed for s in tasks)
    if not spec.receipts_topic and not verdict.source_records + verdict.target_records:
        verdict.notes.append(NOTHING)
    lost = sum(s.lost for s in tasks)
    if lost:
        verdict.has_read_all = False  # only receipts say that nothing of this was copied
        verdict.notes.append(f"{lost} offsets were lost in the source")
    return verdict


def untimed_note(counts: Iterable[list[int]]) -> list[str]:
    """`counts` of source and target, by task."""
    source, target = (sum(sides) for sides in zip((0, 0), *counts, strict=True))
    if not source + target:
        return []
    return [
        f"records without a time lie in no window and were not compared, {source} in the source, {target} in the target"
    ]


def _places(found: Iterable[Mapping[Pair, "array[int]"]]) -> set[tuple[Pair, int]]:
    return {(pair, start) for places in found for pair, starts in places.items() for start in starts}


def _joined(parts: Iterable[Mapping[Pair, bytearray]]) -> dict[Pair, bytearray]:
    return {pair: rows for part in parts for pair, rows in part.items()}


def _rows(raw: bytes | bytearray | None) -> dict[int, tuple[int, bytes]]:
    return {start: (records, digest) for start, records, digest in ROW.iter_unpack(raw or b"")}


def differing(source: bytes | bytearray, target: bytes | bytearray) -> tuple[bytearray, bytearray]:
    """Of the rows of both sides of a pair, those that are not the same on both: a verdict needs no others."""
    if source == target:
        return bytearray(), bytearray()
    here, there = _rows(source), _rows(target)
    same = {start for start, row in here.items() if there.get(start) == row}
    return _without(same, here), _without(same, there)


def _without(starts: Container[int], rows: Mapping[int, tuple[int, bytes]]) -> bytearray:
    left = bytearray()
    for start, row in rows.items():
        if start not in starts:
            left += ROW.pack(start, *row)
    return left


def _compare_all(verdict: ProofVerdict, tasks: Sequence[Shown], doubts: Doubts, *, kept: bool) -> None:
    """Every pair whose rows differ, or of which something could not be read or is no copy."""
    sources, targets = _joined(s.sources for s in tasks), _joined(s.targets for s in tasks)
    tails, heads = _joined(s.tails for s in tasks), _joined(s.heads for s in tasks)
    cuts = {p: tuple(ranges) for s in tasks for p, ranges in s.cut.items()}
    denied = {pair: frozenset(starts) for s in tasks for pair, starts in s.denied.items()}
    for pair in sorted(sources.keys() | targets.keys() | tails.keys() | heads.keys() | denied.keys()):
        if pair in tails or pair in heads or pair in denied or sources.get(pair) != targets.get(pair):
            seen = [_rows(side.get(pair)) for side in (sources, targets, tails, heads)]
            cut, not_copied = cuts.get(pair[0], ()), denied.get(pair, frozenset())
            _compare(verdict, pair, PairRows(seen[0], seen[1], seen[2], seen[3], cut, not_copied), doubts, kept=kept)


def _compare(verdict: ProofVerdict, pair: Pair, rows: PairRows, doubts: Doubts, *, kept: bool) -> None:
    """Compare the rows of a pair. Takes from `doubts.dissent` what the closer look will report. `kept`: the copy has
    receipts.
    """
    starts, tails = [], []
    for start in sorted(rows.source.keys() | rows.target.keys() | rows.tails.keys() | rows.denied):
        left, right = rows.source.get(start, _NO_ROW), rows.target.get(start, _NO_ROW)
        if left[0] == 0 and rows.is_cut(start):
            records, digest = rows.tails.get(start, _NO_ROW)
            if records:
                tails.append(Tail(start, records, digest, right[0] - records))
            if start in rows.denied:
                doubts.dissent.discard((pair, start))
                _add(verdict, gone_since(pair, start))
            elif right[0] > records:
                _by_receipt(verdict, pair, start, right[0] - records, doubts)
        elif left != right and (left[0] or right[0]):
            starts.append(start)
    heads = tuple(Head(start, *head, rows.room(start)) for start, head in sorted(rows.heads.items()))
    if starts or tails or heads:
        asked = {*starts, *(t.start for t in tails)} - rows.denied
        agreed = {s: rows.read(s) for s in asked if kept and rows.room(s) > 0 and not doubts.has((pair, s))}
        verdict.questions.append(PairQuestion(pair, tuple(starts), agreed, tuple(tails), heads, rows.cuts))
        doubts.dissent.difference_update({(pair, s) for s in starts})


def gone_since(pair: Pair, start: int) -> Difference:
    message = "Source and target differed from here on when they were read, and what differed was deleted since."
    return Difference("altered", pair[0], start, pair[1], None, 1, message)


def _by_receipt(verdict: ProofVerdict, pair: Pair, start: int, records: int, doubts: Doubts) -> None:
    if not doubts.has((pair, start)):
        verdict.by_receipts += records
        verdict.source_records += records
    elif (pair, start) in doubts.dissent:
        doubts.dissent.discard((pair, start))
        message = "The source cannot be read here any more, and the target does not hold what the receipt says."
        _add(verdict, Difference("altered", pair[0], start, pair[1], None, 1, message))
    else:
        message = "The source cannot be read here any more, and the receipt has no digest that could prove the copy."
        _add(verdict, Difference("ledger", pair[0], start, pair[1], None, 1, message))


def _note_unread(verdict: ProofVerdict, tasks: list[Shown], begins: Mapping[int, int]) -> None:
    unread = {p: count for s in tasks for p, count in s.unread.items() if count > 0}
    if not unread:
        return
    verdict.has_read_all = False
    named = [f"partition {p} begins at {begins[p]} now" for p in sorted(unread)[:_NAMED_MAX]]
    more = f" and {len(unread) - _NAMED_MAX} more" if len(unread) > _NAMED_MAX else ""
    verdict.notes.append(f"{sum(unread.values())} offsets cannot be read again, {', '.join(named)}{more}")


def _note_uncompared(verdict: ProofVerdict, tasks: list[Shown]) -> None:
    counts = {p: count for s in tasks for p, count in s.uncompared.items()}
    if not counts:
        return
    verdict.has_read_all = False
    where = f"partition {min(counts)}" if len(counts) == 1 else f"{len(counts)} partitions"
    why = "were read and then deleted before they could be compared, so only receipts prove them"
    verdict.notes.append(f"{sum(counts.values())} records of {where} {why}")


def _judge_extra(spec: JobSpec, verdict: ProofVerdict, tasks: list[Shown]) -> None:
    for shown in tasks:
        for partition, count in shown.extra.items():
            verdict.extra[partition] = verdict.extra.get(partition, 0) + count
    total = sum(verdict.extra.values())
    verdict.target_records += total
    if not total:
        return
    if spec.target.exclusive:
        for partition, first, count in sorted(run for s in tasks for run in s.extra_runs):
            owner = "no receipt of this recovery" if spec.receipts_topic else "no partition of the source"
            message = f"{count} records that belong to {owner}."
            _add(verdict, Difference("extra", None, None, partition, first, count, message))
        verdict.more += sum(s.extra_runs_more for s in tasks)
        return
    parts = [f"{n} in partition {p}" for p, n in sorted(verdict.extra.items())[:_NAMED_MAX]]
    parts += [f"{len(verdict.extra) - _NAMED_MAX} more partitions"] if len(verdict.extra) > _NAMED_MAX else []
    verdict.notes.append(f"others wrote to the target meanwhile: {', '.join(parts)}")


def _add(verdict: ProofVerdict, difference: Difference) -> None:
    if len(verdict.differences) < DIFFERENCES_MAX:
        verdict.differences.append(difference)
    else:
        verdict.more += 1


def _whole(folds: Mapping[Pair, bytes]) -> str:
    whole = hashlib.sha256()
    for (source, target), fold in sorted(folds.items()):
        whole.update(f"{source}/{target};".encode() + fold)
    return whole.hexdigest()[:32]


def report(verdict: ProofVerdict, findings: Iterable[PairFinding]) -> Verification:
    found = summed((PairFinding(verdict.differences, verdict.more), *findings))
    notes = list(verdict.notes)
    if found.taken:
        notes.append(f"{found.taken} records were compacted away in the source since")
    if found.uncompared + found.heads:
        why = "were read and were gone when they were to be compared, so only receipts prove them"
        notes.append(f"{found.uncompared + found.heads} records {why}")
    total = len(found.differences) + found.more
    if total > DIFFERENCES_MAX:
        notes.append(f"{total} differences, the first {DIFFERENCES_MAX} are listed")
    is_whole = verdict.has_read_all and not found.taken + found.uncompared + found.heads
    scope = "source" if is_whole else "mixed" if verdict.has_read_some else "receipts"
    return Verification(
        result="mismatch" if found.differences else "match",
        source_records=verdict.source_records + found.taken,
        target_records=verdict.target_records,
        digest=verdict.digest,
        differences=tuple(found.differences),
        why="; ".join(notes),
        scope=scope,
        extra_records=sum(verdict.extra.values()),
        records_by_receipts=verdict.by_receipts + found.taken + found.uncompared,
        uncopied=verdict.uncopied,
    )


def summed(findings: Iterable[PairFinding]) -> PairFinding:
    """All of them in one, with the differences that a report lists, in its order. However many there are, it is small;
    and it is the same where parts of them were summed before.
    """
    whole, total = PairFinding(), 0
    for finding in findings:
        total += len(finding.differences) + finding.more
        whole.differences = sorted([*whole.differences, *finding.differences], key=_place)[:DIFFERENCES_MAX]
        whole.taken += finding.taken
        whole.uncompared += finding.uncompared
        whole.heads += finding.heads
    whole.more = total - len(whole.differences)
    return whole


def _place(d: Difference) -> tuple[bool, int, int, int, int]:
    """Order of differences: those of records before those of receipts, then by place."""
    source = -1 if d.source_partition is None else d.source_partition
    at = d.source_offset if d.source_offset is not None else d.target_offset
    return d.kind == "ledger", source, at or 0, d.target_partition or 0, d.target_offset or 0
