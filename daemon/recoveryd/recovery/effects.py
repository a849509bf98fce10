"""What recoveries want from the world. Each is run only after the journal holds its intent; its result comes back as an event."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.recovery.model import Allowance, Plan
from recoveryd.recovery.spec import Spec
from recoveryd_jobs.contract import Directive, ReceiptsHome


@dataclass(frozen=True, slots=True)
class GatherFacts:
    """Ask the clusters what planning needs → FactsGathered or EffectFailed("gather_facts")."""

    recovery: str
    spec: Spec


@dataclass(frozen=True, slots=True)
class CreateTarget:
    """Create the target topic, or accept one made by an earlier run of this same effect → TargetReady or EffectFailed("create_target")."""

    recovery: str
    cluster: str
    topic: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LaunchAttempt:
    """Start the Spark application → heartbeats and later AttemptExited, or EffectFailed("launch")."""

    recovery: str
    attempt: int
    spec: Spec
    plan: Plan
    directive: Directive  # what the lanes do until they have read the directives topic
    allowances: tuple[Allowance, ...] = ()  # by lane, () = no cap
    positions: Mapping[int, int] = field(
        default_factory=dict
    )  # durable, as far as the daemon knows: never to be copied again
    ledger_from: tuple[int, ...] = ()  # by lane: where its newest head lies, 0 = none


@dataclass(frozen=True, slots=True)
class KillAttempt:
    """End a child application that did not leave by itself. Not knowing the child (after a restart) is fine: its lanes are fenced."""

    recovery: str
    attempt: int


@dataclass(frozen=True, slots=True)
class ReadLedger:
    """Read the receipts of the recovery to the high watermark → LedgerRead or EffectFailed("read_ledger").

    With `fence` every lane's transactional id is initialised first, which ends open chunks of dead lanes and shuts out late ones.
    """

    recovery: str
    attempt: int
    plan: Plan
    fence: bool
    sequence: int = 0  # echoed in LedgerRead: an answer to an older question is not used
    positions: Mapping[int, int] = field(
        default_factory=dict
    )  # durable, as far as the daemon knows: receipts reach there
    ledger_from: tuple[int, ...] = ()  # by lane: where its newest head lies, 0 = none


@dataclass(frozen=True, slots=True)
class EndedRecovery:
    """`receipts` None = it has none, or its plan did not pin where they are."""

    id: str
    receipts: ReceiptsHome | None


@dataclass(frozen=True, slots=True)
class ForgetRecoveries:
    """Take away the receipts, on their target cluster, and the attempts' folders of recoveries that ended long ago → RecoveriesForgotten."""

    cluster: str
    recoveries: tuple[EndedRecovery, ...]


@dataclass(frozen=True, slots=True)
class SetQuota:
    """Limit what the recovery's clients read of the source and write to the target, or lift it with None → QuotaSet or EffectFailed("set_quota").

    Only the quota of its own client id is touched. A cluster that refuses leaves none on the other.
    """

    recovery: str
    source_cluster: str
    target_cluster: str
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class SweepQuotas:
    """Remove the quotas of this installation's recoveries on a cluster, except those of `keep` → QuotasSwept. Without an answer it is asked again."""

    cluster: str
    keep: tuple[str, ...]
