"""What a recovery is: the immutable values that the status topic stores and `decide` works on.

Only the nouns are here: the rules are in the other modules of this folder, the JSON form is in
`recoveryd.recovery.wire.status`. All times are milliseconds since the epoch (UTC), all ranges are half-open [start,
stop), all sizes are bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated

from recoveryd.forecast.view import ForecastView
from recoveryd.kernel.noun import StatusNoun
from recoveryd.kernel.states import State, Stop
from recoveryd.kernel.written import TimeMs, Written, named
from recoveryd.recovery.spec import Limits, Spec
from recoveryd.units.contract import UnitContract
from recoveryd_jobs.contract import ReceiptsHome, Verification

RESTING = frozenset({State.PAUSING, State.PAUSED})
# States in which an application of the recovery may exist: it writes data, holds it open, or reads it back.
ACTIVE = frozenset({State.STARTING, State.RUNNING, State.PAUSING, State.PAUSED, State.STOPPING, State.VERIFYING})
# States in which the recovery works: it takes a share of the budget, and can be paused.
WORKING = frozenset({State.STARTING, State.RUNNING, State.VERIFYING})


class Severity(StrEnum):
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that planning noticed; `code` is a short stable word such as `target_log_append_time`."""

    code: str
    severity: Severity
    message: str


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """The pinned range of one source partition; `stop` is None while the plan follows the live head."""

    partition: int
    start: int
    stop: int | None
    at_end: bool = False  # the requested time lies after the last record
    high_watermark: int = 0  # when planned
    log_start: int = 0
    bytes_at_most: int = 0  # of key, value and headers, as lanes count them and limits mean them
    stored_bytes: int | None = None  # of it on the disk of a replica, compressed as it is; None = not known
    first_ms: int | None = None  # smallest timestamp at the start and largest at the end of the range, None = not known
    last_ms: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    cluster: str
    topic: str
    topic_id: str  # base64 UUID as the broker gives it; "" while the target is not created yet
    partitions: int


@dataclass(frozen=True, slots=True)
class RemoteRange:
    """[start, stop) of what is read of this partition lies in remote storage."""

    partition: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class EtaSeconds:
    lo: float
    mid: float
    hi: float | None  # None = it may never end


@dataclass(frozen=True, slots=True)
class DomainBudget:
    """What all recoveries together may take of one protected cluster, when planned."""

    domain: str
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class PlannedBudget:
    """What the recovery would get if it began now. `bytes_per_s` None = unlimited; `floor` is the least that it is
    slowed to, `ceiling` the most that it may be granted. `shared_with`: so many others draw on the same budgets.
    """

    mode: str  # unlimited | fixed | controller, the one in force
    bytes_per_s: float | None
    floor_bytes_per_s: float | None
    ceiling_bytes_per_s: float | None
    shared_with: int = 0
    domains: tuple[DomainBudget, ...] = ()
    max_records_per_s: float | None = None
    weight: float = 1.0
    tier: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class PlannedTraffic:
    """How metrics count what the recovery writes: apart from live traffic of the same topic."""

    label: str  # live | replay
    topic: str


@dataclass(frozen=True, slots=True)
class Affected:
    """A consumer group or sink connector that reads the target. `behaviour`: what a record that comes twice does to
    what it writes, as its unit declares; unknown where nobody has said it. `seen_by`: cluster, connect, config.
    """

    kind: str  # group | sink
    name: str
    unit: str | None
    behaviour: str
    owner: str | None
    seen_by: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What the recovery will do, pinned and hashed. `lanes[i]`: the source partitions of lane i, fixed for the
    recovery's life.
    """

    hash: str
    source: PlannedTopic
    target: PlannedTopic
    partitions: tuple[PlannedPartition, ...]
    lanes: tuple[tuple[int, ...], ...]
    from_time_ms: int | None  # older records are filtered out; None when `from` is not a time
    to_time_ms: int | None
    records_at_most: int
    bytes_at_most: int
    eta_seconds: EtaSeconds | None
    create_target: bool
    create_configs: Mapping[str, str]
    findings: tuple[Finding, ...]
    pinned_at_ms: int
    replication_factor: int = 1  # of a target to be created; -1 = the default of its cluster
    retention_ms: int | None = None  # of the source, None = kept for ever
    retention_bytes: int | None = None  # of each source partition
    # (partition, offset) of the target: the copy lies at or after this offset. For a replay: the log ends when planned.
    target_starts: tuple[tuple[int, int], ...] = ()
    target_stops: tuple[tuple[int, int], ...] = ()  # of a verification: the first offset that is not compared
    forecast: ForecastView | None = None  # no part of the hash: it changes with the rates
    # The lowest rate that beats retention, 0 = retention is no threat; no part of the hash either.
    retention_bytes_per_s: float = 0.0
    # None = nothing is written, or planned by a release that did not pin it; no part of the hash.
    receipts: ReceiptsHome | None = None
    remote: tuple[RemoteRange, ...] = ()  # no part of the hash: it grows by itself
    # None = planned by a release that did not say it; no part of the hash: it moves with live traffic.
    budget: PlannedBudget | None = None
    traffic: PlannedTraffic | None = None  # None = nothing is written, or planned by a release that did not say it
    impact: tuple[Affected, ...] = ()  # no part of the hash: readers come and go
    contracts: tuple[UnitContract, ...] = ()  # of units that it concerns; no part of the hash
    # Records/s of the whole source in each of the 24 hours before `pinned_at_ms`, oldest first; None = the range has an
    # end, it was not asked, or a release planned it that did not keep it; no part of the hash.
    hourly: tuple[float, ...] | None = None

    @property
    def is_following(self) -> bool:
        return any(p.stop is None for p in self.partitions)

    @property
    def stored_bytes(self) -> int:
        """What the range takes on a disk, with the compression that it has there."""
        return sum(p.bytes_at_most if p.stored_bytes is None else p.stored_bytes for p in self.partitions)


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """`position` is durable: everything before it is in a receipt."""

    partition: int
    position: int
    stop: int | None
    state: str = "waiting"  # waiting | copying | paused | blocked | stopped | done
    copied: int = 0
    filtered: int = 0
    skipped: int = 0
    lost: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """Rates are those of the lanes, or of the verification once it runs. `verified_offsets` and `offsets_to_verify`
    count source and target together.
    """

    partitions: tuple[PartitionProgress, ...] = ()
    records_per_s: float = 0.0
    bytes_per_s: float = 0.0
    lag_records: int | None = None
    eta_seconds: float | None = None
    forecast: ForecastView | None = None  # the newest one, from measured rates
    verified_records: int = 0
    verified_bytes: int = 0
    verified_offsets: int = 0
    offsets_to_verify: int = 0

    @property
    def records(self) -> int:
        return sum(p.copied for p in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(p.bytes for p in self.partitions)

    def at_rest(self) -> "Progress":
        """While no application runs."""
        return replace(self, records_per_s=0.0, bytes_per_s=0.0, eta_seconds=None)


@dataclass(frozen=True, slots=True)
class CompletenessRow:
    """`offsets = copied + filtered + skipped + lost + unexplained` for [start, stop) of one partition. The times are
    the smallest and the largest timestamp of what was copied; None = nothing was, or it is not known.
    """

    partition: int
    start: int = field(metadata=named("from"))
    stop: int = field(metadata=named("to"))
    copied: int
    filtered: int
    skipped: int
    lost: int
    min_time_ms: TimeMs | None = field(default=None, metadata=named("min_time"))
    max_time_ms: TimeMs | None = field(default=None, metadata=named("max_time"))

    @property
    def offsets(self) -> int:
        return self.stop - self.start

    @property
    def unexplained(self) -> int:
        return self.offsets - self.copied - self.filtered - self.skipped - self.lost


# The class of a specification depends on the kind, so the specification is written and read separately.
_OF_ITS_KIND = Written(lambda _spec: None, lambda spec: spec, {})


class Wanted(StrEnum):
    """What the lanes must do now (the directive's imperative)."""

    RUN = "run"
    PAUSE = "pause"
    STOP = "stop"
    VERIFY = "verify"
    EXIT = "exit"


@dataclass(frozen=True, slots=True)
class Stall:
    """Where a lane stood when it stalled, as the sum of its durable positions; with `lane` None the copy as a whole, or
    the proof, by the offsets that it had passed.
    """

    lane: int | None
    at: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """Bookkeeping of Spark applications of this recovery.

    `number` counts from 1, 0 = none yet. `failures` counts attempts in a row that ended without progress. `retry_at_ms`
    is when the next one may start. `released`: the application was told to exit (or is known to be dead).
    """

    number: int = 0
    started_at_ms: int = 0
    failures: int = 0
    retry_at_ms: int = 0
    positions_at_start: int = 0  # sum over partitions, to know whether the attempt made progress
    released: bool = True
    last_error: str = ""
    last_code: str = ""
    failed_ms: tuple[int, ...] = ()  # when attempts failed, of the last hour
    stall: Stall | None = None  # what the last failed attempt was lost by, None = by something else


@dataclass(frozen=True, slots=True)
class Allowance:
    """The part of `limits.max_records` and `max_bytes` that one lane may copy over all attempts, None = no cap."""

    records: int | None = None
    bytes: int | None = None

    def is_used_up(self, records: int, size: int) -> bool:
        return (self.records is not None and records >= self.records) or (self.bytes is not None and size >= self.bytes)


@dataclass(frozen=True, slots=True)
class Recovery(StatusNoun):
    """One run of one command. It holds everything that is needed to go on after a restart."""

    kind: str
    spec: Annotated[Spec, _OF_ITS_KIND]
    control_offset: int = -1  # offset of the creating control record, for the delayed answer
    answered: bool = False  # the creating command has its answer on the events topic
    plan: Plan | None = None
    attempt: Attempt = Attempt()
    wanted: Wanted = Wanted.RUN
    directive_sequence: int = 0
    # Sequence of the directive that first said `wanted`: lanes that answer an older one have not obeyed yet.
    wanted_sequence: int = 0
    progress: Progress = Progress()
    limits: Limits = Limits()  # as requested by the newest command; `throttle` replaces them
    rule: str = ""  # one sentence: why the effective rate is what it is
    effective_bytes_per_s: float | None = None
    stop: Stop | None = None
    stop_state: State | None = None  # terminal state that a drained stop ends in
    completeness: tuple[CompletenessRow, ...] = ()
    verification: Verification | None = None
    started_ms: int | None = None  # when it first entered `starting`; max_runtime counts from here
    # `verifying` = nothing is left to copy, and `resume` goes back to the verification; None = to the copy.
    resume_state: State | None = None
    error_code: str | None = None
    releases: bool = False  # its application is let go once it is paused
    held: str = ""  # why the daemon paused it by itself (`recoveryd.recovery.pausing`), "" = it did not
    ledger_from: tuple[int, ...] = ()  # by lane: offset of its newest head on the receipts topic, as heard; 0 = none
    # By lane, once the caps were shared out again; () = in proportion to each lane's part of the plan. Changes only
    # while no lane runs, from exact positions.
    allowances: tuple[Allowance, ...] = ()
    approved: str = ""  # who approved the plan and why, "" = nobody did yet
    is_position_exact: bool = True  # False: it ended, and its positions are only the last ones heard

    @property
    def is_proving(self) -> bool:
        """Whether nothing is left to copy: positions do not move any more, and it is the verification that runs, rests
        or ends.
        """
        return self.resume_state is State.VERIFYING

    @property
    def brings_records(self) -> bool:
        """Whether it has, or may have, records to bring to its target: its copy is not over, and it is not only a
        verification.
        """
        return self.spec.copies and not self.is_proving
