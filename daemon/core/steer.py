"""Level-based steering: compare what is wanted with what is seen, and do the next thing.

Called for a recovery after each event that touched it and for every live one on each tick. It looks at the whole situation, not at the event, so a lost
event heals at the next tick. One function per state; the order inside each is the order of importance.
"""

from collections.abc import Callable
from dataclasses import replace

from daemon.core.application import ensure_application, lose_attempt, release_application
from daemon.core.catalogue import Code
from daemon.core.directing import renew_lease, want
from daemon.core.draft import Draft
from daemon.core.drain import read_when_drained
from daemon.core.effects import CreateTarget, GatherFacts, WakeAt
from daemon.core.ending import FINAL_ERRORS, begin_end, completeness, fail, last_heard_completeness, settle
from daemon.core.forecast_run import review
from daemon.core.holding import paused_why
from daemon.core.ledger import ask_ledger, use_ledger
from daemon.core.model import Recovery, State, Stop, StopReason, Verification, Wanted
from daemon.core.policies.auto_stop import capped, judge
from daemon.core.progress import describe_rate

S = State


def steer(draft: Draft, recovery_id: str) -> None:
    """Take the recovery as far as it can go now; each step that changes the state gives the next state its turn."""
    for _ in range(8):
        recovery = draft.recovery(recovery_id)
        if recovery is None:
            return
        _STEPS[recovery.state](draft, recovery)
        after = draft.recovery(recovery_id)
        if after is None or after.state is recovery.state:
            return


def _nothing(_draft: Draft, _recovery: Recovery) -> None:
    return


def _planning(draft: Draft, recovery: Recovery) -> None:
    asked = draft.observed(recovery.id).facts_wanted_ms
    if not asked or draft.now_ms - asked >= draft.params.facts_retry_ms:
        draft.observe(recovery.id, facts_wanted_ms=draft.now_ms)
        draft.effect(GatherFacts(recovery.id, recovery.spec))


def _awaiting_approval(draft: Draft, recovery: Recovery) -> None:
    if draft.now_ms >= recovery.updated_ms + draft.params.approval_ttl_ms:
        draft.move(recovery, S.EXPIRED, "nobody approved the plan in time", error_code=Code.APPROVAL_EXPIRED.value)
    else:
        draft.effect(WakeAt(recovery.updated_ms + draft.params.approval_ttl_ms))


def _starting(draft: Draft, recovery: Recovery) -> None:
    plan = recovery.plan
    assert plan is not None
    if _out_of_attempts(draft, recovery) or _auto_stop(draft, recovery):
        return
    if plan.create_target and not plan.target.topic_id:
        _create_target(draft, recovery)
        return
    if not plan.lanes:
        _complete_empty(draft, recovery)
        return
    if _failed_by_driver(draft, recovery):
        return
    ensure_application(draft, recovery)
    _running_soon(draft, draft.recovery(recovery.id) or recovery)


def _running_soon(draft: Draft, recovery: Recovery) -> None:
    seen = draft.observed(recovery.id)
    drained = seen.driver is not None and seen.driver.phase == "drained"
    if seen.lanes or drained:
        lanes = len(recovery.plan.lanes) if recovery.plan else 0
        draft.move(recovery, S.RUNNING, f"{lanes} lanes of attempt {recovery.attempt.number} started")


def _create_target(draft: Draft, recovery: Recovery) -> None:
    seen, plan = draft.observed(recovery.id), recovery.plan
    assert plan is not None
    if (
        seen.effect_error is not None
        and seen.effect_error.effect == "create_target"
        and not seen.effect_error.retriable
    ):
        why = seen.effect_error.message
        draft.observe(recovery.id, effect_error=None)
        begin_end(draft, recovery, StopReason.TARGET_UNAVAILABLE, S.FAILED, why, code=Code.TARGET_CREATE_FAILED)
    elif not seen.target_wanted_ms or draft.now_ms - seen.target_wanted_ms >= draft.params.facts_retry_ms:
        draft.observe(recovery.id, target_wanted_ms=draft.now_ms)
        target = plan.target
        draft.effect(
            CreateTarget(
                recovery.id,
                target.cluster,
                target.topic,
                target.partitions,
                plan.replication_factor,
                plan.create_configs,
            )
        )


def _complete_empty(draft: Draft, recovery: Recovery) -> None:
    """A range without a single offset needs no application."""
    rows = completeness(recovery, ())
    stop = Stop(StopReason.ZERO_LAG, "bounded", draft.now_ms, {"offsets": 0})
    verification = Verification("match", 0, 0, "", (), "the range is empty")
    recovery = draft.put(replace(recovery, completeness=rows, stop=stop))
    settle(draft, recovery, S.COMPLETED, "the range holds no offset: zero records to copy", verification)


def _out_of_attempts(draft: Draft, recovery: Recovery) -> bool:
    """Too many attempts in a row without progress end the recovery, with the error that the last one named."""
    attempt = recovery.attempt
    if attempt.failures < draft.params.max_failures:
        return False
    message = f"{attempt.failures} attempts in a row made no progress; the last error: {attempt.last_error}"
    fail(draft, recovery, attempt.last_code or "internal", message)
    return True


def _auto_stop(draft: Draft, recovery: Recovery) -> bool:
    seen = draft.observed(recovery.id)
    if seen.missing >= 2:
        plan = recovery.plan
        gone_source = plan is not None and seen.missing_topic == plan.source.topic
        fail(
            draft,
            recovery,
            "source_unavailable" if gone_source else "target_unavailable",
            f"topic {seen.missing_topic} does not exist any more",
        )
        return True
    verdict = judge(recovery, seen, draft.now_ms, draft.params)
    if verdict is None:
        return False
    begin_end(draft, recovery, verdict.reason, verdict.end, verdict.why, mode=verdict.mode, evidence=verdict.evidence)
    return True


def _failed_by_driver(draft: Draft, recovery: Recovery) -> bool:
    """The driver's own last word: final errors end the recovery, others cost an attempt."""
    driver = draft.observed(recovery.id).driver
    if driver is None or driver.phase != "failed" or recovery.attempt.released:
        return False
    if driver.error_code in FINAL_ERRORS:
        fail(draft, recovery, driver.error_code, driver.error_message)
        return True
    lose_attempt(draft, recovery, driver.error_message or "the application failed", driver.error_code)
    return False


def _running(draft: Draft, recovery: Recovery) -> None:
    if _out_of_attempts(draft, recovery) or _auto_stop(draft, recovery) or _failed_by_driver(draft, recovery):
        return
    recovery = draft.recovery(recovery.id) or recovery
    driver = draft.observed(recovery.id).driver
    if driver is not None and driver.phase == "drained" and not recovery.attempt.released:
        _drained(draft, recovery)
        return
    ensure_application(draft, recovery)
    _report_progress(draft, draft.recovery(recovery.id) or recovery)


def _drained(draft: Draft, recovery: Recovery) -> None:
    """Every lane returned without being told to: the range is done, or a share of the allowance is used up."""
    ledger = use_ledger(draft, recovery)
    if ledger is None:
        ask_ledger(draft, recovery, fence=False)
        renew_lease(draft, recovery)
        return
    recovery = draft.recovery(recovery.id) or recovery
    short = [p for p in recovery.progress.partitions if p.stop is None or p.position < p.stop]
    if not short:
        evidence = {
            "partitions": [
                {"partition": p.partition, "position": p.position, "stop": p.stop} for p in recovery.progress.partitions
            ]
        }
        stop = Stop(StopReason.ZERO_LAG, "bounded", draft.now_ms, evidence)
        recovery = draft.put(replace(recovery, stop=stop))
        why = "every partition reached its pinned end: zero lag"
        draft.notice(
            "auto_stop",
            recovery.id,
            {"reason": "zero_lag", "mode": "bounded", "evidence": evidence, "ends": "completed", "why": why},
        )
        recovery = draft.put(replace(recovery, completeness=completeness(recovery, ledger.partitions)))
        _verify_or_complete(draft, recovery, why)
        return
    verdict = capped(recovery, draft.observed(recovery.id))
    if verdict is not None:
        begin_end(draft, recovery, verdict.reason, verdict.end, verdict.why, evidence=verdict.evidence)
    else:
        lose_attempt(
            draft, recovery, f"the lanes returned although partition {short[0].partition} is not at its end", "internal"
        )


def _verify_or_complete(draft: Draft, recovery: Recovery, why: str) -> None:
    if recovery.spec.verify == "none":
        skipped = Verification("skipped", recovery.progress.records, 0, "", (), "the command asked for none")
        settle(draft, recovery, S.COMPLETED, why, skipped)
        return
    moved = draft.move(recovery, S.VERIFYING, f"{why}; reads the target back")
    draft.observe(recovery.id, ledger=None, ledger_wanted_ms=0, ledger_since_ms=0)
    want(draft, moved, Wanted.VERIFY, why)


def _verifying(draft: Draft, recovery: Recovery) -> None:
    driver = draft.observed(recovery.id).driver
    if driver is not None and driver.phase == "verified" and driver.verification is not None:
        found = driver.verification
        why = f"{recovery.stop.reason.value if recovery.stop else 'done'}: {recovery.progress.records:,} records copied and verified ({found.result})"
        settle(draft, recovery, S.COMPLETED, why, found)
        return
    if _out_of_attempts(draft, recovery) or _failed_by_driver(draft, recovery):
        return
    ensure_application(draft, draft.recovery(recovery.id) or recovery)
    renew_lease(draft, draft.recovery(recovery.id) or recovery)


def _pausing(draft: Draft, recovery: Recovery) -> None:
    if not read_when_drained(draft, recovery, frozenset({"paused", "done", "leaseless"})):
        _give_up_on_ledger(draft, recovery)
        return
    recovery = draft.recovery(recovery.id) or recovery
    positions = [{"partition": p.partition, "position": p.position} for p in recovery.progress.partitions]
    idle = replace(recovery.progress, records_per_s=0.0, bytes_per_s=0.0, eta_seconds=None)
    draft.move(
        recovery,
        S.PAUSED,
        paused_why(recovery),
        {"positions": positions},
        progress=idle,
    )


def _give_up_on_ledger(draft: Draft, recovery: Recovery) -> None:
    """Receipts that can not be read for long mean that the target can not be used."""
    since = draft.observed(recovery.id).ledger_since_ms
    if since and draft.now_ms - since > draft.params.ledger_deadline_ms:
        fail(draft, recovery, "target_unavailable", "the receipts topic could not be read")


def _paused(draft: Draft, recovery: Recovery) -> None:
    seen = draft.observed(recovery.id)
    if seen.missing >= 2 or _deadline_passed(draft, recovery):
        _auto_stop(draft, recovery)
    elif not recovery.attempt.released and draft.now_ms - recovery.updated_ms > draft.params.paused_keep_application_ms:
        release_application(draft, recovery, "paused for long: the application is let go, resume starts another")
    else:
        ensure_application(draft, recovery, launch=False)
        renew_lease(draft, draft.recovery(recovery.id) or recovery)


def _deadline_passed(draft: Draft, recovery: Recovery) -> bool:
    deadline = recovery.limits.deadline_ms
    return deadline is not None and draft.now_ms >= deadline


def _stopping(draft: Draft, recovery: Recovery) -> None:
    end = recovery.stop_state or S.STOPPED
    if not read_when_drained(draft, recovery, frozenset({"done"})):
        since = draft.observed(recovery.id).ledger_since_ms
        if since and draft.now_ms - since > draft.params.ledger_deadline_ms:
            heard = draft.put(
                replace(recovery, completeness=recovery.completeness or last_heard_completeness(recovery))
            )
            settle(
                draft,
                heard,
                S.FAILED,
                f"{recovery.why}; the receipts could not be read, so the positions are the last ones heard",
            )
        return
    recovery = draft.recovery(recovery.id) or recovery
    if end is S.COMPLETED:
        _verify_or_complete(draft, recovery, recovery.why)
    else:
        settle(draft, recovery, end, recovery.why)


def _terminal(draft: Draft, recovery: Recovery) -> None:
    """Only the application is left: it was told to exit; after a while it is ended."""
    if recovery.attempt.released:
        return
    seen = draft.observed(recovery.id)
    waited = draft.now_ms - max(recovery.updated_ms, seen.adopted_ms)
    if seen.exited is not None or waited > draft.params.drain_timeout_ms:
        release_application(draft, recovery, "the recovery has ended")


def _report_progress(draft: Draft, recovery: Recovery) -> None:
    """Journal fresh progress now and then; renew the lease on the way."""
    renew_lease(draft, recovery)
    recovery = review(draft, draft.recovery(recovery.id) or recovery)
    seen = draft.observed(recovery.id)
    if not seen.lanes or draft.now_ms - seen.status_ms < draft.params.progress_status_ms:
        return
    plan = recovery.plan
    why = describe_rate(recovery, len(plan.lanes) if plan else 0)
    blocked = [h.heartbeat.why for h in seen.lanes.values() if h.heartbeat.state == "blocked" and h.heartbeat.why]
    draft.put(
        replace(recovery, why=blocked[0] if blocked else why, updated_ms=draft.now_ms, version=recovery.version + 1)
    )
    draft.observe(recovery.id, status_ms=draft.now_ms)


_STEPS: dict[State, Callable[[Draft, Recovery], None]] = {
    S.REQUESTED: _nothing,
    S.PLANNING: _planning,
    S.PLANNED: _nothing,
    S.AWAITING_APPROVAL: _awaiting_approval,
    S.STARTING: _starting,
    S.RUNNING: _running,
    S.PAUSING: _pausing,
    S.PAUSED: _paused,
    S.STOPPING: _stopping,
    S.VERIFYING: _verifying,
    S.COMPLETED: _terminal,
    S.STOPPED: _terminal,
    S.FAILED: _terminal,
    S.REJECTED: _nothing,
    S.EXPIRED: _nothing,
}
