"""Commands as the core sees them: validated, typed, free of wire detail.

The wire layer (`daemon.wire`) turns control records into these and owns names, defaults and hints; nothing here parses. A class per verb, so that a
match over `Command` with `assert_never` shows where a new verb is missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from daemon.core.watches.spec import WatchSpec


@dataclass(frozen=True, slots=True)
class Earliest:
    """The log start offset."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The high watermark when planned, pinned once."""


@dataclass(frozen=True, slots=True)
class AtOffset:
    """The same offset for every partition."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset per partition; partitions not named are an error of planning."""

    offsets: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record at or after `time_ms` (durations are made absolute by the wire layer, against the record's broker time)."""

    time_ms: int


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Follow the live head, stop by itself at zero lag."""


@dataclass(frozen=True, slots=True)
class Never:
    """Follow the live head until told."""


From = Earliest | AtOffset | AtOffsets | AtTime
To = Latest | AtOffset | AtOffsets | AtTime | CaughtUp | Never


@dataclass(frozen=True, slots=True)
class Limits:
    """None = no limit. `deadline_ms` is absolute, `max_runtime_ms` counts from the first attempt. `event_time_ms`: stop when every partition is past records
    of this time, or has been at its end for `idle_ms` (a minute when that is None). `idle_ms`: stop when nothing came for so long.

    `mode` is unlimited | fixed | controller, None = by what is protected and what rate is given. Of what the controller has to give, recoveries of a
    lower `tier` take first, within one by `weight`. `override_live_slo` lets it start although live traffic is over its SLO already.
    """

    max_bytes_per_s: float | None = None
    max_records_per_s: float | None = None
    max_bytes: int | None = None
    max_records: int | None = None
    max_runtime_ms: int | None = None
    deadline_ms: int | None = None
    mode: str | None = None
    weight: float = 1.0
    tier: int = 0
    override_live_slo: bool = False
    event_time_ms: int | None = None
    idle_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SourceRef:
    topic: str
    start: From
    stop: To
    cluster: str = "main"
    partitions: tuple[int, ...] | None = None  # None = all


@dataclass(frozen=True, slots=True)
class TargetRef:
    topic: str
    cluster: str = "main"
    create: bool = False
    on_existing: str = "refuse"  # refuse | append
    mapping: str = "same"  # same | key_hash
    headers_add: tuple[tuple[str, str], ...] = ()
    headers_drop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplaySpec:
    source: SourceRef
    target: TargetRef
    limits: Limits = field(default_factory=Limits)
    dry_run: bool = False
    plan_hash: str | None = None
    on_data_loss: str = "fail"  # fail | continue
    verify: str = "source"  # source | digest | count | none
    profile: str = "default"

    kind = "replay"
    copies = True  # it writes to its target: it has lanes, receipts and completeness
    target_bounds = None


@dataclass(frozen=True, slots=True)
class ComparedRef:
    """A topic that is only read. `start` None = the source's bound, taken in this topic."""

    topic: str
    cluster: str = "main"
    start: From | None = None
    mapping: str = "same"  # same | key_hash: where a record of the source has to be
    headers_add: tuple[tuple[str, str], ...] = ()
    headers_drop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VerificationSpec:
    """Compare a range of the source with the target, whoever made it. `compare`: every record, or the last value of each key."""

    source: SourceRef
    target: ComparedRef
    limits: Limits = field(default_factory=Limits)
    dry_run: bool = False
    plan_hash: str | None = None
    compare: str = "records"  # records | latest
    profile: str = "default"

    kind = "verification"
    copies = False

    @property
    def target_bounds(self) -> tuple[From, To]:
        """Where the target is read; planning looks these up, because nothing of ours says where the copy lies."""
        return self.target.start or self.source.start, Latest()


Spec = ReplaySpec | VerificationSpec
KINDS = (ReplaySpec.kind, VerificationSpec.kind)


@dataclass(frozen=True, slots=True)
class Meta:
    """Envelope of a command: `id` with `source` is its idempotency key, `subject` the recovery id, `content_hash` covers type, subject and data."""

    id: str
    source: str
    subject: str
    reason: str
    content_hash: str
    time_ms: int | None = None
    expiry_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    meta: Meta
    spec: ReplaySpec
    verb = "replay"


@dataclass(frozen=True, slots=True)
class Verify:
    meta: Meta
    spec: VerificationSpec
    verb = "verify"


@dataclass(frozen=True, slots=True)
class Pause:
    meta: Meta
    verb = "pause"


@dataclass(frozen=True, slots=True)
class Resume:
    meta: Meta
    verb = "resume"


@dataclass(frozen=True, slots=True)
class StopRecovery:
    meta: Meta
    verb = "stop"


@dataclass(frozen=True, slots=True)
class Throttle:
    """`changes`: limits by name. One that is not named stays, None takes it back to its default (a rate is lifted)."""

    meta: Meta
    changes: Mapping[str, float | str | None]
    verb = "throttle"


@dataclass(frozen=True, slots=True)
class Approve:
    meta: Meta
    plan_hash: str
    verb = "approve"


@dataclass(frozen=True, slots=True)
class Reject:
    meta: Meta
    plan_hash: str
    verb = "reject"


@dataclass(frozen=True, slots=True)
class StartWatch:
    meta: Meta
    spec: WatchSpec
    verb = "watch"


Command = Replay | Verify | Pause | Resume | StopRecovery | Throttle | Approve | Reject | StartWatch
VERBS = ("replay", "verify", "pause", "resume", "stop", "throttle", "approve", "reject", "watch")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A control record that is a CloudEvents command, readable enough to be answered, but not acceptable."""

    verb: str  # "" when the type is unknown
    id: str
    source: str
    subject: str
    content_hash: str
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class LagSample:
    partition: int
    committed: int | None
    end: int | None
    sampled_at_ms: int


@dataclass(frozen=True, slots=True)
class LagSignal:
    cluster: str
    group: str
    topic: str
    partitions: tuple[LagSample, ...]


@dataclass(frozen=True, slots=True)
class HealthSignal:
    cluster: str
    name: str
    value: float | None
    unit: str
    status: str  # ok | degraded | critical | unknown
    sampled_at_ms: int


Signal = LagSignal | HealthSignal
