"""Rates as people type them: `2M/s` records, `250MB/s` bytes. A `B` makes it bytes; k, M and G are thousands, millions
and billions.
"""

import re
from dataclasses import dataclass

from recoveryd.cli.failure import invalid
from recoveryd.kernel.catalogue import Code
from recoveryd.wire.quantities import GROUPED, SizeProblem, parse_bytes

_RECORDS = re.compile(rf"((?:[0-9]{{1,19}}|{GROUPED})(?:\.[0-9]{{1,6}})?)\s*([kmg]?)", flags=re.ASCII | re.IGNORECASE)
_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


@dataclass(frozen=True, slots=True)
class TypedRate:
    """Per second; exactly one of the two is set."""

    records: float | None = None
    bytes: float | None = None

    def records_per_s(self, record_bytes: float | None, flag: str) -> float:
        """Bytes become records by their size. Raises `Failure` when that is not known."""
        if self.records is not None:
            return self.records
        if record_bytes is None:
            hint = "Give the mean size of a record, like --record-bytes 100."
            raise invalid(Code.MISSING_FIELD, f"{flag} is in bytes and the size of a record is not known.", hint)
        return (self.bytes or 0.0) / record_bytes


def parse_rate(text: str, flag: str) -> TypedRate:
    """`2M/s`, `10k`, `9_000/s` are records; `250MB/s`, `64KiB` bytes."""
    plain = text.strip().removesuffix("/s").strip()
    records = _records(plain)
    if records is not None:
        return TypedRate(records=records)
    try:
        if plain[-1:] in {"b", "B"}:
            return TypedRate(bytes=float(parse_bytes(plain)))
    except SizeProblem:
        pass
    hint = "Write records like 2M/s or 1.5k/s, bytes like 250MB/s."
    raise invalid(Code.INVALID_VALUE, f"{flag} `{text}` is no rate.", hint)


def parse_amount(text: str, flag: str) -> float:
    """A number of records: `1e9` is written `1G`, `3.456G`, `1_000_000`."""
    records = _records(text.strip())
    if records is None:
        hint = "Write it like 1000000 or 1.5G."
        raise invalid(Code.INVALID_VALUE, f"{flag} `{text}` is no number of records.", hint)
    return records


def _records(text: str) -> float | None:
    """None for what is no number, and for `1,500M`, which is 1.5M in half of the world."""
    found = _RECORDS.fullmatch(text)
    if found is None or ("," in found[1] and found[2]):
        return None
    return float(found[1].replace("_", "").replace(",", "")) * _FACTORS[found[2].lower()]
