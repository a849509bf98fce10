"""Whether the positions where a group is to begin make sense together: none of it is refused, all of it is told."""

from collections.abc import Iterator, Sequence
from typing import Final

from recoveryd.kernel.times import format_time_ms
from recoveryd.workflows.model.positions import NewPosition, PartitionLook

APART_MS: Final = 60_000
_NAMED_MOST: Final = 5


def start_findings(moved: Sequence[tuple[NewPosition, PartitionLook]]) -> tuple[str, ...]:
    """A start inside a transaction, and starts at times that lie apart."""
    inside = [_inside(to, look) for to, look in moved if look.transaction_start is not None]
    more = len(inside) - _NAMED_MOST
    shown = inside[:_NAMED_MOST] + ([f"and {more} more begin inside a transaction"] if more > 0 else [])
    return (*shown, *_apart(moved))


def _inside(to: NewPosition, look: PartitionLook) -> str:
    at, began = f"{look}: {to.offset:,}", f"that began at {look.transaction_start:,}"
    if look.is_transaction_open:
        return f"{at} lies behind an open transaction {began}: what it wrote before is not read once it is committed"
    return f"{at} lies inside an aborted transaction {began}: who reads uncommitted records sees a part of it"


def _apart(moved: Sequence[tuple[NewPosition, PartitionLook]]) -> Iterator[str]:
    known = [(look.first_ms, str(look)) for _, look in moved if look.first_ms is not None]
    if len(known) > 1 and max(known)[0] - min(known)[0] > APART_MS:
        (first_ms, first), (last_ms, last) = min(known), max(known)
        yield (
            f"partitions begin at unequal times, {first} at {format_time_ms(first_ms)} and {last} at "
            f"{format_time_ms(last_ms)}: what belongs together may be read twice or never; a time as position would not"
        )
