"""How many partitions one recovery may have: its plan, its progress and what is said at its end are one status record,
which has to stay in what the status topic takes. One that became too large could not be journaled, by no daemon.
"""

from typing import Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import RefusedError

RECORD_BYTES_MOST: Final = 8_000_000  # of the 8 MiB that the topic takes
# Of a partition in JSON, when the recovery has ended, with offsets of 15 digits that the command names one by one.
_COPIED_BYTES: Final = 1_000
_COPIED_TO_BYTES: Final = 30
_COMPARED_BYTES: Final = 300
_COMPARED_WITH_BYTES: Final = 150


def why_too_many_copied(sources: int, targets: int) -> str:
    """Why so many partitions cannot be copied into a topic of so many; "" where they can."""
    return _why(sources, _COPIED_BYTES * sources + _COPIED_TO_BYTES * targets)


def check_copy_size(sources: int, targets: int) -> None:
    """Raises `RefusedError` for more than can be copied."""
    _check(why_too_many_copied(sources, targets))


def check_comparison_size(sources: int, targets: int) -> None:
    """As `check_copy_size`, of partitions that are only compared."""
    _check(_why(sources, _COMPARED_BYTES * sources + _COMPARED_WITH_BYTES * targets))


def _why(partitions: int, size: int) -> str:
    if size <= RECORD_BYTES_MOST:
        return ""
    most = f"{RECORD_BYTES_MOST / 1e6:.0f} MB"
    return f"{partitions:,} partitions need {size / 1e6:.1f} MB to be noted, and one recovery takes {most}"


def _check(why: str) -> None:
    if why:
        raise RefusedError(Code.TOO_MANY_PARTITIONS, why)
