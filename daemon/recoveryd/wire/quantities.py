"""Sizes and rates as people write them (`32MiB`, `30MB`, `65536`), to bytes and back."""

import re
from typing import Final

_UNITS: Final = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
_SIZE: Final = re.compile(r"(\d{1,20})(?:\.(\d{1,6}))?\s*([a-z]*)", flags=re.ASCII | re.IGNORECASE)
_SHOWN_UNITS: Final = (
    ("TiB", 2**40),
    ("GiB", 2**30),
    ("MiB", 2**20),
    ("KiB", 2**10),
    ("TB", 10**12),
    ("GB", 10**9),
    ("MB", 10**6),
    ("KB", 10**3),
)


# Half of the world writes 1.5 as 1,5, so a comma separates thousands only where it can mean nothing else.
GROUPED: Final = r"[1-9][0-9]{0,2}(?:(?:,[0-9]{3}){1,6}|(?:_[0-9]{3}){1,6})"
_WHOLE: Final = re.compile(rf"[0-9]{{1,19}}|{GROUPED}", flags=re.ASCII)


class SizeProblem(ValueError):  # noqa: N818  (named for what happened)
    """The text is not a size; the message says why."""


def parse_bytes(text: str) -> int:
    """`32MiB` (2^20), `30MB` (10^6), `1.5GiB`, `4096` to bytes, rounded down. Raises `SizeProblem`."""
    match = _SIZE.fullmatch(text.strip())
    factor = _UNITS.get(match[3].upper()) if match else None
    if match is None or factor is None:
        raise SizeProblem("is not a size such as 32MiB, 30MB or 4096")
    fraction = match[2] or ""
    return int(match[1]) * factor + (int(fraction) * factor // 10 ** len(fraction) if fraction else 0)


def parse_whole(text: str) -> int | None:
    """`1000000`, `1_000_000` and `1,000,000`; None for what is no whole number, as `1,5`."""
    return int(text.replace("_", "").replace(",", "")) if _WHOLE.fullmatch(text) else None


def format_bytes(size: int) -> str:
    """The size in the unit that divides it and gives the shortest number, so that `parse_bytes` reads the same back:
    `32MiB`, `30MB`, `1001`.
    """
    fitting = [(size // factor, unit) for unit, factor in _SHOWN_UNITS if size and size % factor == 0]
    count, unit = min(fitting, default=(size, ""))
    return f"{count}{unit}"
