"""Who runs which effect: each effect of the capabilities with the port that carries it out."""

from collections.abc import Mapping

from recoveryd.failpoints import hit
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.effects import SendCommand
from recoveryd.kernel.events import CommandNotSent
from recoveryd.ports import ApplicationControl, ClientQuotas, Clusters, CommandSender, Emit, Jobs, Ledger, WorkflowSteps
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
from recoveryd.recovery.events import (
    EffectFailed,
    FactsGathered,
    ForgettingFailed,
    LedgerMoved,
    LedgerRead,
    RecoveriesForgotten,
)
from recoveryd.runtime.interpreter import Runner
from recoveryd.units.control import ApplicationState, Desired, Wish
from recoveryd.watches.effects import StopApplication
from recoveryd.watches.events import UnitStopReported
from recoveryd.workflows.model.effects import GatherForWorkflow, TakeStep
from recoveryd.workflows.model.events import GatheringFailed, Outcome, StepReported


def recovery_runners(
    clusters: Clusters, ledger: Ledger, jobs: Jobs, quotas: ClientQuotas | None, emit: Emit
) -> Mapping[type, Runner]:
    """The effects of recoveries. `quotas` None = quotas are switched off."""
    return {
        **_plan_runners(clusters),
        **_attempt_runners(jobs),
        **_ledger_runners(ledger, jobs, emit),
        **({} if quotas is None else _quota_runners(quotas)),
    }


def _plan_runners(clusters: Clusters) -> Mapping[type, Runner]:
    async def gather(effect: GatherFacts) -> FactsGathered:
        return FactsGathered(effect.recovery, await clusters.gather_facts(effect), effect.version)

    return {
        # Facts that meet a bug would meet it again, and nothing of the recovery runs yet that would be lost.
        GatherFacts: Runner(
            "gather_facts",
            gather,
            _failed,
            queue=lambda effect: f"facts of {effect.recovery} at {effect.version}",
            on=lambda effect: frozenset({effect.spec.source.cluster, effect.spec.target.cluster}),
            is_bug_final=True,
            is_joined=True,
        ),
        # If creating the target failed by a bug, nobody knows how it was made, and no copy may begin in it.
        CreateTarget: Runner(
            "create_target",
            clusters.create_target,
            _failed,
            queue=lambda effect: f"target of {effect.recovery}",
            on=_on_cluster,
            is_bug_final=True,
            is_joined=True,
        ),
    }


def _attempt_runners(jobs: Jobs) -> Mapping[type, Runner]:
    """The applications of one recovery are started and ended in order."""

    async def launch(effect: LaunchAttempt) -> None:
        await jobs.launch(effect)

    async def kill(effect: KillAttempt) -> None:
        await jobs.kill(effect.recovery, effect.attempt)

    return {
        LaunchAttempt: Runner("launch", launch, _failed, queue=lambda effect: effect.recovery),
        KillAttempt: Runner("kill", kill, _failed, queue=lambda effect: effect.recovery),
    }


def _ledger_runners(ledger: Ledger, jobs: Jobs, emit: Emit) -> Mapping[type, Runner]:
    async def read(effect: ReadLedger) -> LedgerRead:
        moved = LedgerMoved(effect.recovery, effect.attempt, effect.sequence)
        return await ledger.read(effect, lambda: emit(moved))

    async def forget(effect: ForgetRecoveries) -> RecoveriesForgotten:
        ids = tuple(ended.id for ended in effect.recoveries)
        await ledger.forget(effect)
        await jobs.forget(ids)
        return RecoveriesForgotten(effect.cluster, effect.recoveries)

    return {
        ReadLedger: Runner(
            "read_ledger",
            read,
            _failed,
            on=lambda effect: frozenset({effect.plan.target.cluster}),
            is_endless=True,
        ),
        ForgetRecoveries: Runner(
            "forget_recoveries",
            forget,
            _not_forgotten,
            queue=lambda effect: f"forgetting on {effect.cluster}",
            on=_on_cluster,
            is_endless=True,
        ),
    }


def _quota_runners(quotas: ClientQuotas) -> Mapping[type, Runner]:
    """In order: one that waited for a slot may still run when the next one is wanted, and the last one has to hold. A
    late sweep knows nothing of a quota that was wanted after it, and would remove it.
    """
    return {
        SetQuota: Runner(
            "set_quota",
            quotas.set,
            _failed,
            queue=lambda effect: f"quota of {effect.recovery}",
            after=lambda effect: (_sweep_of(effect.source_cluster), _sweep_of(effect.target_cluster)),
            on=lambda effect: frozenset({effect.source_cluster, effect.target_cluster}),
        ),
        SweepQuotas: Runner(
            "sweep_quotas", quotas.sweep, _failed, queue=lambda effect: _sweep_of(effect.cluster), on=_on_cluster
        ),
    }


def _on_cluster(effect: CreateTarget | ForgetRecoveries | SweepQuotas) -> frozenset[str]:
    return frozenset({effect.cluster})


def _sweep_of(cluster: str) -> str:
    return f"sweep of {cluster}"


def command_runners(sender: CommandSender) -> Mapping[type, Runner]:
    """Commands that capabilities send; those of one noun go out in order."""
    return {
        SendCommand: Runner("send_command", sender.send, _not_sent, queue=lambda effect: f"commands of {effect.about}")
    }


def _not_sent(effect: SendCommand, _kind: str, code: Code, message: str, retriable: bool) -> CommandNotSent:
    return CommandNotSent(effect.about, effect.id, code.value, message, retriable)


def _failed(effect: object, kind: str, code: Code, message: str, retriable: bool) -> EffectFailed:
    """Sweeping a cluster concerns no single recovery, so its event names none."""
    return EffectFailed(
        getattr(effect, "recovery", ""),
        kind,
        getattr(effect, "attempt", 0),
        code.value,
        message,
        retriable,
        getattr(effect, "sequence", 0),
        getattr(effect, "version", None),
    )


def _not_forgotten(
    effect: ForgetRecoveries, _kind: str, code: Code, message: str, _retriable: bool
) -> ForgettingFailed:
    return ForgettingFailed(effect.cluster, code.value, message)


def workflow_runners(steps: WorkflowSteps) -> Mapping[type, Runner]:
    """Of workflows. Steps of one workflow keep their order."""

    async def take(effect: TakeStep) -> StepReported:
        hit(f"step.before.{effect.step}")
        report = await steps.take(effect)
        hit(f"step.after.{effect.step}")
        return report

    return {
        GatherForWorkflow: Runner(
            "gather_for_workflow",
            steps.gather,
            _gathering_failed,
            queue=lambda effect: f"facts of {effect.workflow} at {effect.version}",
            on=lambda effect: frozenset({effect.cluster}),
            is_bug_final=True,
            is_joined=True,
        ),
        TakeStep: Runner(
            "take_step",
            take,
            _step_failed,
            queue=lambda effect: f"workflow {effect.workflow}",
            on=lambda effect: frozenset({getattr(effect.action, "cluster", "")}),
        ),
    }


def watch_runners(applications: ApplicationControl) -> Mapping[type, Runner]:
    """Of watches that stop an application."""

    async def stop(effect: StopApplication) -> UnitStopReported:
        if effect.before is None:
            seen = await applications.look(effect.unit)
            before = None if seen.state is ApplicationState.UNKNOWN else dict(seen.before)
            return UnitStopReported(effect.watch, effect.question, False, seen.why, before)
        hit("watch.before_stop")
        key = f"{effect.watch}/{effect.since_ms}"
        wish = Wish(effect.unit, Desired.STOPPED, effect.watch, key, effect.since_ms, effect.before)
        report = await applications.ask(wish)
        hit("watch.after_stop")
        return UnitStopReported(effect.watch, effect.question, report.fulfils(Desired.STOPPED), report.why)

    return {
        StopApplication: Runner("stop_application", stop, _not_stopped, queue=lambda effect: f"watch {effect.watch}")
    }


def _not_stopped(effect: StopApplication, _kind: str, _code: Code, message: str, _retriable: bool) -> UnitStopReported:
    return UnitStopReported(effect.watch, effect.question, False, message)


def _gathering_failed(
    effect: GatherForWorkflow, _kind: str, code: Code, message: str, retriable: bool
) -> GatheringFailed:
    return GatheringFailed(effect.workflow, code.value, message, retriable, effect.version)


def _step_failed(effect: TakeStep, _kind: str, code: Code, message: str, retriable: bool) -> StepReported:
    outcome = Outcome.FAILED
    return StepReported(
        effect.workflow, effect.step, effect.try_number, outcome, message, code=code.value, is_retriable=retriable
    )
