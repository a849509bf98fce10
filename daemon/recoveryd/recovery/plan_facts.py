"""What planning needs to know about the clusters, gathered by an adapter at once and judged by each kind's `plan`
without I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.units.facts import UnitFacts

LIVE_LOOKBACK_MS = 600_000  # how far back offsets are looked up by time to estimate the live rate


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """Offsets of a partition that is read. `start_at` and `stop_at` resolve the time bounds of the command: the offset
    of the first record at or after the time, -1 = no record is that new, None = no such bound.

    `bytes_on_disk` is the size of its log on the leader, compressed as it is, None when the broker did not say.
    `bytes_per_offset` is that of the records as lanes count them, not compressed, by a sample. `first_ms` and `last_ms`
    are the smallest timestamp at the start and the largest at the end of the requested range, likewise. `recent_at` is
    the offset of the first record of the last `LIVE_LOOKBACK_MS`, -1 = there is none. What lies before `local_start` is
    in remote storage; it is asked for only where a topic has one. None = not known.
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
    local_start: int | None = None
    bytes_per_offset: float | None = None


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

    @property
    def is_remote(self) -> bool:
        """Whether older records may lie in remote storage."""
        return is_remote(self.configs)


def is_remote(configs: Mapping[str, str]) -> bool:
    """Whether older records of a topic with these configs may lie in remote storage."""
    return configs.get("remote.storage.enable") == "true"


@dataclass(frozen=True, slots=True)
class ReceiptsFacts:
    """The receipts topic on the target cluster, and the partition there that a new recovery of this id gets, with its
    end.
    """

    topic: str
    topic_id: str
    partitions: int
    cleanup_policy: str
    partition: int
    end: int


@dataclass(frozen=True, slots=True)
class TargetReaders:
    """Who reads the target: consumer groups as its cluster tells, sink connectors as Kafka Connect does. `problems`:
    what was not told, each in a sentence.
    """

    groups: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """`source` None = no such topic; `receipts` None = no receipts topic on the target cluster. `oldest_record_ms` is
    the smallest timestamp at the starts of the range (None = unknown or empty).

    `task_slots` comes from the profile; rates are bytes/s and records/s measured in earlier runs or configured, None =
    unknown. `hourly` are records/s of the whole source in each of the last 24 hours, oldest first; () = not gathered,
    as for a pinned end.
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
    readers: TargetReaders = TargetReaders()
    # Of those that it concerns and whose cluster told it: what their contracts need.
    units: Mapping[str, UnitFacts] = field(default_factory=dict)
    target_partitions: tuple[PartitionFacts, ...] = ()  # only if the specification has a range of the target
