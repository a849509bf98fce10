"""How much others write to the topics in play, told apart from what our own replays write there.

A topic's stable end grows by live records and by ours. Ours are known only once a lane has reported its receipt, a few seconds after they became
stable, so an end is compared with what replays had reported `SETTLE_MS` later: the live part may come late, but is never counted too high. Transaction
markers count as records, because end offsets cannot tell.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from daemon.core.decision import CoreState
from daemon.core.events import OffsetsSampled, TopicSample
from daemon.core.metric_defs import BYTES, RECORDS, Sample

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

    def with_sample(self, sampled: OffsetsSampled, state: CoreState, now_ms: int) -> tuple["LiveTraffic", list[Sample]]:
        """Next counting state and how far the live counters move; topics no longer sampled are forgotten."""
        replayed = _replayed(state)
        topics: dict[tuple[str, str], Ingress] = {}
        samples: list[Sample] = []
        for sample in sampled.topics:
            key = (sample.cluster, sample.topic)
            before = self.topics.get(key)
            after, grown = _step(before, sample, replayed.get(key, 0), now_ms)
            topics[key] = after
            if grown:
                samples.extend(_counted(sample.topic, grown, mean_record_bytes(state, key)))
        return LiveTraffic(topics), samples


def mean_record_bytes(state: CoreState, key: tuple[str, str]) -> float | None:
    """Mean size of a record of the topic, from what replays read from it or wrote to it; None = never measured."""
    records = size = 0
    for recovery in state.recoveries.values():
        source, target = recovery.spec.source, recovery.spec.target
        if key in {(source.cluster, source.topic), (target.cluster, target.topic)}:
            records += recovery.progress.records
            size += recovery.progress.bytes
    return size / records if records else None


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


def _replayed(state: CoreState) -> dict[tuple[str, str], int]:
    totals: dict[tuple[str, str], int] = {}
    for recovery in state.recoveries.values():
        key = (recovery.spec.target.cluster, recovery.spec.target.topic)
        totals[key] = totals.get(key, 0) + recovery.progress.records
    return totals


def _counted(topic: str, records: int, mean_bytes: float | None) -> Iterable[Sample]:
    yield Sample(RECORDS, ("live", topic), records)
    if mean_bytes is not None:
        yield Sample(BYTES, ("live", topic), records * mean_bytes)
