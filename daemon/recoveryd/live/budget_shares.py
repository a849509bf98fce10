"""One budget, several recoveries: weighted max-min shares by water-filling.

rate_i = clamp(weight_i * level, floor_i, ceiling_i), with the level at which the rates sum to the budget. Recoveries do
not each run the law of the controller, since several multiplicative laws do not converge to fair shares. Floors that do
not fit are scaled, so the budget is never exceeded. Lower tiers are filled first, once all floors are covered. Rates in
bytes/s.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

DEADLINE_WEIGHT_MOST = 10.0


@dataclass(frozen=True, slots=True)
class Claim:
    """What one recovery wants of the budget. `weight` > 0; a lower `tier` is served first."""

    floor: float
    ceiling: float
    weight: float = 1.0
    tier: int = 0


def share_budget(budget: float, claims: Sequence[Claim]) -> tuple[float, ...]:
    """Bytes/s per claim, in the order of the claims. Their sum is the budget, or the sum of the ceilings if that is
    less.
    """
    budget = budget if math.isfinite(budget) and budget > 0 else 0.0
    sound = [_sound(c) for c in claims]
    floors = math.fsum(c.floor for c in sound)
    if floors >= budget:
        return tuple(c.floor * budget / floors if floors > 0 else 0.0 for c in sound)
    shares = [c.floor for c in sound]
    left = budget - floors
    for tier in sorted({c.tier for c in sound}):
        members = [i for i, c in enumerate(sound) if c.tier == tier]
        filled = _fill(left + math.fsum(shares[i] for i in members), [sound[i] for i in members])
        left -= math.fsum(filled) - math.fsum(shares[i] for i in members)
        for i, rate in zip(members, filled, strict=True):
            shares[i] = rate
    return tuple(shares)


def _sound(claim: Claim) -> Claim:
    """The claim made safe to compute with: no NaN, floor <= ceiling, a positive weight."""
    ceiling = max(0.0, claim.ceiling) if not math.isnan(claim.ceiling) else 0.0
    floor = min(ceiling, max(0.0, claim.floor)) if math.isfinite(claim.floor) else 0.0
    weight = claim.weight if math.isfinite(claim.weight) and claim.weight > 0 else 1e-6
    return replace(claim, floor=floor, ceiling=ceiling, weight=weight)


def _fill(budget: float, claims: Sequence[Claim]) -> list[float]:
    """Water-filling of one tier: raise the level from corner to corner; between two corners, only the rates of claims
    between floor and ceiling rise.
    """
    if math.fsum(c.ceiling for c in claims) <= budget:
        return [c.ceiling for c in claims]
    corners: list[tuple[float, float]] = []
    for claim in claims:
        corners.append((claim.floor / claim.weight, claim.weight))
        if math.isfinite(claim.ceiling):
            corners.append((claim.ceiling / claim.weight, -claim.weight))
    corners.sort(
        key=lambda corner: (corner[0], -corner[1])
    )  # at one level, a claim leaves its floor before another meets its ceiling
    level, rising, filled = 0.0, 0.0, math.fsum(c.floor for c in claims)
    for corner, change in corners:
        if rising > 0 and filled + rising * (corner - level) >= budget:
            break
        filled += rising * (corner - level)
        level, rising = corner, rising + change
    if rising > 0:
        level += (budget - filled) / rising
    return [min(c.ceiling, max(c.floor, c.weight * level)) for c in claims]


def deadline_weight(weight: float, required: float | None, current: float) -> float:
    """The weight, raised in proportion (up to ten times) for a recovery that must go faster than it does to meet its
    deadline.
    """
    if required is None or not math.isfinite(required) or required <= 0:
        return weight
    if current <= 0:
        return weight * DEADLINE_WEIGHT_MOST
    return weight * min(DEADLINE_WEIGHT_MOST, max(1.0, required / current))


@dataclass(frozen=True, slots=True)
class Spread:
    """One recovery over several domains: `parts` maps a domain to how many times each of its bytes counts there."""

    claim: Claim
    parts: Mapping[str, float]


def share_over_domains(budgets: Mapping[str, float], recoveries: Mapping[str, Spread]) -> dict[str, float]:
    """Rate per recovery: shared out in each domain alone, then the least of its domains, since its lanes move together.
    An unknown domain allows nothing.
    """
    shares = shares_by_domain(budgets, recoveries)
    return {name: least_share(spread.claim, shares[name]) for name, spread in recoveries.items()}


def least_share(claim: Claim, shares: Mapping[str, float]) -> float:
    return min([claim.ceiling, *shares.values()])


def shares_by_domain(
    budgets: Mapping[str, float], recoveries: Mapping[str, Spread]
) -> Mapping[str, Mapping[str, float]]:
    """Per recovery, the rate that each of its domains allows it."""
    found: dict[str, dict[str, float]] = {name: {} for name in recoveries}
    touched = dict.fromkeys(d for spread in recoveries.values() for d, part in spread.parts.items() if part > 0)
    for domain in touched:
        members = [name for name, spread in recoveries.items() if spread.parts.get(domain, 0.0) > 0]
        claims = []
        for name in members:
            claim, part = recoveries[name].claim, recoveries[name].parts[domain]
            claims.append(replace(claim, floor=claim.floor * part, ceiling=claim.ceiling * part))
        for name, share in zip(members, share_budget(budgets.get(domain, 0.0), claims), strict=True):
            found[name][domain] = share / recoveries[name].parts[domain]
    return found
