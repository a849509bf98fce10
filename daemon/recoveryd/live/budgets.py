"""From signals to the rate of every recovery: one controller step per domain, then the shares of its recoveries.

A domain is what shares a bottleneck: a broker, or a cluster as a whole. A recovery in several domains gets the least
that any of them allows. Recoveries with a fixed rate or without a limit do not share the budget; the controller sees
them only through the pressure.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from recoveryd.live.budget_shares import (
    Claim,
    Spread,
    deadline_weight,
    least_share,
    share_over_domains,
    shares_by_domain,
)
from recoveryd.live.freshness import Reading
from recoveryd.live.law.controller import step
from recoveryd.live.law.memory import WorkKind
from recoveryd.live.law.types import ControlDecision, ControllerParams, ControllerState, ControlVerdict, Inputs, Rule

_CROWDED = 1.1  # from here on the sentence of a grant mentions it
_IDLE_SHARE = 0.1  # of an even share of the budget, which one that uses nothing has at hand
_GROWTH = 1.15  # times what it uses, which one has at hand beside others; with a step, what counts as used by the law
_STEP = 1.08


class Mode(StrEnum):
    """`limits.mode` of a recovery."""

    CONTROLLED = "controlled"
    FIXED = "fixed"
    UNLIMITED = "unlimited"


@dataclass(frozen=True, slots=True)
class Claimant:
    """A recovery that wants to copy. `claim.ceiling` is the operator's cap or the measured ceiling of the job, finite
    for CONTROLLED; for FIXED it is the rate.

    `parts`: by domain, how many times each of its bytes counts there: less than 1 when only a part of its bytes does,
    more than 1 where its bytes crowd on one broker of the domain. `writes`: the domains to which it brings records;
    elsewhere it only reads. `achieved_bytes_per_s`: what its lanes told last, None = nothing yet; what others leave to
    it goes by that. `heard_bytes_per_s`: the part of it that lanes told within some seconds, None = none of them did.
    So much is used at least, with `all_heard` no more; and no more than that raises a rate or shows it to be safe.
    `required_bytes_per_s`: the rate that meets its deadline. `has_settled`: it has had time to use what it is granted.
    `needed_bytes_per_s`: what has to be granted so that each of its lanes has what it uses now; all of it until it has
    settled.
    """

    mode: Mode
    claim: Claim
    parts: Mapping[str, float]
    achieved_bytes_per_s: float | None = None
    heard_bytes_per_s: float | None = None
    required_bytes_per_s: float | None = None
    writes: frozenset[str] = frozenset()
    has_settled: bool = False
    all_heard: bool = True
    needed_bytes_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class DomainSignals:
    """What was measured of one domain since the last step. `ingress_since_ms`: as in `Inputs`."""

    readings: tuple[Reading, ...] = ()
    ingress: Reading | None = None
    ingress_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """The lease of one recovery. Rate None = unlimited; `pause` until telemetry is back. `domain` is the one that
    limits it, "" if none does.
    """

    bytes_per_s: float | None
    pause: bool
    rule: Rule | None
    verdict: ControlVerdict | None
    domain: str
    why: str


@dataclass(frozen=True, slots=True)
class Throttled:
    """The states for the next step, the decision of every domain, the grant of every recovery."""

    states: Mapping[str, ControllerState]
    decisions: Mapping[str, ControlDecision]
    grants: Mapping[str, Grant]


def throttle(
    states: Mapping[str, ControllerState],
    signals: Mapping[str, DomainSignals],
    claimants: Mapping[str, Claimant],
    now_ms: int,
    params: Mapping[str, ControllerParams],
    notes: Mapping[str, str] | None = None,
) -> Throttled:
    """One control decision for all domains, which are the keys of `params`. A recovery's part outside of them is not
    limited. `notes`: by domain, what is said of it besides.
    """
    controlled = {name: c for name, c in claimants.items() if c.mode is Mode.CONTROLLED}
    # A budget beyond what anybody is granted could be cut without a change of what is copied.
    before = {domain: states.get(domain, ControllerState()).published for domain in params}
    lent = _lent(before, controlled, params)
    stepped = {
        domain: step(
            states.get(domain, ControllerState()),
            _inputs(domain, signals.get(domain, DomainSignals()), lent, params[domain].most_bytes_per_s),
            now_ms,
            params[domain],
        )
        for domain in params
    }
    decisions = {domain: _noted(decision, (notes or {}).get(domain)) for domain, (_, decision) in stepped.items()}
    budgets = {domain: 0.0 if d.pause else d.rate_bytes_per_s for domain, d in decisions.items()}
    shares = shares_by_domain(budgets, _spreads(budgets, controlled, params))
    grants = {name: _grant(c, shares.get(name, {}), decisions) for name, c in claimants.items()}
    return Throttled({domain: state for domain, (state, _) in stepped.items()}, decisions, grants)


def _noted(decision: ControlDecision, note: str | None) -> ControlDecision:
    return replace(decision, why=f"{decision.why}; {note}") if note else decision


def share_out(
    budgets: Mapping[str, float], claimants: Mapping[str, Claimant], params: Mapping[str, ControllerParams]
) -> dict[str, float]:
    """Rate by recovery, of those that share the budgets."""
    controlled = {name: c for name, c in claimants.items() if c.mode is Mode.CONTROLLED}
    return share_over_domains(budgets, _spreads(budgets, controlled, params))


def _spreads(
    budgets: Mapping[str, float], controlled: Mapping[str, Claimant], params: Mapping[str, ControllerParams]
) -> dict[str, Spread]:
    return {name: _spread(c, params) for name, c in _lent(budgets, controlled, params).items()}


def _lent(
    budgets: Mapping[str, float], controlled: Mapping[str, Claimant], params: Mapping[str, ControllerParams]
) -> dict[str, Claimant]:
    """These, where several share a budget, with a ceiling of little more than what each uses: what one does not use
    others get, and it gets more as soon as it uses that. A share that lies idle would be a reason to raise nothing.
    """
    parts = {name: _parts_in(params, c) for name, c in controlled.items()}
    sharing = Counter(domain for found in parts.values() for domain in found)
    even = {domain: budgets.get(domain, 0.0) / members for domain, members in sharing.items()}
    return {name: _lending(claimant, parts[name], even, sharing) for name, claimant in controlled.items()}


def _lending(
    claimant: Claimant, parts: Mapping[str, float], even: Mapping[str, float], sharing: Mapping[str, int]
) -> Claimant:
    if not claimant.has_settled or all(sharing[domain] == 1 for domain in parts):
        return claimant
    least = min(_IDLE_SHARE * even[domain] / part for domain, part in parts.items())
    most = max(claimant.claim.floor, least, _with_room(claimant.achieved_bytes_per_s or 0.0))
    return replace(claimant, claim=replace(claimant.claim, ceiling=min(claimant.claim.ceiling, most)))


def _with_room(used: float) -> float:
    """A little more than is used, in steps: what is measured moves all the time, and each change has to be told."""
    return _STEP ** math.ceil(math.log(_GROWTH * used, _STEP)) if used > 1 else 0.0


def _inputs(domain: str, signals: DomainSignals, controlled: Mapping[str, Claimant], most: float) -> Inputs:
    """All claims on the domain as one: floors, ceilings and achieved rates, summed in proportion to their parts."""
    members = [(c, c.parts[domain]) for c in controlled.values() if c.parts.get(domain, 0.0) > 0]
    heard = [c.heard_bytes_per_s * part for c, part in members if c.heard_bytes_per_s is not None]
    return Inputs(
        readings=signals.readings,
        ingress=signals.ingress,
        ingress_since_ms=signals.ingress_since_ms,
        achieved_bytes_per_s=sum(heard) if heard else None,
        floor_bytes_per_s=sum(c.claim.floor * part for c, part in members),
        ceiling_bytes_per_s=min(most, sum(c.claim.ceiling * part for c, part in members)),
        active=bool(members),
        work=_work_of({domain in c.writes for c, _ in members}),
        all_heard=all(c.all_heard for c, _ in members),
        needed_bytes_per_s=sum(max(c.claim.floor, c.needed_bytes_per_s) * part for c, part in members),
    )


def _work_of(writes: set[bool]) -> WorkKind:
    """Whether members bring records to a domain, some or all of them."""
    if writes == {True, False}:
        return WorkKind.MIXED
    return WorkKind.WRITE if writes == {True} else WorkKind.READ


def _spread(claimant: Claimant, domains: Mapping[str, object]) -> Spread:
    weight, achieved = claimant.claim.weight, claimant.achieved_bytes_per_s
    if achieved is not None:
        weight = deadline_weight(weight, claimant.required_bytes_per_s, achieved)
    return Spread(replace(claimant.claim, weight=weight), _parts_in(domains, claimant))


def _parts_in(domains: Mapping[str, object], claimant: Claimant) -> dict[str, float]:
    return {domain: part for domain, part in claimant.parts.items() if domain in domains and part > 0}


def _grant(claimant: Claimant, shares: Mapping[str, float], decisions: Mapping[str, ControlDecision]) -> Grant:
    """`shares`: by domain, the rate that it allows."""
    if claimant.mode is Mode.UNLIMITED:
        return Grant(None, False, None, None, "", "unlimited by its command: live traffic is not protected")
    if claimant.mode is Mode.FIXED:
        return Grant(
            claimant.claim.ceiling, False, None, None, "", "a fixed rate by its command: live traffic is not protected"
        )
    rate = least_share(claimant.claim, shares)
    if not shares:
        return Grant(rate, False, None, None, "", "no protected domain is touched: its own ceiling")
    least = _limiting(shares, decisions)
    decision = decisions[least]
    crowd = claimant.parts[least]
    crowded = f"; its busiest broker gets {crowd:.1f} times an even part" if crowd >= _CROWDED else ""
    why = f"{least}: {decision.why}{crowded}"
    return Grant(0.0 if decision.pause else rate, decision.pause, decision.rule, decision.verdict, least, why)


def _limiting(shares: Mapping[str, float], decisions: Mapping[str, ControlDecision]) -> str:
    """The domain that limits a recovery: one that pauses, or which allows it the least. The budget alone does not say,
    since others may share it; it does where several allow as much, as where the recovery's own ceiling is the least.
    """
    least = min(shares.values())
    equal = (domain for domain, share in shares.items() if math.isclose(share, least) or decisions[domain].pause)
    return min(equal, key=lambda domain: (not decisions[domain].pause, decisions[domain].rate_bytes_per_s))
