"""Level-based steering: compare what is wanted with what is seen, and take the next step.

Called for a recovery after each event that touched it and for every live one on each tick. It looks at the whole
situation, not at the event, so a lost event is made up for at the next tick. One function per state; inside each, the
most important check comes first.
"""

from collections.abc import Callable
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.effects import WakeAt
from recoveryd.kernel.states import State, Stop, StopReason
from recoveryd.recovery.attempts import (
    ensure_application,
    has_progressed,
    lose_attempt,
    release_application,
    start_over,
)
from recoveryd.recovery.capping import reason_to_return
from recoveryd.recovery.case import Case
from recoveryd.recovery.directing import renew_lease, want
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.effects import CreateTarget
from recoveryd.recovery.ending import FINAL_ERRORS, begin_end, completeness, fail, last_heard_completeness, settle
from recoveryd.recovery.events import LedgerRead
from recoveryd.recovery.forecast_run import review
from recoveryd.recovery.growth import blocked_why, left_out
from recoveryd.recovery.holding import obey_holds, why_it_rests
from recoveryd.recovery.lane_shares import NOTHING_SAMPLED, allowances, shared_out_again
from recoveryd.recovery.lane_trouble import STALLED, UNHEARD, LaneTrouble, lane_trouble
from recoveryd.recovery.ledger import (
    RESTING,
    ask_ledger,
    give_up_on_ledger,
    is_drain_late,
    read_when_drained,
    unreadable_ledger,
    use_ledger,
)
from recoveryd.recovery.losses import awaits_look
from recoveryd.recovery.model import Allowance, PartitionProgress, Stall, Wanted
from recoveryd.recovery.planning import ask_facts, facts_given_up
from recoveryd.recovery.progress import describe_rate, says_the_same
from recoveryd.recovery.proof_trouble import proof_trouble
from recoveryd.recovery.proving import begin_proof, has_begun, is_at_rest, proved_why
from recoveryd.recovery.stops.auto_stop import capped, judge, timed_out
from recoveryd.recovery.stops.error_rate import too_many
from recoveryd_jobs.contract import Verification

S = State
_STEPS_AT_ONCE = 8


def steer(draft: RecoveryDraft, recovery_id: str) -> None:
    """Take the recovery as far as it can go now: after each step that changes its state, the step of the new state runs
    too.
    """
    if draft.recovery(recovery_id) is None:
        return
    case = Case(draft, recovery_id)
    for _ in range(_STEPS_AT_ONCE):
        obey_holds(case)
        state = case.recovery.state
        _STEPS[state](case)
        if case.recovery.state is state:
            return


def _nothing(_case: Case) -> None:
    return


def _planning(case: Case) -> None:
    if not facts_given_up(case):
        ask_facts(case)


def _awaiting_approval(case: Case) -> None:
    if case.recovery.approved:
        _planning(case)
    elif case.now_ms < case.approval_ends_ms:
        case.effect(WakeAt(case.approval_ends_ms))
    elif case.draft.has_read:  # until then one that came in time may lie unread
        case.move(S.EXPIRED, "nobody approved the plan in time", error_code=Code.APPROVAL_EXPIRED.value)


def _starting(case: Case) -> None:
    if _out_of_attempts(case) or _auto_stop(case):
        return
    plan, is_proving = case.plan, case.recovery.is_proving
    if plan.create_target and not plan.target.topic_id:
        _create_target(case)
    elif not plan.lanes and not is_proving:
        _complete_empty(case)
    elif not _failed_by_driver(case) and not _lane_lost(case):
        ensure_application(case)
        _running_soon(case)


def _running_soon(case: Case) -> None:
    recovery, seen = case.recovery, case.seen
    if recovery.is_proving:
        if has_begun(case):
            case.observe(progress_ms=case.now_ms)
            case.move(S.VERIFYING, f"attempt {recovery.attempt.number} compares source and target")
    elif seen.lanes or (seen.driver is not None and seen.driver.phase == "drained"):
        case.move(S.RUNNING, f"{len(case.plan.lanes)} lanes of attempt {recovery.attempt.number} started")


def _create_target(case: Case) -> None:
    seen, plan, error = case.seen, case.plan, case.seen.effect_error
    if error is not None and error.effect == "create_target" and not error.retriable:
        case.observe(effect_error=None)
        begin_end(case, StopReason.TARGET_UNAVAILABLE, S.FAILED, error.message, code=Code.TARGET_CREATE_FAILED)
    elif not case.draft.has_read:
        return  # what does not exist yet may be held, too
    elif not seen.target_wanted_ms or case.now_ms - seen.target_wanted_ms >= case.params.facts_retry_ms:
        case.observe(target_wanted_ms=case.now_ms)
        target, replicas, configs = plan.target, plan.replication_factor, plan.create_configs
        appends = case.recovery.spec.appends
        case.effect(CreateTarget(case.id, target.cluster, target.topic, target.partitions, replicas, configs, appends))


def _complete_empty(case: Case) -> None:
    """Complete a recovery whose range holds no offset: it needs no application."""
    stop = Stop(StopReason.ZERO_LAG, "bounded", case.now_ms, {"offsets": 0})
    case.journal(completeness=completeness(case.recovery, ()), stop=stop)
    verification = Verification("match", 0, 0, "", (), "the range is empty")
    settle(case, S.COMPLETED, "the range holds no offset: zero records to copy", verification)


def _out_of_attempts(case: Case) -> bool:
    """End the recovery after too many attempts in a row without progress (with the error of the last one), or too many
    failures in an hour. True if so.
    """
    attempt, params = case.recovery.attempt, case.params
    if attempt.failures < params.max_failures:
        most = params.max_failures_per_hour, params.max_failed_chunks_per_hour
        found = too_many(attempt.failed_ms, case.seen.failed_chunks_ms, case.now_ms, *most)
        if found is not None:
            fail(case, "error_rate", f"{found}; the last error: {attempt.last_error or 'of a chunk'}")
        return found is not None
    message = f"{attempt.failures} attempts in a row made no progress; the last error: {attempt.last_error}"
    fail(case, attempt.last_code or "internal", message)
    return True


def _auto_stop(case: Case) -> bool:
    seen, plan = case.seen, case.recovery.plan
    if seen.missing >= 2:
        is_source = plan is not None and seen.missing_topic == plan.source.topic
        error = "source_unavailable" if is_source else "target_unavailable"
        fail(case, error, f"topic {seen.missing_topic} does not exist any more")
        return True
    verdict = judge(case.recovery, seen, case.now_ms, case.params)
    if verdict is None:
        return False
    begin_end(
        case,
        verdict.reason,
        verdict.end,
        verdict.why,
        mode=verdict.mode,
        evidence=verdict.evidence,
        code=verdict.code,
    )
    return True


def _failed_by_driver(case: Case) -> bool:
    """React to a driver that reports failure: final errors end the recovery, others cost the attempt. True if it
    failed.
    """
    driver = case.seen.driver
    if driver is None or driver.phase != "failed" or case.recovery.attempt.released:
        return False
    if driver.error_code in FINAL_ERRORS:
        fail(case, driver.error_code, driver.error_message)
        return True
    lose_attempt(case, driver.error_message or "the application failed", driver.error_code)
    return False


def _running(case: Case) -> None:
    if _out_of_attempts(case) or _auto_stop(case) or _failed_by_driver(case):
        return
    driver = case.seen.driver
    if driver is not None and driver.phase == "drained" and not case.recovery.attempt.released:
        _drained(case)
    elif not _lane_lost(case) and not _late_to_return(case):
        why = reason_to_return(case.recovery, case.seen, case.source_history, case.now_ms, case.params)
        if why:
            want(case, Wanted.STOP, why)
        ensure_application(case)
        _report_progress(case)


def _lane_lost(case: Case) -> bool:
    """One lane in trouble costs the attempt, and so does a copy that stands still; what stalls again without having
    moved in between ends the recovery. True if something is wrong.
    """
    recovery = case.recovery
    if recovery.plan is None or recovery.attempt.released:
        return False
    trouble = lane_trouble(recovery, case.seen, case.source_history, case.now_ms, case.params)
    if trouble is None:
        return False
    _lose_by(case, trouble)
    return True


def _late_to_return(case: Case) -> bool:
    """Lanes that were told to return, and do not, cost the attempt: others have returned, and nobody copies what is
    theirs. It is no failure if it copied something, as with a slow commit. True if so.
    """
    recovery = case.recovery
    if recovery.wanted is not Wanted.STOP or recovery.attempt.released or not is_drain_late(case):
        return False
    why = f"its lanes did not return in {case.params.drain_timeout_ms / 1000:.0f} s"
    lose_attempt(case, why, counts=not has_progressed(recovery))
    return True


def _lose_by(case: Case, trouble: LaneTrouble) -> None:
    """Trouble costs the attempt; what stalls twice in a row and did not move in between ends the recovery."""
    known = case.recovery.attempt.stall
    if trouble.kind != STALLED:
        lose_attempt(case, trouble.why, counts=trouble.kind != UNHEARD)
    elif known is not None and trouble.lane == known.lane and trouble.at <= known.at:
        fail(case, STALLED, f"{trouble.why}, in two attempts in a row")
    else:
        lose_attempt(case, trouble.why, STALLED, stall=Stall(trouble.lane, trouble.at))


def _drained(case: Case) -> None:
    """Every lane returned: the range is done, an allowance is used up, or they were told to."""
    ledger = use_ledger(case)
    if ledger is None:
        if not give_up_on_ledger(case):
            ask_ledger(case, fence=False)
            renew_lease(case)
        return
    recovery = case.recovery
    short = [p for p in recovery.progress.partitions if p.stop is None or p.position < p.stop]
    newest = case.source_history.newest
    if not short:
        _reached_its_end(case, ledger)
    elif verdict := capped(recovery):
        begin_end(case, verdict.reason, verdict.end, verdict.why, evidence=verdict.evidence)
    else:
        _begin_anew(case, shared_out_again(recovery, newest.high_watermark if newest else NOTHING_SAMPLED), short[0])


def _begin_anew(case: Case, shared: tuple[Allowance, ...], short: PartitionProgress) -> None:
    """Start the next attempt for what is `short` of its end. It counts as a failure if nobody told the lanes to return,
    or if the one before came no further and the next one would get the same: it would end as this one.
    """
    recovery = case.recovery
    if shared and (shared != allowances(recovery) or has_progressed(recovery)):
        case.journal(allowances=shared)
        start_over(case, "a lane used up its part of the cap, others did not")
    elif not shared and recovery.wanted is Wanted.STOP and has_progressed(recovery):
        start_over(case, "a lane had returned although it may go on")
    else:
        lose_attempt(case, f"the lanes returned although partition {short.partition} is not at its end", "internal")


def _reached_its_end(case: Case, ledger: LedgerRead) -> None:
    rows = case.recovery.progress.partitions
    evidence = {"partitions": [{"partition": p.partition, "position": p.position, "stop": p.stop} for p in rows]}
    case.journal(stop=Stop(StopReason.ZERO_LAG, "bounded", case.now_ms, evidence))
    why = "every partition reached its pinned end: zero lag"
    told = {"reason": "zero_lag", "mode": "bounded", "evidence": evidence, "ends": "completed", "why": why}
    case.notice("auto_stop", told)
    case.journal(completeness=completeness(case.recovery, ledger.partitions))
    begin_proof(case, why)


def _verifying(case: Case) -> None:
    driver = case.seen.driver
    if driver is not None and driver.phase == "verified" and driver.verification is not None:
        settle(case, S.COMPLETED, proved_why(case.recovery, driver.verification), driver.verification)
    elif not (_out_of_attempts(case) or _auto_stop(case) or _failed_by_driver(case) or _proof_lost(case)):
        ensure_application(case)
        _report_progress(case)


def _proof_lost(case: Case) -> bool:
    """A task that fell silent costs the attempt, and so does a proof that stalls; one that stalls again and came no
    further ends the recovery. True if something is wrong.
    """
    recovery, seen = case.recovery, case.seen
    trouble = None if recovery.attempt.released else proof_trouble(recovery, seen, case.now_ms, case.params)
    if trouble is None:
        return False
    _lose_by(case, trouble)
    return True


def _pausing(case: Case) -> None:
    if case.recovery.is_proving:
        if not is_at_rest(case):
            return
    elif not read_when_drained(case, RESTING):
        give_up_on_ledger(case)
        return
    progress = case.recovery.progress
    positions = [{"partition": p.partition, "position": p.position} for p in progress.partitions]
    case.move(S.PAUSED, why_it_rests(case, case.recovery), {"positions": positions}, progress=progress.at_rest())


def _paused(case: Case) -> None:
    recovery = case.recovery
    if case.seen.missing >= 2 or timed_out(recovery, case.now_ms) is not None:
        _auto_stop(case)
    elif not recovery.attempt.released and recovery.releases:
        release_application(case, "the pause lets its application go; resume starts another")
    elif not recovery.attempt.released and _rested_ms(case) > case.params.paused_keep_application_ms:
        release_application(case, "paused for long: the application is let go, resume starts another")
    else:
        ensure_application(case, launch=False)
        renew_lease(case)


def _rested_ms(case: Case) -> int:
    return case.now_ms - case.as_of_now(case.recovery.updated_ms)


def _stopping(case: Case) -> None:
    end, why = case.recovery.stop_state or S.STOPPED, case.recovery.why
    if (
        case.recovery.is_proving
    ):  # nothing is written any more: positions and counts stay as they were when the copy ended
        settle(case, end, why)
        return
    late = left_out(case) if end is S.COMPLETED else ""
    if awaits_look(case) or late is None:
        renew_lease(case)
    elif not read_when_drained(case, frozenset({"done"})):
        if unreadable := unreadable_ledger(case):
            _ended_unread(case, unreadable)
    else:
        _ended(case, late)


def _ended_unread(case: Case, unreadable: str) -> None:
    """End without the receipts. That they cannot be read is why it has failed, unless it was to end as failed."""
    recovery, stop, code = case.recovery, case.recovery.stop, case.recovery.error_code
    if recovery.stop_state is not S.FAILED:
        stop, code = stop and replace(stop, reason=StopReason.TARGET_UNAVAILABLE), None
    table = recovery.completeness or last_heard_completeness(recovery)
    case.journal(completeness=table, is_position_exact=False, stop=stop)
    why = f"{recovery.why}; {unreadable}, so the positions are the last ones heard"
    settle(case, S.FAILED, why, code=code or Code.TARGET_UNAVAILABLE.value)


def _ended(case: Case, late: str) -> None:
    """Go on after the drain: no chunk is open and the positions are exact. `late`: why it is not complete, or ""."""
    end, why = case.recovery.stop_state or S.STOPPED, case.recovery.why
    if end is not S.COMPLETED:
        settle(case, end, why)
    elif late:
        settle(case, S.STOPPED, f"{why}; {late}", code=Code.PARTITIONS_UNCOPIED.value)
    else:
        begin_proof(case, why)


def _terminal(case: Case) -> None:
    """Only the application may still run: it was told to exit, and is ended if it does not in time."""
    if case.recovery.attempt.released:
        return
    waited_ms = case.now_ms - max(case.as_of_now(case.recovery.updated_ms), case.seen.adopted_ms)
    if case.seen.exited is not None or waited_ms > case.params.drain_timeout_ms:
        release_application(case, "the recovery has ended")


def _report_progress(case: Case) -> None:
    """Renew the lease, and journal progress from time to time: less often while it does not change."""
    renew_lease(case)
    if not case.recovery.is_proving:
        review(case)
    seen, recovery = case.seen, case.recovery
    heard = seen.readers if recovery.is_proving else seen.lanes
    said_ms = case.now_ms - seen.status_ms
    if not heard or said_ms < case.params.progress_status_ms:
        return
    held = (h.heartbeat for h in heard.values() if h.heartbeat.state == "blocked" or h.held)
    blocked = [beat.why for beat in held if beat.why]
    blocked += [narrow] if (narrow := blocked_why(recovery)) else []
    workers = len(heard) if recovery.is_proving else len(case.plan.lanes)
    why = blocked[0] if blocked else describe_rate(recovery, workers)
    if said_ms < case.params.same_status_ms and why == recovery.why and says_the_same(recovery, seen.told):
        return
    case.revise(why=why)
    case.observe(status_ms=case.now_ms, told=case.recovery)


_STEPS: dict[State, Callable[[Case], None]] = {
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
