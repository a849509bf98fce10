"""The values the history checker works on: what was asked, what the logs hold, what matched, what is wrong. No I/O
here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.ledger import Receipt
from tests.e2e.log_reader import Content, Header, Record
from tests.e2e.murmur2 import partition_of


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken invariant. `invariant` is I1 to I12 of docs/guarantees.md, `message` names partition and offset."""

    invariant: str
    message: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.message}"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the recovery was asked to do. `ranges` is [from, to) per source partition, exactly what must be covered now.

    `lost`: offsets that the recovery may call lost. With `log_append_time`, the target's times are the broker's.
    `shared`: others write to the target too, so the records of a chunk need not be contiguous in it.
    """

    recovery: str
    ranges: Mapping[int, tuple[int, int]]
    target_partitions: int
    mapping: str = "same"
    headers_add: tuple[tuple[str, str], ...] = ()
    headers_drop: tuple[str, ...] = ()
    from_time_ms: int | None = None
    to_time_ms: int | None = None
    lost: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    log_append_time: bool = False
    shared: bool = False

    def selects(self, record: Record) -> bool:
        """True when the record's time lies in the asked window (a record without time has -1)."""
        is_old = self.from_time_ms is not None and record.time_ms < self.from_time_ms
        is_new = self.to_time_ms is not None and record.time_ms >= self.to_time_ms
        return not is_old and not is_new

    def has(self, record: Record) -> bool:
        start, stop = self.ranges.get(record.partition, (0, 0))
        return start <= record.offset < stop

    def calls_lost(self, record: Record) -> bool:
        start, stop = self.lost.get(record.partition, (0, 0))
        return start <= record.offset < stop

    def image_of(self, record: Record) -> Content:
        """The content that a copy of the record must have."""
        kept = tuple(h for h in record.headers if h[0] not in self.headers_drop)
        added: tuple[Header, ...] = tuple((name, text.encode()) for name, text in self.headers_add)
        return (record.key, record.value, kept + added, self.time_of(record))

    def content_of(self, record: Record) -> Content:
        """A target record in the form it is compared in."""
        return (record.key, record.value, record.headers, self.time_of(record))

    def time_of(self, record: Record) -> int:
        return 0 if self.log_append_time else record.time_ms

    def partition_for(self, record: Record) -> int | None:
        """The target partition of the record by the plan's map; None = any (key_hash of a null key)."""
        if self.mapping == "same":
            return record.partition
        return None if record.key is None else partition_of(record.key, self.target_partitions)


@dataclass(frozen=True, slots=True)
class Observed:
    """What a read_committed reader saw during the copy: offsets per partition, and each position at which it had read
    everything visible.
    """

    offsets: Mapping[int, Sequence[int]]
    prefixes: Mapping[int, Sequence[int]]


@dataclass(frozen=True, slots=True)
class History:
    """Everything by which one copy is judged. Lists are in offset order.

    `source` are the visible records of the whole source log, `vanished` those that were visible before the run and are
    gone now, `aborted` those that never became visible. `target` are the visible records that are not another
    recovery's; `hidden` the (partition, offset) of records that are in the target but not visible.
    """

    asked: Asked
    source: Mapping[int, Sequence[Record]]
    target: Mapping[int, Sequence[Record]]
    receipts: Sequence[Receipt]
    aborted: Sequence[Record] = ()
    vanished: Sequence[Record] = ()
    hidden: frozenset[tuple[int, int]] = frozenset()
    receipts_partitions: int = 1
    status: Mapping[str, Any] | None = None
    observed: Observed | None = None
    bounds: Mapping[int, int] = field(
        default_factory=dict
    )  # the pinned stop of each partition, where it differs from `ranges`


@dataclass(frozen=True, slots=True)
class Image:
    """A source record that must have one image: where, and with what content."""

    source: Record
    partition: int | None
    content: Content


@dataclass(frozen=True, slots=True)
class Pair:
    """A target record and the source record it is the image of. `flaw` names the invariant it breaks, "" = exact."""

    target: Record
    image: Image
    flaw: str = ""


@dataclass(frozen=True, slots=True)
class Matching:
    pairs: Sequence[Pair]
    missing: Sequence[Image]
    extra: Sequence[Record]


class Claims:
    """Which receipt claims an offset of the target, by binary search over all runs."""

    def __init__(self, receipts: Sequence[Receipt]) -> None:
        runs = sorted(
            (
                (run.partition, run.first, run.stop, receipt)
                for receipt in receipts
                for run in receipt.runs
                if run.count
            ),
            key=lambda item: item[:3],
        )
        self._runs: dict[int, list[tuple[int, int, Receipt]]] = {}
        for partition, first, stop, receipt in runs:
            self._runs.setdefault(partition, []).append((first, stop, receipt))

    def of(self, partition: int, offset: int) -> Receipt | None:
        runs = self._runs.get(partition, [])
        low, high = 0, len(runs)
        while low < high:
            middle = (low + high) // 2
            if runs[middle][0] <= offset:
                low = middle + 1
            else:
                high = middle
        if low and runs[low - 1][0] <= offset < runs[low - 1][1]:
            return runs[low - 1][2]
        return None

    def runs(self, partition: int) -> Sequence[tuple[int, int, Receipt]]:
        """(first, stop, receipt) in offset order."""
        return self._runs.get(partition, [])
