"""A range of a source partition, cut where receipts begin and end, and what is wrong with the receipts themselves."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from recoveryd_jobs.verify.ledger import ProofLedger, ReceiptClaim
from recoveryd_jobs.verify.shown import Shown


class Segment(NamedTuple):
    start: int
    stop: int
    claim: ReceiptClaim | None


class SegmentWalk:
    """Segments of one source partition, in order, for whoever asks for single ones. They are gone through once, and no
    further than anybody asks; each costs 16 bytes.
    """

    def __init__(self, found: Iterator[Segment]) -> None:
        self._found = found
        self._starts, self._stops = array("q"), array("q")

    def begin_at(self, start: int) -> list[tuple[int, int]]:
        """(start, stop) of those that begin there: none or one, unless receipts contradict each other."""
        while not self._starts or self._starts[-1] <= start:
            segment = next(self._found, None)
            if segment is None:
                break
            self._starts.append(segment.start)
            self._stops.append(segment.stop)
        first, last = bisect_left(self._starts, start), bisect_right(self._starts, start)
        return [(start, stop) for stop in self._stops[first:last]]


def segments(
    partition: int, start: int, stop: int, ledger: ProofLedger, shown: Shown, *, kept: bool
) -> Iterator[Segment]:
    """[start, stop) of a source partition, cut where receipts begin and end. Errors in the receipts themselves go to
    `shown`. `kept`: the copy has receipts, so they must cover everything.
    """
    at = start
    for claim in ledger.claims(partition):
        _audit_sums(partition, claim, ledger, shown)
        if claim.start > at:
            if (count := min(claim.start, stop) - at) > 0:
                shown.doubt_receipt(partition, at, count, f"No receipt covers the {count} offsets from here.")
            yield Segment(at, claim.start, None)
        if claim.start < at:
            shown.doubt_receipt(
                partition,
                claim.start,
                at - claim.start,
                "The receipt that begins here covers offsets that another one covers.",
            )
        if claim.stop > stop:
            shown.doubt_receipt(
                partition,
                max(stop, claim.start),
                claim.stop - max(stop, claim.start),
                "A receipt goes past the end of the range.",
            )
        if claim.stop > max(at, claim.start):
            yield Segment(max(at, claim.start), claim.stop, claim)
        at = max(at, claim.stop)
    if at < stop:
        if kept:
            shown.doubt_receipt(
                partition, at, stop - at, f"No receipt covers the {stop - at} offsets from here to the end."
            )
        yield Segment(at, stop, None)


def _audit_sums(partition: int, claim: ReceiptClaim, ledger: ProofLedger, shown: Shown) -> None:
    counts, count = (claim.copied, claim.filtered, claim.skipped, claim.lost), claim.stop - claim.start
    explained = sum(counts)
    if min(counts) < 0:
        shown.doubt_receipt(partition, claim.start, count, "The receipt has a negative count.")
    if explained != count:
        shown.doubt_receipt(partition, claim.start, count, f"The receipt explains {explained} of {count} offsets.")
    said, held = ledger.sent(partition, claim.start)
    if said != claim.copied:
        shown.doubt_receipt(partition, claim.start, count, f"The receipt says {claim.copied} copied and {said} sent.")
    if said != held:
        shown.doubt_receipt(partition, claim.start, count, f"The receipt says {said} sent, its runs hold {held}.")
