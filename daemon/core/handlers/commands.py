"""Commands: each control record gets exactly one answer.

A `replay` or `verify` is answered when its plan is made or refused; everything else at once. The envelope rules (duplicate, conflict, expiry) come first and are the same
for all verbs.
"""

from collections.abc import Callable
from dataclasses import replace

from daemon.core.catalogue import Code
from daemon.core.commands import (
    Approve,
    Command,
    Limits,
    Pause,
    Refusal,
    Reject,
    Replay,
    Resume,
    StartWatch,
    StopRecovery,
    Throttle,
    Verify,
)
from daemon.core.directing import want
from daemon.core.draft import Draft
from daemon.core.ending import begin_end
from daemon.core.events import CommandReceived
from daemon.core.holding import TELEMETRY, begin_pause, begin_resume
from daemon.core.lifecycle import is_reusable
from daemon.core.model import ACTIVE, WORKING, CommandRef, Recovery, State, Stop, StopReason, Wanted
from daemon.core.modes import changed_limits, lacks_rate, with_limits
from daemon.core.policies.admission import refuse_recovery
from daemon.core.policies.conflicts import target_conflict
from daemon.core.throttling import refuse_over_slo
from daemon.core.watches.commands import on_watch, steer_watch

S = State


def on_command(draft: Draft, event: CommandReceived) -> None:
    """Answer one command or refusal, and do what it says."""
    command = event.command
    draft.applied(event.offset)
    content = command.content_hash if isinstance(command, Refusal) else command.meta.content_hash
    if event.previous is not None:
        if event.previous.content_hash == content:
            draft.answer(
                event, "duplicate", f"this command was handled before, at control offset {event.previous.offset}"
            )
        else:
            _reject(
                draft,
                event,
                Code.IDEMPOTENCY_CONFLICT,
                f"the same id and source came with other content at control offset {event.previous.offset}",
            )
        return
    if isinstance(command, Refusal):
        draft.answer(event, "rejected", command.message, command.code, command.hint)
        return
    expiry = command.meta.expiry_ms
    if expiry is not None and max(event.broker_ms, draft.now_ms) > expiry:
        late_s = (max(event.broker_ms, draft.now_ms) - expiry) / 1000
        draft.answer(event, "expired", f"the command came {late_s:.0f} s after its expirytime", Code.EXPIRED.value)
        return
    _obey(draft, event, command)


def _obey(draft: Draft, event: CommandReceived, command: Command) -> None:
    """A command that is new and in time."""
    subject = command.meta.subject
    watch, recovery = draft.watches.get(subject), draft.recovery(subject)
    if isinstance(command, Replay | Verify):
        _begin(draft, event, command)
    elif isinstance(command, StartWatch):
        on_watch(draft, event, command)
    elif watch is not None:
        steer_watch(draft, event, command, watch)
    elif recovery is not None:
        _steer_existing(draft, event, command, recovery)
    else:
        _reject(draft, event, Code.NO_SUCH_RECOVERY, f"there is no recovery {subject}")


def _reject(draft: Draft, event: CommandReceived, code: Code, message: str, hint: str = "") -> None:
    draft.answer(event, "rejected", message, code.value, hint)


def _accept(draft: Draft, event: CommandReceived, message: str) -> None:
    draft.answer(event, "accepted", message)


def _wrong_state(draft: Draft, event: CommandReceived, recovery: Recovery) -> None:
    _reject(
        draft,
        event,
        Code.NOT_IN_THIS_STATE,
        f"{event.command.verb} is not possible while {recovery.id} is {recovery.state.value}",
    )


def _begin(draft: Draft, event: CommandReceived, command: Replay | Verify) -> None:
    """A new recovery of the kind that the command's spec says."""
    meta, spec = command.meta, command.spec
    watch = draft.watches.get(meta.subject)
    if watch is not None:
        _reject(draft, event, Code.ID_IN_USE, f"watch {meta.subject} exists already and is {watch.state.value}")
        return
    existing = draft.recovery(meta.subject)
    if existing is not None and not is_reusable(existing):
        _reject(draft, event, Code.ID_IN_USE, f"recovery {meta.subject} exists already and is {existing.state.value}")
        return
    refusal = refuse_recovery(spec, draft.live(), draft.params)
    if refusal is not None:
        _reject(draft, event, refusal.code, refusal.message, refusal.hint)
        return
    recovery = Recovery(
        id=meta.subject,
        kind=spec.kind,
        state=S.REQUESTED,
        why=meta.reason,
        version=existing.version + 1 if existing else 1,
        created_ms=draft.now_ms,
        updated_ms=draft.now_ms,
        command=CommandRef(meta.id, meta.source, meta.reason),
        spec=spec,
        wanted=Wanted.RUN if spec.copies else Wanted.VERIFY,
        resume_state=None if spec.copies else S.VERIFYING,
        control_offset=event.offset,
        directive_sequence=existing.directive_sequence if existing else 0,
    )
    recovery = with_limits(recovery, spec.limits, draft.params)
    draft.forget(recovery.id)
    draft.notice("recovery_requested", recovery.id, {"why": meta.reason, "dry_run": spec.dry_run}, meta.id)
    draft.move(recovery, S.PLANNING, "asks the clusters what the plan needs")


def _steer_existing(draft: Draft, event: CommandReceived, command: Command, recovery: Recovery) -> None:
    handlers: dict[type, Callable[[Draft, CommandReceived, Recovery], None]] = {
        Pause: _pause,
        Resume: _resume,
        StopRecovery: _stop,
        Throttle: _throttle,
        Approve: _approve,
        Reject: _reject_plan,
    }
    handlers[type(command)](draft, event, recovery)


def _pause(draft: Draft, event: CommandReceived, recovery: Recovery) -> None:
    if recovery.state in {S.PAUSING, S.PAUSED}:
        _accept(draft, event, f"{recovery.id} is {recovery.state.value} already")
        if recovery.held:  # from now on it is the operator's pause, which only an operator ends
            draft.put(replace(recovery, held="", updated_ms=draft.now_ms, version=recovery.version + 1))
        return
    if recovery.state not in WORKING:
        _wrong_state(draft, event, recovery)
        return
    how = "lets its verification stand still and pauses" if recovery.is_proving else "drains its open chunks and pauses"
    _accept(draft, event, f"{recovery.id} {how}")
    begin_pause(draft, recovery, f"paused by {_who(event)}: {_reason(event)}")


def _resume(draft: Draft, event: CommandReceived, recovery: Recovery) -> None:
    if recovery.state in WORKING:
        _accept(draft, event, f"{recovery.id} is {recovery.state.value} already")
        return
    if recovery.state not in {S.PAUSING, S.PAUSED}:
        _wrong_state(draft, event, recovery)
        return
    if recovery.held == TELEMETRY:
        _reject(draft, event, Code.LIVE_UNKNOWN, f"{recovery.id}: {recovery.rule}")
        return
    _accept(draft, event, f"{recovery.id} goes on {'verifying' if recovery.is_proving else 'at its exact position'}")
    begin_resume(draft, recovery, f"resumed by {_who(event)}: {_reason(event)}")


def _stop(draft: Draft, event: CommandReceived, recovery: Recovery) -> None:
    why = f"stopped by {_who(event)}: {_reason(event)}"
    if recovery.state is S.STOPPING:
        _accept(draft, event, f"{recovery.id} is stopping already")
    elif recovery.state in {S.REQUESTED, S.PLANNING, S.AWAITING_APPROVAL}:
        _accept(draft, event, f"{recovery.id} ends before it started")
        recovery = draft.answer_creation(recovery, "accepted", "stopped by an operator before the plan was made")
        draft.move(recovery, S.STOPPED, why, stop=Stop(StopReason.OPERATOR, None, draft.now_ms))
    elif recovery.state in ACTIVE:
        how = "ends without a verdict" if recovery.is_proving else "drains its open chunks and stops"
        _accept(draft, event, f"{recovery.id} {how}")
        begin_end(draft, recovery, StopReason.OPERATOR, S.STOPPED, why)
    else:
        _wrong_state(draft, event, recovery)


def _throttle(draft: Draft, event: CommandReceived, recovery: Recovery) -> None:
    command = event.command
    assert isinstance(command, Throttle)
    if recovery.is_terminal or recovery.state in {S.PLANNED, S.STOPPING}:
        _wrong_state(draft, event, recovery)
        return
    limits = changed_limits(recovery.limits, command.changes)
    if command.changes.get("mode") == "fixed" and lacks_rate(limits):
        _reject(
            draft, event, Code.MISSING_FIELD, "the mode is to be fixed, but no rate is set and the command names none"
        )
        return
    told_limit = _limit(limits, command)
    why = f"{told_limit} by {_who(event)}: {_reason(event)}"
    _accept(draft, event, f"{recovery.id}: {told_limit}")
    changed = replace(
        with_limits(recovery, limits, draft.params, why), updated_ms=draft.now_ms, version=recovery.version + 1
    )
    told = {"max_bytes_per_s": limits.max_bytes_per_s, "max_records_per_s": limits.max_records_per_s, "why": why}
    draft.notice("throttle_changed", recovery.id, told, command.meta.id)
    draft.put(changed)
    if not changed.attempt.released:
        # The imperative stays: only a changed one may move `wanted_sequence`, or a drain under way would wait for a second answer.
        from_before = changed.wanted_sequence
        told_again = want(draft, changed, changed.wanted, why)
        draft.put(replace(told_again, wanted_sequence=from_before))


def _approve(draft: Draft, event: CommandReceived, recovery: Recovery) -> None:
    command = event.command
    assert isinstance(command, Approve)
    if recovery.state is not S.AWAITING_APPROVAL or recovery.plan is None:
        _wrong_state(draft, event, recovery)
    elif command.plan_hash != recovery.plan.hash:
        _reject(draft, event, Code.STALE_PLAN, f"the plan waiting for approval has the hash {recovery.plan.hash}")
    elif recovery.approved:
        _accept(draft, event, f"{recovery.id} is approved already")
    elif conflict := target_conflict(recovery, draft.live()):
        _reject(draft, event, Code.TARGET_IN_USE, conflict)
    elif over_slo := refuse_over_slo(draft, recovery):
        _reject(draft, event, Code.LIVE_OVER_SLO, over_slo)
    else:
        _accept(draft, event, f"{recovery.id} is approved and starts, if the topics are still as planned")
        _look_again(draft, event, recovery, f"approved by {_who(event)}: {_reason(event)}")


def _look_again(draft: Draft, event: CommandReceived, recovery: Recovery, approved: str) -> None:
    """The plan may be a day old: steering asks the clusters again, and `planning` starts it or says what changed."""
    why = f"{approved}; looks whether the topics are still as planned"
    changes = {"approved": approved, "why": why, "updated_ms": draft.now_ms, "version": recovery.version + 1}
    draft.put(replace(recovery, **changes))  # type: ignore[arg-type]
    draft.notice(
        "recovery_approved",
        recovery.id,
        {"why": why},
        event.command.id if isinstance(event.command, Refusal) else event.command.meta.id,
    )
    draft.observe(recovery.id, facts_wanted_ms=0, facts_since_ms=0)


def _reject_plan(draft: Draft, event: CommandReceived, recovery: Recovery) -> None:
    command = event.command
    assert isinstance(command, Reject)
    if recovery.state is not S.AWAITING_APPROVAL or recovery.plan is None:
        _wrong_state(draft, event, recovery)
    elif command.plan_hash != recovery.plan.hash:
        _reject(draft, event, Code.STALE_PLAN, f"the plan waiting for approval has the hash {recovery.plan.hash}")
    else:
        _accept(draft, event, f"{recovery.id} is rejected")
        draft.move(
            recovery,
            S.REJECTED,
            f"rejected by {_who(event)}: {_reason(event)}",
            error_code=Code.REJECTED_BY_OPERATOR.value,
        )


def _limit(limits: Limits, command: Throttle) -> str:
    """What holds now for the rates, and what else was named."""
    parts = []
    if limits.max_bytes_per_s is not None:
        parts.append(f"{limits.max_bytes_per_s:,.0f} B/s")
    if limits.max_records_per_s is not None:
        parts.append(f"{limits.max_records_per_s:,.0f} records/s")
    rates = f"limit set to {' and '.join(parts)}" if parts else "limit lifted"
    others = [f"{n} {getattr(limits, n)}" for n in ("mode", "weight", "tier") if command.changes.get(n) is not None]
    return ", ".join([rates, *others])


def _who(event: CommandReceived) -> str:
    command = event.command
    return command.source if isinstance(command, Refusal) else command.meta.source


def _reason(event: CommandReceived) -> str:
    return "" if isinstance(event.command, Refusal) else event.command.meta.reason
