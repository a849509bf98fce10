"""From facts to a plan, and from the plan to the answer of the command that asked for it."""

from dataclasses import replace

from recoveryd.kernel.catalogue import CATALOGUE, Code
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.states import State
from recoveryd.live.traffic import Copied
from recoveryd.recovery.admission import needs_approval
from recoveryd.recovery.conflicts import target_conflict
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.effects import GatherFacts
from recoveryd.recovery.events import FactsGathered, TargetReady
from recoveryd.recovery.model import PartitionProgress, Plan, Progress, Recovery
from recoveryd.recovery.plan_facts import PlanFacts
from recoveryd.recovery.throttling import refuse_over_slo


def ask_facts(draft: RecoveryDraft, recovery: Recovery) -> None:
    """Ask the clusters, and again when no answer came for long."""
    seen = draft.observed(recovery.id)
    if seen.facts_wanted_ms and draft.now_ms - seen.facts_wanted_ms < draft.params.facts_retry_ms:
        return
    draft.observe(
        recovery.id,
        facts_wanted_ms=draft.now_ms,
        facts_since_ms=seen.facts_since_ms or draft.now_ms,
        target_records=_written_by_ended(draft, recovery),
    )
    draft.effect(GatherFacts(recovery.id, recovery.spec))


def facts_given_up(draft: RecoveryDraft, recovery: Recovery) -> bool:
    """Clusters that never answer, not even with an error, end the planning all the same."""
    since = draft.observed(recovery.id).facts_since_ms
    if not since or draft.now_ms - since <= draft.params.planning_deadline_ms + draft.params.facts_retry_ms:
        return False
    waited_s = (draft.now_ms - since) / 1000
    refuse(
        draft, recovery, Code.CLUSTER_UNREACHABLE, f"the clusters did not say what the plan needs in {waited_s:.0f} s"
    )
    return True


def _written_by_ended(draft: RecoveryDraft, recovery: Recovery) -> int:
    """Changes when a recovery into the same target ends: what was seen of the target before is not true any more."""
    ended = draft.stored.totals.copied.get(_into(recovery), Copied()).into_records
    ending = [r for r in draft.live() if r.is_terminal and _into(r) == _into(recovery)]
    return ended + sum(r.progress.records for r in ending)


def _into(recovery: Recovery) -> tuple[str, str]:
    return recovery.spec.target.cluster, recovery.spec.target.topic


def on_facts(draft: RecoveryDraft, event: FactsGathered) -> None:
    """Make the plan, or look whether an approved one still holds; the recovery leaves its state whatever comes out."""
    recovery = draft.recovery(event.recovery)
    if recovery is None:
        return
    is_approved = recovery.state is State.AWAITING_APPROVAL and bool(recovery.approved)
    if recovery.state is not State.PLANNING and not is_approved:
        return
    if draft.observed(recovery.id).target_records != _written_by_ended(draft, recovery):
        draft.observe(recovery.id, facts_wanted_ms=0)  # steering asks again
    elif is_approved:
        _start_approved(draft, recovery, event.facts)
    else:
        _on_first_facts(draft, recovery, event.facts)


def _start_approved(draft: RecoveryDraft, recovery: Recovery, facts: PlanFacts) -> None:
    assert recovery.plan is not None
    found = draft.kinds[recovery.kind].stale(recovery.plan, recovery.spec, facts)
    conflict = target_conflict(recovery, draft.live())
    if found is not None:
        refuse(draft, recovery, found.code, f"{found.message}; {recovery.approved}")
    elif conflict is not None:
        refuse(draft, recovery, Code.TARGET_IN_USE, f"{conflict}; {recovery.approved}")
    else:
        draft.move(recovery, State.STARTING, recovery.approved, started_ms=draft.now_ms)


def _on_first_facts(draft: RecoveryDraft, recovery: Recovery, facts: PlanFacts) -> None:
    source = recovery.spec.source
    history = draft.history((source.cluster, source.topic))
    plan = draft.kinds[recovery.kind].make_plan(recovery.spec, facts, draft.params, history)
    if isinstance(plan, Refused):
        refuse(draft, recovery, plan.code, plan.message)
        return
    progress = _progress_at_start(plan) if recovery.spec.copies else Progress(eta_seconds=_eta(plan))
    planned = replace(recovery, plan=plan, progress=progress)
    wanted_hash = recovery.spec.plan_hash
    if wanted_hash is not None and wanted_hash != plan.hash:
        refuse(draft, planned, Code.STALE_PLAN, f"the plan made now has the hash {plan.hash}")
        return
    _proceed(draft, planned, plan)


def _proceed(draft: RecoveryDraft, recovery: Recovery, plan: Plan) -> None:
    size = f"{plan.records_at_most:,} records at most in {len(plan.partitions)} partitions"
    draft.put(recovery)
    if recovery.spec.dry_run:
        recovery = draft.answer_creation(recovery, "accepted", f"planned: {size}")
        draft.move(recovery, State.PLANNED, f"dry run: {size}, nothing was started", _told(plan))
        return
    conflict = target_conflict(recovery, draft.live())
    if conflict is not None:
        refuse(draft, recovery, Code.TARGET_IN_USE, conflict)
        return
    over_slo = refuse_over_slo(draft, recovery)
    if over_slo is not None:
        refuse(draft, recovery, Code.LIVE_OVER_SLO, over_slo)
        return
    recovery = draft.answer_creation(recovery, "accepted", f"planned: {size}")
    why = needs_approval(plan, draft.params)
    if why is not None:
        draft.move(recovery, State.AWAITING_APPROVAL, f"waits for approval: {why}", _told(plan))
        return
    draft.move(recovery, State.STARTING, f"plan made: {size}", _told(plan), started_ms=draft.now_ms)


def refuse(draft: RecoveryDraft, recovery: Recovery, code: Code, message: str) -> None:
    """The command can not be carried out; its answer is `rejected`."""
    recovery = draft.answer_creation(recovery, "rejected", message, code.value, CATALOGUE[code].next_step)
    draft.move(recovery, State.REJECTED, message, {"code": code.value}, error_code=code.value)


def on_target_ready(draft: RecoveryDraft, event: TargetReady) -> None:
    """The target exists: its id and width become part of the plan, whose hash stays that of the intention."""
    recovery = draft.recovery(event.recovery)
    if recovery is None or recovery.plan is None or recovery.plan.target.topic_id or recovery.is_terminal:
        return
    target = replace(recovery.plan.target, topic_id=event.topic_id, partitions=event.partitions)
    draft.put(
        replace(
            recovery, plan=replace(recovery.plan, target=target), version=recovery.version + 1, updated_ms=draft.now_ms
        )
    )
    draft.notice(
        "target_ready", recovery.id, {"topic": target.topic, "topic_id": event.topic_id, "partitions": event.partitions}
    )


def _progress_at_start(plan: Plan) -> Progress:
    rows = tuple(
        PartitionProgress(
            p.partition, p.start, p.stop, "done" if p.stop is not None and p.stop <= p.start else "waiting"
        )
        for p in plan.partitions
    )
    lag = None if plan.is_following else plan.records_at_most
    return Progress(rows, lag_records=lag, eta_seconds=_eta(plan))


def _eta(plan: Plan) -> float | None:
    return plan.eta_seconds.mid if plan.eta_seconds else None


def _told(plan: Plan) -> dict[str, object]:
    return {
        "plan_hash": plan.hash,
        "records_at_most": plan.records_at_most,
        "bytes_at_most": plan.bytes_at_most,
        "lanes": len(plan.lanes),
    }
