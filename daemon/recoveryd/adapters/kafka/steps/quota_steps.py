"""Steps about quotas of clients of others: how much each may read per second, for the time of a workflow.

Touched is only the rate at which exactly the named client id reads: no default, no user's, nothing that it writes.
"""

import asyncio
import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from recoveryd.adapters.kafka.raw_requests import RawClient, connected
from recoveryd.adapters.kafka.steps.reporting import failed, is_first, not_done, report, untried
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.workflows.model.actions import SetQuotas
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.workflow import QuotaUndo, UndoState

DEADLINE_S: Final = 10.0
_POLL_S: Final = 0.1
_CONSUME, _CLIENT_ID = "consumer_byte_rate", "client-id"

Rates = Mapping[str, float]


class QuotaSteps:
    def __init__(self, accesses: Mapping[str, ClientAccess]) -> None:
        self._accesses = accesses

    async def read(self, cluster: str) -> Rates:
        """By client id that has one by itself. Raises `ClusterProblem`."""
        async with connected(self._accesses[cluster], "recoveryd-quotas", _doing(cluster), DEADLINE_S) as client:
            return await _read(client)

    async def set(self, effect: TakeStep, action: SetQuotas) -> StepReported:
        """What was there was noted with the plan, before anything was changed, so that our own value is never taken for
        somebody's.
        """
        rows = [r for r in effect.rows if isinstance(r, QuotaUndo) and r.name in action.quotas]
        rows = [row for row in rows if row.state is UndoState.OPEN]
        doing = _doing(action.cluster)
        kept: list[QuotaUndo] | None = None  # somebody else's; None = nothing was tried yet
        try:
            async with connected(self._accesses[action.cluster], "recoveryd-quotas", doing, DEADLINE_S) as client:
                now = await _read(client)
                foreign = [row for row in rows if now.get(row.name) not in {row.to, _whole(row.was_set)}]
                same = [] if action.is_back or not is_first(effect) else _same(rows, now)
                if foreign and not action.is_back:
                    return replace(_changed(effect, foreign[0], now), undo=_kept(same))
                ours = [row for row in rows if row not in foreign]
                goals = {row.name: row.to if action.is_back else _whole(row.was_set) for row in ours}
                left = {name: goal for name, goal in goals.items() if now.get(name) != goal}
                changes = {name: [(_CONSUME, goal or 0.0, goal is None)] for name, goal in left.items()}
                if changes and effect.is_look:
                    return not_done(effect, f"quotas of {', '.join(changes)}", _kept(same))
                kept = [*foreign, *same]
                if changes:
                    await client.alter_client_quotas(_CLIENT_ID, changes)
                    await _read_back(client, left)
        except ClusterProblem as problem:
            if action.is_back:
                raise
            if kept is None:
                return untried(effect, problem)
            return replace(failed(effect, problem), undo=_kept(kept))
        return _report(effect, action, rows, kept)


async def _read_back(client: RawClient, goals: Mapping[str, float | None]) -> None:
    """A broker answers before each of them knows it. Raises `ClusterProblem` for one that does not come."""
    give_up_s = time.monotonic() + DEADLINE_S
    while True:
        now = await _read(client)
        wrong = next((name for name, goal in goals.items() if now.get(name) != goal), None)
        if wrong is None:
            return
        if time.monotonic() >= give_up_s:
            raise ClusterProblem(f"{wrong} may read {_said(now.get(wrong))} after {_said(goals[wrong])} was set")
        await asyncio.sleep(_POLL_S)


def _same(rows: list[QuotaUndo], now: Rates) -> list[QuotaUndo]:
    """Those with our value before anything was tried: somebody else's, which stay when ours are put back."""
    return [row for row in rows if now.get(row.name) == _whole(row.was_set) != row.to]


def _kept(rows: list[QuotaUndo]) -> tuple[QuotaUndo, ...]:
    return tuple(replace(row, state=UndoState.KEPT) for row in rows)


def _changed(effect: TakeStep, row: QuotaUndo, now: Rates) -> StepReported:
    why = f"{row.name} may read {_said(now.get(row.name))} and could read {_said(row.to)}: somebody else set it"
    return report(effect, Outcome.FAILED, why, code=Code.QUOTA_CHANGED.value)


def _report(effect: TakeStep, action: SetQuotas, rows: list[QuotaUndo], foreign: list[QuotaUndo]) -> StepReported:
    if not action.is_back:
        told = ", ".join(f"{row.name} may read {_said(row.was_set)}, before {_said(row.to)}" for row in rows)
        evidence = {"quotas": {row.name: row.was_set for row in rows}}
        return report(effect, Outcome.DONE, told, evidence=evidence, undo=_kept(foreign))
    done = tuple(replace(row, state=UndoState.KEPT if row in foreign else UndoState.DONE) for row in rows)
    why = f"{len(rows) - len(foreign)} quotas are as they were"
    why += f"; {len(foreign)} were changed by somebody else since, and stay" if foreign else ""
    return report(effect, Outcome.DONE, why, evidence={"quotas": len(rows), "kept": len(foreign)}, undo=done)


async def _read(client: RawClient) -> dict[str, float]:
    told = await client.quotas_by_client_id()
    return {client_id: quotas[_CONSUME] for client_id, quotas in told.items() if _CONSUME in quotas}


def _whole(rate: float | None) -> float | None:
    """Brokers take no fractions of a byte."""
    return None if rate is None else float(math.ceil(rate))


def _said(rate: float | None) -> str:
    return "without a quota of its own" if rate is None else f"{rate:,.0f} bytes/s"


def _doing(cluster: str) -> str:
    return f"set client quotas on the cluster {cluster}"
