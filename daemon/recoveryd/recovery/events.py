"""The events of recoveries: what was seen of their applications, and the results of effects."""

from dataclasses import dataclass

from recoveryd.recovery.effects import EndedRecovery
from recoveryd.recovery.plan_facts import PlanFacts
from recoveryd_jobs.contract import DriverHeartbeat, LaneHeartbeat


@dataclass(frozen=True, slots=True)
class FactsGathered:
    """`version` of the recovery that asked; None in histories of an earlier release."""

    recovery: str
    facts: PlanFacts
    version: int | None = None


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
class LedgerPartition:
    """Sum of the receipts of one partition; they are contiguous from `start` to `position`."""

    partition: int
    start: int
    position: int
    copied: int
    filtered: int
    skipped: int
    lost: int
    bytes: int
    times: tuple[int, int] | None = None  # smallest and largest timestamp of the copied records


@dataclass(frozen=True, slots=True)
class LedgerRead:
    """Receipts read to the high watermark. `problems` lists gaps or overlaps (empty = sound). `fenced` says that all
    lanes were fenced just before.
    """

    recovery: str
    attempt: int
    fenced: bool
    partitions: tuple[LedgerPartition, ...]
    problems: tuple[str, ...] = ()
    sequence: int = 0  # of the ReadLedger it answers


@dataclass(frozen=True, slots=True)
class LedgerMoved:
    """The reading of the receipts goes on and has made progress, so waiting for it is right."""

    recovery: str
    attempt: int
    sequence: int  # of the ReadLedger under way


@dataclass(frozen=True, slots=True)
class RecoveriesForgotten:
    """On the cluster and on disk, nothing is left of these ended recoveries."""

    cluster: str
    recoveries: tuple[EndedRecovery, ...]


@dataclass(frozen=True, slots=True)
class ForgettingFailed:
    """What is left of ended recoveries on the cluster, or on disk, could not be deleted now."""

    cluster: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class QuotaSet:
    """The brokers' quota of a recovery's clients is now this; None = removed."""

    recovery: str
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class QuotasSwept:
    """The cluster still holds the quotas of `kept` (recovery, bytes/s); those of `removed` are gone. `refused`: the
    cluster's error when it did not allow to read quotas.
    """

    cluster: str
    kept: tuple[tuple[str, float], ...] = ()
    removed: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True, slots=True)
class EffectFailed:
    """An effect (by its kind, such as `gather_facts`, `create_target`, `launch` or `read_ledger`) did not succeed;
    `retriable` says whether trying later may help.

    `sequence`: of the ReadLedger that failed; the failure of an older one says nothing about the present one.
    `version`: of the GatherFacts likewise.
    """

    recovery: str
    effect: str
    attempt: int
    code: str
    message: str
    retriable: bool
    sequence: int = 0
    version: int | None = None


RecoveryEvent = (
    FactsGathered
    | TargetReady
    | AttemptExited
    | LaneHeartbeat
    | DriverHeartbeat
    | LedgerRead
    | LedgerMoved
    | RecoveriesForgotten
    | ForgettingFailed
    | QuotaSet
    | QuotasSwept
    | EffectFailed
)
