"""The effects of recoveries. Each is run only after the journal holds the intent; its result (after →) is an event."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.recovery.model import Allowance, Plan
from recoveryd.recovery.spec import Spec
from recoveryd.units.model import Unit
from recoveryd_jobs.contract import Directive, ReceiptsHome


@dataclass(frozen=True, slots=True)
class GatherFacts:
    """Ask the clusters for the facts that planning needs → FactsGathered or EffectFailed("gather_facts"). `units`:
    those that it concerns, of which is asked what their contracts need. `version` of the recovery, so that an answer to
    an earlier one of the same id, or to a question before its approval, is told apart.
    """

    recovery: str
    spec: Spec
    units: tuple[Unit, ...] = ()
    version: int | None = None


@dataclass(frozen=True, slots=True)
class CreateTarget:
    """Create the target topic, or accept one made by an earlier run of this same effect → TargetReady or
    EffectFailed("create_target"). With `appends` it may hold records by now, of others who append to it.
    """

    recovery: str
    cluster: str
    topic: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    appends: bool = False


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
    )  # by partition: durable up to here, as far as the daemon knows, and never to be copied again
    ledger_from: tuple[int, ...] = ()  # by lane: where its newest head lies, 0 = none


@dataclass(frozen=True, slots=True)
class KillAttempt:
    """End a child application that did not leave by itself. An unknown child (after a restart) is no error: its lanes
    are fenced.
    """

    recovery: str
    attempt: int


@dataclass(frozen=True, slots=True)
class ReadLedger:
    """Read the receipts of the recovery to the high watermark → LedgerRead or EffectFailed("read_ledger").

    With `fence` every lane's transactional id is initialised first, which ends open chunks of dead lanes and shuts out
    late ones.
    """

    recovery: str
    attempt: int
    plan: Plan
    fence: bool
    sequence: int = 0  # repeated in LedgerRead: an answer to an older question is not used
    positions: Mapping[int, int] = field(
        default_factory=dict
    )  # by partition: durable up to here, as far as the daemon knows, so receipts must reach this far
    ledger_from: tuple[int, ...] = ()  # by lane: where its newest head lies, 0 = none


@dataclass(frozen=True, slots=True)
class EndedRecovery:
    """`receipts` None = it has no receipts, or its plan did not pin where they are. `control_offset`: of the command
    that began it, which tells it from another one that gets its id.
    """

    id: str
    receipts: ReceiptsHome | None
    control_offset: int = -1


@dataclass(frozen=True, slots=True)
class ForgetRecoveries:
    """Delete the receipts, on their target cluster, and the attempts' folders of recoveries that ended long ago →
    RecoveriesForgotten or ForgettingFailed. One after the other on each cluster.
    """

    cluster: str
    recoveries: tuple[EndedRecovery, ...]


@dataclass(frozen=True, slots=True)
class SetQuota:
    """Limit what the recovery's clients read from the source and write to the target; None lifts the limit → QuotaSet
    or EffectFailed("set_quota").

    Only the quota of its own client id is touched. If one cluster refuses, no quota is left on the other.
    """

    recovery: str
    source_cluster: str
    target_cluster: str
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class SweepQuotas:
    """Remove the quotas of this installation's recoveries on a cluster, except those of `keep` → QuotasSwept. Sent
    again when no answer comes.
    """

    cluster: str
    keep: tuple[str, ...]
