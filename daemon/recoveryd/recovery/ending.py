"""How a recovery ends: drained, with every offset accounted for, and with one reason.

`begin_end` is the only way into `stopping`; `settle` the only way out of a state in which lanes ran. Between the two
the lanes drain and the ledger is read, so that every terminal state after a start has a completeness table that adds
up.
"""

from collections.abc import Iterable, Mapping

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State, Stop, StopReason
from recoveryd.kernel.times import MAX_TIME_MS
from recoveryd.recovery.case import Case
from recoveryd.recovery.directing import want
from recoveryd.recovery.events import LedgerPartition
from recoveryd.recovery.model import CompletenessRow, Recovery, Wanted
from recoveryd_jobs.contract import Verification

FAILURES: dict[str, tuple[StopReason, Code]] = {
    "data_lost": (StopReason.DATA_LOST, Code.DATA_LOST),
    "topic_recreated": (StopReason.TOPIC_RECREATED, Code.TOPIC_RECREATED),
    "record_too_large": (StopReason.TARGET_UNAVAILABLE, Code.RECORD_TOO_LARGE),
    "record_refused": (StopReason.TARGET_UNAVAILABLE, Code.RECORD_REFUSED),
    "ledger_broken": (StopReason.TARGET_UNAVAILABLE, Code.LEDGER_BROKEN),
    "stop_blocked": (StopReason.STALLED, Code.STOP_BLOCKED),
    "not_authorised": (StopReason.SOURCE_UNAVAILABLE, Code.NOT_AUTHORISED),
    "target_not_authorised": (StopReason.TARGET_UNAVAILABLE, Code.NOT_AUTHORISED),
    "source_unavailable": (StopReason.SOURCE_UNAVAILABLE, Code.SOURCE_UNAVAILABLE),
    "target_unavailable": (StopReason.TARGET_UNAVAILABLE, Code.TARGET_UNAVAILABLE),
    "error_rate": (StopReason.ERROR_RATE, Code.ERROR_RATE),
    "internal": (StopReason.ERROR_RATE, Code.ATTEMPTS_EXHAUSTED),
    "stalled": (StopReason.STALLED, Code.STALLED),
    "slots_missing": (StopReason.SPARK_UNAVAILABLE, Code.SLOTS_MISSING),
    "executors_unfit": (StopReason.SPARK_UNAVAILABLE, Code.EXECUTORS_UNFIT),
    "spark_unsecured": (StopReason.SPARK_UNAVAILABLE, Code.SPARK_UNSECURED),
}
# Another attempt cannot help against these.
FINAL_ERRORS = frozenset(
    {
        "data_lost",
        "topic_recreated",
        "record_too_large",
        "record_refused",
        "ledger_broken",
        "stop_blocked",
        "not_authorised",
        "target_not_authorised",
        "slots_missing",
        "executors_unfit",
        "spark_unsecured",
    }
)
_CODES = frozenset(code.value for code in Code)


def begin_end(
    case: Case,
    reason: StopReason,
    end: State,
    why: str,
    *,
    mode: str | None = None,
    evidence: Mapping[str, object] | None = None,
    code: Code | None = None,
) -> None:
    """Start the drained stop that ends in `end` (completed, stopped or failed)."""
    stop = Stop(reason, mode, case.now_ms, dict(evidence or {}))
    told = {"reason": reason.value, "mode": mode, "evidence": stop.evidence, "ends": end.value, "why": why}
    if reason is not StopReason.OPERATOR:
        case.notice("auto_stop", told)
    case.move(State.STOPPING, why, told, stop=stop, stop_state=end, error_code=code.value if code else None)
    case.observe(ledger=None, ledger_wanted_ms=0, ledger_since_ms=0)
    want(case, Wanted.STOP, why)


def fail(case: Case, error: str, message: str) -> None:
    """End as failed because of an error that a lane, the driver or a collector reported, or of the code with which its
    application could not be started. One that stops already fails only if it was to be completed.
    """
    reason, code = _failure(error)
    why, evidence = f"{code.sentence} {message}".strip(), {"message": message}
    if case.recovery.state is not State.STOPPING:
        begin_end(case, reason, State.FAILED, why, evidence=evidence, code=code)
    elif case.recovery.stop_state is State.COMPLETED:
        stop = Stop(reason, None, case.now_ms, evidence)
        case.journal(stop=stop, stop_state=State.FAILED, error_code=code.value, why=why)


def _failure(error: str) -> tuple[StopReason, Code]:
    if error in _CODES:
        return StopReason.SPARK_UNAVAILABLE, Code(error)
    return FAILURES.get(error, FAILURES["internal"])


def completeness(recovery: Recovery, ledger: tuple[LedgerPartition, ...]) -> tuple[CompletenessRow, ...]:
    """A row per planned partition, up to its position. Of a pinned range that ended at zero lag the row is the whole
    range, so that a gap in it shows as unexplained.
    """
    plan = recovery.plan
    if plan is None:
        return ()
    by_partition = {p.partition: p for p in ledger}
    finished = recovery.stop is not None and recovery.stop.reason is StopReason.ZERO_LAG
    rows = []
    for planned in plan.partitions:
        done = by_partition.get(planned.partition) or LedgerPartition(
            planned.partition, planned.start, planned.start, 0, 0, 0, 0, 0
        )
        stop = planned.stop if finished and planned.stop is not None else done.position
        rows.append(
            CompletenessRow(
                planned.partition,
                planned.start,
                stop,
                done.copied,
                done.filtered,
                done.skipped,
                done.lost,
                *(None if time_ms is None else min(time_ms, MAX_TIME_MS) for time_ms in done.times or (None, None)),
            )
        )
    return tuple(rows)


def last_heard_completeness(recovery: Recovery) -> tuple[CompletenessRow, ...]:
    """The completeness by the lanes' last heartbeats, for a target whose receipts cannot be read any more."""
    rows = tuple(
        LedgerPartition(p.partition, 0, p.position, p.copied, p.filtered, p.skipped, p.lost, p.bytes)
        for p in recovery.progress.partitions
    )
    return completeness(recovery, rows)


def settle(case: Case, end: State, why: str, verification: Verification | None = None, code: str | None = None) -> None:
    """Enter the terminal state `end`; `completed` needs every offset explained, no verification mismatch, and of a copy
    of all partitions that the source has no other ones by now.
    """
    recovery = case.recovery
    unexplained = sum(r.unexplained for r in recovery.completeness)
    code = code or recovery.error_code
    if end is State.COMPLETED and unexplained != 0:
        end, code = State.FAILED, Code.UNEXPLAINED_OFFSETS.value
        why = f"{unexplained} offsets of the range are not explained by any receipt"
    elif end is State.COMPLETED and verification is not None and verification.result == "mismatch":
        # A copy that is not exact has failed; a verification that finds a difference has done its work.
        end = State.FAILED if recovery.spec.copies else State.COMPLETED
        code = Code.VERIFICATION_MISMATCH.value
        why = _mismatch_why(verification)
    elif end is State.COMPLETED and verification is not None and verification.uncopied:
        end, code = State.STOPPED, Code.PARTITIONS_UNCOPIED.value
        why = f"{why}; {late_why(verification.uncopied)}"
    verification = (
        verification
        or recovery.verification
        or Verification("skipped", recovery.progress.records, 0, "", (), _why_skipped(recovery, why))
    )
    told = {
        "reason": recovery.stop.reason.value if recovery.stop else None,
        "verification": verification.result,
        "copied": sum(r.copied for r in recovery.completeness),
        "lost": sum(r.lost for r in recovery.completeness),
        "unexplained": unexplained,
        "positions": [{"partition": r.partition, "position": r.stop} for r in recovery.completeness],
        "code": code,
    }
    case.move(end, why, told, verification=verification, error_code=code)
    if not recovery.attempt.released:
        want(case, Wanted.EXIT, why)


def late_why(partitions: Iterable[int]) -> str:
    """The sentence for partitions that a copy of all of them lacks."""
    return f"partitions {tuple(sorted(partitions))} were added meanwhile and are not copied"


def _mismatch_why(verification: Verification) -> str:
    count = len(verification.differences)
    if not count:
        return "the target is not what the source range holds"
    first, places = verification.differences[0], "1 place" if count == 1 else f"{count} places"
    return f"the target is not what the source range holds, in {places}; the first: {first.kind}, {first.message}"


def _why_skipped(recovery: Recovery, why: str) -> str:
    return f"it ended before it had a verdict: {why}" if recovery.is_proving else "the run ended early"
