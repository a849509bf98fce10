"""The table of log ends: when the log of a partition ended where, as far as the looks at it tell."""

from array import array
from bisect import bisect_right
from typing import Final, TypeAlias

Numbers: TypeAlias = "array[int]"  # of 64 bits

NO_NUMBERS: Final[Numbers] = array("q")


def ended_ms(ends: Numbers, ends_ms: Numbers, offset: int, *, is_begin: bool = False) -> float | None:
    """When the log ended at the offset, interpolated between two samples of the end; None = not between any.
    `is_begin`: it is asked for the time of the record there. Of one that was not there yet at a sample, nothing tells
    when it came before the next: half of that time counts, since a transaction is mostly shorter.
    """
    after = bisect_right(ends, offset)
    if not 0 < after < len(ends):
        return None
    left, left_ms = ends[after - 1], ends_ms[after - 1]
    share = 0.5 if is_begin and offset == left else (offset - left) / (ends[after] - left)
    return left_ms + share * (ends_ms[after] - left_ms)
