"""How much others write to the topics in use, told apart from what our own replays write there.

The end of a topic's stable part grows by live records and by ours. Ours are known only when a lane reports its receipt,
a few seconds after they became stable. So an end is compared with what replays had reported `SETTLE_MS` later: the live
part may be counted late, but never too high. Transaction markers count as records, because end offsets do not tell them
apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from recoveryd.live.events import OffsetsSampled, TopicSample

SETTLE_MS = 5_000
_PENDING_AT_MOST = 64


@dataclass(frozen=True, slots=True)
class Copied:
    """What recoveries did with one topic: `into_records` were written to it; `records` and `bytes` were read from it or
    written to it.
    """

    into_records: int = 0
    records: int = 0
    bytes: int = 0

    def plus(self, other: "Copied", times: int = 1) -> "Copied":
        return Copied(
            self.into_records + times * other.into_records,
            self.records + times * other.records,
            self.bytes + times * other.bytes,
        )


@dataclass(frozen=True, slots=True)
class LiveGrowth:
    """What others wrote to one topic since the last sample. `bytes` by the mean size of its records, None when that was
    never measured.
    """

    topic: str
    records: int
    bytes: float | None


@dataclass(frozen=True, slots=True)
class TopicCount:
    """The count of one topic. `base_*`: end and replayed records when counting began. `pending`: (time, stable end)
    younger than `SETTLE_MS`. `is_settled`: some of it was counted, so that from now on its growth is known.
    """

    topic_id: str
    base_end: int
    base_replayed: int
    counted: int = 0
    pending: tuple[tuple[int, int], ...] = ()
    is_settled: bool = False


@dataclass(frozen=True, slots=True)
class LiveTraffic:
    """The counts of all topics in use, by (cluster, topic)."""

    topics: Mapping[tuple[str, str], TopicCount] = field(default_factory=dict)

    def with_sample(
        self, sampled: OffsetsSampled, ours: Mapping[tuple[str, str], Copied], now_ms: int
    ) -> tuple["LiveTraffic", list[LiveGrowth]]:
        """The next counts, and how much the live part grew; topics that are not sampled any more, or not in all their
        partitions, are dropped. `ours`: what replays copied so far.
        """
        topics: dict[tuple[str, str], TopicCount] = {}
        written: list[LiveGrowth] = []
        for sample in sampled.topics:
            if len(sample.high_watermark) < sample.partitions:
                continue  # what did not answer would look as if nobody wrote there
            key = (sample.cluster, sample.topic)
            copied = ours.get(key, Copied())
            topics[key], grown = _step(self.topics.get(key), sample, copied.into_records, now_ms)
            if grown:
                mean = copied.bytes / copied.records if copied.records else None
                written.append(LiveGrowth(sample.topic, grown, None if mean is None else grown * mean))
        return LiveTraffic(topics), written


def _step(before: TopicCount | None, sample: TopicSample, replayed: int, now_ms: int) -> tuple[TopicCount, int]:
    end = sum(sample.last_stable.get(partition, high) for partition, high in sample.high_watermark.items())
    # Ends from before a clock was set back would settle all at once, much later.
    was_set_back = before is not None and bool(before.pending) and before.pending[-1][0] > now_ms
    if before is None or before.topic_id != sample.topic_id or was_set_back:
        return TopicCount(sample.topic_id, base_end=end, base_replayed=replayed), 0
    settled = [e for at, e in before.pending if now_ms - at >= SETTLE_MS]
    waiting = [(at, e) for at, e in before.pending if now_ms - at < SETTLE_MS]
    live = max((e - before.base_end - (replayed - before.base_replayed) for e in settled), default=0)
    grown = max(0, live - before.counted)
    pending = (*waiting, (sample.sampled_at_ms, end))[-_PENDING_AT_MOST:]
    is_settled = before.is_settled or bool(settled)
    return replace(before, counted=before.counted + grown, pending=pending, is_settled=is_settled), grown
