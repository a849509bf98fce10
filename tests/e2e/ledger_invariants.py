"""I9, I10 and I12: what must hold for the receipts, the status record and a reader's view of the running copy. One pure
function per invariant.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any
from zlib import crc32

from tests.e2e.ledger import Receipt
from tests.e2e.model import Claims, History, Matching, Violation

_COUNTS = ("copied", "filtered", "skipped", "lost")


def chunks_whole(history: History, matching: Matching) -> Iterator[Violation]:
    """I9: a chunk's records are visible together with its receipt, and no read_committed reader was ever inside one."""
    claims = Claims(history.receipts)
    for partition, offset in sorted(history.hidden):
        receipt = claims.of(partition, offset)
        if receipt is not None:
            yield Violation("I9", f"target {partition}/{offset} is not visible, but {receipt.name} claims it")
    covered = _ranges(history.receipts)
    for pair in matching.pairs:
        source, target = pair.image.source, pair.target
        is_covered = any(start <= source.offset < stop for start, stop in covered.get(source.partition, ()))
        if not pair.flaw and is_covered and claims.of(target.partition, target.offset) is None:
            yield Violation("I9", f"target {target.partition}/{target.offset} is visible, but no receipt claims it")
    if history.observed is not None:
        yield from _prefixes_whole(history, claims)
        yield from _nothing_seen_vanished(history)


def _prefixes_whole(history: History, claims: Claims) -> Iterator[Violation]:
    assert history.observed is not None
    for partition, positions in history.observed.prefixes.items():
        runs = claims.runs(partition)
        chunks: dict[tuple[int, int], list[tuple[int, int, Receipt]]] = defaultdict(list)
        for first, stop, receipt in runs:
            chunks[receipt.lane, receipt.chunk].append((first, stop, receipt))
        for position in sorted(set(positions)):
            torn = next((r for first, stop, r in runs if first < position < stop), None)
            if torn is None and not history.asked.shared:
                torn = next((c[0][2] for c in chunks.values() if c[0][0] < position < c[-1][1]), None)
            if torn is not None:
                yield Violation(
                    "I9", f"a reader stood at target {partition}/{position}, inside the chunk of {torn.name}"
                )


def _nothing_seen_vanished(history: History) -> Iterator[Violation]:
    assert history.observed is not None
    for partition, offsets in history.observed.offsets.items():
        left = {r.offset for r in history.target.get(partition, ())}
        gone = [o for o in offsets if o not in left]
        if gone and not history.asked.shared:
            yield Violation(
                "I9", f"a reader saw target {partition}/{gone[0]}, which is not there any more ({len(gone)} in all)"
            )


def receipts_tile(history: History, matching: Matching) -> Iterator[Violation]:
    """I10: well-formed, contiguous, not overlapping, covering [from, to) of each partition; none by a fenced attempt;
    runs name the right offsets.
    """
    for receipt in history.receipts:
        yield from _form(receipt, history)
    by_partition = _grouped(history.receipts)
    for partition, (start, stop) in sorted(history.asked.ranges.items()):
        receipts = by_partition.pop(partition, [])
        lost_from, lost_to = history.asked.lost.get(partition, (stop, stop))
        reached = max((r.stop for r in receipts), default=start)
        # A loss that no lane met before the recovery ended is in the completeness, and needs no receipt.
        yield from _tiling(partition, start, reached if lost_from <= reached < stop <= lost_to else stop, receipts)
    for partition, receipts in sorted(by_partition.items()):
        yield Violation("I10", f"partition {partition} was not asked for, but there is a {receipts[0].name}")
    yield from _generations(history.receipts)
    yield from _runs_apart(Claims(history.receipts), {run.partition for r in history.receipts for run in r.runs})
    yield from _runs_true(history, matching)


def _form(receipt: Receipt, history: History) -> Iterator[Violation]:
    wanted_key = f"{receipt.scope}/{receipt.recovery}/{receipt.partition}/{receipt.start}"
    if receipt.key != wanted_key:
        yield Violation("I10", f"{receipt.name} has key {receipt.key!r}, not {wanted_key!r}")
    pinned = ((history.status or {}).get("plan") or {}).get("receipts") or {}  # the topic may have grown since
    place = crc32(receipt.recovery.encode()) % pinned.get("partitions", history.receipts_partitions)
    if receipt.topic_partition != place:
        yield Violation("I10", f"{receipt.name} lies in receipts partition {receipt.topic_partition}, not {place}")
    if receipt.start > receipt.stop:
        yield Violation("I10", f"{receipt.name} is reversed")
    if receipt.promised != sum(run.count for run in receipt.runs):
        yield Violation(
            "I10",
            (
                f"{receipt.name} counts {receipt.promised} in its targets, its runs hold "
                f"{sum(r.count for r in receipt.runs)}"
            ),
        )


def _tiling(partition: int, start: int, stop: int, receipts: Iterable[Receipt]) -> Iterator[Violation]:
    at = start
    for receipt in receipts:
        if receipt.start > at:
            yield Violation("I10", f"partition {partition}: no receipt covers [{at}, {receipt.start})")
        elif receipt.start < at:
            yield Violation(
                "I10",
                f"partition {partition}: [{receipt.start}, {min(at, receipt.stop)}) is covered again by {receipt.name}",
            )
        at = max(at, receipt.stop)
    if at < stop:
        yield Violation("I10", f"partition {partition}: no receipt covers [{at}, {stop})")
    if at > stop and receipts:
        yield Violation("I10", f"partition {partition}: receipts reach {at}, the range ends at {stop}")


def _generations(receipts: Sequence[Receipt]) -> Iterator[Violation]:
    """In the log's order, a lane's chunk numbers rise and its attempt numbers never fall: a fenced attempt commits
    nothing. What corrects a receipt has its chunk, and the attempt that corrected it.
    """
    newest: dict[int, Receipt] = {}
    for receipt in receipts:
        before = newest.get(receipt.lane)
        if before is not None and receipt.attempt < before.attempt:
            yield Violation("I10", f"{receipt.name} was committed after attempt {before.attempt} had begun")
        elif before is not None and receipt.chunk < before.chunk and not receipt.corrects:
            yield Violation("I10", f"{receipt.name} was committed after chunk {before.chunk}")
        if not receipt.corrects:
            newest[receipt.lane] = receipt


def _runs_apart(claims: Claims, partitions: Iterable[int]) -> Iterator[Violation]:
    for partition in sorted(partitions):
        runs = claims.runs(partition)
        for (_, stop, one), (first, _, other) in pairwise(runs):
            if first < stop:
                yield Violation("I10", f"target {partition}/{first} is claimed by {one.name} and by {other.name}")


def _runs_true(history: History, matching: Matching) -> Iterator[Violation]:
    claims = Claims(history.receipts)
    for pair in matching.pairs:
        if pair.flaw:
            continue
        source, target = pair.image.source, pair.target
        receipt = claims.of(target.partition, target.offset)
        if receipt is not None and not (
            receipt.partition == source.partition and receipt.start <= source.offset < receipt.stop
        ):
            yield Violation(
                "I10",
                (
                    f"{receipt.name} claims target {target.partition}/{target.offset}, the image of source "
                    f"{source.partition}/{source.offset}"
                ),
            )


def all_explained(history: History, matching: Matching) -> Iterator[Violation]:
    """I12: counts of receipts, and of the status record, equal those of the source as read here, and they add up."""
    truth = _Truth(history)
    for receipt in history.receipts:
        said = {name: getattr(receipt, name) for name in _COUNTS}
        yield from truth.judge(receipt.name, receipt.partition, receipt.start, receipt.stop, said)
        if receipt.promised != receipt.copied:
            yield Violation("I12", f"{receipt.name} copied {receipt.copied}, but its targets hold {receipt.promised}")
    if history.status is not None:
        yield from _status_explained(history, truth, history.status)


def _status_explained(history: History, truth: "_Truth", status: Mapping[str, Any]) -> Iterator[Violation]:
    rows = {row["partition"]: row for row in status.get("completeness", ())}
    for partition, (start, stop) in sorted(history.asked.ranges.items()):
        row = rows.pop(partition, None)
        if row is None:
            yield Violation("I12", f"the status record has no completeness of partition {partition}")
            continue
        name = f"completeness of partition {partition}"
        if (row["from"], row["to"], row["offsets"]) != (start, stop, stop - start):
            yield Violation(
                "I12", f"{name} says [{row['from']}, {row['to']}) = {row['offsets']} offsets, not [{start}, {stop})"
            )
        if row["unexplained"] != 0:
            yield Violation("I12", f"{name} leaves {row['unexplained']} offsets unexplained")
        yield from truth.judge(name, partition, start, stop, {n: row[n] for n in _COUNTS})
    for partition in rows:
        yield Violation("I12", f"the status record explains partition {partition}, which was not asked for")


class _Truth:
    """Counts of the source as the checker read it. Records that vanished may count as copied or not, so both bounds are
    kept.
    """

    def __init__(self, history: History) -> None:
        self._asked = history.asked
        self._kept = {p: list(rs) for p, rs in history.source.items()}
        self._vanished = list(history.vanished)

    def judge(self, name: str, partition: int, start: int, stop: int, said: Mapping[str, int]) -> Iterator[Violation]:
        if sum(said.values()) != stop - start:
            yield Violation("I12", f"{name}: {dict(said)} does not add up to {stop - start} offsets")
        lost_from, lost_to = self._asked.lost.get(partition, (0, 0))
        lost_max = max(0, min(stop, lost_to) - max(start, lost_from))
        if said["lost"] > lost_max:
            yield Violation("I12", f"{name} calls {said['lost']} offsets lost, at most {lost_max} are")
        kept = [r for r in self._kept.get(partition, ()) if start <= r.offset < stop]
        gone = [r for r in self._vanished if r.partition == partition and start <= r.offset < stop]
        for count, is_one in (("copied", True), ("filtered", False)):
            least = sum(1 for r in kept if self._asked.selects(r) is is_one and not self._asked.calls_lost(r))
            most = least + sum(
                1 for r in [*gone, *(k for k in kept if self._asked.calls_lost(k))] if self._asked.selects(r) is is_one
            )
            if not least <= said[count] <= most:
                wanted = str(least) if least == most else f"{least} to {most}"
                yield Violation("I12", f"{name} says {count} {said[count]}, the source has {wanted}")


def _grouped(receipts: Iterable[Receipt]) -> dict[int, list[Receipt]]:
    found: dict[int, list[Receipt]] = defaultdict(list)
    for receipt in sorted(receipts, key=lambda r: (r.partition, r.start, r.stop, r.offset)):
        found[receipt.partition].append(receipt)
    return found


def _ranges(receipts: Iterable[Receipt]) -> Mapping[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for receipt in receipts:
        found[receipt.partition].append((receipt.start, receipt.stop))
    return found
