"""The brokers' client quota as a backstop of each recovery: set before its first record, kept above its lease, removed
at its end.

The lanes keep to their lease by themselves; the quota is for the case that they do not. So a problem with it never
delays a recovery for long: a refusal of a cluster is reported once, and a cluster that does not answer is asked again.
All clients that move a recovery's data share one client id, so there is one quota per recovery and cluster, however the
lanes divide the rate. Quotas that a daemon left behind when it died are found by the first sweep of the next one. How
high it is and how fast it may fall is decided in `recoveryd.live.backstop`.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from recoveryd.kernel.effects import WakeAt
from recoveryd.kernel.states import State
from recoveryd.live.backstop import busiest_share, mute_ms, next_quota, quota_for_lease
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.effects import SetQuota, SweepQuotas
from recoveryd.recovery.events import EffectFailed, QuotaSet, QuotasSwept
from recoveryd.recovery.lane_shares import lane_shares
from recoveryd.recovery.model import ACTIVE, Recovery
from recoveryd.recovery.quota_book import BrokerShare, QuotaBook, QuotaSeen

LAUNCH_PATIENCE_MS: Final = 15_000
ANSWER_MS: Final = 30_000  # after this long without an answer, the question counts as lost
RETRY_MS: Final = 10_000
NEAR_ENOUGH: Final = 0.05  # relative difference below which the backstop does not follow the lease


def lease_of(recovery: Recovery | None) -> float | None:
    """The rate at which its lanes may run together, bytes/s; None when nothing runs or nothing limits it."""
    if recovery is None or recovery.state not in ACTIVE or recovery.plan is None:
        return None
    if recovery.state is State.PAUSED and recovery.attempt.released:
        return None
    rate = recovery.effective_bytes_per_s
    rate = recovery.limits.max_bytes_per_s if rate is None else rate
    return rate if rate is not None and rate > 0 else None


def allows_launch(draft: RecoveryDraft, recovery: Recovery) -> bool:
    """Whether lanes may start: the quota is set, or was waited for long enough."""
    if not draft.params.quotas_enabled or lease_of(recovery) is None:
        return True
    seen = draft.quotas.recoveries.get(recovery.id)
    return seen is not None and (seen.is_settled or draft.now_ms - seen.since_ms >= LAUNCH_PATIENCE_MS)


def forget_quotas(draft: RecoveryDraft) -> None:
    """Forget all quotas, for a new leader: it sweeps every cluster first."""
    draft.quotas = QuotaBook()


def forget_quota(draft: RecoveryDraft, recovery_id: str) -> None:
    """Forget what is known of the quota of a recovery that is no more: another one of the same id sets its own."""
    _note(draft, recovery_id, None)


def keep_quotas(draft: RecoveryDraft, touched: Iterable[str], *, everything: bool) -> None:
    """Bring quotas from what they are to what they should be: those of `touched` recoveries, or of all. Call after
    steering.
    """
    if not draft.params.quotas_enabled or draft.draft.daemon.epoch == 0:
        return
    if everything:
        _sweep(draft)
    for recovery_id in dict.fromkeys((*touched, *(draft.quotas.recoveries if everything else ()))):
        _keep(draft, recovery_id)


def _sweep(draft: RecoveryDraft) -> None:
    book = draft.quotas
    due = [
        cluster
        for cluster in sorted(draft.params.clusters - book.swept)
        if draft.now_ms - book.asked_ms.get(cluster, -ANSWER_MS) >= ANSWER_MS
    ]
    if not due:
        return
    keep = tuple(sorted(r.id for r in draft.live() if lease_of(r) is not None))
    for cluster in due:
        draft.effect(SweepQuotas(cluster, keep))
    draft.quotas = replace(book, asked_ms={**book.asked_ms, **dict.fromkeys(due, draft.now_ms)})
    draft.effect(WakeAt(draft.now_ms + ANSWER_MS))


def _keep(draft: RecoveryDraft, recovery_id: str) -> None:
    recovery = draft.recovery(recovery_id)
    lease, seen = lease_of(recovery), draft.quotas.recoveries.get(recovery_id)
    if recovery is None or recovery.plan is None or (lease is None and seen is None):
        return
    seen = seen or QuotaSeen(draft.now_ms)
    if lease is None and not seen.asked_ms and (seen.is_refused or (seen.is_settled and seen.bytes_per_s is None)):
        _note(draft, recovery_id, None)
        return
    is_waiting = seen.asked_ms and draft.now_ms - seen.asked_ms < ANSWER_MS
    if not is_waiting and not seen.is_refused and draft.now_ms >= seen.retry_ms and _is_swept(draft, recovery):
        seen = _ask(draft, recovery, seen, lease)
    _note(draft, recovery_id, seen)


def _ask(draft: RecoveryDraft, recovery: Recovery, seen: QuotaSeen, lease: float | None) -> QuotaSeen:
    """Send the next step, if there is one and its time has come."""
    wanted = None
    if lease is not None:
        busiest = _busiest(draft, recovery, seen.busiest)
        seen = replace(seen, busiest=busiest)
        present, lease = seen.bytes_per_s, lease * busiest.share
        aim = quota_for_lease(lease)
        if present is not None and seen.is_settled and abs(aim - present) <= NEAR_ENOUGH * present:
            return seen
        wanted = next_quota(present, lease)
        if present is not None and wanted < present:
            if draft.now_ms < seen.cut_until_ms:
                return seen
            seen = replace(seen, cut_until_ms=draft.now_ms + mute_ms(present / wanted))
    plan = recovery.plan
    assert plan is not None
    draft.effect(SetQuota(recovery.id, plan.source.cluster, plan.target.cluster, wanted))
    return replace(seen, asked_ms=draft.now_ms)


def _busiest(draft: RecoveryDraft, recovery: Recovery, known: BrokerShare | None) -> BrokerShare:
    """Worked out again only when something that it is told by is another thing now: each heartbeat asks for it, most
    say the same again, and there may be thousands of partitions.
    """
    lanes, plan = draft.observed(recovery.id).lanes, recovery.plan
    done = frozenset(number for number, heard in lanes.items() if heard.heartbeat.state == "done")
    leaders = () if plan is None else (draft.leaders(plan.source), draft.leaders(plan.target))
    told_by = (recovery.spec, plan, recovery.brings_records, recovery.progress.partitions, done, leaders)
    if known is not None and known.told_by == told_by:
        return known
    return BrokerShare(told_by, _share_of_one_broker(draft, recovery))


def _share_of_one_broker(draft: RecoveryDraft, recovery: Recovery) -> float:
    """The part of the lease that may pass one broker, by the leaders of what is still to copy; 1 while these are not
    known, and during the verification.
    """
    plan = recovery.plan
    if plan is None or not plan.lanes or not recovery.brings_records:
        return 1.0
    open_partitions = {p.partition for p in recovery.progress.partitions if p.stop is None or p.position < p.stop}
    work = [frozenset(lane) & open_partitions for lane in plan.lanes]
    shares = lane_shares(recovery, draft.observed(recovery.id))
    busiest = 0.0
    for topic, is_hashed in ((plan.source, False), (plan.target, recovery.spec.target.mapping == "key_hash")):
        leaders = draft.leaders(topic)
        if not leaders or any(leaders.get(p, -1) < 0 for p in ({*leaders} if is_hashed else open_partitions)):
            return 1.0
        everywhere = frozenset(leaders.values())
        lanes = (
            (shares.get(n, 1.0), everywhere if is_hashed else frozenset(leaders[p] for p in parts))
            for n, parts in enumerate(work)
            if parts
        )
        busiest = max(busiest, busiest_share(lanes))
    return busiest


def _is_swept(draft: RecoveryDraft, recovery: Recovery) -> bool:
    plan = recovery.plan
    return plan is not None and draft.quotas.swept >= {plan.source.cluster, plan.target.cluster}


def _note(draft: RecoveryDraft, recovery_id: str, seen: QuotaSeen | None) -> None:
    book = draft.quotas
    if book.recoveries.get(recovery_id) == seen:
        return
    others = {i: q for i, q in book.recoveries.items() if i != recovery_id}
    draft.quotas = replace(book, recoveries=others if seen is None else {**others, recovery_id: seen})


def on_set(draft: RecoveryDraft, event: QuotaSet) -> None:
    """The brokers hold the quota now. The first setting and the removal get an event; changes between them do not."""
    seen = draft.quotas.recoveries.get(event.recovery)
    if seen is None:
        return
    if (event.bytes_per_s is None) != (seen.bytes_per_s is None) or not seen.is_settled:
        why = "a backstop above the lease" if event.bytes_per_s is not None else "nothing of the recovery is limited"
        draft.notice("quota_changed", event.recovery, {"bytes_per_s": event.bytes_per_s, "why": why})
    _note(draft, event.recovery, replace(seen, bytes_per_s=event.bytes_per_s, is_settled=True, asked_ms=0, retry_ms=0))


def on_swept(draft: RecoveryDraft, event: QuotasSwept) -> None:
    """The quotas that are left on the cluster belong to recoveries that go on; their next steps start from these
    values.
    """
    book = draft.quotas
    recoveries = dict(book.recoveries)
    for recovery_id, bytes_per_s in event.kept:
        seen = recoveries.get(recovery_id) or QuotaSeen(draft.now_ms)
        if not seen.is_settled:  # the higher one of both clusters, from which a cut is made
            recoveries[recovery_id] = replace(seen, bytes_per_s=max(bytes_per_s, seen.bytes_per_s or 0.0))
    for recovery_id in recoveries.keys() & set(event.removed):  # it went on since the sweep was asked for
        recoveries[recovery_id] = replace(recoveries[recovery_id], bytes_per_s=None, is_settled=False)
    draft.quotas = replace(book, swept=book.swept | {event.cluster}, recoveries=recoveries)
    if event.refused:
        _tell_refusal(draft, "", event.refused)
    if event.removed:
        draft.notice("quotas_removed", "", {"cluster": event.cluster, "recoveries": list(event.removed)})


def on_set_failed(draft: RecoveryDraft, event: EffectFailed) -> None:
    """If refused, the recovery goes on without a quota. Without an answer it is tried again after a while; once the
    recovery is over, by the sweep.
    """
    seen = draft.quotas.recoveries.get(event.recovery)
    if event.effect != "set_quota" or seen is None:
        return
    if not event.retriable:
        _tell_refusal(draft, event.recovery, event.message)
        _note(draft, event.recovery, replace(seen, is_settled=True, is_refused=True, asked_ms=0))
        return
    recovery = draft.recovery(event.recovery)
    if lease_of(recovery) is None and recovery is not None and recovery.plan is not None:
        book = draft.quotas
        clusters = {recovery.plan.source.cluster, recovery.plan.target.cluster}
        asked = {**book.asked_ms, **dict.fromkeys(clusters, draft.now_ms)}
        draft.quotas = replace(book, swept=book.swept - clusters, asked_ms=asked)
        draft.effect(WakeAt(draft.now_ms + ANSWER_MS))
        _note(draft, event.recovery, None)
    else:
        _note(draft, event.recovery, replace(seen, asked_ms=0, retry_ms=draft.now_ms + RETRY_MS))
        draft.effect(WakeAt(draft.now_ms + RETRY_MS))


def _tell_refusal(draft: RecoveryDraft, recovery_id: str, message: str) -> None:
    why = "recoveries go on without the brokers' backstop; their lanes keep to the lease as before"
    draft.notice("quota_refused", recovery_id, {"message": message, "why": why})
