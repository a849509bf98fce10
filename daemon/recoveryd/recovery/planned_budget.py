"""What a recovery would get of the common budget if it began now, for its plan: the rate, by which rule, and with how
many it would share. Nothing is promised by it: budgets move with live traffic, so it is no part of the plan's hash.
"""

from dataclasses import replace

from recoveryd.kernel.numbers import finite
from recoveryd.live.budgets import Mode, share_out
from recoveryd.live.law.types import ControlVerdict
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.limits import ceiling_bytes_per_s, clusters_of, floor_bytes_per_s, mode_of, touched_domains
from recoveryd.recovery.model import WORKING, DomainBudget, PlannedBudget, Recovery
from recoveryd.recovery.throttling import claimants_of
from recoveryd.recovery.unwatched import unwatched_rates


def planned_budget(draft: RecoveryDraft, recovery: Recovery) -> PlannedBudget:
    """Of a recovery whose plan is made and stored."""
    limits = recovery.limits
    found = _budget(draft, recovery)
    return replace(found, max_records_per_s=limits.max_records_per_s, weight=limits.weight, tier=limits.tier)


def _budget(draft: RecoveryDraft, recovery: Recovery) -> PlannedBudget:
    limits, params = recovery.limits, draft.params
    mode = mode_of(limits, recovery.spec, params)
    if mode is not Mode.CONTROLLED:
        rate = limits.max_bytes_per_s
        asked = rate is not None or limits.max_records_per_s is not None
        why = "as the command asks" if asked else "no limit is asked for"
        return PlannedBudget("fixed" if asked else "unlimited", rate, None, rate, why=why)
    ceiling = ceiling_bytes_per_s(limits, params)
    domains = touched_domains(recovery.spec, params)
    working = [r for r in draft.live() if r.state in WORKING and r.id != recovery.id]
    unwatched = unwatched_rates(params, [*working, recovery], draft.protection.protecting.grants)
    clusters = set(clusters_of(recovery.spec)).difference(params.live.domains)
    others = {r.id for r in working if r.id in unwatched and not clusters.isdisjoint(clusters_of(r.spec))}
    part = f"its part of control.max_bytes_per_s now, with {len(others)} others" if others else "its own ceiling"
    if not domains:
        floor, rate = floor_bytes_per_s(recovery, params), unwatched[recovery.id]
        why = f"no protected cluster is touched: {part}"
        return PlannedBudget("controller", finite(rate, 1), min(floor, rate), ceiling, len(others), why=why)
    claimants = claimants_of(draft, [*working, recovery])
    budgets = {domain: _budget_now(draft, domain) for domain in params.live.domains}
    rate = share_out(budgets, claimants, params.live.domains)[recovery.id]
    most = unwatched.get(recovery.id, rate)
    beside = {n for n, c in claimants.items() if n != recovery.id and any(c.parts.get(d, 0.0) > 0 for d in domains)}
    rows = tuple(DomainBudget(domain, finite(budgets[domain], 1) or 0.0) for domain in domains)
    why = f"its share of {', '.join(f'{row.domain} {row.bytes_per_s:,.0f} B/s' for row in rows)} now, with {len(beside)} others"
    if most < rate:
        why = f"its other cluster protects nothing: {part}"
    floor = claimants[recovery.id].claim.floor
    return PlannedBudget(
        "controller", finite(min(rate, most), 1), min(floor, most), ceiling, len(beside | others), rows, why=why
    )  # fmt: skip


def _budget_now(draft: RecoveryDraft, domain: str) -> float:
    """Where nothing runs, the controller begins at its floor."""
    decision = draft.protection.protecting.decisions.get(domain)
    if decision is None or decision.verdict is ControlVerdict.IDLE:
        return draft.params.control.min_bytes_per_s
    return 0.0 if decision.pause else decision.rate_bytes_per_s
