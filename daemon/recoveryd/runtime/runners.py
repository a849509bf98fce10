"""Who runs which effect: the effects of the capabilities, each with the port that does it."""

from collections.abc import Mapping

from recoveryd.kernel.catalogue import Code
from recoveryd.ports import ClientQuotas, Clusters, Emit, Jobs, Ledger
from recoveryd.recovery.effects import (
    CreateTarget,
    ForgetRecoveries,
    GatherFacts,
    KillAttempt,
    LaunchAttempt,
    ReadLedger,
    SetQuota,
    SweepQuotas,
)
from recoveryd.recovery.events import EffectFailed, FactsGathered, LedgerMoved, LedgerRead, RecoveriesForgotten
from recoveryd.runtime.interpreter import Runner


def recovery_runners(
    clusters: Clusters, ledger: Ledger, jobs: Jobs, quotas: ClientQuotas | None, emit: Emit
) -> Mapping[type, Runner]:
    """Of recoveries. `quotas` None = switched off: then the core wants none. Starting and ending applications of one recovery keep their order."""

    async def gather(effect: GatherFacts) -> FactsGathered:
        return FactsGathered(effect.recovery, await clusters.gather_facts(effect))

    async def read(effect: ReadLedger) -> LedgerRead:
        moved = LedgerMoved(effect.recovery, effect.attempt, effect.sequence)
        return await ledger.read(effect, lambda: emit(moved))

    async def launch(effect: LaunchAttempt) -> None:
        await jobs.launch(effect)

    async def kill(effect: KillAttempt) -> None:
        await jobs.kill(effect.recovery, effect.attempt)

    async def forget(effect: ForgetRecoveries) -> RecoveriesForgotten:
        ids = tuple(ended.id for ended in effect.recoveries)
        await ledger.forget(effect)
        await jobs.forget(ids)
        return RecoveriesForgotten(effect.cluster, ids)

    found = {
        GatherFacts: Runner("gather_facts", gather, _failed, is_bug_final=True),
        # A copy never begins in a target of which nobody knows how it was made.
        CreateTarget: Runner("create_target", clusters.create_target, _failed, is_bug_final=True),
        LaunchAttempt: Runner("launch", launch, _failed, queue=lambda effect: effect.recovery),
        KillAttempt: Runner("kill", kill, _failed, queue=lambda effect: effect.recovery),
        ReadLedger: Runner("read_ledger", read, _failed, is_endless=True),
        ForgetRecoveries: Runner("forget_recoveries", forget, _failed, is_endless=True),
    }
    if quotas is not None:
        found[SetQuota] = Runner("set_quota", quotas.set, _failed)
        found[SweepQuotas] = Runner("sweep_quotas", quotas.sweep, _failed)
    return found


def _failed(effect: object, kind: str, code: Code, message: str, retriable: bool) -> EffectFailed:
    """Sweeping a cluster and forgetting many are about no single recovery."""
    return EffectFailed(
        getattr(effect, "recovery", ""),
        kind,
        getattr(effect, "attempt", 0),
        code.value,
        message,
        retriable,
        getattr(effect, "sequence", 0),
    )
