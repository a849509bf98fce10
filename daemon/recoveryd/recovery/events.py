"""What can happen to recoveries: what lanes, drivers and clusters were seen to do, and the results of effects."""

from dataclasses import dataclass

from recoveryd.recovery.plan_facts import PlanFacts


@dataclass(frozen=True, slots=True)
class FactsGathered:
    recovery: str
    facts: PlanFacts


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
class RecoveriesForgotten:
    """Of these ended recoveries nothing is left on the cluster and on disk."""

    cluster: str
    recoveries: tuple[str, ...]


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
class EffectFailed:
    """An effect (by its kind, such as `gather_facts`, `create_target`, `launch`, `read_ledger`, `fence_lanes`) did not succeed; `retriable` says whether trying later may help.

    `sequence`: of the ReadLedger that failed; a word about an older question says nothing about the present one.
    """

    recovery: str
    effect: str
    attempt: int
    code: str
    message: str
    retriable: bool
    sequence: int = 0
