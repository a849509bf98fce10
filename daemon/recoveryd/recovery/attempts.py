"""The Spark application of a recovery: start the next attempt, notice that one is gone, end one that is not needed.

Two attempts never both commit (the lanes' transactional ids are stable), so starting the next one too early costs time
but neither loses nor doubles a record.
"""

from dataclasses import replace

from recoveryd.kernel.states import State
from recoveryd.recovery.case import Case
from recoveryd.recovery.directing import make_directive, want
from recoveryd.recovery.effects import KillAttempt, LaunchAttempt
from recoveryd.recovery.lane_shares import allowances
from recoveryd.recovery.model import Recovery, Stall, Wanted
from recoveryd.recovery.params import Params
from recoveryd.recovery.quotas import allows_launch
from recoveryd.recovery.stops.error_rate import with_failures


def ensure_application(case: Case, *, launch: bool = True) -> None:
    """Check that the application lives, or start the next attempt once its time has come, unless this daemon leaves."""
    attempt, seen, params, now_ms = case.recovery.attempt, case.seen, case.params, case.now_ms
    if attempt.released:
        may_launch = launch and not may_be_held(case) and not case.draft.is_leaving
        if may_launch and is_due(attempt.retry_at_ms, now_ms, params) and allows_launch(case.draft, case.recovery):
            _launch_next(case)
    elif seen.exited is not None:
        if now_ms - seen.exited_ms >= params.exit_report_wait_ms:
            lose_attempt(case, f"the application exited with code {seen.exited.exit_code}: {seen.exited.message}")
    elif seen.heard_ms:
        if now_ms - seen.heard_ms > params.heartbeat_timeout_ms:
            lose_attempt(case, f"nothing was heard of it for {(now_ms - seen.heard_ms) / 1000:.0f} s")
    elif seen.adopted_ms:
        if now_ms - seen.adopted_ms > params.adopt_wait_ms:
            lose_attempt(case, "it did not answer after the daemon's restart", counts=False)
    elif now_ms - attempt.started_at_ms > params.launch_timeout_ms:
        lose_attempt(case, f"it did not start in {params.launch_timeout_ms / 1000:.0f} s")


def may_be_held(case: Case) -> bool:
    """Whether its target may be held by a command that was sent while no daemon ran, and is not read yet."""
    return case.recovery.brings_records and not case.draft.has_read


def is_due(retry_at_ms: int, now_ms: int, params: Params) -> bool:
    """Whether the wait before the next attempt is over. One that would still take longer than any wait was begun by a
    clock that has been set back since.
    """
    return not 0 < retry_at_ms - now_ms <= params.backoff_max_ms


def _launch_next(case: Case) -> None:
    known = case.recovery
    number = known.attempt.number + 1
    attempt = replace(
        known.attempt,
        number=number,
        started_at_ms=case.now_ms,
        positions_at_start=_positions(known),
        released=False,
    )
    _forget_attempt(case)
    case.observe(adopted_ms=0)
    case.journal(attempt=attempt)
    # That the lanes of an attempt that was lost had to return means nothing to others.
    wanted = Wanted.RUN if known.wanted is Wanted.STOP else known.wanted
    want(case, wanted, f"attempt {number} starts")
    case.notice("attempt_started", {"attempt": number, "lanes": len(case.plan.lanes)})
    case.effect(
        LaunchAttempt(
            recovery=case.id,
            attempt=number,
            spec=known.spec,
            plan=case.plan,
            directive=make_directive(case, case.recovery.why),
            allowances=allowances(known),
            positions=durable_positions(known),
            ledger_from=known.ledger_from,
        )
    )


def lose_attempt(
    case: Case, message: str, code: str = "internal", *, counts: bool = True, stall: Stall | None = None
) -> None:
    """The attempt is gone: end what may be left of it and plan the next one. If it made progress, earlier failures do
    not count any more. `stall`: what it was lost by, if something stalled.
    """
    attempt, params = case.recovery.attempt, case.params
    failures = attempt.failures if not counts else 1 if has_progressed(case.recovery) else attempt.failures + 1
    wait_ms = 0 if not counts else backoff_ms(failures, params)
    lost = replace(
        attempt,
        released=True,
        failures=failures,
        retry_at_ms=case.now_ms + wait_ms,
        last_error=message,
        last_code=code,
        failed_ms=with_failures(attempt.failed_ms, int(counts), case.now_ms, params.max_failures_per_hour),
        stall=stall if counts else attempt.stall,
    )
    case.effect(KillAttempt(case.id, attempt.number))
    told = {"attempt": attempt.number, "why": message, "code": code, "failures": failures, "retry_in_ms": wait_ms}
    case.notice("attempt_lost", told)
    case.journal(attempt=lost, progress=case.recovery.progress.at_rest())
    _forget_attempt(case)
    if case.recovery.state is State.RUNNING:
        case.move(State.STARTING, f"attempt {attempt.number} was lost: {message}")


def has_progressed(recovery: Recovery) -> bool:
    """Whether more is known to be durable than when its present attempt began."""
    return _positions(recovery) > recovery.attempt.positions_at_start


def backoff_ms(failures: int, params: Params) -> int:
    """How long to wait after this many failures in a row: doubles from `backoff_first_ms` to `backoff_max_ms`."""
    doubled: int = params.backoff_first_ms * 2 ** min(max(0, failures - 1), 16)
    return min(params.backoff_max_ms, doubled)


def release_application(case: Case, why: str) -> None:
    """End the application on purpose; it does not count as a failure."""
    if case.recovery.wanted is not Wanted.EXIT:
        want(case, Wanted.EXIT, why)
    case.journal(attempt=replace(case.recovery.attempt, released=True), progress=case.recovery.progress.at_rest())
    case.effect(KillAttempt(case.id, case.recovery.attempt.number))
    _forget_attempt(case)


def start_over(case: Case, why: str) -> None:
    """End an application whose lanes have all returned, and start the next one; it does not count as a failure."""
    release_application(case, why)
    case.move(State.STARTING, why)
    want(case, Wanted.RUN, why)


def _forget_attempt(case: Case) -> None:
    case.observe(
        lanes={},
        readers={},
        driver=None,
        driver_heard_ms=0,
        exited=None,
        candidate=None,
        progress_ms=0,
        heeded=0,
        effect_error=None,
    )


def durable_positions(recovery: Recovery) -> dict[int, int]:
    """By partition: the offset up to which it is known to be copied. A ledger that says less is broken."""
    return {p.partition: p.position for p in recovery.progress.partitions}


def _positions(recovery: Recovery) -> int:
    return sum(p.position for p in recovery.progress.partitions)
