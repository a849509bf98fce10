"""Sampling offsets of all topics in play on one cluster, every few seconds, for a handful of requests.

Three questions go out together for all topics: log starts, high watermarks, last stable offsets. Topic ids and
partition counts are remembered for a quarter of a minute, and asked for again at once when the broker does not know a
partition any more.
"""

import time
from collections.abc import Callable, Iterable

from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.bulk_offsets import Bound, BulkOffsets
from recoveryd.adapters.kafka.topic_admin import TopicShape, describe
from recoveryd.errors import ClusterProblem
from recoveryd.live.events import TopicSample

_SHAPE_TTL_S = 15.0


class OffsetSampler:
    """Of one cluster; used by one thread at a time."""

    def __init__(
        self, cluster: str, admin: AdminClient, offsets: BulkOffsets, timeout_s: float, now_ms: Callable[[], int]
    ) -> None:
        self._cluster = cluster
        self._admin = admin
        self._offsets = offsets
        self._timeout_s = timeout_s
        self._now_ms = now_ms
        # With the monotonic time until which it is believed, and the wall clock's when it was asked for.
        self._shapes: dict[str, tuple[TopicShape, float, int]] = {}

    def sample(self, topics: Iterable[str]) -> tuple[tuple[TopicSample, ...], tuple[str, ...]]:
        """(samples, names of topics that do not exist). Raises `ClusterProblem` when not one partition was answered
        for.
        """
        names = list(dict.fromkeys(topics))
        missing = self._learn_shapes(names)
        samples, doubtful = self._ask([name for name in names if name not in missing])
        if doubtful:
            for name in doubtful:
                self._shapes.pop(name, None)
            missing |= self._learn_shapes(doubtful)
            again, _still = self._ask([name for name in doubtful if name not in missing])
            samples = [s for s in samples if s.topic not in doubtful] + again
        return tuple(samples), tuple(sorted(missing))

    def _learn_shapes(self, names: list[str]) -> set[str]:
        now_s = time.monotonic()
        self._shapes = {n: entry for n, entry in self._shapes.items() if entry[1] > now_s}
        unknown = [name for name in names if name not in self._shapes]
        asked_ms = self._now_ms()
        found = describe(self._admin, unknown, self._timeout_s)
        believed_s = now_s + _SHAPE_TTL_S
        self._shapes |= {n: (shape, believed_s, asked_ms) for n, shape in found.items() if shape is not None}
        return {name for name, shape in found.items() if shape is None}

    def _ask(self, names: list[str]) -> tuple[list[TopicSample], list[str]]:
        """Samples, and the topics of which some partition is not known to the broker."""
        shapes = [self._shapes[name][0] for name in names]
        if not shapes:
            return [], []
        sent_at_ms = self._now_ms()
        bounds = self._offsets.ask(shapes)
        starts, ends, stable = (bounds.found[bound] for bound in (Bound.START, Bound.END, Bound.STABLE))
        if not ends and bounds.failure is not None and not bounds.doubtful:
            raise ClusterProblem(f"No offsets from {self._cluster}: {bounds.failure.message}")
        samples = [
            TopicSample(
                cluster=self._cluster,
                topic=shape.topic,
                topic_id=shape.topic_id,
                log_start=starts.get(shape.topic, {}),
                high_watermark=ends.get(shape.topic, {}),
                last_stable=stable.get(shape.topic, {}),
                sampled_at_ms=sent_at_ms,
                partitions=shape.partitions,
                described_ms=self._shapes[shape.topic][2],
                leaders=dict(shape.leaders),
            )
            for shape in shapes
        ]
        return samples, sorted(bounds.doubtful)
