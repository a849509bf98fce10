"""What planning needs to know about the world, gathered by an adapter in one go and judged by `recoveryd.replay.plan` without I/O."""

from collections.abc import Mapping
from dataclasses import dataclass

LIVE_LOOKBACK_MS = 600_000  # how far back the live rate is looked for in the log's own times


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """Offsets of a partition that is read. `start_at`/`stop_at` answer a time bound of the command: the offset of the first record at or after it, -1 = none so new; None = not asked.

    `bytes_on_disk` is the size of its log on the leader, None when the broker did not say. `first_ms` and `last_ms` are the smallest timestamp at the start
    and the largest at the end of the wanted range, as sampled. `recent_at` is the offset as of `LIVE_LOOKBACK_MS` ago, -1 = no record is so new. None = not known.
    """

    partition: int
    log_start: int
    high_watermark: int
    last_stable: int
    start_at: int | None = None
    stop_at: int | None = None
    bytes_on_disk: int | None = None
    first_ms: int | None = None
    last_ms: int | None = None
    recent_at: int | None = None


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """`configs` are the topic's effective configs. `ends`/`starts` per partition (high watermark, log start)."""

    topic: str
    topic_id: str
    partitions: int
    configs: Mapping[str, str]
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    replication_factor: int = 1


@dataclass(frozen=True, slots=True)
class ReceiptsFacts:
    """The receipts topic on the target cluster, and the partition that a new recovery of this name gets there with its end."""

    topic: str
    topic_id: str
    partitions: int
    cleanup_policy: str
    partition: int
    end: int


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """`source` None = no such topic; `receipts` None = no receipts topic on the target cluster. `oldest_record_ms` is the smallest timestamp found at the starts of the range (None = unknown or empty).

    `task_slots` comes from the profile; rates are bytes/s and records/s measured in earlier runs or configured, None = unknown.
    `hourly` are records/s of the whole source in each of the last 24 hours, oldest first; () = not asked, which is so for a pinned end.
    """

    source: TopicFacts | None
    source_partitions: tuple[PartitionFacts, ...]
    target: TopicFacts | None
    task_slots: int
    oldest_record_ms: int | None = None
    largest_record_bytes: int | None = None
    bytes_per_s: float | None = None
    rate_source: str = "configured"  # measured | configured
    gathered_at_ms: int = 0
    hourly: tuple[float, ...] = ()
    receipts: ReceiptsFacts | None = None
    target_partitions: tuple[PartitionFacts, ...] = ()  # only where a range of the target is asked for
