"""What a dead lane had committed and a broker forgot to mark (docs/guarantees.md), when no lane comes that could mend
it: judged here from what lies in the target and in the ledger, and committed by `ledger`, so that no reader waits for
ever.

Only what certainly landed is committed: a place whose open part begins with a record of the lane and holds nothing else
of which we do not know that it landed. Anything else is left to the next attempt, which looks closer.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from recoveryd_jobs.contract import ContractError, Receipt, decode

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
    """Offsets of the target that a lane's receipts claim, by partition."""

    by_lane: dict[int, dict[int, list[tuple[int, int]]]] = field(default_factory=dict)

    def add(self, receipt: Receipt) -> None:
        mine = self.by_lane.setdefault(receipt.lane, {})
        for run in receipt.targets:
            mine.setdefault(run.partition, []).extend(run.runs)

    def lane_of(self, partition: int, offset: int) -> int | None:
        for lane, claimed in self.by_lane.items():
            if any(first <= offset < first + count for first, count in claimed.get(partition, ())):
                return lane
        return None


def open_receipts(scope: str, recovery: str, laid: Sequence[Laid]) -> tuple[int, list[Receipt]] | None:
    """The lane whose chunks are open at the ledger's last stable offset, and their receipts. None when they are another
    recovery's, or not all of them are there. `laid`: what lies from there on, in order.
    """
    receipts = [(each, _receipt(scope, recovery, each)) for each in laid]
    if not receipts or receipts[0][1] is None:
        return None
    lane = receipts[0][1].lane
    chunks: dict[tuple[str, int], list[Receipt]] = {}
    for each, receipt in receipts:
        if receipt is not None and receipt.lane == lane:
            chunks.setdefault(each.chunk, []).append(receipt)
        elif receipt is None and each.key == f"{scope}/{recovery}#end/{lane}".encode():
            return None  # something of it was given up
    if any(len(found) != count for (_name, count), found in chunks.items()):
        return None
    return lane, [receipt for found in chunks.values() for receipt in found]


def read_receipts(scope: str, recovery: str, laid: Iterable[Laid]) -> list[Receipt]:
    """The newest of each key."""
    newest = {each.key: each for each in laid}
    found = [_receipt(scope, recovery, each) for each in newest.values()]
    return [receipt for receipt in found if receipt is not None]


def is_landed(claims: Claims, partition: int, offsets: Sequence[int]) -> int | None:
    """The lane of which all these records are, and landed. `offsets`: those from the last stable offset on."""
    lanes = {claims.lane_of(partition, offset) for offset in offsets}
    return lanes.pop() if len(lanes) == 1 else None


def by_lane(found: Mapping[Place, int]) -> dict[int, list[Place]]:
    places: dict[int, list[Place]] = {}
    for place, lane in sorted(found.items()):
        places.setdefault(lane, []).append(place)
    return places


def _receipt(scope: str, recovery: str, each: Laid) -> Receipt | None:
    if each.value is None or not each.key.startswith(f"{scope}/{recovery}/".encode()):
        return None
    try:
        return decode(Receipt, each.value)
    except ContractError:
        return None
