"""Everything that can happen to the core: past-tense facts, made by the agent, the collectors and the results of effects.

`decide(state, event, now_ms)` takes exactly these. They carry data only; an event about an unknown recovery or an old attempt is legal and changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from daemon.core.commands import Command, Refusal, Signal
from daemon.core.model import Verification
from daemon.core.plan_facts import PlanFacts
from daemon.core.policies.freshness import Reading
from daemon.core.policies.lag_book import Reader
from daemon.core.policies.lag_window import LagSample


@dataclass(frozen=True, slots=True)
class Seen:
    """An earlier control record with the same idempotency key."""

    offset: int
    content_hash: str


@dataclass(frozen=True, slots=True)
class CommandReceived:
    """`broker_ms` is the record's LogAppendTime; `previous` the earlier record with the same key, if any."""

    offset: int
    broker_ms: int
    command: Command | Refusal
    previous: Seen | None = None


@dataclass(frozen=True, slots=True)
class ControlUnreadable:
    """The control record is no CloudEvent: dead letter. Key, value and headers are the original bytes."""

    partition: int
    offset: int
    code: str
    message: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class SignalReceived:
    offset: int
    broker_ms: int
    signal: Signal


@dataclass(frozen=True, slots=True)
class SignalRefused:
    """A signal that is a CloudEvent but not valid; counted and reported as an event, never acted on."""

    offset: int
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class FactsGathered:
    recovery: str
    facts: PlanFacts


@dataclass(frozen=True, slots=True)
class EffectFailed:
    """An effect (by its kind, such as `gather_facts`, `create_target`, `launch`, `read_ledger`, `fence_lanes`) did not succeed; `retriable` says whether trying later may help."""

    recovery: str
    effect: str
    attempt: int
    code: str
    message: str
    retriable: bool


@dataclass(frozen=True, slots=True)
class TargetReady:
    """The target exists (created now or before): its topic id and partition count."""

    recovery: str
    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class AttemptExited:
    """The application of an attempt ended (seen as child process exit)."""

    recovery: str
    attempt: int
    exit_code: int
    message: str  # last lines of its log, or where it is


@dataclass(frozen=True, slots=True)
class LanePosition:
    partition: int
    position: int  # durable
    stop: int | None
    state: str  # waiting | copying | paused | blocked | done
    copied: int
    filtered: int
    skipped: int
    lost: int
    bytes: int
    event_time_ms: int | None = None  # timestamp of the last durable record, None = none in this attempt yet


@dataclass(frozen=True, slots=True)
class LaneHeartbeat:
    recovery: str
    attempt: int
    lane: int
    directive_sequence: int  # the newest directive this lane acts on
    state: str  # starting | copying | verifying | pausing | paused | draining | done | blocked | leaseless
    chunk_open: bool
    records_per_s: float
    bytes_per_s: float
    positions: tuple[LanePosition, ...]
    why: str
    phase: str = "copy"  # copy | verify: then `lane` is the number of a verification task, and `positions` is empty
    verified_records: int = 0
    verified_bytes: int = 0
    verified_offsets: int = 0  # of `offsets_to_verify`, source and target together
    offsets_to_verify: int = 0
    failed_chunks: int = 0  # chunks that this lane had to do again, in this attempt
    ledger_from: int = 0  # where the newest head of this lane lies on the receipts topic, 0 = none


@dataclass(frozen=True, slots=True)
class DriverHeartbeat:
    """`phase`: starting | lanes | drained | verifying | verified | failed | exiting. `drained`: every lane task returned."""

    recovery: str
    attempt: int
    phase: str
    directive_sequence: int
    verification: Verification | None = None
    error_code: str = ""
    error_message: str = ""


@dataclass(frozen=True, slots=True)
class LedgerPartition:
    """Sum of the receipts of one partition: contiguous from `start` to `position`."""

    partition: int
    start: int
    position: int
    copied: int
    filtered: int
    skipped: int
    lost: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LedgerRead:
    """Receipts read to the high watermark. `problems` lists gaps or overlaps (empty = sound). `fenced` says that all lanes were fenced just before."""

    recovery: str
    attempt: int
    fenced: bool
    partitions: tuple[LedgerPartition, ...]
    problems: tuple[str, ...] = ()
    sequence: int = 0  # of the ReadLedger it answers


@dataclass(frozen=True, slots=True)
class LedgerMoved:
    """The reading of the receipts goes on and has come further: it is worth waiting for."""

    recovery: str
    attempt: int
    sequence: int  # of the ReadLedger under way


@dataclass(frozen=True, slots=True)
class TopicSample:
    """Offsets of one topic; a partition the broker did not answer for is absent. `last_stable` may be absent on its own.

    `partitions`: how many the topic has, also without an answer, as of `described_ms`; 0 = not told. `leaders`: the broker of each, negative or absent = not known.
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
    """`missing` names (cluster, topic) that the broker says do not exist."""

    topics: tuple[TopicSample, ...]
    missing: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ReaderSampled:
    """One look at a consumer group on a topic. `planned` are all partitions of the topic: one that is not in `samples` is unknown, never zero.

    Positions were asked for before the ends they are compared with.
    """

    reader: Reader
    planned: tuple[int, ...]
    samples: tuple[tuple[int, LagSample], ...]


@dataclass(frozen=True, slots=True)
class ReadingTaken:
    """One measurement of live traffic in a domain (a cluster's name): the canary's produce latency, or the answer to a configured Prometheus query. Seconds."""

    domain: str
    reading: Reading


@dataclass(frozen=True, slots=True)
class WebhookEnded:
    """The last word on a webhook: delivered, or given up after its retries. `status` is the HTTP status, None when nobody answered."""

    watch: str
    delivered: bool
    status: int | None
    attempts: int
    message: str


@dataclass(frozen=True, slots=True)
class QuotaSet:
    """The brokers' quota of a recovery's clients is now this; None = removed."""

    recovery: str
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class QuotasSwept:
    """On the cluster are left the quotas of `kept` (recovery, bytes/s); those of `removed` are gone. `refused`: what the cluster said when it does not let us look."""

    cluster: str
    kept: tuple[tuple[str, float], ...] = ()
    removed: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True, slots=True)
class RecoveriesForgotten:
    """Of these ended recoveries nothing is left on the cluster and on disk."""

    cluster: str
    recoveries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BecameLeader:
    """The status topic was folded and the journal is fenced for us: reconcile with the world."""

    epoch: int
    control_topic_id: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed; wakes what waits for it."""


Event = (
    CommandReceived
    | ControlUnreadable
    | SignalReceived
    | SignalRefused
    | FactsGathered
    | EffectFailed
    | TargetReady
    | AttemptExited
    | LaneHeartbeat
    | DriverHeartbeat
    | LedgerRead
    | LedgerMoved
    | OffsetsSampled
    | ReaderSampled
    | ReadingTaken
    | QuotaSet
    | QuotasSwept
    | RecoveriesForgotten
    | WebhookEnded
    | BecameLeader
    | Tick
)
