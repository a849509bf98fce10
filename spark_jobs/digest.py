"""One digest that proves content, count and order of a sequence of records, cheap enough to be made while copying. Pure.

The digest is a keyed blake2b-128 over blocks of BLOCK records. A block is encoded column by column (count, lengths, times, headers, then the joined
bytes), with -1 as the length of null, so that no two different sequences have the same encoding, and null is not empty. Columns instead of records,
because one hash call and one join per block cost a tenth of what per-record work in Python costs. Both sides cut blocks at the same places: each
BLOCK records from the start of the sequence.
"""

import hashlib
import sys
from array import array
from collections.abc import Sequence

Headers = Sequence[tuple[str, bytes | None]] | None

BLOCK = 4096
_VERSION = b"recoveryd.digest.1"


class SequenceDigest:
    """Digest of the records of one receipt in one target partition. `recovery` keys it, the partition is part of what it covers."""

    __slots__ = ("_hash", "_headers", "_keys", "_times", "_values", "count")

    def __init__(self, recovery: str, partition: int) -> None:
        key = hashlib.blake2b(recovery.encode(), digest_size=32).digest()
        self._hash = hashlib.blake2b(_VERSION, digest_size=16, key=key)
        self._hash.update(partition.to_bytes(4, "little"))
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._times: list[int] = []
        self._headers: list[Headers] = []
        self.count = 0

    def extend(
        self,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        times_ms: Sequence[int],
        headers: Sequence[Headers],
    ) -> None:
        """Append records given as columns of equal length."""
        self._keys += keys
        self._values += values
        self._times += times_ms
        self._headers += headers
        self.count += len(keys)
        while len(self._keys) >= BLOCK:
            self._take(BLOCK)

    def hex(self) -> str:
        """Digest of everything so far; call once, at the end of the sequence."""
        if self._keys:
            self._take(len(self._keys))
        return self._hash.hexdigest()

    def _take(self, count: int) -> None:
        block = encode_block(self._keys[:count], self._values[:count], self._times[:count], self._headers[:count])
        self._hash.update(block)
        del self._keys[:count], self._values[:count], self._times[:count], self._headers[:count]


def encode_block(
    keys: list[bytes | None], values: list[bytes | None], times_ms: list[int], headers: list[Headers]
) -> bytes:
    """Canonical bytes of a block of records, the same for the same records and for no others."""
    count = array("q", (len(keys),))
    key_sizes, key_bytes = _column(keys)
    value_sizes, value_bytes = _column(values)
    times = array("q", times_ms)
    if sys.byteorder == "big":
        for part in (count, key_sizes, value_sizes, times):
            part.byteswap()
    head = _encode_headers(headers)
    return b"".join((count, key_sizes, value_sizes, times, head, key_bytes, value_bytes))


def _column(items: list[bytes | None]) -> tuple["array[int]", bytes]:
    try:
        return array("q", map(len, items)), b"".join(items)  # type: ignore[arg-type]
    except TypeError:  # at least one null: the slower way tells null from empty
        return array("q", [-1 if i is None else len(i) for i in items]), b"".join([i for i in items if i])


def _encode_headers(column: list[Headers]) -> bytes:
    """Number of bytes that follow, then for each record that has headers: its index, how many, and each name and value by length."""
    if not any(column):
        return bytes(8)
    parts: list[bytes] = []
    for index, headers in enumerate(column):
        if not headers:
            continue
        parts.append(index.to_bytes(4, "little") + len(headers).to_bytes(4, "little"))
        for name, value in headers:
            raw = name.encode("utf-8", "surrogateescape")
            size = -1 if value is None else len(value)
            parts.append(
                len(raw).to_bytes(4, "little") + size.to_bytes(4, "little", signed=True) + raw + (value or b"")
            )
    body = b"".join(parts)
    return len(body).to_bytes(8, "little") + body
