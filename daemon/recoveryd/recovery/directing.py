"""Directives: what the lanes are told, and when the lease is renewed.

`want` changes the imperative; `renew` repeats it before the lease ends, `retell` with other limits. All raise the
sequence, so that the answer of a lane shows which directive it has read.
"""

from typing import Final

from recoveryd.live.budgets import Grant, Mode
from recoveryd.recovery.case import Case
from recoveryd.recovery.lane_shares import worker_shares
from recoveryd.recovery.limits import ceiling_bytes_per_s, mode_of
from recoveryd.recovery.model import Recovery, Wanted
from recoveryd.recovery.params import Params
from recoveryd_jobs.contract import Directive

RAISE: Final = 1.10  # factors between which a change waits for the next renewal of the lease
_CUT: Final = 0.95


def want(case: Case, wanted: Wanted, why: str) -> None:
    """Tell the lanes something new. The recovery is journaled, since the imperative must survive a restart."""
    sequence = case.recovery.directive_sequence + 1
    case.journal(wanted=wanted, directive_sequence=sequence, wanted_sequence=sequence)
    case.observe(drain_since_ms=case.now_ms)
    _publish(case, why)


def retell(case: Case, why: str) -> None:
    """Repeat what is wanted, under limits that were changed. A drain under way goes on: it waits for no second answer,
    and no longer.
    """
    case.journal(directive_sequence=case.recovery.directive_sequence + 1)
    _publish(case, why)


def renew(case: Case) -> None:
    """Repeat what is wanted with fresh shares of the rate. Memory only: after a restart, the sequence is found on the
    directives topic.
    """
    case.remember(directive_sequence=case.recovery.directive_sequence + 1)
    _publish(case, case.recovery.why)


def _publish(case: Case, why: str) -> None:
    case.draft.direct(make_directive(case, why))
    case.observe(directive_ms=case.now_ms)


def make_directive(case: Case, why: str) -> Directive:
    """The directive that says what the recovery wants now."""
    recovery, params = case.recovery, case.params
    shares = worker_shares(recovery, case.seen)
    return Directive(
        recovery=recovery.id,
        attempt=recovery.attempt.number,
        sequence=recovery.directive_sequence,
        wanted=recovery.wanted.value,
        max_bytes_per_s=recovery.effective_bytes_per_s,
        max_records_per_s=recovery.limits.max_records_per_s,
        floor_bytes_per_s=params.floor_bytes_per_s,
        lease_ttl_ms=params.lease_ttl_ms,
        shares=dict(shares),
        why=why,
        begun_at=recovery.control_offset,
    )


def renew_lease(case: Case) -> None:
    """Repeat the directive before the lanes' lease ends; this also passes on small changes of the granted rate."""
    if case.recovery.attempt.released or case.now_ms - case.seen.directive_ms < case.params.lease_renew_ms:
        return
    grant = case.draft.protection.protecting.grants.get(case.id)
    if grant is not None and _still_holds(grant, case.recovery, case.params):
        case.remember(effective_bytes_per_s=grant.bytes_per_s, rule=grant.why)
    renew(case)


def _still_holds(grant: Grant, recovery: Recovery, params: Params) -> bool:
    """Whether nothing was said of its rate since the step of the controllers that granted this: by other limits, or
    since it went on after a pause. More than a small change was told with that step.
    """
    held, rate = recovery.effective_bytes_per_s, grant.bytes_per_s
    if grant.pause or held is None or rate is None or rate > ceiling_bytes_per_s(recovery.limits, params):
        return False
    return mode_of(recovery.limits, recovery.spec, params) is Mode.CONTROLLED and is_small_change(held, rate)


def is_small_change(held: float, rate: float) -> bool:
    """Whether it can wait for the next renewal of the lease."""
    return held * _CUT < rate < held * RAISE
