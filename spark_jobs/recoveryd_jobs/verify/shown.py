"""What one task of the proof saw: rows and differences, which the driver adds up and judges (`judge`). Rows that
are the same on both sides need not come there.

A pair is (source partition, target partition); a segment is what one receipt covers of it (`segments`). Rows sum up the
records of a segment: its start, how many there are, their digest.
"""

import struct
import tempfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

from recoveryd_jobs.contract import Difference
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.verify.disk import naming_folder, spill_folder
from recoveryd_jobs.verify.match import SOURCE, TARGET

DIFFERENCES_MAX = 100
ROW = struct.Struct("<qq16s")  # start of the segment, records, digest

Pair = tuple[int, int]

_HELD_BYTES = 16 * 1024 * 1024  # of rows, until they go to disk
_PAIR_BYTES = 200  # what a pair costs besides its rows
_PIECE = struct.Struct("<iiiq")  # pair, side, size


class RowSpool:
    """Rows on the disk of a task, in a file that disappears with it."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def put(self, pair: Pair, side: int, rows: bytearray) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=spill_folder())  # noqa: SIM115  (closed when it is taken)
        self._file.write(_PIECE.pack(*pair, side, len(rows)) + rows)

    def take(self) -> Iterator[tuple[Pair, tuple[int, bytes]]]:
        """All that was put, in this order, once."""
        if self._file is None:
            return
        with self._file as file:
            with naming_folder():
                file.seek(0)  # writes what it still holds
            while head := file.read(_PIECE.size):
                source, target, side, size = _PIECE.unpack(head)
                yield (source, target), (side, file.read(size))


@dataclass(slots=True)
class Shown:
    """What one task saw.

    `sources`, `targets`: per pair, rows of segments that are still to be compared, or were compared and differ. `cut`:
    by source partition, [from, to): segments that begin there could not be read whole. `tails`: per pair, rows of such
    segments that sum up the records after what is gone, which the target must hold as its last ones of the segment.
    `heads`: per pair, rows of such segments that sum up the records that were read before others of them were deleted,
    which the target must hold as its first ones. `denied`: per pair, starts of segments of which something was seen
    that no loss in the source explains. `folds`: per pair, the digest of everything in the target. `dissent`: per pair,
    starts of segments where the target is not what the receipt says. `readable_from`: by source partition, its log
    start, where that is after the start of the range. `unread`: by such a partition, offsets before its log start that
    receipts do not call lost. `uncompared`: by partition, records that were read after one loss in their segment and
    deleted before the place of them was known. `untimed`: how many records of each side were left out of a time window
    because they have no time. `spool`: where rows are taken from here (`take_rows`), those go that are too many to be
    held.
    """

    sources: dict[Pair, bytearray] = field(default_factory=dict)
    targets: dict[Pair, bytearray] = field(default_factory=dict)
    cut: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    tails: dict[Pair, bytearray] = field(default_factory=dict)
    heads: dict[Pair, bytearray] = field(default_factory=dict)
    denied: dict[Pair, "array[int]"] = field(default_factory=dict)
    folds: dict[Pair, bytes] = field(default_factory=dict)
    dissent: dict[Pair, "array[int]"] = field(default_factory=dict)
    undigested: dict[Pair, "array[int]"] = field(default_factory=dict)  # where the receipt has no digest to compare
    differences: list[Difference] = field(default_factory=list)
    differences_more: int = 0
    selected: int = 0  # source records in the rows and tails
    promised: int = 0  # records that receipts call copied, when the source is not read again
    claimed: int = 0  # target records in the rows
    extra: dict[int, int] = field(default_factory=dict)
    extra_runs: list[tuple[int, int, int]] = field(default_factory=list)  # target partition, first offset, records
    extra_runs_more: int = 0  # how many are not listed
    lost: int = 0  # offsets that receipts call lost and that cannot be read
    readable_from: dict[int, int] = field(default_factory=dict)
    unread: dict[int, int] = field(default_factory=dict)
    uncompared: dict[int, int] = field(default_factory=dict)
    untimed: list[int] = field(default_factory=lambda: [0, 0])
    spool: RowSpool | None = None
    held: int = 0  # bytes of rows and pairs

    def differ(self, difference: Difference) -> None:
        if len(self.differences) < DIFFERENCES_MAX:
            self.differences.append(difference)
        else:
            self.differences_more += 1

    def doubt_receipt(self, partition: int, start: int, count: int, message: str) -> None:
        """Note a difference in the ledger itself, about `count` offsets of a source partition."""
        self.differ(Difference("ledger", partition, start, None, None, count, message))

    def tell(self, pair: Pair, side: int, row: bytes) -> None:
        """Add a row to compare."""
        if self.spool is not None and self.held + len(row) > _HELD_BYTES:
            for told, (at, rows) in self._take_held():
                self.spool.put(told, at, rows)
        held = self.sources if side == SOURCE else self.targets
        if pair not in held:
            held[pair] = bytearray()
            self.held += _PAIR_BYTES
        held[pair].extend(row)
        self.held += len(row)

    def take_rows(self) -> Iterator[tuple[Pair, tuple[int, bytes]]]:
        """All rows to compare, as (pair, (side, rows)), those of a pair and side in order; none is left here."""
        spool, self.spool = self.spool, None
        if spool is not None:
            yield from spool.take()
        for pair, (side, rows) in self._take_held():
            yield pair, (side, bytes(rows))

    def _take_held(self) -> Iterator[tuple[Pair, tuple[int, bytearray]]]:
        self.held = 0
        for side, held in ((SOURCE, self.sources), (TARGET, self.targets)):
            while held:
                pair, rows = held.popitem()
                yield pair, (side, rows)

    def deny(self, pair: Pair, start: int) -> None:
        """Note that the segment of the pair that begins at `start` is no copy."""
        self.denied.setdefault(pair, array("q")).append(start)


def no_verdict(partition: int, log_start: int) -> JobError:
    """The error for deleted records of a source without receipts, which nothing else can prove."""
    where = f"Partition {partition} of the source begins at {log_start} now"
    return JobError("data_lost", f"{where}: records were deleted before they were compared, and there are no receipts.")
