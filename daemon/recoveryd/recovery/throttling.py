"""The controllers at work: at each control period one step for every budget domain, then a lease for every recovery
that it controls.

The law is in `recoveryd.live.budgets`; here its inputs are gathered from what was observed, and its decisions become
directives, pauses and events. It also steps when no recovery runs, because it must know live traffic without a replay
before one starts.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from recoveryd.kernel.effects import WakeAt
from recoveryd.kernel.numbers import finite
from recoveryd.kernel.states import State
from recoveryd.live.admission import refuse_start
from recoveryd.live.budgets import Claimant, DomainSignals, Grant, Mode, Throttled, throttle
from recoveryd.live.evidence import decision_evidence, is_worth_telling
from recoveryd.live.freshness import Reading
from recoveryd.live.keeping import EVERY_MS, KEY, begun, has_fallen, is_worth_keeping, kept_of
from recoveryd.live.law.assessment import fresh_values
from recoveryd.live.law.types import ControlDecision, ControllerParams, ControllerState, ControlVerdict
from recoveryd.live.on_live import refresh_lags
from recoveryd.live.protecting import Ingress, Protecting, grown
from recoveryd.recovery.case import Case
from recoveryd.recovery.crowding import crowding
from recoveryd.recovery.directing import RAISE, is_small_change, renew
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.holding import is_let_go
from recoveryd.recovery.lane_shares import worker_shares
from recoveryd.recovery.left_out import LeftOut, domains_now, left_out, told_left_out
from recoveryd.recovery.limits import UNDIVIDED, claim_of, mode_of, touched_domains, with_limits
from recoveryd.recovery.model import WORKING, Recovery
from recoveryd.recovery.observed import Heard
from recoveryd.recovery.pausing import LIVE_SLO, TELEMETRY, begin_resume, hold
from recoveryd.recovery.progress import progress_ratio, verified_ratio
from recoveryd.recovery.stops.conditions import live_slo
from recoveryd.recovery.unwatched import bounded, unwatched_rates, with_share

_HEARD: Final = frozenset({State.RUNNING, State.VERIFYING})
_DRAINED: Final = frozenset({State.PAUSED})
_BLIND: Final = frozenset({ControlVerdict.BLIND, ControlVerdict.PAUSED})
_LISTED_MOST: Final = 20
_SLACK_MS: Final = 500
_SETTLED_MS: Final = 60_000  # so long the start of lanes and the way to their share may take
_LATE_MS: Final = 3_000  # heartbeats come each second


def control(draft: RecoveryDraft) -> None:
    """One step of all controllers if it is due. A new leader takes the first step at once, so that no lease of the
    former leader lives longer than needed.
    """
    params, before = draft.params, draft.protection.protecting
    recoveries = [r for r in draft.live() if r.state in WORKING or (r.state in _DRAINED and r.held == TELEMETRY)]
    if not params.live.domains:
        rates = unwatched_rates(params, recoveries)
        why = "nothing is listed to be protected any more"
        for recovery in recoveries:
            _without_controller(Case(draft, recovery.id), why, rates.get(recovery.id))
        return
    period_ms = params.control.period_ms
    if draft.now_ms - before.stepped_ms < period_ms - min(_SLACK_MS, period_ms // 4):
        draft.effect(WakeAt(before.stepped_ms + period_ms))
        return
    draft.effect(WakeAt(draft.now_ms + period_ms))
    refresh_lags(draft.protection)
    _step(draft, recoveries)


def refuse_over_slo(draft: RecoveryDraft, recovery: Recovery) -> str | None:
    """Why the recovery may not start now: live traffic where it would read or write is over its SLO already."""
    if recovery.limits.override_live_slo:
        return None
    return live_over_slo(draft, touched_domains(recovery.spec, draft.params))


def live_over_slo(draft: RecoveryDraft, domains: Iterable[str]) -> str | None:
    """Why no recovery may start in these domains now. A group that reads nothing on purpose does not count."""
    states, params = draft.protection.protecting.states, domains_now(draft, left_out(draft))
    for domain in domains:
        state = states.get(domain)
        why = state and domain in params and refuse_start(state, draft.now_ms, params[domain])
        if why:
            return f"{domain}: {why}"
    return None


def _step(draft: RecoveryDraft, recoveries: Sequence[Recovery]) -> None:
    before = draft.protection.protecting
    out, claimants = left_out(draft), claimants_of(draft, recoveries)
    domains = domains_now(draft, out)
    signals = {domain: _signals(before, domain, out) for domain in domains}
    known = {
        domain: before.states.get(domain) or begun(draft.draft.daemon.kept, domain, domains[domain].place)
        for domain in domains
    }
    made = throttle(known, signals, claimants, draft.now_ms, domains, told_left_out(out))
    rates = unwatched_rates(draft.params, recoveries, made.grants)
    grants = bounded(made.grants, rates)
    uncontrolled = _uncontrolled(draft, recoveries, claimants)
    states = {
        domain: _without_false_baseline(state, known[domain], domain in uncontrolled, draft.now_ms, domains)
        for domain, state in made.states.items()
    }
    after = replace(
        before,
        readings={},
        states=states,
        decisions=made.decisions,
        grants=grants,
        left_out=out,
        stepped_ms=draft.now_ms,
        rules=_counted_rules(before, made.decisions),
        violations_s=_violations(draft, before, states, recoveries, domains),
    )
    for domain, state in states.items():
        earlier = before.states.get(domain, ControllerState())
        after = after.with_rejections(grown(earlier.rejections, state.rejections))
    draft.protection.protecting = _kept(draft, after)
    _tell(draft, before.decisions, made.decisions, grants, claimants)
    _apply_all(draft, recoveries, replace(made, grants=grants), rates)
    _pause_pressed(draft, states, claimants)


def claimants_of(draft: RecoveryDraft, recoveries: Iterable[Recovery]) -> dict[str, Claimant]:
    """The recoveries that share the budgets: every controlled one that copies or compares, or would if live traffic
    were measured. They divide the floor, so that it holds for all together.
    """
    params = draft.params
    controlled = [
        (r, domains)
        for r in recoveries
        if mode_of(r.limits, r.spec, params) is Mode.CONTROLLED and (domains := touched_domains(r.spec, params))
    ]
    floor = params.control.min_bytes_per_s / max(1, len(controlled))
    return {r.id: _claimant(draft, r, domains, floor) for r, domains in controlled}


def _claimant(draft: RecoveryDraft, recovery: Recovery, domains: Sequence[str], floor: float) -> Claimant:
    seen = draft.observed(recovery.id)
    by_number = seen.readers if recovery.is_proving else seen.lanes
    workers = by_number.values()
    is_heard = bool(workers) and recovery.state in _HEARD
    is_resting = recovery.state in _DRAINED and recovery.held == TELEMETRY
    begun_ms = max(recovery.attempt.started_at_ms, seen.adopted_ms, seen.drain_since_ms)
    has_settled = is_resting or (is_heard and draft.now_ms - begun_ms >= _SETTLED_MS)
    return Claimant(
        mode=Mode.CONTROLLED,
        claim=claim_of(recovery, draft.params, floor),
        parts={domain: crowding(draft, recovery, domain) for domain in domains},
        writes=frozenset({recovery.spec.target.cluster} if recovery.brings_records else ()),
        achieved_bytes_per_s=recovery.progress.bytes_per_s if is_heard else None,
        heard_bytes_per_s=_heard_bytes_per_s(workers, draft.now_ms) if is_heard else None,
        all_heard=not is_heard or all(_is_heard(worker, draft.now_ms) for worker in workers),
        required_bytes_per_s=_required(recovery, draft.now_ms),
        has_settled=has_settled,
        needed_bytes_per_s=_needed(by_number, worker_shares(recovery, seen), draft.now_ms)
        if has_settled
        else _granted(draft, recovery),
    )


def _heard_bytes_per_s(workers: Collection[Heard], now_ms: int) -> float | None:
    """What these told so lately that it is still so; None while none did."""
    heard = [worker.heartbeat for worker in workers if _is_heard(worker, now_ms)]
    return sum(beat.bytes_per_s for beat in heard if beat.state != "done") if heard else None


def _is_heard(worker: Heard, now_ms: int) -> bool:
    """Whether what it last told is still so. One that is done tells nothing further."""
    return worker.heartbeat.state == "done" or now_ms - worker.received_ms <= _LATE_MS


def _granted(draft: RecoveryDraft, recovery: Recovery) -> float:
    grant = draft.protection.protecting.grants.get(recovery.id)
    return 0.0 if grant is None else grant.bytes_per_s or 0.0


def _needed(workers: Mapping[int, Heard], shares: Mapping[int, float], now_ms: int) -> float:
    """What has to be granted so that the busiest of them has what it uses. Lanes get parts by what they have left, and
    equal ones where they follow: one with a backlog may use all of its part beside others that use nothing.
    """
    return max(
        (
            worker.heartbeat.bytes_per_s / shares[number]
            for number, worker in workers.items()
            if worker.heartbeat.state != "done" and shares.get(number) and _is_heard(worker, now_ms)
        ),
        default=0.0,
    )


def _required(recovery: Recovery, now_ms: int) -> float | None:
    """Bytes/s that would still meet the deadline; None without a deadline."""
    deadline_ms, plan = recovery.limits.deadline_ms, recovery.plan
    if deadline_ms is None or plan is None or deadline_ms <= now_ms:
        return None
    done = verified_ratio(recovery) if recovery.is_proving else progress_ratio(recovery)
    left = plan.bytes_at_most * (1.0 - (done or 0.0))
    return left * 1000 / (deadline_ms - now_ms)


def _signals(protecting: Protecting, domain: str, out: LeftOut) -> DomainSignals:
    ingress = protecting.ingress.get(domain, Ingress())
    rate = ingress.bytes_per_s
    taken = None if rate is None else Reading("ingress", rate, ingress.points[-1][0])
    unused = out.get(domain, {})
    readings = tuple(reading for reading in protecting.readings.get(domain, ()) if reading.name not in unused)
    return DomainSignals(readings, taken, ingress.since_ms)


def _uncontrolled(draft: RecoveryDraft, recoveries: Iterable[Recovery], claimants: Mapping[str, Claimant]) -> set[str]:
    """Domains in which a recovery copies or compares at a rate that no controller set."""
    free = [r for r in recoveries if r.id not in claimants and r.state in _HEARD]
    return {domain for r in free for domain in touched_domains(r.spec, draft.params)}


def _without_false_baseline(
    state: ControllerState,
    before: ControllerState,
    is_loaded: bool,
    now_ms: int,
    domains: Mapping[str, ControllerParams],
) -> ControllerState:
    """The state with the earlier baselines if the domain `is_loaded` by a recovery outside the budget: what is measured
    then is not live traffic alone, nor, where no other one runs, the noise of a rest.
    """
    if not is_loaded:
        return state
    kept = replace(state, baselines=before.baselines)
    later_ms = max(max(p.cut_latency_ms, p.period_ms) for p in domains.values())
    return kept if kept.active else replace(kept, counted=before.counted, cut_ms=now_ms + later_ms)


def _counted_rules(before: Protecting, decisions: Mapping[str, ControlDecision]) -> dict[tuple[str, str], int]:
    rules = dict(before.rules)
    for domain, decision in decisions.items():
        if decision.verdict is not ControlVerdict.IDLE:
            key = (domain, decision.rule.name.lower())
            rules[key] = rules.get(key, 0) + 1
    return rules


def _violations(
    draft: RecoveryDraft,
    before: Protecting,
    states: Mapping[str, ControllerState],
    recoveries: Iterable[Recovery],
    domains: Mapping[str, ControllerParams],
) -> dict[tuple[str, str, str], float]:
    """Seconds since the last step in which the newest fresh sample of a signal was over its SLO; keyed by (domain,
    signal, whether a replay ran above the floor then).
    """
    params = draft.params
    elapsed_s = min(draft.now_ms - before.stepped_ms, 2 * params.control.period_ms) / 1000 if before.stepped_ms else 0.0
    copied: dict[str, float] = {}
    for recovery in recoveries:
        for domain in touched_domains(recovery.spec, params):
            copied[domain] = copied.get(domain, 0.0) + recovery.progress.bytes_per_s
    violations = dict(before.violations_s)
    for domain, controller in domains.items():
        is_ours = copied.get(domain, 0.0) > 1.1 * params.control.min_bytes_per_s
        for protection, value in fresh_values(states[domain], draft.now_ms, controller):
            if value >= protection.slo_s and elapsed_s > 0:
                key = (domain, protection.name, "yes" if is_ours else "no")
                violations[key] = violations.get(key, 0.0) + elapsed_s
    return violations


def _kept(draft: RecoveryDraft, after: Protecting) -> Protecting:
    """Journal what controllers learned, only what changed: once a minute at most, and what turned out to be too much at
    once.
    """
    daemon = draft.draft.daemon
    if draft.now_ms - after.kept_ms < EVERY_MS and not has_fallen(daemon.kept, after.states):
        return after
    places = {domain: params.place for domain, params in draft.params.live.domains.items()}
    learned = kept_of(after.states, places)
    if is_worth_keeping(daemon.kept, learned):
        known = {domain: kept for domain, kept in daemon.kept.get(KEY, {}).items() if domain in after.states}
        kept = {**daemon.kept, KEY: {**known, **learned}}
        draft.draft.set_daemon(replace(daemon, kept=kept, updated_ms=draft.now_ms))
    return replace(after, kept_ms=draft.now_ms)


def _tell(
    draft: RecoveryDraft,
    before: Mapping[str, ControlDecision],
    decisions: Mapping[str, ControlDecision],
    grants: Mapping[str, Grant],
    claimants: Mapping[str, Claimant],
) -> None:
    """An event for each decision that is worth one: inputs, pressures, rule, sentence, and what each recovery gets."""
    for domain, decision in decisions.items():
        earlier = before.get(domain)
        if decision.verdict is ControlVerdict.IDLE and (earlier is None or earlier.verdict is ControlVerdict.IDLE):
            continue
        if is_worth_telling(earlier, decision):
            members = [name for name, c in claimants.items() if domain in c.parts][:_LISTED_MOST]
            shares = {name: finite(grants[name].bytes_per_s, 1) for name in members}
            told = {"domain": domain} | decision_evidence(decision) | {"recoveries": shares}
            draft.notice("throttle_decided", "", told)
            draft.reason = f"{domain}: {decision.why}"


def _apply_all(
    draft: RecoveryDraft, recoveries: Sequence[Recovery], made: Throttled, rates: Mapping[str, float]
) -> None:
    """`rates`: what each may take where nothing is protected, bytes/s. Where one gets more of a budget, those that get
    less of it are told in the same step, however little it is.
    """
    raises = any(_is_raised(r, made.grants.get(r.id), rates.get(r.id)) for r in recoveries)
    for recovery in recoveries:
        grant = made.grants.get(recovery.id)
        if grant is None:
            why = "no controller decides on it any more"
            _without_controller(Case(draft, recovery.id), why, rates.get(recovery.id))
        else:
            _apply(draft, recovery, grant, made.decisions, raises)


def _apply(
    draft: RecoveryDraft,
    recovery: Recovery,
    grant: Grant,
    decisions: Mapping[str, ControlDecision],
    raises: bool,
) -> None:
    case = Case(draft, recovery.id)
    bound = [decisions[d] for d in touched_domains(recovery.spec, draft.params)]
    if recovery.held == TELEMETRY and recovery.state in _DRAINED:
        if not grant.pause and all(d.verdict not in _BLIND for d in bound):
            case.remember(effective_bytes_per_s=grant.bytes_per_s, rule=grant.why)
            _release_if_held(case, "live traffic is measured again: goes on by itself")
    elif grant.pause:
        case.journal(rule=grant.why)
        evidence = {"domain": grant.domain, **decision_evidence(decisions[grant.domain])}
        hold(case, TELEMETRY, grant.why, evidence)
    elif _is_told_at_once(recovery.effective_bytes_per_s, grant, any(d.publish for d in bound), raises):
        case.revise(effective_bytes_per_s=grant.bytes_per_s, rule=grant.why)
        if not recovery.attempt.released:
            renew(case)


def _is_raised(recovery: Recovery, grant: Grant | None, share: float | None) -> bool:
    """Whether it is told more with this step. A small raise of its grant waits for the next lease, one of its `share`
    (bytes/s) does not.
    """
    held = recovery.effective_bytes_per_s
    if held is None:
        return False
    if grant is None:
        return share is not None and share > held
    return grant.bytes_per_s is not None and grant.bytes_per_s >= held * RAISE


def _is_told_at_once(held: float | None, grant: Grant, publish: bool, raises: bool) -> bool:
    """Whether the grant goes out now: the budget was published, or the share changed by more than a little, or is
    less while another one's `raises`.
    """
    rate = grant.bytes_per_s
    if held is None or rate is None:
        return held is not rate
    return not is_small_change(held, rate) or (publish and rate != held) or (raises and rate < held)


def _without_controller(case: Case, why: str, share: float | None) -> None:
    """It touches nothing that is protected, or not any more: it has the rate that its command asks for, or in
    controller mode its `share`, bytes/s; and rests no longer for what nobody measures.
    """
    recovery, params = case.recovery, case.params
    free = with_limits(recovery, recovery.limits, params) if share is None else with_share(recovery, share, params)
    if free.effective_bytes_per_s != recovery.effective_bytes_per_s:
        case.revise(effective_bytes_per_s=free.effective_bytes_per_s, rule=free.rule)
        if not recovery.attempt.released and recovery.state in WORKING:
            renew(case)
    elif recovery.rule == UNDIVIDED:  # what it began with is what it gets
        case.revise(rule=free.rule)
    _release_if_held(case, why)


def _release_if_held(case: Case, why: str) -> None:
    is_held = case.recovery.held == TELEMETRY and case.recovery.state in _DRAINED
    if is_held and is_let_go(case):
        begin_resume(case, why, is_granted=True)


def _pause_pressed(
    draft: RecoveryDraft, states: Mapping[str, ControllerState], claimants: Mapping[str, Claimant]
) -> None:
    """LIVE_SLO: pause recoveries when the rate was at the floor and live traffic over its SLO for eleven minutes."""
    if not draft.params.control.pause_allowed:
        return
    for domain, state in states.items():
        condition = live_slo(state, draft.now_ms)
        if condition is None:
            continue
        for name in [n for n, c in claimants.items() if domain in c.parts]:
            recovery = draft.recovery(name)
            if recovery is not None and recovery.state in WORKING:
                evidence = {"domain": domain, **condition.evidence}
                hold(Case(draft, name), LIVE_SLO, f"{domain}: {condition.why}", evidence)
