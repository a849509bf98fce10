"""What a dead lane had committed and a broker forgot to mark (docs/guarantees.md), when no lane comes that could mend
it: judged here from what lies in the target and in the ledger, and committed by `ledger`, so that no reader waits for
ever.

Only what certainly landed is committed: a place whose open part begins with a record of the lane and holds nothing else
of which we do not know that it landed. Anything else is left to the next attempt, which looks closer.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from recoveryd_jobs.contract import ContractError, Receipt, decode, head_key

Place = tuple[str, int]  # topic, partition


@dataclass(frozen=True, slots=True)
class Laid:
    """A record of the ledger's partition. `chunk`: as `read_chunk_header` tells."""

    offset: int
    key: bytes
    value: bytes | None
    chunk: tuple[str, int] = ("", 0)


@dataclass(slots=True)
class Claims:
    """Offsets of the target that a lane's receipts claim where something is open. `stable`: by partition, where that
    begins; of a million receipts, few reach so far.
    """

    stable: Mapping[int, int]
    by_lane: dict[int, dict[int, list[tuple[int, int]]]] = field(default_factory=dict)  # runs in order

    def add(self, receipt: Receipt) -> None:
        mine = self.by_lane.setdefault(receipt.lane, {})
        for partition, run in _open_runs(receipt, self.stable):
            insort(mine.setdefault(partition, []), run)

    def lane_of(self, partition: int, offset: int) -> int | None:
        for lane, claimed in self.by_lane.items():
            runs = claimed.get(partition, [])
            before = bisect_right(runs, offset, key=itemgetter(0))
            if before and offset < sum(runs[before - 1]):
                return lane
        return None


def _open_runs(receipt: Receipt, stable: Mapping[int, int]) -> Iterable[tuple[int, tuple[int, int]]]:
    for run in receipt.targets:
        if run.partition in stable:
            yield from ((run.partition, each) for each in run.runs if sum(each) > stable[run.partition])


def open_receipts(scope: str, recovery: str, laid: Sequence[Laid]) -> tuple[int, list[Receipt]] | None:
    """The lane whose chunks, or whose head alone, are open at the ledger's last stable offset, and their receipts. None
    when they are another recovery's, or not all of them are there. `laid`: what lies from there on, in order.

    A head only sums up what was committed before it, so to commit one does no harm.
    """
    receipts = [(each, _receipt(scope, recovery, each)) for each in laid]
    if not receipts:
        return None
    first, receipt = receipts[0]
    lane = receipt.lane if receipt is not None else _lane_of_head(scope, recovery, first)
    if lane is None:
        return None
    chunks: dict[tuple[str, int], list[Receipt]] = {}
    for each, receipt in receipts:
        if receipt is not None and receipt.lane == lane:
            chunks.setdefault(each.chunk, []).append(receipt)
        elif receipt is None and each.key == f"{scope}/{recovery}#end/{lane}".encode():
            return None  # something of it was given up
    if any(len(found) != count for (_name, count), found in chunks.items()):
        return None
    return lane, [receipt for found in chunks.values() for receipt in found]


def read_receipts(
    scope: str, recovery: str, laid: Iterable[Laid], stable: Mapping[int, int], newest: dict[bytes, Receipt]
) -> None:
    """Keep in `newest` the last of each key, where that claims something of what is open. `stable`: as for `Claims`."""
    for each in laid:
        newest.pop(each.key, None)
        receipt = _receipt(scope, recovery, each)
        if receipt is not None and any(True for _ in _open_runs(receipt, stable)):
            newest[each.key] = receipt


def is_landed(claims: Claims, partition: int, offsets: Sequence[int]) -> int | None:
    """The lane of which all these records are, and landed. `offsets`: those from the last stable offset on."""
    lanes = {claims.lane_of(partition, offset) for offset in offsets}
    return lanes.pop() if len(lanes) == 1 else None


def by_lane(found: Mapping[Place, int]) -> dict[int, list[Place]]:
    places: dict[int, list[Place]] = {}
    for place, lane in sorted(found.items()):
        places.setdefault(lane, []).append(place)
    return places


def _lane_of_head(scope: str, recovery: str, each: Laid) -> int | None:
    lane = each.key.rpartition(b"/")[2].decode(errors="replace")
    is_own = lane.isdecimal() and each.key == head_key(scope, recovery, int(lane)).encode()
    return int(lane) if is_own else None


def _receipt(scope: str, recovery: str, each: Laid) -> Receipt | None:
    if each.value is None or not each.key.startswith(f"{scope}/{recovery}/".encode()):
        return None
    try:
        return decode(Receipt, each.value)
    except ContractError:
        return None
