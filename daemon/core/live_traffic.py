"""How much others write to the topics in play, told apart from what our own replays write there.

A topic's stable end grows by live records and by ours. Ours are known only once a lane has reported its receipt, a few seconds after they became
stable, so an end is compared with what replays had reported `SETTLE_MS` later: the live part may come late, but is never counted too high. Transaction
markers count as records, because end offsets cannot tell.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from daemon.core.events import OffsetsSampled, TopicSample
from daemon.core.metric_defs import BYTES, RECORDS, Sample
from daemon.core.recoveries import Copied, copied_by

if TYPE_CHECKING:  # the state of the core holds what is counted here
    from daemon.core.decision import CoreState

SETTLE_MS = 5_000
_PENDING_AT_MOST = 64


@dataclass(frozen=True, slots=True)
class Ingress:
    """Of one topic. `base_*` are what ends and replays were when counting began; `pending` are (time, stable end) not settled yet."""

    topic_id: str
    base_end: int
    base_replayed: int
    counted: int = 0
    pending: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class LiveTraffic:
    """Counting state of all topics in play, by (cluster, topic)."""

    topics: Mapping[tuple[str, str], Ingress] = field(default_factory=dict)

    def with_sample(
        self, sampled: OffsetsSampled, state: "CoreState", now_ms: int
    ) -> tuple["LiveTraffic", list[Sample]]:
        """Next counting state and how far the live counters move; topics no longer sampled are forgotten."""
        by_live = copied_by(state.recoveries.live.values())
        topics: dict[tuple[str, str], Ingress] = {}
        samples: list[Sample] = []
        for sample in sampled.topics:
            key = (sample.cluster, sample.topic)
            before = self.topics.get(key)
            copied = by_live.get(key, Copied()).plus(state.recoveries.totals.copied.get(key, Copied()))
            after, grown = _step(before, sample, copied.into_records, now_ms)
            topics[key] = after
            if grown:
                samples.extend(_counted(sample.topic, grown, copied))
        return LiveTraffic(topics), samples


def _step(before: Ingress | None, sample: TopicSample, replayed: int, now_ms: int) -> tuple[Ingress, int]:
    end = sum((sample.last_stable or sample.high_watermark).values())
    if before is None or before.topic_id != sample.topic_id:
        return Ingress(sample.topic_id, base_end=end, base_replayed=replayed), 0
    settled = [e for at, e in before.pending if now_ms - at >= SETTLE_MS]
    waiting = [(at, e) for at, e in before.pending if now_ms - at < SETTLE_MS]
    live = max((e - before.base_end - (replayed - before.base_replayed) for e in settled), default=0)
    grown = max(0, live - before.counted)
    pending = (*waiting, (sample.sampled_at_ms, end))[-_PENDING_AT_MOST:]
    return replace(before, counted=before.counted + grown, pending=pending), grown


def _counted(topic: str, records: int, copied: Copied) -> Iterable[Sample]:
    """Bytes by the mean size of a record of the topic, from what replays read from it or wrote to it; none when that was never measured."""
    yield Sample(RECORDS, ("live", topic), records)
    if copied.records:
        yield Sample(BYTES, ("live", topic), records * copied.bytes / copied.records)
