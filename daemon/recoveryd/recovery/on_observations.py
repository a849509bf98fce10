"""Handlers of what lanes, drivers and brokers report. Heartbeats are hints and stay in memory; only the ledger is
proof.
"""

from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.live.events import OffsetsSampled
from recoveryd.live.slice import SampleHistory
from recoveryd.recovery.attempts import backoff_ms
from recoveryd.recovery.case import Case
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.ending import fail
from recoveryd.recovery.events import AttemptExited, EffectFailed, LedgerMoved, LedgerRead
from recoveryd.recovery.growth import keep_up
from recoveryd.recovery.lane_trouble import at_their_ends
from recoveryd.recovery.model import ACTIVE, WORKING, PartitionProgress, Progress, Recovery
from recoveryd.recovery.observed import Heard, Observed
from recoveryd.recovery.own_traffic import tell_ingress
from recoveryd.recovery.planning import awaits_facts, refuse
from recoveryd.recovery.progress import with_lane_positions, with_readers
from recoveryd.recovery.stops.caught_up import evaluate_caught_up
from recoveryd.recovery.stops.error_rate import with_failures
from recoveryd.recovery.stops.log_ends import at_end_since, wants_heads
from recoveryd_jobs.contract import DriverHeartbeat, LaneHeartbeat

_KEPT = frozenset({"paused", "leaseless"})  # states of a lane that must not copy


def on_lane_heartbeat(draft: RecoveryDraft, event: LaneHeartbeat) -> None:
    """Remember the heartbeat of a lane of the present attempt, and update the progress. A late one of an attempt that
    was lost or let go says nothing of what runs, and what it made durable is in the receipts.
    """
    recovery = draft.recovery(event.recovery)
    if recovery is None or event.attempt != recovery.attempt.number or recovery.state not in ACTIVE:
        return
    if recovery.attempt.released:
        return
    if event.phase == "verify":
        _on_reader_heartbeat(draft, event, recovery)
        return
    if recovery.plan is None or event.lane not in range(len(recovery.plan.lanes)):
        return  # none of ours: it would stand for one that was not heard
    seen = draft.observed(recovery.id)
    earlier = seen.lanes.get(event.lane)
    before = Heard(earlier.heartbeat, earlier.received_ms) if earlier else None
    heeded = max(seen.heeded, event.directive_sequence)
    deaf_ms = _deaf_ms(event, earlier, heeded, draft.now_ms)
    lanes = {**seen.lanes, event.lane: _heard(event, earlier, before, draft.now_ms, deaf_ms)}
    moved = recovery if recovery.is_proving else with_lane_positions(recovery, event, lanes)
    changes: dict[str, object] = {"lanes": lanes, "heeded": heeded}
    if _is_kept(event):
        changes["throttled_ms"] = draft.now_ms
    failed = event.failed_chunks - (earlier.heartbeat.failed_chunks if earlier else 0)
    if failed > 0:
        most = draft.params.max_failed_chunks_per_hour
        times_ms = with_failures(seen.failed_chunks_ms.get(event.lane, ()), failed, draft.now_ms, most)
        changes["failed_chunks_ms"] = {**seen.failed_chunks_ms, event.lane: times_ms}
    if _has_moved(recovery, moved) or seen.progress_ms == 0:
        changes["progress_ms"] = draft.now_ms
    draft.observe(recovery.id, **changes)
    draft.remember(_with_head(moved, event))


def _on_reader_heartbeat(draft: RecoveryDraft, event: LaneHeartbeat, recovery: Recovery) -> None:
    """A heartbeat of a task of the verification: what all of its tasks have read is the progress."""
    seen = draft.observed(recovery.id)
    earlier = seen.readers.get(event.lane)
    heeded = max(seen.heeded, event.directive_sequence)
    deaf_ms = _deaf_ms(event, earlier, heeded, draft.now_ms)
    readers = {**seen.readers, event.lane: Heard(event, draft.now_ms, deaf_ms=deaf_ms)}
    has_worked = earlier is None or _work(event) != _work(earlier.heartbeat)
    draft.observe(
        recovery.id,
        readers=readers,
        heeded=heeded,
        progress_ms=draft.now_ms if has_worked or seen.progress_ms == 0 else seen.progress_ms,
        throttled_ms=draft.now_ms if _is_kept(event) else seen.throttled_ms,
    )
    draft.remember(with_readers(recovery, readers))


def _is_kept(event: LaneHeartbeat) -> bool:
    """Whether something else than a fault keeps it from making anything durable: what it is told, or a long stretch of
    the source of which a reader sees nothing.
    """
    return event.throttled or event.fetching or event.state in _KEPT


def _deaf_ms(event: LaneHeartbeat, earlier: Heard | None, heeded: int, now_ms: int) -> int:
    """Since when it rests by an older directive than `heeded`, 0 = it does not: the others hear what it does not."""
    if event.state not in _KEPT or event.directive_sequence >= heeded:
        return 0
    return earlier.deaf_ms if earlier is not None and earlier.deaf_ms else now_ms


def _work(reader: LaneHeartbeat) -> tuple[int, int, int]:
    """What changes while a task of the verification works: the closer look passes no offset anew, and a comparison on
    disk reads no record.
    """
    return reader.verified_offsets, reader.verified_records, reader.verified_steps


def _heard(event: LaneHeartbeat, earlier: Heard | None, before: Heard | None, now_ms: int, deaf_ms: int) -> Heard:
    if earlier is None:
        held = _held(event)
        return Heard(event, now_ms, None, now_ms, deaf_ms=deaf_ms, held=held, held_ms=now_ms if held else 0)
    told, known = event.positions, earlier.heartbeat.positions
    held = earlier.held if told is known else _held(event)
    held_ms = now_ms if held else earlier.held_ms
    moves = told is not known and sum(p.position for p in told) > sum(p.position for p in known)
    moved_ms = now_ms if moves else earlier.moved_ms
    kept_ms = now_ms if _is_kept(event) else earlier.kept_ms
    return Heard(event, now_ms, before, moved_ms, kept_ms, deaf_ms, held, held_ms, earlier.ended_ms)


def _held(event: LaneHeartbeat) -> frozenset[int]:
    return frozenset(p.partition for p in event.positions if p.state == "blocked")


def _with_head(recovery: Recovery, event: LaneHeartbeat) -> Recovery:
    """Remember where the lane's newest head lies, so that the next attempt, and the reading at the end, can start there
    instead of at the ledger's beginning.
    """
    known = recovery.ledger_from
    if event.ledger_from <= (known[event.lane] if event.lane < len(known) else 0):
        return recovery
    lanes = len(recovery.plan.lanes) if recovery.plan is not None else 0
    offsets = [*known, *([0] * (lanes - len(known)))]
    offsets[event.lane] = event.ledger_from
    return replace(recovery, ledger_from=tuple(offsets))


def _has_moved(before: Recovery, after: Recovery) -> bool:
    """Whether a durable position changed; a position never moves back."""
    known, rows = before.progress.partitions, after.progress.partitions
    return rows is not known and any(
        row is not was and row.position != was.position for row, was in zip(rows, known, strict=False)
    )


def on_driver_heartbeat(draft: RecoveryDraft, event: DriverHeartbeat) -> None:
    recovery = draft.recovery(event.recovery)
    if recovery is None or event.attempt != recovery.attempt.number or recovery.attempt.released:
        return
    seen = draft.observed(recovery.id)
    if seen.adopted_ms and not seen.driver_heard_ms:
        draft.notice(
            "attempt_adopted",
            recovery.id,
            {"attempt": event.attempt, "why": "its driver still heartbeats after the daemon's restart"},
        )
    heeded = max(seen.heeded, event.directive_sequence)
    draft.observe(recovery.id, driver=event, driver_heard_ms=draft.now_ms, heeded=heeded)


def on_attempt_exited(draft: RecoveryDraft, event: AttemptExited) -> None:
    """Only remember the exit. Steering decides a moment later what it means, because the driver's last heartbeat may
    still be on the way.
    """
    recovery = draft.recovery(event.recovery)
    if recovery is None or event.attempt != recovery.attempt.number or recovery.attempt.released:
        return
    draft.observe(recovery.id, exited=event, exited_ms=draft.now_ms)


def on_ledger(draft: RecoveryDraft, event: LedgerRead) -> None:
    """Remember the ledger, from which `steer` takes exact positions and decides what follows."""
    recovery = draft.recovery(event.recovery)
    if recovery is None or recovery.state not in ACTIVE:
        return
    if event.sequence != recovery.wanted_sequence or event.attempt != recovery.attempt.number:
        return
    draft.observe(recovery.id, ledger=event)


def on_ledger_moved(draft: RecoveryDraft, event: LedgerMoved) -> None:
    """Note that a long reading makes progress, so that it is neither repeated nor given up."""
    recovery = draft.recovery(event.recovery)
    if recovery is None or event.sequence != recovery.wanted_sequence or event.attempt != recovery.attempt.number:
        return
    if draft.observed(recovery.id).ledger_wanted_ms:
        draft.observe(recovery.id, ledger_wanted_ms=draft.now_ms, ledger_since_ms=draft.now_ms)


def on_effect_failed(draft: RecoveryDraft, event: EffectFailed) -> None:
    """After a retriable failure `steer` tries again in time; any other ends what needs facts, a target, an application
    or the receipts.
    """
    recovery = draft.recovery(event.recovery)
    if recovery is None or recovery.is_terminal:
        return
    if event.effect == "gather_facts" and not awaits_facts(draft, event):
        return
    told = {
        "effect": event.effect,
        "attempt": event.attempt,
        "code": event.code,
        "message": event.message,
        "retriable": event.retriable,
    }
    draft.notice("effect_failed", recovery.id, told)
    is_present = event.attempt == recovery.attempt.number
    if event.effect == "gather_facts":
        _facts_failed(Case(draft, recovery.id), event)
    elif event.effect == "create_target":
        failures = recovery.attempt.failures + 1
        code = "target_unavailable"
        attempt = replace(recovery.attempt, failures=failures, last_error=event.message, last_code=code)
        draft.journal(replace(recovery, attempt=attempt))
        draft.observe(recovery.id, effect_error=event)
    elif event.effect == "launch" and is_present:
        _launch_failed(Case(draft, recovery.id), event)
    elif event.effect == "read_ledger" and is_present and event.sequence == recovery.wanted_sequence:
        if not draft.observed(recovery.id).ledger_wanted_ms:
            return
        params = draft.params
        asked_ms = draft.now_ms - params.ledger_retry_ms + params.effect_retry_ms
        draft.observe(recovery.id, ledger_wanted_ms=asked_ms, ledger_error=event)


def _launch_failed(case: Case, event: EffectFailed) -> None:
    """The attempt is over before it began. What can never be started is not tried again, but by a resume."""
    failures = case.recovery.attempt.failures + 1
    attempt = replace(
        case.recovery.attempt,
        released=True,
        failures=failures,
        retry_at_ms=case.now_ms + backoff_ms(failures, case.params),
        last_error=event.message,
        last_code=event.code,
        stall=None,
    )
    case.journal(attempt=attempt)
    if not event.retriable and case.recovery.state in WORKING:
        fail(case, event.code, event.message)


def _facts_failed(case: Case, event: EffectFailed) -> None:
    waited = case.now_ms - (case.seen.facts_since_ms or case.recovery.updated_ms)
    if not event.retriable or waited > case.params.planning_deadline_ms:
        refuse(case, _code(event.code, Code.CLUSTER_UNREACHABLE), event.message)
    else:
        case.observe(facts_wanted_ms=case.now_ms - case.params.facts_retry_ms + case.params.effect_retry_ms)


def _code(value: str, default: Code) -> Code:
    try:
        return Code(value)
    except ValueError:
        return default


def on_offsets(draft: RecoveryDraft, event: OffsetsSampled) -> None:
    """Tell live protection how much of the topics' growth our copies wrote, and judge following recoveries by the
    sampled log ends.
    """
    tell_ingress(draft, event)
    missing, sampled = set(event.missing), {(sample.cluster, sample.topic) for sample in event.topics}
    for recovery in draft.live():
        if recovery.state not in ACTIVE or recovery.plan is None:
            continue
        _note_missing(draft, recovery, missing)
        case = Case(draft, recovery.id)
        keep_up(case)
        _judge_by_ends(case, sampled)


def _judge_by_ends(case: Case, sampled: set[tuple[str, str]]) -> None:
    """`sampled`: cluster and name of each topic that has a new sample."""
    plan, history = case.plan, case.source_history
    is_sampled = (plan.source.cluster, plan.source.topic) in sampled
    if is_sampled and plan.is_following:
        case.observe(**at_their_ends(case.recovery, case.seen, history, case.now_ms))
    if is_sampled and wants_heads(case.recovery):
        heads = at_end_since(case.recovery, case.seen.at_end, history, case.now_ms)
        case.observe(at_end=heads, heads_ms=case.now_ms)
    newest = history.newest
    if plan.retention_bytes is not None and newest is not None and newest.topic_id == plan.source.topic_id:
        case.observe(log_starts=case.seen.log_starts.with_sample(newest, (p.partition for p in plan.partitions)))
    if plan.is_following and not case.recovery.is_proving:
        case.draft.remember(_with_live_lag(case.recovery, history))
        candidate = evaluate_caught_up(case.recovery, case.seen, history, case.now_ms, case.params)
        case.observe(candidate=candidate)


def _note_missing(draft: RecoveryDraft, recovery: Recovery, missing: set[tuple[str, str]]) -> None:
    plan = recovery.plan
    assert plan is not None
    gone = [
        k for k in ((plan.source.cluster, plan.source.topic), (plan.target.cluster, plan.target.topic)) if k in missing
    ]
    created = bool(plan.target.topic_id) or not plan.create_target
    seen: Observed = draft.observed(recovery.id)
    if gone and created:
        draft.observe(recovery.id, missing=seen.missing + 1, missing_topic=gone[0][1])
    elif seen.missing:
        draft.observe(recovery.id, missing=0, missing_topic="")


def _with_live_lag(recovery: Recovery, history: SampleHistory) -> Recovery:
    """The recovery with its lag behind the newest high watermarks, if it follows."""
    if not history.samples:
        return recovery
    ends = history.samples[-1].high_watermark
    rows: tuple[PartitionProgress, ...] = recovery.progress.partitions
    if any(p.partition not in ends for p in rows):
        return recovery
    lag = sum(max(0, ends[p.partition] - p.position) for p in rows)
    progress: Progress = replace(recovery.progress, lag_records=lag)
    return replace(recovery, progress=progress)
