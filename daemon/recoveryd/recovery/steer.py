"""Level-based steering: compare what is wanted with what is seen, and do the next thing.

Called for a recovery after each event that touched it and for every live one on each tick. It looks at the whole situation, not at the event, so a lost
event heals at the next tick. One function per state; the order inside each is the order of importance.
"""

from collections.abc import Callable
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.effects import WakeAt
from recoveryd.kernel.states import State, Stop, StopReason
from recoveryd.live.slice import SampleHistory
from recoveryd.recovery.attempts import ensure_application, lose_attempt, release_application, start_over
from recoveryd.recovery.capping import idle_part
from recoveryd.recovery.directing import renew_lease, want
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.drain import RESTING, read_when_drained
from recoveryd.recovery.effects import CreateTarget
from recoveryd.recovery.ending import FINAL_ERRORS, begin_end, completeness, fail, last_heard_completeness, settle
from recoveryd.recovery.forecast_run import review
from recoveryd.recovery.growth import blocked_why, left_out
from recoveryd.recovery.lane_shares import NOTHING_SAMPLED, shared_out_again
from recoveryd.recovery.lane_trouble import STALLED, lane_trouble
from recoveryd.recovery.ledger import ask_ledger, unreadable_ledger, use_ledger
from recoveryd.recovery.losses import awaits_look
from recoveryd.recovery.model import Recovery, Wanted
from recoveryd.recovery.pausing import paused_why
from recoveryd.recovery.planning import ask_facts, facts_given_up
from recoveryd.recovery.progress import describe_rate, says_the_same
from recoveryd.recovery.proving import begin_proof, has_begun, is_at_rest, proved_why
from recoveryd.recovery.stops.auto_stop import capped, is_at_floor, judge
from recoveryd.recovery.stops.error_rate import too_many
from recoveryd_jobs.contract import Verification

S = State
_STEPS_AT_ONCE = 8


def steer(draft: RecoveryDraft, recovery_id: str) -> None:
    """Take the recovery as far as it can go now; each step that changes the state gives the next state its turn."""
    for _ in range(_STEPS_AT_ONCE):
        recovery = draft.recovery(recovery_id)
        if recovery is None:
            return
        _STEPS[recovery.state](draft, recovery)
        after = draft.recovery(recovery_id)
        if after is None or after.state is recovery.state:
            return


def _nothing(_draft: RecoveryDraft, _recovery: Recovery) -> None:
    return


def _planning(draft: RecoveryDraft, recovery: Recovery) -> None:
    if not facts_given_up(draft, recovery):
        ask_facts(draft, recovery)


def _awaiting_approval(draft: RecoveryDraft, recovery: Recovery) -> None:
    if recovery.approved:
        _planning(draft, recovery)
    elif draft.now_ms >= recovery.updated_ms + draft.params.approval_ttl_ms:
        draft.move(recovery, S.EXPIRED, "nobody approved the plan in time", error_code=Code.APPROVAL_EXPIRED.value)
    else:
        draft.effect(WakeAt(recovery.updated_ms + draft.params.approval_ttl_ms))


def _starting(draft: RecoveryDraft, recovery: Recovery) -> None:
    plan = recovery.plan
    assert plan is not None
    if _out_of_attempts(draft, recovery) or _auto_stop(draft, recovery):
        return
    if plan.create_target and not plan.target.topic_id:
        _create_target(draft, recovery)
        return
    if not plan.lanes and not recovery.is_proving:
        _complete_empty(draft, recovery)
        return
    if _failed_by_driver(draft, recovery) or _lane_lost(draft, recovery):
        return
    ensure_application(draft, recovery)
    _running_soon(draft, draft.recovery(recovery.id) or recovery)


def _running_soon(draft: RecoveryDraft, recovery: Recovery) -> None:
    seen = draft.observed(recovery.id)
    if recovery.is_proving:
        if has_begun(draft, recovery):
            draft.observe(recovery.id, progress_ms=draft.now_ms)
            draft.move(recovery, S.VERIFYING, f"attempt {recovery.attempt.number} compares source and target")
        return
    drained = seen.driver is not None and seen.driver.phase == "drained"
    if seen.lanes or drained:
        lanes = len(recovery.plan.lanes) if recovery.plan else 0
        draft.move(recovery, S.RUNNING, f"{lanes} lanes of attempt {recovery.attempt.number} started")


def _create_target(draft: RecoveryDraft, recovery: Recovery) -> None:
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


def _complete_empty(draft: RecoveryDraft, recovery: Recovery) -> None:
    """A range without a single offset needs no application."""
    rows = completeness(recovery, ())
    stop = Stop(StopReason.ZERO_LAG, "bounded", draft.now_ms, {"offsets": 0})
    verification = Verification("match", 0, 0, "", (), "the range is empty")
    recovery = draft.put(replace(recovery, completeness=rows, stop=stop))
    settle(draft, recovery, S.COMPLETED, "the range holds no offset: zero records to copy", verification)


def _out_of_attempts(draft: RecoveryDraft, recovery: Recovery) -> bool:
    """Too many attempts in a row without progress end the recovery, with the error that the last one named; too many failures in an hour do as well."""
    attempt, params = recovery.attempt, draft.params
    if attempt.failures < params.max_failures:
        chunks_ms = draft.observed(recovery.id).failed_chunks_ms
        most = params.max_failures_per_hour, params.max_failed_chunks_per_hour
        found = too_many(attempt.failed_ms, chunks_ms, draft.now_ms, *most)
        if found is not None:
            fail(draft, recovery, "error_rate", f"{found}; the last error: {attempt.last_error or 'of a chunk'}")
        return found is not None
    message = f"{attempt.failures} attempts in a row made no progress; the last error: {attempt.last_error}"
    fail(draft, recovery, attempt.last_code or "internal", message)
    return True


def _auto_stop(draft: RecoveryDraft, recovery: Recovery) -> bool:
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


def _failed_by_driver(draft: RecoveryDraft, recovery: Recovery) -> bool:
    """The driver's own last word: final errors end the recovery, others cost an attempt."""
    driver = draft.observed(recovery.id).driver
    if driver is None or driver.phase != "failed" or recovery.attempt.released:
        return False
    if driver.error_code in FINAL_ERRORS:
        fail(draft, recovery, driver.error_code, driver.error_message)
        return True
    lose_attempt(draft, recovery, driver.error_message or "the application failed", driver.error_code)
    return False


def _running(draft: RecoveryDraft, recovery: Recovery) -> None:
    if _out_of_attempts(draft, recovery) or _auto_stop(draft, recovery) or _failed_by_driver(draft, recovery):
        return
    recovery = draft.recovery(recovery.id) or recovery
    driver = draft.observed(recovery.id).driver
    if driver is not None and driver.phase == "drained" and not recovery.attempt.released:
        _drained(draft, recovery)
        return
    if _lane_lost(draft, recovery):
        return
    why = idle_part(recovery, draft.observed(recovery.id), _source_history(draft, recovery), draft.now_ms, draft.params)
    if why:
        recovery = want(draft, recovery, Wanted.STOP, why)
    ensure_application(draft, recovery)
    _report_progress(draft, draft.recovery(recovery.id) or recovery)


def _lane_lost(draft: RecoveryDraft, recovery: Recovery) -> bool:
    """One lane in trouble costs the attempt; one that stands still again, without having moved between, ends the recovery."""
    plan = recovery.plan
    if plan is None or recovery.attempt.released:
        return False
    seen = draft.observed(recovery.id)
    trouble = lane_trouble(recovery, seen, _source_history(draft, recovery), draft.now_ms, draft.params)
    if trouble is None or (trouble.kind == STALLED and is_at_floor(recovery, draft.params)):
        return False
    if trouble.kind == STALLED and not trouble.has_moved and recovery.attempt.last_code == STALLED:
        fail(draft, recovery, STALLED, f"{trouble.why}, in two attempts in a row")
    else:
        lose_attempt(draft, recovery, trouble.why, STALLED if trouble.kind == STALLED else "internal")
    return True


def _source_history(draft: RecoveryDraft, recovery: Recovery) -> SampleHistory:
    source = recovery.spec.source
    return draft.history((source.cluster, source.topic))


def _drained(draft: RecoveryDraft, recovery: Recovery) -> None:
    """Every lane returned, and the recovery does not end: the range is done, or an allowance is used up."""
    ledger = use_ledger(draft, recovery)
    if ledger is None:
        if not _give_up_on_ledger(draft, recovery):
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
        begin_proof(draft, recovery, why)
        return
    verdict = capped(recovery)
    samples = _source_history(draft, recovery).samples
    shared = shared_out_again(recovery, samples[-1].high_watermark if samples else NOTHING_SAMPLED)
    if verdict is not None:
        begin_end(draft, recovery, verdict.reason, verdict.end, verdict.why, evidence=verdict.evidence)
    elif shared:
        start_over(draft, replace(recovery, allowances=shared), "a lane used up its part of the cap, others did not")
    else:
        lose_attempt(
            draft, recovery, f"the lanes returned although partition {short[0].partition} is not at its end", "internal"
        )


def _verifying(draft: RecoveryDraft, recovery: Recovery) -> None:
    driver = draft.observed(recovery.id).driver
    if driver is not None and driver.phase == "verified" and driver.verification is not None:
        settle(draft, recovery, S.COMPLETED, proved_why(recovery, driver.verification), driver.verification)
        return
    if _out_of_attempts(draft, recovery) or _auto_stop(draft, recovery) or _failed_by_driver(draft, recovery):
        return
    ensure_application(draft, draft.recovery(recovery.id) or recovery)
    _report_progress(draft, draft.recovery(recovery.id) or recovery)


def _pausing(draft: RecoveryDraft, recovery: Recovery) -> None:
    if recovery.is_proving:
        if not is_at_rest(draft, recovery):
            return
    elif not read_when_drained(draft, recovery, RESTING):
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


def _give_up_on_ledger(draft: RecoveryDraft, recovery: Recovery) -> bool:
    """Receipts that can not be read for long, or never will, mean that the target can not be used."""
    why = unreadable_ledger(draft, recovery)
    if why:
        fail(draft, recovery, "target_unavailable", why)
    return bool(why)


def _paused(draft: RecoveryDraft, recovery: Recovery) -> None:
    seen = draft.observed(recovery.id)
    if seen.missing >= 2 or _deadline_passed(draft, recovery):
        _auto_stop(draft, recovery)
    elif not recovery.attempt.released and draft.now_ms - recovery.updated_ms > draft.params.paused_keep_application_ms:
        release_application(draft, recovery, "paused for long: the application is let go, resume starts another")
    else:
        ensure_application(draft, recovery, launch=False)
        renew_lease(draft, draft.recovery(recovery.id) or recovery)


def _deadline_passed(draft: RecoveryDraft, recovery: Recovery) -> bool:
    deadline = recovery.limits.deadline_ms
    return deadline is not None and draft.now_ms >= deadline


def _stopping(draft: RecoveryDraft, recovery: Recovery) -> None:
    end = recovery.stop_state or S.STOPPED
    if recovery.is_proving:  # nothing is being written: positions and counts are what they were when the copy ended
        settle(draft, recovery, end, recovery.why)
        return
    late = left_out(draft, recovery) if end is S.COMPLETED else ()
    if awaits_look(draft, recovery) or late is None:
        renew_lease(draft, recovery)
        return
    if not read_when_drained(draft, recovery, frozenset({"done"})):
        why = unreadable_ledger(draft, recovery)
        if why:
            heard = draft.put(
                replace(recovery, completeness=recovery.completeness or last_heard_completeness(recovery))
            )
            settle(
                draft,
                heard,
                S.FAILED,
                f"{recovery.why}; {why}, so the positions are the last ones heard",
            )
        return
    recovery = draft.recovery(recovery.id) or recovery
    if end is S.COMPLETED and late:
        settle(draft, recovery, S.STOPPED, f"{recovery.why}; partitions {late} were added meanwhile and are not copied")
    elif end is S.COMPLETED:
        begin_proof(draft, recovery, recovery.why)
    else:
        settle(draft, recovery, end, recovery.why)


def _terminal(draft: RecoveryDraft, recovery: Recovery) -> None:
    """Only the application is left: it was told to exit; after a while it is ended."""
    if recovery.attempt.released:
        return
    seen = draft.observed(recovery.id)
    waited = draft.now_ms - max(recovery.updated_ms, seen.adopted_ms)
    if seen.exited is not None or waited > draft.params.drain_timeout_ms:
        release_application(draft, recovery, "the recovery has ended")


def _report_progress(draft: RecoveryDraft, recovery: Recovery) -> None:
    """Journal fresh progress now and then, and progress that says the same again only as a sign of life; renew the lease on the way."""
    renew_lease(draft, recovery)
    recovery = draft.recovery(recovery.id) or recovery
    if not recovery.is_proving:
        recovery = review(draft, recovery)
    seen = draft.observed(recovery.id)
    heard = seen.readers if recovery.is_proving else seen.lanes
    if not heard or draft.now_ms - seen.status_ms < draft.params.progress_status_ms:
        return
    lanes = len(recovery.plan.lanes) if recovery.plan else 0
    why = describe_rate(recovery, len(heard) if recovery.is_proving else lanes)
    blocked = [h.heartbeat.why for h in heard.values() if h.heartbeat.state == "blocked" and h.heartbeat.why]
    blocked += [narrow] if (narrow := blocked_why(recovery)) else []
    why = blocked[0] if blocked else why
    said_ms = draft.now_ms - seen.status_ms
    if said_ms < draft.params.same_status_ms and why == recovery.why and says_the_same(recovery, seen.told):
        return
    told = draft.put(replace(recovery, why=why, updated_ms=draft.now_ms, version=recovery.version + 1))
    draft.observe(recovery.id, status_ms=draft.now_ms, told=told)


_STEPS: dict[State, Callable[[RecoveryDraft, Recovery], None]] = {
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
