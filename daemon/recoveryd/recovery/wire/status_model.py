"""The status record as a model: for its JSON Schema, the docs and the tests, not for reading or writing records (see `recoveryd.recovery.wire.status`)."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from recoveryd.forecast.outlook import Outlook
from recoveryd.kernel.states import State, StopReason
from recoveryd.recovery.model import Severity

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
if TYPE_CHECKING:
    StateName: TypeAlias = str
    StopReasonName: TypeAlias = str
    SeverityName: TypeAlias = str
    OutlookName: TypeAlias = str
else:
    StateName = Literal[tuple(state.value for state in State)]
    StopReasonName = Literal[tuple(reason.value for reason in StopReason)]
    SeverityName = Literal[tuple(severity.value for severity in Severity)]
    OutlookName = Literal[tuple(outlook.value for outlook in Outlook)]
Natural = Annotated[int, Field(ge=0)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class CommandPart(Part):
    id: str
    source: str
    reason: str


class PlannedPartitionPart(Part):
    partition: Natural
    start: Natural = Field(description="first offset")
    stop: Natural | None = Field(description="first offset not copied; null while following the live head")
    at_end: bool = Field(description="the wanted time lies after the last record")


class PlanSourcePart(Part):
    cluster: str
    topic: str
    topic_id: str
    partitions: list[PlannedPartitionPart]


class ComparedRangePart(Part):
    partition: Natural
    start: Natural = Field(description="first offset")
    stop: Natural = Field(description="first offset not compared")


class PlanTargetPart(Part):
    cluster: str
    topic: str
    topic_id: str = Field(description="empty while the target is still to be created")
    partitions: Natural
    ranges: list[ComparedRangePart] = Field(default=[], description="of a verification: the pinned part of the target")


class EtaPart(Part):
    lo: float | None
    mid: float | None
    hi: float | None


class StoragePart(Part):
    replica_bytes: Natural
    all_bytes: Natural
    per_broker_bytes: Natural | None


class CostPart(Part):
    currency: str
    compute: float
    network: float
    storage: float
    live_impact: float
    total: float


class ForecastPart(Part):
    """Times in seconds (null = never), rates in records/s (null = not known or not asked)."""

    outlook: OutlookName = Field(description="the worst verdict that applies")
    outlooks: list[OutlookName]
    sentence: str
    suggestion: str = Field(description="what would help, in numbers; empty when all is well")
    moving_head: bool
    eta_seconds: EtaPart
    bounded_seconds: float | None = Field(description="to the end as it is now")
    moving_seconds: float | None = Field(description="until the live head is reached")
    speed_up: float | None = Field(description="replay rate / rate of the window; null = window not known")
    window_seconds: float | None
    backlog_records: float
    replay_records_per_s: float
    replay_source: str = Field(description="measured, configured or given")
    live_records_per_s: float | None
    live_source: str = Field(description="sampled, log times, given or unknown")
    required_records_per_s: float | None = Field(description="for the deadline")
    deadline_seconds: float | None
    extra_share: float | None = Field(description="records that arrive meanwhile / backlog")
    loss_in_seconds: float | None = Field(description="until retention deletes the record at the position; null = not")
    retention_slack_seconds: float | None = Field(description="the same if nothing moved")
    lost_data_seconds: float = Field(description="event time deleted before the start")
    partition: int | None = Field(description="the slowest")
    storage: StoragePart | None
    cost: CostPart | None
    at: Time | None


class FindingPart(Part):
    code: str
    severity: SeverityName
    message: str


class ReceiptsPart(Part):
    """The recovery's place on the receipts topic of the target cluster, pinned."""

    topic: str
    topic_id: str
    partition: Natural
    partitions: Natural = Field(description="as of planning")
    start: Natural = Field(description="no receipt of this recovery lies before this offset")


class PlanPart(Part):
    hash: str
    source: PlanSourcePart
    target: PlanTargetPart
    records_at_most: Natural
    bytes_at_most: Natural
    eta_seconds: EtaPart | None = Field(description="null = never")
    forecast: ForecastPart | None
    receipts: ReceiptsPart | None = Field(default=None, description="null = planned by a release that did not pin it")
    findings: list[FindingPart]


class PartitionProgressPart(Part):
    partition: Natural
    position: int = Field(description="everything before it is in the ledger")
    stop: int | None
    state: Literal["waiting", "copying", "paused", "blocked", "stopped", "done"] = Field(
        description="`stopped`: its recovery ended before it came to its stop"
    )
    copied: Natural
    filtered: Natural
    skipped: Natural
    lost: Natural
    bytes: Natural


class ProgressPart(Part):
    records: Natural
    bytes: Natural
    lag_records: int | None
    records_per_s: float
    bytes_per_s: float
    eta_seconds: float | None
    forecast: ForecastPart | None = Field(description="the newest one, made each minute from measured rates")
    verified_records: Natural = Field(default=0, description="read by the verification, on both sides")
    verified_bytes: Natural = Field(default=0, description="the same in bytes")
    verified_offsets: Natural = Field(default=0, description="of `offsets_to_verify`; a new attempt begins anew")
    offsets_to_verify: Natural = Field(
        default=0, description="of source and target together, once its tasks have said so"
    )
    partitions: list[PartitionProgressPart]


class RequestedPart(Part):
    max_bytes_per_s: float | None = None
    max_records_per_s: float | None = None
    max_bytes: int | None = None
    max_records: int | None = None
    max_runtime: str | None = Field(default=None, description="duration, such as 90s")
    deadline: Time | None = None
    event_time: Time | None = None
    idle: str | None = Field(default=None, description="duration, such as 60s")
    mode: Literal["unlimited", "fixed", "controller"] | None = None
    weight: float | None = Field(default=None, description="when it is not 1")
    tier: int | None = Field(default=None, description="when it is not 0")
    override_live_slo: bool | None = Field(default=None, description="when it is set")


class LimitsPart(Part):
    requested: RequestedPart = Field(description="the limits that are set now")
    effective_bytes_per_s: float | None
    rule: str = Field(description="why the rate is what it is")


class StopPart(Part):
    reason: StopReasonName
    mode: Literal["bounded", "caught_up"] | None = Field(description="of zero_lag")
    at: Time
    evidence: dict[str, Any] = Field(description="the numbers the rule saw")


class CompletenessPart(Part):
    partition: Natural
    start: Natural = Field(alias="from")
    stop: Natural = Field(alias="to")
    offsets: int = Field(description="copied + filtered + skipped + lost + unexplained")
    copied: Natural
    filtered: Natural = Field(description="outside the wanted times")
    skipped: Natural = Field(description="offsets that hold no visible record")
    lost: Natural = Field(description="deleted before they were copied")
    unexplained: int


class DifferencePart(Part):
    kind: Literal["missing", "extra", "altered", "reordered", "ledger"] = Field(
        description="`ledger`: a receipt is not what the reread showed"
    )
    source_partition: Natural | None
    source_offset: int | None
    target_partition: Natural | None
    target_offset: int | None
    count: Natural = Field(description="records in a row from there")
    message: str


class VerificationPart(Part):
    result: Literal["match", "mismatch", "skipped"]
    scope: Literal["source", "mixed", "receipts", ""] = Field(
        default="",
        description="what the proof rests on: the source read again, receipts for a part of it, or receipts only",
    )
    source_records: Natural
    target_records: Natural
    extra_records: Natural = Field(default=0, description="in the target, but of no record of the source range")
    records_by_receipts: Natural = Field(
        default=0, description="of the source records: no longer readable there, proved by receipts only"
    )
    unkeyed_source_records: Natural = Field(
        default=0, description="of `compare: latest`: in the source range without a key, so not compared"
    )
    unkeyed_target_records: Natural = Field(default=0, description="the same in the target")
    digest: str
    differences: list[DifferencePart]
    why: str


class StatusRecord(Part):
    """Value on the status topic (key = recovery id), and `GET /api/v1/recoveries/{id}`."""

    recovery: str
    kind: str
    state: StateName
    why: str = Field(description="one sentence, always current")
    version: Natural
    created: Time
    updated: Time
    command: CommandPart
    attempt: Natural = Field(description="number of the Spark application, 0 before the first")
    error_code: str | None = Field(description="of the catalogue, when it failed or was refused")
    plan: PlanPart | None
    progress: ProgressPart
    limits: LimitsPart
    stop: StopPart | None
    completeness: list[CompletenessPart]
    verification: VerificationPart | None
    internal: dict[str, Any] = Field(description="for the daemon only; may change at any time")


class DaemonInternalPart(Part):
    format: int
    control_topic_id: str


class DaemonStatusRecord(Part):
    """Value on the status topic with the key `_daemon`."""

    daemon: Literal[True]
    applied_control_offset: int = Field(description="offset of the last control record whose outcome is journaled")
    epoch: Natural
    updated: Time
    internal: DaemonInternalPart
