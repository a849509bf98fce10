"""The Spark application of a recovery: start the next attempt, notice that one is gone, let one go.

Two attempts never both commit (the lanes' transactional ids are stable), so starting the next one too early costs time but no record.
"""

from dataclasses import replace

from recoveryd.kernel.states import State
from recoveryd.recovery.directing import make_directive, want
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.effects import KillAttempt, LaunchAttempt
from recoveryd.recovery.lane_shares import allowances
from recoveryd.recovery.model import Recovery, Wanted
from recoveryd.recovery.params import Params
from recoveryd.recovery.quotas import allows_launch
from recoveryd.recovery.stops.error_rate import with_failures


def ensure_application(draft: RecoveryDraft, recovery: Recovery, *, launch: bool = True) -> None:
    """See that an application lives, or start the next attempt when its time has come."""
    attempt, params = recovery.attempt, draft.params
    if attempt.released:
        if launch and draft.now_ms >= attempt.retry_at_ms and allows_launch(draft, recovery):
            _launch_next(draft, recovery)
        return
    seen = draft.observed(recovery.id)
    if seen.exited is not None:
        if draft.now_ms - seen.exited_ms >= params.exit_report_wait_ms:
            lose_attempt(
                draft, recovery, f"the application exited with code {seen.exited.exit_code}: {seen.exited.message}"
            )
        return
    if seen.heard_ms:
        if draft.now_ms - seen.heard_ms > params.heartbeat_timeout_ms:
            silent_s = (draft.now_ms - seen.heard_ms) / 1000
            lose_attempt(draft, recovery, f"nothing was heard of it for {silent_s:.0f} s")
    elif seen.adopted_ms:
        if draft.now_ms - seen.adopted_ms > params.adopt_wait_ms:
            lose_attempt(draft, recovery, "it did not answer after the daemon's restart", counts=False)
    elif draft.now_ms - attempt.started_at_ms > params.launch_timeout_ms:
        lose_attempt(draft, recovery, f"it did not start in {params.launch_timeout_ms / 1000:.0f} s")


def _launch_next(draft: RecoveryDraft, recovery: Recovery) -> None:
    plan = recovery.plan
    assert plan is not None
    attempt = replace(
        recovery.attempt,
        number=recovery.attempt.number + 1,
        started_at_ms=draft.now_ms,
        positions_at_start=_positions(recovery),
        released=False,
    )
    _forget_attempt(draft, recovery.id)
    draft.observe(recovery.id, adopted_ms=0)
    launched = want(
        draft, draft.put(replace(recovery, attempt=attempt)), recovery.wanted, f"attempt {attempt.number} starts"
    )
    draft.notice("attempt_started", recovery.id, {"attempt": attempt.number, "lanes": len(plan.lanes)})
    draft.effect(
        LaunchAttempt(
            recovery=recovery.id,
            attempt=attempt.number,
            spec=recovery.spec,
            plan=plan,
            directive=make_directive(draft, launched, launched.why),
            allowances=allowances(recovery),
            positions=durable_positions(recovery),
            ledger_from=recovery.ledger_from,
        )
    )


def lose_attempt(
    draft: RecoveryDraft, recovery: Recovery, message: str, code: str = "internal", *, counts: bool = True
) -> None:
    """The attempt is gone: end what may be left of it and plan the next one. Progress forgives earlier failures."""
    attempt = recovery.attempt
    progressed = _positions(recovery) > attempt.positions_at_start
    failures = attempt.failures if not counts else 1 if progressed else attempt.failures + 1
    wait_ms = 0 if not counts else backoff_ms(failures, draft.params)
    lost = replace(
        attempt,
        released=True,
        failures=failures,
        retry_at_ms=draft.now_ms + wait_ms,
        last_error=message,
        last_code=code,
        failed_ms=with_failures(attempt.failed_ms, int(counts), draft.now_ms, draft.params.max_failures_per_hour),
    )
    draft.effect(KillAttempt(recovery.id, attempt.number))
    draft.notice(
        "attempt_lost",
        recovery.id,
        {"attempt": attempt.number, "why": message, "code": code, "failures": failures, "retry_in_ms": wait_ms},
    )
    draft.put(replace(recovery, attempt=lost))
    _forget_attempt(draft, recovery.id)
    if recovery.state is State.RUNNING:
        draft.move(
            draft.put(replace(recovery, attempt=lost)), State.STARTING, f"attempt {attempt.number} was lost: {message}"
        )


def backoff_ms(failures: int, params: Params) -> int:
    """How long to wait after so many failures in a row: doubles from `backoff_first_ms` to `backoff_max_ms`."""
    doubled: int = params.backoff_first_ms * 2 ** min(max(0, failures - 1), 16)
    return min(params.backoff_max_ms, doubled)


def release_application(draft: RecoveryDraft, recovery: Recovery, why: str) -> None:
    """Let the application go on purpose; nothing is held against it."""
    told = recovery if recovery.wanted is Wanted.EXIT else want(draft, recovery, Wanted.EXIT, why)
    draft.put(replace(told, attempt=replace(told.attempt, released=True)))
    draft.effect(KillAttempt(recovery.id, recovery.attempt.number))
    _forget_attempt(draft, recovery.id)


def start_over(draft: RecoveryDraft, recovery: Recovery, why: str) -> None:
    """Let an application whose lanes have all returned go, and start the next one; nothing is held against it."""
    release_application(draft, recovery, why)
    moved = draft.move(draft.recovery(recovery.id) or recovery, State.STARTING, why)
    want(draft, moved, Wanted.RUN, why)


def _forget_attempt(draft: RecoveryDraft, recovery_id: str) -> None:
    draft.observe(
        recovery_id,
        lanes={},
        readers={},
        driver=None,
        driver_heard_ms=0,
        exited=None,
        candidate=None,
        progress_ms=0,
        effect_error=None,
    )


def durable_positions(recovery: Recovery) -> dict[int, int]:
    """What each partition is known to be copied up to; a ledger that says less is broken."""
    return {p.partition: p.position for p in recovery.progress.partitions}


def _positions(recovery: Recovery) -> int:
    return sum(p.position for p in recovery.progress.partitions)
