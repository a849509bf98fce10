"""From facts to a plan, and from the plan to the answer of the `replay` command."""

from dataclasses import replace

from daemon.core.catalogue import CATALOGUE, Code
from daemon.core.draft import Draft
from daemon.core.events import FactsGathered, TargetReady
from daemon.core.model import PartitionProgress, Plan, Progress, Recovery, State
from daemon.core.plan import Refused, make_plan
from daemon.core.policies.admission import needs_approval
from daemon.core.policies.conflicts import target_conflict
from daemon.core.throttling import refuse_over_slo


def on_facts(draft: Draft, event: FactsGathered) -> None:
    """Make the plan; the recovery leaves `planning` whatever comes out."""
    recovery = draft.recovery(event.recovery)
    if recovery is None or recovery.state is not State.PLANNING:
        return
    source = recovery.spec.source
    history = draft.history((source.cluster, source.topic))
    plan = make_plan(recovery.spec, event.facts, draft.params, history)
    if isinstance(plan, Refused):
        refuse(draft, recovery, plan.code, plan.message)
        return
    planned = replace(recovery, plan=plan, progress=_progress_at_start(plan))
    wanted_hash = recovery.spec.plan_hash
    if wanted_hash is not None and wanted_hash != plan.hash:
        refuse(draft, planned, Code.STALE_PLAN, f"the plan made now has the hash {plan.hash}")
        return
    _proceed(draft, planned, plan)


def _proceed(draft: Draft, recovery: Recovery, plan: Plan) -> None:
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


def refuse(draft: Draft, recovery: Recovery, code: Code, message: str) -> None:
    """The command can not be carried out; its answer is `rejected`."""
    recovery = draft.answer_creation(recovery, "rejected", message, code.value, CATALOGUE[code].next_step)
    draft.move(recovery, State.REJECTED, message, {"code": code.value}, error_code=code.value)


def on_target_ready(draft: Draft, event: TargetReady) -> None:
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
    eta = plan.eta_seconds.mid if plan.eta_seconds else None
    return Progress(rows, lag_records=lag, eta_seconds=eta)


def _told(plan: Plan) -> dict[str, object]:
    return {
        "plan_hash": plan.hash,
        "records_at_most": plan.records_at_most,
        "bytes_at_most": plan.bytes_at_most,
        "lanes": len(plan.lanes),
    }
