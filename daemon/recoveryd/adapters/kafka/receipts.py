"""Adding up the receipts of a recovery: what is done, exactly, and whether it hangs together.

Pure, and written apart from the lanes' own reading on purpose: two views of one ledger. What does not fit is told as a
problem and not counted, never repaired.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from recoveryd.recovery.events import LedgerPartition
from recoveryd.recovery.model import Plan, PlannedPartition
from recoveryd_jobs.contract import ContractError, LedgerHead, Receipt, ReceiptsHome, decode, spanning_copied

_PROBLEMS_AT_MOST = 20


@dataclass(frozen=True, slots=True)
class LedgerSum:
    """Every planned partition, in the plan's order; one without a receipt stands at its start. `problems` empty =
    sound.
    """

    partitions: tuple[LedgerPartition, ...]
    problems: tuple[str, ...]


def key_prefix(scope: str, recovery: str) -> bytes:
    """What the keys of all receipts of a recovery begin with."""
    return f"{scope}/{recovery}/".encode()


def heads_prefix(scope: str, recovery: str) -> bytes:
    return f"{scope}/{recovery}#".encode()


def newest_values(
    records: Iterable[tuple[bytes | None, bytes | None]], prefix: bytes | tuple[bytes, ...]
) -> dict[bytes, bytes]:
    """The last value of each key that begins with `prefix`, as compaction would leave them; a tombstone removes."""
    found: dict[bytes, bytes] = {}
    for key, value in records:
        if key is None or not key.startswith(prefix):
            continue
        found.pop(key, None)
        if value is not None:
            found[key] = value
    return found


def made_again(home: ReceiptsHome, topic_id: str) -> str:
    """What is wrong when the receipts topic is another one than planned, which may lack the partition; "" when not."""
    if topic_id == home.topic_id:
        return ""
    return f"{home.topic} was deleted and made again: its id is {topic_id}, planned was {home.topic_id}."


def misplaced(home: ReceiptsHome, log_start: int, log_end: int) -> str:
    """Why the receipts of a recovery cannot all be where the plan pinned them; "" when they can."""
    where = f"{home.topic} partition {home.partition}"
    if log_start > home.start:
        return (
            f"Receipts were deleted from {where}: it begins at {log_start}, the receipts of this recovery at "
            f"{home.start}."
        )
    if log_end < home.start:
        return f"{where} was cut back: it ends at {log_end}, and ended at {home.start} when this recovery was planned."
    return ""


def nothing_found(plan: Plan, problem: str) -> LedgerSum:
    """A ledger that cannot be used at all."""
    return LedgerSum(
        tuple(LedgerPartition(p.partition, p.start, p.start, 0, 0, 0, 0, 0) for p in plan.partitions), (problem,)
    )


def is_at_end(plan: Plan, positions: Mapping[int, int]) -> bool:
    """Whether all of these partitions are at their planned ends."""
    stops = {p.partition: p.stop for p in plan.partitions}
    return all((stop := stops.get(p)) is not None and position >= stop for p, position in positions.items())


def head_positions(values: Iterable[bytes]) -> list[dict[int, int]]:
    """Per head, what it says of the partitions of its lane; none where one cannot be read."""
    try:
        heads = [decode(LedgerHead, value) for value in values]
    except ContractError:
        return []
    return [{row.partition: row.position for row in head.rows} for head in heads]


def from_heads(values: Mapping[bytes, bytes], plan: Plan) -> dict[int, LedgerPartition] | None:
    """What the heads of all lanes say; None unless there is one for each lane that knows the lane's partitions from
    their planned start on, for these topics.
    """
    starts = {p.partition: p.start for p in plan.partitions}
    found: dict[int, LedgerPartition] = {}
    try:
        heads = {head.lane: head for head in (decode(LedgerHead, value) for value in values.values())}
    except ContractError:
        return None
    for number, partitions in enumerate(plan.lanes):
        head = heads.get(number)
        if head is None or _other_topics(head, plan):
            return None
        rows = {row.partition: row for row in head.rows}
        for partition in partitions:
            row = rows.get(partition)
            if row is None or row.start != starts.get(partition):
                return None
            counts = row.copied, row.filtered, row.skipped, row.lost, row.bytes, row.times
            found[partition] = LedgerPartition(partition, row.start, row.position, *counts)
    return found


def add_up(
    values: Mapping[bytes, bytes],
    plan: Plan,
    positions: Mapping[int, int],
    heads: Mapping[int, LedgerPartition] | None = None,
) -> LedgerSum:
    """Fold receipts by their keys into sums per planned partition. `positions`: how far each is known to be copied, so
    receipts must reach there.

    `heads`: what they say of the receipts that were not read; those read that lie before it do not count again.
    """
    planned = {p.partition: p for p in plan.partitions}
    sums = {p.partition: LedgerPartition(p.partition, p.start, p.start, 0, 0, 0, 0, 0) for p in plan.partitions}
    sums |= heads or {}
    receipts, problems = _decode_all(values)
    for receipt in sorted(receipts, key=lambda r: (r.partition, r.start)):
        if receipt.partition not in planned:
            problems.append(f"Receipt {receipt.key} is for a partition that is not planned.")
            continue
        if heads and receipt.stop <= sums[receipt.partition].position:
            continue
        wrong = _judge(receipt, sums[receipt.partition].position, planned[receipt.partition], plan)
        if wrong:
            problems.append(f"Receipt {receipt.key} {wrong}.")
        else:
            sums[receipt.partition] = _with(sums[receipt.partition], receipt)
    for partition, known in positions.items():
        if partition in sums and sums[partition].position < known:
            found = sums[partition].position
            problems.append(
                f"Receipts of partition {partition} end at {found}, but it was copied to {known}: some are gone."
            )
    return LedgerSum(tuple(sums[p.partition] for p in plan.partitions), tuple(problems[:_PROBLEMS_AT_MOST]))


class RunningSum:
    """`add_up` of all receipts of a plan as they come, without holding any: a recovery may have millions, and this is
    the daemon's process. Only for a ledger in which each goes on from the one before; of any other nothing is said.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._planned = {p.partition: p for p in plan.partitions}
        self._sums = {p: LedgerPartition(p, r.start, r.start, 0, 0, 0, 0, 0) for p, r in self._planned.items()}
        self._starts: dict[int, array[int]] = {p: array("q") for p in self._planned}
        self._contents: dict[int, array[int]] = {p: array("q") for p in self._planned}  # a hash of each

    def take(self, key: bytes, value: bytes | None) -> bool:
        """False when this one does not fit; all of them are needed then."""
        try:
            receipt = None if value is None else decode(Receipt, value)
        except ContractError:
            return False
        if receipt is None or receipt.key.encode() != key or receipt.partition not in self._planned:
            return False
        partition, total = receipt.partition, self._sums[receipt.partition]
        starts, contents = self._starts[partition], self._contents[partition]
        if receipt.start < total.position:  # written again, with other places in the target
            at = bisect_left(starts, receipt.start)
            return at < len(starts) and (starts[at], contents[at]) == (receipt.start, _content(receipt))
        if _judge(receipt, total.position, self._planned[partition], self._plan):
            return False
        starts.append(receipt.start)
        contents.append(_content(receipt))
        self._sums[partition] = _with(total, receipt)
        return True

    def reaching(self, positions: Mapping[int, int]) -> LedgerSum | None:
        """None when receipts end before one of these."""
        if any(p in self._sums and self._sums[p].position < known for p, known in positions.items()):
            return None
        return LedgerSum(tuple(self._sums[p.partition] for p in self._plan.partitions), ())


def _content(receipt: Receipt) -> int:
    """Of all that is added up and judged."""
    counts = receipt.copied, receipt.filtered, receipt.skipped, receipt.lost, receipt.bytes, receipt.times
    return hash((receipt.stop, *counts, receipt.source_topic_id, receipt.target_topic_id))


def _decode_all(values: Mapping[bytes, bytes]) -> tuple[list[Receipt], list[str]]:
    receipts, problems = [], []
    for key, value in values.items():
        try:
            receipts.append(decode(Receipt, value))
        except ContractError as error:
            problems.append(f"Receipt {key.decode(errors='replace')} cannot be read: {error}.")
    return receipts, problems


def _judge(receipt: Receipt, position: int, planned: PlannedPartition, plan: Plan) -> str:
    """What is wrong with a receipt that should begin at `position`; "" when nothing is."""
    if receipt.start != position:
        kind = "a gap" if receipt.start > position else "an overlap"
        return f"begins at {receipt.start}, but the one before ends at {position}: {kind}"
    if receipt.stop <= receipt.start:
        return f"ends at {receipt.stop}, not after its start"
    if planned.stop is not None and receipt.stop > planned.stop:
        return f"ends at {receipt.stop}, past the end of the range at {planned.stop}"
    counts = receipt.copied, receipt.filtered, receipt.skipped, receipt.lost
    if min(*counts, receipt.bytes) < 0:
        return "has a negative count"
    explained = sum(counts)
    if explained != receipt.stop - receipt.start:
        return f"explains {explained} of {receipt.stop - receipt.start} offsets"
    return _other_topics(receipt, plan)


def _other_topics(written: Receipt | LedgerHead, plan: Plan) -> str:
    """A topic that was made again is another one, and what the first one got is not in it."""
    for side, found, planned in (
        ("source", written.source_topic_id, plan.source.topic_id),
        ("target", written.target_topic_id, plan.target.topic_id),
    ):
        if found and planned and found != planned:
            return f"was written for a {side} with topic id {found}, planned is {planned}"
    return ""


def _with(total: LedgerPartition, receipt: Receipt) -> LedgerPartition:
    return replace(
        total,
        position=receipt.stop,
        copied=total.copied + receipt.copied,
        filtered=total.filtered + receipt.filtered,
        skipped=total.skipped + receipt.skipped,
        lost=total.lost + receipt.lost,
        bytes=total.bytes + receipt.bytes,
        times=spanning_copied((total.copied, total.times), (receipt.copied, receipt.times)),
    )
