"""The proofs that need each single record: of a copy to other partitions without receipts, and of the last value of
each key.

Both keep a short hash per record or key in a private SQLite file (`disk`): memory is the same for any number of
records. Measured with one and three million on each side, the worker's disk holds at its fullest up to 280 bytes for
each record of the source, since rows are numbered in tables of their own beside those that came and are sorted for it
in another file, and 150 for each key. Without receipts nothing says which source partition a record of the target came
from, so it is found by its content: the n-th record of some content in the target is the n-th of that content in the
source. Order is then proved per pair of partitions, for all content that only one source partition has; records that
are equal in several partitions may stand in for each other.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Message

from recoveryd_jobs.contract import Difference, Verification
from recoveryd_jobs.selection import Columns, Selection
from recoveryd_jobs.verify.disk import in_steps, open_database
from recoveryd_jobs.verify.judge import NOTHING, untimed_note
from recoveryd_jobs.verify.match import SOURCE, TARGET
from recoveryd_jobs.verify.plan import STAMPED
from recoveryd_jobs.verify.reader import Range
from recoveryd_jobs.verify.shown import DIFFERENCES_MAX, no_verdict

_CACHE_KB = 32_768
_NOWHERE = -1  # records without a key may go to any partition
_SIZE = 16
# `t`: target partition, _NOWHERE = any. `p`: the partition that holds the record. `n`: counts equal records.
_TABLES = """
    CREATE TABLE row (side INT, t INT, hash BLOB, key BLOB, p INT, offset INT);
    CREATE TABLE latest (side INT, t INT, key BLOB, p INT, offset INT, hash BLOB,
        PRIMARY KEY (side, t, key, p)) WITHOUT ROWID;
"""
_NUMBERED = """
    CREATE TABLE {name} (t INT, hash BLOB, n INT, key BLOB, p INT, offset INT, PRIMARY KEY (t, hash, n)) WITHOUT ROWID;
    INSERT INTO {name} SELECT t, hash, row_number() OVER (PARTITION BY t, hash ORDER BY p, offset), key, p, offset
        FROM row WHERE side={side};
"""


@dataclass(slots=True)
class SpillFinding:
    """What one task found. `unkeyed`: records without a key in (source, target), which were not compared."""

    source: int = 0
    target: int = 0
    unkeyed: tuple[int, int] = (0, 0)
    untimed: list[int] = field(default_factory=lambda: [0, 0])  # records of either side that a window passed over
    extra: int = 0
    total: int = 0
    differences: list[Difference] = field(default_factory=list)

    def add(self, difference: Difference) -> None:
        self.total += 1
        if len(self.differences) < DIFFERENCES_MAX:
            self.differences.append(difference)


def content_hash(key: bytes | None, value: bytes | None, at: int | None, headers: Any) -> bytes:
    """Equal for equal records only: each part follows its length, -1 for null."""
    sizes = b"%d,%d,%d;" % (-1 if key is None else len(key), -1 if value is None else len(value), at or 0)
    told = repr([(name, text) for name, text in headers]).encode() if headers else b""
    return hashlib.sha256(b"".join((sizes, key or b"", value or b"", told))).digest()[:_SIZE]


def key_hash(key: bytes | None) -> bytes:
    return b"" if key is None else hashlib.sha256(key).digest()[:_SIZE]


class Spill:
    """The file. Not thread-safe. `step` is called while it compares, which may take long, and may raise."""

    def __init__(self, step: Callable[[], object]) -> None:
        self._step = step
        self._db = open_database(_CACHE_KB, f"{_TABLES}BEGIN;")
        self.unkeyed = [0, 0]

    def close(self) -> None:
        self._db.close()

    def put_records(self, rows: Iterable[tuple[Any, ...]]) -> None:
        self._db.executemany("INSERT INTO row VALUES (?,?,?,?,?,?)", rows)

    def put_latest(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Rows are (side, t, key, p, offset, hash), with t the target's and p the own partition. Keeps the newest of
        each key and partition; hash None = deleted.
        """
        self._db.executemany(
            "INSERT INTO latest VALUES (?,?,?,?,?,?) ON CONFLICT DO UPDATE SET offset=excluded.offset, "
            "hash=excluded.hash"
            " WHERE excluded.offset > offset",
            rows,
        )

    def compare(self, *, latest: bool) -> SpillFinding:
        """Compare last values or all records. Raises what `step` raises; the file is of no use then."""
        with in_steps(self._db, self._step):
            return self._compare_latest() if latest else self._compare_records()

    def _compare_records(self) -> SpillFinding:
        for side, name in ((SOURCE, "wanted"), (TARGET, "stored")):
            self._db.execute("COMMIT")
            self._db.executescript(_NUMBERED.format(name=name, side=side) + "BEGIN;")
        found = SpillFinding(self._count("wanted"), self._count("stored"))
        missing = self._db.execute(
            "SELECT w.key, w.t, w.p, w.offset FROM wanted w LEFT JOIN stored s USING (t, hash, n) WHERE s.n IS NULL "
            "ORDER BY w.p, w.offset"
        )
        extra = self._db.execute(
            "SELECT s.key, s.t, s.p, s.offset FROM stored s LEFT JOIN wanted w USING (t, hash, n) WHERE w.n IS NULL "
            "ORDER BY s.p, s.offset"
        )
        self._tell(found, missing, extra)
        for p, offset, target, at in self._descents():
            message = "The record stands in front of one that comes before it in its source partition."
            found.add(Difference("reordered", p, offset, target, at, 1, message))
        return found

    def _tell(self, found: SpillFinding, missing: Iterator[Any], extra: Iterator[Any]) -> None:
        """Report differences. A missing and an extra record of one key in one partition are one altered record, as far
        as extra ones are remembered.
        """
        odd: dict[tuple[bytes, int], list[tuple[int, int]]] = {}
        singles: list[tuple[bytes, int, int, int]] = []
        for key, t, p, offset in extra:
            found.extra += 1
            if len(singles) < 10 * DIFFERENCES_MAX:
                singles.append((key, t, p, offset))
                odd.setdefault((key, t), []).append((p, offset))
            else:
                found.total += 1
        for key, t, p, offset in missing:
            places = odd.get((key, t))
            if places:
                target, at = places.pop(0)
                found.extra -= 1
                found.add(Difference("altered", p, offset, target, at, 1, "The record is another one in the target."))
            else:
                found.add(
                    Difference("missing", p, offset, None if t < 0 else t, None, 1, "The record is not in the target.")
                )
        left = {place for places in odd.values() for place in places}
        for _, _, p, offset in singles:
            if (p, offset) in left:
                found.add(Difference("extra", None, None, p, offset, 1, "The record is not in the source."))

    def _descents(self) -> Iterator[tuple[int, int, int, int]]:
        """Records that are in the target before a record which they follow in the source, per pair of partitions."""
        # Content of several source partitions is joined: SQLite looks through all of it for each row that is NOT IN it.
        rows = self._db.execute(
            "SELECT w.p, s.p, w.offset, s.offset FROM wanted w JOIN stored s USING (t, hash, n)"
            " LEFT JOIN (SELECT t, hash FROM wanted GROUP BY t, hash"
            " HAVING min(p) < max(p) OR (t < 0 AND count(*) > 1)) d ON d.t = w.t AND d.hash = w.hash"
            " WHERE d.t IS NULL ORDER BY w.p, s.p, w.offset"
        )
        pair, last = None, -1
        for p, target, offset, at in rows:
            if (p, target) == pair and at < last:
                yield p, offset, target, at
            pair, last = (p, target), at

    def _compare_latest(self) -> SpillFinding:
        """Compare last values. Several source partitions may have a key; the target must hold the last value from one
        of them.
        """
        alive = "SELECT count(*) FROM (SELECT DISTINCT t, key FROM latest WHERE side=? AND hash IS NOT NULL)"
        (source,), (target,) = (self._db.execute(alive, (side,)).fetchone() for side in (SOURCE, TARGET))
        found = SpillFinding(source, target, (self.unkeyed[SOURCE], self.unkeyed[TARGET]))
        wanted = "SELECT t, key, p, offset, hash FROM latest WHERE side=0 AND hash IS NOT NULL ORDER BY p, offset"
        for t, key, p, offset, digest in self._db.execute(wanted):
            there = self._db.execute(
                "SELECT p, offset, hash FROM latest WHERE side=1 AND t=? AND key=?", (t, key)
            ).fetchone()
            if there is None or there[2] is None:
                if self._is_settled(t, key, None):
                    continue
                message = "The target does not hold this key" + (" any more." if there is not None else ".")
                found.add(
                    Difference(
                        "missing", p, offset, None if t < 0 else t, None if there is None else there[1], 1, message
                    )
                )
            elif there[2] != digest and not self._is_settled(t, key, there[2]):
                found.add(
                    Difference(
                        "altered",
                        p,
                        offset,
                        there[0],
                        there[1],
                        1,
                        "The last value of this key is another one in the target.",
                    )
                )
        stored = "SELECT t, key, p, offset FROM latest WHERE side=1 AND hash IS NOT NULL ORDER BY p, offset"
        for t, key, p, offset in self._db.execute(stored):
            if (
                self._db.execute(
                    "SELECT 1 FROM latest WHERE side=0 AND t=? AND key=? AND hash IS NOT NULL", (t, key)
                ).fetchone()
                is None
            ):
                found.extra += 1
                found.add(
                    Difference("extra", None, None, p, offset, 1, "The source does not hold this key, or deleted it.")
                )
        return found

    def _is_settled(self, t: int, key: bytes, digest: bytes | None) -> bool:
        """Whether another source partition's last value of the key is what the target holds; None = deleted."""
        same = "SELECT 1 FROM latest WHERE side=0 AND t=? AND key=? AND hash IS ?"
        return self._db.execute(same, (t, key, digest)).fetchone() is not None

    def _count(self, table: str) -> int:
        return int(self._db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608  (own tables)


class SpillSide:
    """Takes what readers of one side see. `latest`: keep only the last value of each key, else every record."""

    def __init__(self, spill: Spill, selection: Selection, side: int, *, latest: bool) -> None:
        self._spill, self._selection, self._side, self._latest = spill, selection, side, latest

    def begin(self, ranged: Range) -> None: ...

    def deleted(self, partition: int, position: int, log_start: int) -> None:  # noqa: ARG002  (of the protocol)
        """Nothing to do: records gone from the target are missing there."""
        if self._side == SOURCE:
            raise no_verdict(partition, log_start)

    def finish(self, partition: int) -> None: ...

    def feed(self, partition: int, messages: list[Message]) -> int:
        is_source = self._side == SOURCE
        columns = self._selection.expected(messages) if is_source else self._selection.seen(messages)
        to = [partition] * len(columns.offsets)
        if is_source:
            to = self._selection.targets(partition, columns.keys, columns.offsets) or to
        rows = self._latest_rows(partition, columns, to) if self._latest else self._record_rows(partition, columns, to)
        (self._spill.put_latest if self._latest else self._spill.put_records)(rows)
        return columns.header_bytes

    def _record_rows(self, partition: int, c: Columns, to: list[int]) -> list[tuple[Any, ...]]:
        headers = c.headers or [None] * len(c.offsets)
        return [
            (
                self._side,
                _NOWHERE if key is None else t,
                content_hash(key, value, at, row),
                key_hash(key),
                partition,
                offset,
            )
            for t, key, value, at, row, offset in zip(to, c.keys, c.values, c.times, headers, c.offsets, strict=True)
        ]

    def _latest_rows(self, partition: int, c: Columns, to: list[int]) -> list[tuple[Any, ...]]:
        """Rows for `put_latest`. Records without a key have no last value and are only counted."""
        self._spill.unkeyed[self._side] += sum(key is None for key in c.keys)
        headers = c.headers or [None] * len(c.offsets)
        return [
            (
                self._side,
                t,
                key_hash(key),
                partition,
                offset,
                None if value is None else content_hash(None, value, None, row),
            )
            for t, key, value, row, offset in zip(to, c.keys, c.values, headers, c.offsets, strict=True)
            if key is not None
        ]


def report_spilled(findings: list[SpillFinding], *, latest: bool, notes: Iterable[str] = ()) -> Verification:
    differences = [d for f in findings for d in f.differences][:DIFFERENCES_MAX]
    total = sum(f.total for f in findings)
    notes = ["the last value of each key was compared", *(n for n in notes if n != STAMPED)] if latest else list(notes)
    unkeyed = [sum(f.unkeyed[side] for f in findings) for side in (SOURCE, TARGET)]
    if any(unkeyed):
        counts = f"{unkeyed[SOURCE]} in the source, {unkeyed[TARGET]} in the target"
        odd = ": the numbers differ" if unkeyed[SOURCE] != unkeyed[TARGET] else ""
        notes.append(f"records without a key have no last value and were only counted, {counts}{odd}")
    notes += untimed_note(f.untimed for f in findings)
    if not any(f.source + f.target for f in findings):
        notes.append(NOTHING)
    if total > DIFFERENCES_MAX:
        notes.append(f"{total} differences, the first {DIFFERENCES_MAX} are listed")
    return Verification(
        result="mismatch" if differences else "match",
        source_records=sum(f.source for f in findings),
        target_records=sum(f.target for f in findings),
        digest="",
        differences=tuple(differences),
        why="; ".join(notes),
        scope="source",
        extra_records=sum(f.extra for f in findings),
        unkeyed_source_records=unkeyed[SOURCE],
        unkeyed_target_records=unkeyed[TARGET],
    )
