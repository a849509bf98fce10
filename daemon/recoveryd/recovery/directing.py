"""Directives: what the lanes are told, and when the lease is renewed.

`want` changes the imperative; `renew` repeats it before the lease ends. Both raise the sequence, so a lane can tell an answer to this from one to an older word.
"""

from dataclasses import replace

from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.lane_shares import lane_shares
from recoveryd.recovery.model import Recovery, Wanted
from recoveryd_jobs.contract import Directive


def want(draft: RecoveryDraft, recovery: Recovery, wanted: Wanted, why: str) -> Recovery:
    """Tell the lanes something new. The recovery is journaled, since the imperative must survive a restart."""
    sequence = recovery.directive_sequence + 1
    told = draft.put(replace(recovery, wanted=wanted, directive_sequence=sequence, wanted_sequence=sequence))
    draft.observe(recovery.id, drain_since_ms=draft.now_ms)
    _publish(draft, told, why)
    return told


def renew(draft: RecoveryDraft, recovery: Recovery) -> Recovery:
    """Repeat what is wanted with fresh shares of the rate. Memory only: the sequence is found again on the directives topic."""
    told = draft.keep(replace(recovery, directive_sequence=recovery.directive_sequence + 1))
    _publish(draft, told, recovery.why)
    return told


def _publish(draft: RecoveryDraft, recovery: Recovery, why: str) -> None:
    draft.direct(make_directive(draft, recovery, why))
    draft.observe(recovery.id, directive_ms=draft.now_ms)


def make_directive(draft: RecoveryDraft, recovery: Recovery, why: str) -> Directive:
    """The directive that says what the recovery wants now."""
    params = draft.params
    return Directive(
        recovery=recovery.id,
        attempt=recovery.attempt.number,
        sequence=recovery.directive_sequence,
        wanted=recovery.wanted.value,
        max_bytes_per_s=recovery.effective_bytes_per_s,
        max_records_per_s=recovery.limits.max_records_per_s,
        floor_bytes_per_s=params.floor_bytes_per_s,
        lease_ttl_ms=params.lease_ttl_ms,
        shares=dict(lane_shares(recovery, draft.observed(recovery.id))),
        why=why,
    )


def renew_lease(draft: RecoveryDraft, recovery: Recovery) -> None:
    """Repeat the directive before the lease of the lanes ends."""
    seen = draft.observed(recovery.id)
    if not recovery.attempt.released and draft.now_ms - seen.directive_ms >= draft.params.lease_renew_ms:
        renew(draft, _with_newest_grant(draft, recovery))


def _with_newest_grant(draft: RecoveryDraft, recovery: Recovery) -> Recovery:
    """Small changes of the granted rate ride along with the lease."""
    grant = draft.protection.protecting.grants.get(recovery.id)
    if grant is None or grant.pause:
        return recovery
    return replace(recovery, effective_bytes_per_s=grant.bytes_per_s, rule=grant.why)
