"""From facts to a plan, and from the plan to the answer to the command."""

from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.states import State
from recoveryd.live.traffic import Copied
from recoveryd.recovery.admission import needs_approval, refuse_to_wait
from recoveryd.recovery.beside import taken_away_finding, taken_away_now
from recoveryd.recovery.case import Case
from recoveryd.recovery.concerned import concerned_units
from recoveryd.recovery.conflicts import target_conflict
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.effects import GatherFacts
from recoveryd.recovery.events import EffectFailed, FactsGathered, TargetReady
from recoveryd.recovery.holding import held_finding, held_now
from recoveryd.recovery.model import PartitionProgress, Plan, Progress, Recovery
from recoveryd.recovery.plan_facts import PlanFacts
from recoveryd.recovery.planned_budget import planned_budget
from recoveryd.recovery.throttling import refuse_over_slo


def ask_facts(case: Case) -> None:
    """Ask the clusters for the facts, and again when no answer came for long. The first question may still be under way
    then, and its answer counts: it saw no more records in the target than were written when it was asked.
    """
    seen = case.seen
    if seen.facts_wanted_ms and case.now_ms - seen.facts_wanted_ms < case.params.facts_retry_ms:
        return
    version = seen.facts_version if seen.facts_since_ms else case.recovery.version
    case.observe(
        facts_wanted_ms=case.now_ms,
        facts_since_ms=seen.facts_since_ms or case.now_ms,
        facts_version=version,
        target_records=seen.target_records if seen.facts_wanted_ms else _written_by_ended(case),
    )
    units = concerned_units(case.recovery.spec, case.params.units)
    case.effect(GatherFacts(case.id, case.recovery.spec, units, version))


def facts_given_up(case: Case) -> bool:
    """End a planning whose clusters never answer, not even with an error. True if so."""
    since = case.seen.facts_since_ms
    if not since or case.now_ms - since <= case.params.planning_deadline_ms + case.params.facts_retry_ms:
        return False
    waited_s = (case.now_ms - since) / 1000
    refuse(case, Code.CLUSTER_UNREACHABLE, f"the clusters did not say what the plan needs in {waited_s:.0f} s")
    return True


def _written_by_ended(case: Case) -> int:
    """Records that ended recoveries wrote to the same target. If this number has changed, facts about the target are
    out of date.
    """
    draft, into = case.draft, _into(case.recovery)
    ended = draft.stored.totals.copied.get(into, Copied()).into_records
    return ended + sum(r.progress.records for r in draft.live() if r.is_terminal and _into(r) == into)


def _into(recovery: Recovery) -> tuple[str, str]:
    return recovery.spec.target.cluster, recovery.spec.target.topic


def on_facts(draft: RecoveryDraft, event: FactsGathered) -> None:
    """Make the plan, or check whether an approved one still holds; in both cases the recovery leaves its state."""
    if not awaits_facts(draft, event):
        return
    case = Case(draft, event.recovery)
    if case.seen.target_records != _written_by_ended(case):
        case.observe(facts_wanted_ms=0)  # so that steering asks again
    elif case.recovery.approved:
        _start_approved(case, event.facts)
    else:
        _on_first_facts(case, event.facts)


def awaits_facts(draft: RecoveryDraft, event: FactsGathered | EffectFailed) -> bool:
    """Whether the recovery waits for this answer, and for none to an earlier question under its id."""
    recovery = draft.recovery(event.recovery)
    if recovery is None or event.version not in {None, draft.observed(recovery.id).facts_version}:
        return False
    is_approved = recovery.state is State.AWAITING_APPROVAL and bool(recovery.approved)
    return recovery.state is State.PLANNING or is_approved


def _start_approved(case: Case, facts: PlanFacts) -> None:
    recovery = case.recovery
    found = case.draft.kinds[recovery.kind].stale(case.plan, recovery.spec, facts)
    found = found or held_now(case) or taken_away_now(case.draft, recovery)
    found = found or target_conflict(recovery, case.draft.live())
    if found is not None:
        refuse(case, found.code, f"{found.message}; {recovery.approved}")
    else:
        plan = _with_target_there(case.plan, facts)
        case.move(State.STARTING, recovery.approved, plan=plan, started_ms=case.now_ms)


def _with_target_there(plan: Plan, facts: PlanFacts) -> Plan:
    """The plan, with a target that was to be created and that somebody has made meanwhile: the copy lies behind what it
    holds now. The hash stays the same.
    """
    found = facts.target
    if found is None or plan.target.topic_id or not plan.create_target:
        return plan
    target = replace(plan.target, topic_id=found.topic_id, partitions=found.partitions)
    return replace(plan, target=target, target_starts=tuple(sorted(found.ends.items())))


def _on_first_facts(case: Case, facts: PlanFacts) -> None:
    kind, spec = case.draft.kinds[case.recovery.kind], case.recovery.spec
    plan = kind.make_plan(spec, facts, case.params, case.source_history)
    if isinstance(plan, Refused):
        refuse(case, plan.code, plan.message, plan.hint)
        return
    plan = replace(
        plan, findings=(*plan.findings, *held_finding(case.draft, spec), *taken_away_finding(case.draft, case.recovery))
    )
    case.journal(plan=plan, progress=_progress_at_start(plan) if spec.copies else Progress(eta_seconds=_eta(plan)))
    case.journal(plan=replace(plan, budget=planned_budget(case.draft, case.recovery)))
    if spec.plan_hash is not None and spec.plan_hash != plan.hash:
        refuse(case, Code.STALE_PLAN, f"the plan made now has the hash {plan.hash}")
    else:
        _proceed(case)


def _proceed(case: Case) -> None:
    plan = case.plan
    size = f"{plan.records_at_most:,} records at most in {len(plan.partitions)} partitions"
    if case.recovery.spec.dry_run:
        case.draft.answer_creation(case.recovery, "accepted", f"planned: {size}")
        case.move(State.PLANNED, f"dry run: {size}, nothing was started", _told(plan))
        return
    if held := held_now(case) or taken_away_now(case.draft, case.recovery):
        refuse(case, held.code, held.message)
        return
    if conflict := target_conflict(case.recovery, case.draft.live()):
        refuse(case, conflict.code, conflict.message)
        return
    if over_slo := refuse_over_slo(case.draft, case.recovery):
        refuse(case, Code.LIVE_OVER_SLO, over_slo)
        return
    why = needs_approval(case, plan)
    # What a workflow begins is not asked for again once its plan is known, so it waits whatever else does.
    may_wait = not why or case.draft.is_begun_by_workflow(case.id, case.recovery.command)
    if not may_wait and (full := refuse_to_wait(case.draft.live(), case.params)):
        refuse(case, full.code, full.message, full.hint)
        return
    case.draft.answer_creation(case.recovery, "accepted", f"planned: {size}")
    if why:
        case.move(State.AWAITING_APPROVAL, f"waits for approval: {why}", _told(plan))
    else:
        case.move(State.STARTING, f"plan made: {size}", _told(plan), started_ms=case.now_ms)


def refuse(case: Case, code: Code, message: str, hint: str = "") -> None:
    """End as rejected and answer the command so."""
    case.draft.answer_creation(case.recovery, "rejected", message, code.value, hint)
    case.move(State.REJECTED, message, {"code": code.value}, error_code=code.value)


def on_target_ready(draft: RecoveryDraft, event: TargetReady) -> None:
    """The target exists: put its id and partition count into the plan, whose hash stays the same."""
    recovery = draft.recovery(event.recovery)
    if recovery is None or recovery.plan is None or recovery.plan.target.topic_id or recovery.is_terminal:
        return
    case, plan = Case(draft, recovery.id), recovery.plan
    target = replace(plan.target, topic_id=event.topic_id, partitions=event.partitions)
    case.revise(plan=replace(plan, target=target))
    told = {"topic": target.topic, "topic_id": event.topic_id, "partitions": event.partitions}
    case.notice("target_ready", told)


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
