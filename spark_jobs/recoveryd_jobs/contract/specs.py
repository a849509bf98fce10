"""Daemon to driver: a `JobSpec`, as a JSON file. Daemon to lanes: `Directive` records."""

from dataclasses import dataclass, field

from recoveryd_jobs.contract.coding import VERSION


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """[start, stop) of a source partition; `stop` None = follow the live head until a directive says stop.

    `journaled`: the daemon's journal knows that everything before this offset is copied. If the receipts end before it,
    some of them are missing.
    """

    partition: int
    start: int
    stop: int | None
    journaled: int = 0


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """`max_records`, `max_bytes`: this lane's share of what the recovery may copy in all its attempts together, None =
    no cap.
    """

    lane: int
    partitions: tuple[PartitionRange, ...]
    max_records: int | None = None
    max_bytes: int | None = None
    ledger_from: int = 0  # offset of the lane's newest head that the daemon heard of, 0 = none


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """A chunk is committed as soon as one of these is reached."""

    max_bytes: int = 32 * 1024 * 1024
    max_records: int = 250_000
    max_ms: int = 5_000


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """`client`: librdkafka properties of the cluster (address, security). Records with a time outside [from_time_ms,
    to_time_ms) count as filtered. `partitions`: how many it had when the plan took all of them, for a copy to which
    those belong that are added later; 0 for any other copy.
    """

    cluster: str
    topic: str
    topic_id: str
    client: dict[str, str]
    from_time_ms: int | None = None
    to_time_ms: int | None = None
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """`exclusive`: nobody else writes to this topic, so the offsets of a chunk are expected to be contiguous.

    `starts` and `stops` are (partition, offset) pairs; the proof reads the target between them. `starts`: the high
    watermarks when the plan was made, or, for a verification of a copy that is not ours, where to begin. A partition
    without a start begins at the log start, one without a stop ends at the high watermark when the proof starts.
    """

    cluster: str
    topic: str
    topic_id: str
    partitions: int
    client: dict[str, str]
    mapping: str = "same"  # same | key_hash
    headers_add: tuple[tuple[str, str], ...] = ()
    headers_drop: tuple[str, ...] = ()
    exclusive: bool = True
    compression: str = "lz4"
    starts: tuple[tuple[int, int], ...] = ()
    stops: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ControlSpec:
    """Where directives come from and progress goes to (the daemon's own cluster)."""

    client: dict[str, str]
    directives_topic: str
    progress_topic: str


@dataclass(frozen=True, slots=True)
class ReceiptsHome:
    """A recovery's place on the receipts topic of its target cluster, fixed when it was planned and never looked up
    again.

    `partitions` is how many the topic had when planned. `start` was the end of `partition` then: no receipt of the
    recovery lies before it.
    """

    topic: str
    topic_id: str
    partition: int
    partitions: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class Directive:
    """What lanes must do, as a lease: it ends `lease_ttl_ms` after a lane received it, by the lane's monotonic clock; a
    renewal has a higher `sequence`.

    `shares`: lane number to its fraction of the rates; a lane that is not in it gets 1/lanes. Rates None = unlimited.
    Of `verify`, by task number; all of the tasks that read at the same time take an equal part unless each of them is
    in it. An attempt that reads a directive for a newer attempt leaves at once. `begun_at` tells recoveries apart that
    have had the same id one after the other: the offset of the command that began it, -1 = not told.
    """

    recovery: str
    attempt: int
    sequence: int
    wanted: str  # run | pause | stop | verify | exit
    lease_ttl_ms: int
    max_bytes_per_s: float | None = None
    max_records_per_s: float | None = None
    floor_bytes_per_s: float = 65_536.0
    shares: dict[int, float] = field(default_factory=dict)
    why: str = ""
    begun_at: int = -1
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One attempt of one recovery. `directive` holds until the first one is read from the topic.

    A `verification` has no lanes that copy: its `lanes` only name the source ranges (every stop is given), and
    `receipts_topic` is "" when the copy has no receipts.
    """

    kind: str  # replay | verification
    scope: str
    recovery: str
    attempt: int
    lanes: tuple[LaneSpec, ...]
    source: SourceSpec
    target: TargetSpec
    control: ControlSpec
    receipts_topic: str  # on the target cluster
    directive: Directive
    verify: str = "source"  # source (reread it) | digest (compare the target with the receipts) | count | none
    on_data_loss: str = "fail"  # fail | continue
    chunk: ChunkLimits = ChunkLimits()
    transaction_timeout_ms: int = 60_000
    # How long to wait for another producer's transaction that is open before the end of the range.
    stop_wait_ms: int = 600_000
    compare: str = "records"  # of a verification: records | latest (only the last value of each key)
    receipts: ReceiptsHome | None = None  # None = planned by a release that did not record it: see `receipts_partition`
    is_endless: bool = False  # partitions without a stop are followed for ever, so what holds one is waited for too
    orphan_after_ms: int = 900_000  # the application ends itself after this time without any directive
    version: int = VERSION
