"""All windows of all watched readers, bounded. Polled offsets and `lag` signals are treated alike; the time of a sample
decides which is newer.

Unknown groups, partitions named twice in one report and partitions beyond the bound are refused and counted; none of
them makes a lag look smaller.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from recoveryd.live.freshness import Reading, RejectReason, counted
from recoveryd.live.lag.evaluate import evaluate_group
from recoveryd.live.lag.verdicts import GroupLag
from recoveryd.live.lag.window import LagParams, LagSample, Window, with_sample
from recoveryd.live.signals import LagSignal

PARTITIONS_MOST = 50_000
_NEW = Window()


class Reader(NamedTuple):
    """A consumer group (or a recovery by its id) on one topic."""

    cluster: str
    topic: str
    group: str


@dataclass(frozen=True, slots=True)
class LagBook:
    """Windows per reader and partition, and counts of samples that were refused before they reached a window."""

    readers: Mapping[Reader, Mapping[int, Window]] = field(default_factory=dict)
    rejections: Mapping[RejectReason, int] = field(default_factory=dict)

    @property
    def partitions(self) -> int:
        return sum(len(windows) for windows in self.readers.values())


def with_samples(
    book: LagBook,
    reader: Reader,
    samples: Iterable[tuple[int, LagSample]],
    now_ms: int,
    params: LagParams,
    watched: Container[Reader],
) -> LagBook:
    """The book after one report of (partition, sample) pairs about one reader."""
    if reader not in watched:
        return replace(book, rejections=counted(book.rejections, (RejectReason.UNKNOWN_NAME,)))
    windows = dict(book.readers.get(reader, {}))
    room: int | None = None  # counted only for a partition that is new
    told: set[int] = set()
    refused: list[RejectReason] = []
    for partition, sample in samples:
        if partition in told:
            refused.append(RejectReason.DUPLICATE_PARTITION)
            continue
        if len(told) >= PARTITIONS_MOST:
            refused.append(RejectReason.TOO_MANY)
            break  # counted once for all the rest, which is not read
        told.add(partition)
        before = windows.get(partition)
        if before is None:
            room = PARTITIONS_MOST - book.partitions if room is None else room
            if room <= 0:
                refused.append(RejectReason.TOO_MANY)
                continue
            room -= 1
            before = _NEW
        windows[partition] = with_sample(before, sample, now_ms, params)
    return LagBook({**book.readers, reader: windows}, counted(book.rejections, refused))


def without_unwatched(book: LagBook, watched: Container[Reader]) -> LagBook:
    """The book without readers that are not watched any more."""
    kept = {reader: windows for reader, windows in book.readers.items() if reader in watched}
    return book if len(kept) == len(book.readers) else replace(book, readers=kept)


def samples_of_signal(signal: LagSignal) -> list[tuple[int, LagSample]]:
    """The samples of a `lag` signal. Its one time stands for both offsets, so its sender is asked to read the position
    first.
    """
    return [
        (p.partition, LagSample(p.committed, p.sampled_at_ms, p.end, p.sampled_at_ms, is_signal=True))
        for p in signal.partitions
    ]


def evaluate_reader(book: LagBook, reader: Reader, planned: Iterable[int], now_ms: int, params: LagParams) -> GroupLag:
    """The verdict on a reader; UNKNOWN with coverage 0 for one without samples."""
    return evaluate_group(book.readers.get(reader, {}), planned, now_ms, params)


def lag_reading(name: str, group: GroupLag, now_ms: int) -> Reading | None:
    """The time lag of a protected group as a reading for the controller, with the age of its oldest sample; None while
    a planned partition is not known. The lag as it is would go up and down with rare commits, and be no less for a
    lower rate.
    """
    if group.steady_s is None or group.sample_age_ms is None or group.coverage < 1.0:
        return None
    return Reading(name, group.steady_s, now_ms - group.sample_age_ms)
