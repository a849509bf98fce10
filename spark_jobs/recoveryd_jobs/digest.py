"""One digest that proves content, count and order of a sequence of records, cheap enough to be made while copying.
Pure.

The digest is the first half of a keyed SHA-256 over blocks. A block is encoded column by column (count, lengths, times,
headers, then the joined bytes), with -1 as the length of null, so that no two different sequences have the same
encoding and null differs from empty. Columns instead of records, because one hash call and one join per block cost a
tenth of per-record work in Python. A block ends with the record that makes it BLOCK records or BLOCK_BYTES large,
however the records were handed in, so the memory for an open block is bounded for records of any size.
"""

import hashlib
import sys
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from operator import add
from typing import Any

Headers = Sequence[tuple[str, bytes | None]] | None

BLOCK = 4096
BLOCK_BYTES = 128 * 1024
_VERSION = b"recoveryd.digest.2"
_SIZE = 16


class SequenceDigest:
    """Digest of the records of one receipt in one target partition. The hash is keyed by `recovery`, and `partition` is
    part of what it covers.
    """

    __slots__ = ("_bytes", "_columns", "_hash", "count")

    def __init__(self, recovery: str, partition: int) -> None:
        self._hash = hashlib.sha256(_VERSION + hashlib.sha256(recovery.encode()).digest())
        self._hash.update(partition.to_bytes(4, "little"))
        self._columns: tuple[list[Any], ...] = ([], [], [], [])  # keys, values, times and headers of the open block
        self._bytes = 0
        self.count = 0

    def extend(
        self,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        times_ms: Sequence[int],
        headers: Sequence[Headers] | None,
    ) -> None:
        """Append records given as columns of equal length; `headers` None = no record has any."""
        count = len(keys)
        self.count += count
        given = (keys, values, times_ms, headers if headers is not None else [None] * count)
        ends = list(accumulate(_sizes(keys, values, headers), initial=0))
        at = 0
        while at < count:
            full = ends[at] + BLOCK_BYTES - self._bytes
            stop = min(bisect_left(ends, full, at + 1), at + BLOCK - len(self._columns[0]), count)
            for column, more in zip(self._columns, given, strict=True):
                column.extend(more[at:stop])
            self._bytes += ends[stop] - ends[at]
            at = stop
            if len(self._columns[0]) == BLOCK or self._bytes >= BLOCK_BYTES:
                self._take()

    def settle(self) -> None:
        """Let go of the records so far, where no more are expected: what comes after all makes another digest."""
        if self._columns[0]:
            self._take()

    def digest(self) -> bytes:
        """The digest of all records so far; call it once, at the end of the sequence."""
        self.settle()
        return self._hash.digest()[:_SIZE]

    def hex(self) -> str:
        """`digest` as text."""
        return self.digest().hex()

    def _take(self) -> None:
        self._hash.update(encode_block(*self._columns))
        self._columns, self._bytes = ([], [], [], []), 0


def _sizes(
    keys: Sequence[bytes | None], values: Sequence[bytes | None], headers: Sequence[Headers] | None
) -> list[int]:
    try:
        sizes = list(map(add, map(len, keys), map(len, values)))  # type: ignore[arg-type]
    except TypeError:  # at least one null
        sizes = [len(k or b"") + len(v or b"") for k, v in zip(keys, values, strict=True)]
    if headers is not None:
        for at, row in enumerate(headers):
            if row:
                sizes[at] += sum(len(name) + len(value or b"") for name, value in row)
    return sizes


def encode_block(
    keys: list[bytes | None], values: list[bytes | None], times_ms: list[int], headers: list[Headers]
) -> bytes:
    """Canonical bytes of a block of records: equal for equal records only."""
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
    except TypeError:  # at least one null: take the slower way, which tells null from empty
        return array("q", [-1 if i is None else len(i) for i in items]), b"".join([i for i in items if i])


def _encode_headers(column: list[Headers]) -> bytes:
    """Number of bytes that follow, then for each record with headers: its index, how many it has, and each name and
    value after its length.
    """
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
