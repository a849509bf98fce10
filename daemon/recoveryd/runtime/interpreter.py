"""Runs effects and turns what comes of them into events. One branch per effect; no rule about recovery, no decision about trying again.

Effects run beside each other, a bounded number at a time, except that starting and ending applications of one recovery keep their order. Whatever goes
wrong becomes an `EffectFailed`, so the core always hears of it.
"""

import asyncio
from typing import Final, assert_never

import structlog

from recoveryd.errors import RecoverydError
from recoveryd.failpoints import hit
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.effects import Effect, WakeAt
from recoveryd.kernel.events import Event
from recoveryd.ports import ClientQuotas, Clusters, Emit, Jobs, Ledger, Webhooks
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
from recoveryd.recovery.events import EffectFailed, FactsGathered, LedgerMoved, RecoveriesForgotten
from recoveryd.watches.effects import CallWebhook

log = structlog.stdlib.get_logger(__name__)

AT_ONCE: Final = 16
DEADLINE_S: Final = (
    180.0  # adapters have deadlines of their own; this one only keeps a hole in them from holding a slot for ever
)

OneEffect = GatherFacts | CreateTarget | LaunchAttempt | KillAttempt | ReadLedger | SetQuota | SweepQuotas
WorldEffect = OneEffect | ForgetRecoveries

# Kinds as `EffectFailed.effect` names them.
KINDS: Final[dict[type, str]] = {
    GatherFacts: "gather_facts",
    CreateTarget: "create_target",
    LaunchAttempt: "launch",
    KillAttempt: "kill",
    ReadLedger: "read_ledger",
    SetQuota: "set_quota",
    SweepQuotas: "sweep_quotas",
    ForgetRecoveries: "forget_recoveries",
}


class Interpreter:
    """`start` begins an effect; results and failures go to `emit`."""

    def __init__(
        self,
        clusters: Clusters,
        ledger: Ledger,
        jobs: Jobs,
        emit: Emit,
        *,
        quotas: ClientQuotas | None = None,
        webhooks: Webhooks | None = None,
    ) -> None:
        self._clusters = clusters
        self._quotas = quotas
        self._webhooks = webhooks
        self._ledger = ledger
        self._jobs = jobs
        self._emit = emit
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._applications: dict[str, asyncio.Task[None]] = {}

    def start(self, effect: Effect) -> None:
        """Begin `effect`. Call from the loop, after the journal holds the intent."""
        if isinstance(effect, WakeAt):
            return  # the runtime keeps time
        if isinstance(effect, CallWebhook):
            assert self._webhooks is not None, "the core knows only webhooks of the config"
            self._webhooks.start(effect)  # with slots of its own: a receiver that does not answer holds no recovery up
            return
        assert isinstance(effect, WorldEffect), f"nobody runs {type(effect).__name__}"
        before = self._applications.get(effect.recovery) if isinstance(effect, LaunchAttempt | KillAttempt) else None
        task = asyncio.create_task(self._run(effect, before))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if isinstance(effect, LaunchAttempt | KillAttempt):
            self._applications[effect.recovery] = task
            task.add_done_callback(lambda done: self._forget(effect.recovery, done))

    async def close(self) -> None:
        """Give up on what has not ended. The next leader wants it again from the journaled state."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._webhooks is not None:
            await self._webhooks.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, effect: WorldEffect, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        async with self._slots:
            try:
                # A long ledger is read for as long as that gets on; the reader itself knows when it does not.
                async with asyncio.timeout(None if isinstance(effect, ReadLedger | ForgetRecoveries) else DEADLINE_S):
                    await self._do(effect)
            except RecoverydError as problem:
                self._fail(effect, problem.code, problem.message, is_retriable=problem.retriable)
            except TimeoutError:
                self._fail(effect, Code.CLUSTER_UNREACHABLE, f"No end within {DEADLINE_S:.0f} s.", is_retriable=True)
            except Exception as bug:
                log.exception("an effect broke", effect=KINDS[type(effect)], recovery_id=_subject(effect))
                # Nothing has run yet while planning: refuse honestly. Later trying again is safer than giving a half-done copy up.
                is_retriable = not isinstance(effect, GatherFacts | CreateTarget)
                self._fail(effect, Code.INVARIANT_BROKEN, f"{type(bug).__name__}: {bug}", is_retriable=is_retriable)

    async def _do(self, effect: WorldEffect) -> None:
        result = await (
            self._forget_for_good(effect) if isinstance(effect, ForgetRecoveries) else self._perform(effect)
        )
        hit("runtime.after_effects")
        if result is not None:
            self._emit(result)

    async def _forget_for_good(self, effect: ForgetRecoveries) -> RecoveriesForgotten:
        ids = tuple(ended.id for ended in effect.recoveries)
        await self._ledger.forget(effect)
        await self._jobs.forget(ids)
        return RecoveriesForgotten(effect.cluster, ids)

    async def _perform(self, effect: OneEffect) -> Event | None:
        match effect:
            case GatherFacts():
                return FactsGathered(effect.recovery, await self._clusters.gather_facts(effect))
            case CreateTarget():
                return await self._clusters.create_target(effect)
            case LaunchAttempt():
                await self._jobs.launch(effect)
            case KillAttempt():
                await self._jobs.kill(effect.recovery, effect.attempt)
            case ReadLedger():
                moved = LedgerMoved(effect.recovery, effect.attempt, effect.sequence)
                return await self._ledger.read(effect, lambda: self._emit(moved))
            case SetQuota():
                assert self._quotas is not None, "the core asks for quotas only where they are switched on"
                return await self._quotas.set(effect)
            case SweepQuotas():
                assert self._quotas is not None, "the core asks for quotas only where they are switched on"
                return await self._quotas.sweep(effect)
            case _:
                assert_never(effect)
        return None  # heartbeats and exits tell about applications

    def _fail(self, effect: WorldEffect, code: Code, message: str, *, is_retriable: bool) -> None:
        kind = KINDS[type(effect)]
        log.warning("an effect failed", effect=kind, recovery_id=_subject(effect), code=code.value, error=message)
        attempt = effect.attempt if isinstance(effect, LaunchAttempt | KillAttempt | ReadLedger) else 0
        sequence = effect.sequence if isinstance(effect, ReadLedger) else 0
        self._emit(EffectFailed(_subject(effect), kind, attempt, code.value, message, is_retriable, sequence))

    def _forget(self, recovery: str, done: asyncio.Task[None]) -> None:
        if self._applications.get(recovery) is done:
            del self._applications[recovery]


def _subject(effect: WorldEffect) -> str:
    """The recovery it is about; sweeping a cluster and forgetting many are about none."""
    return "" if isinstance(effect, SweepQuotas | ForgetRecoveries) else effect.recovery
