"""What was seen of live traffic and of the topics in use."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.live.freshness import Reading
from recoveryd.live.lag.book import Reader
from recoveryd.live.lag.window import LagSample


@dataclass(frozen=True, slots=True)
class TopicSample:
    """Offsets of one topic. A partition for which the broker did not answer is absent; `last_stable` may be absent on
    its own.

    `partitions`: how many the topic has, answered or not, as of `described_ms`; 0 = not known. `leaders`: the broker of
    each, negative or absent = not known.
    """

    cluster: str
    topic: str
    topic_id: str
    log_start: Mapping[int, int]
    high_watermark: Mapping[int, int]
    last_stable: Mapping[int, int]
    sampled_at_ms: int  # when the query was *sent*: positions received before it were sampled before the ends
    partitions: int = 0
    described_ms: int = field(default=0, compare=False)  # 0 = as of `sampled_at_ms`
    leaders: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OffsetsSampled:
    """`missing`: (cluster, topic) pairs that do not exist, as the broker says."""

    topics: tuple[TopicSample, ...]
    missing: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ReaderSampled:
    """One look at a consumer group on a topic. `planned` are all partitions of the topic; one without an entry in
    `samples` is unknown, never zero.

    Positions were asked for before the ends they are compared with.
    """

    reader: Reader
    planned: tuple[int, ...]
    samples: tuple[tuple[int, LagSample], ...]


@dataclass(frozen=True, slots=True)
class ReadingTaken:
    """One measurement of live traffic in a domain (a cluster's name): the canary's produce latency, or the answer to a
    configured Prometheus query. Seconds.
    """

    domain: str
    reading: Reading
