"""Commands about recoveries. One that asks for a new recovery is answered when its plan is made or refused; everything else at once."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from recoveryd.kernel.capability import Verb, steers
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import Command, Meta, StopCommand
from recoveryd.kernel.events import CommandReceived
from recoveryd.kernel.states import CommandRef, State, Stop, StopReason
from recoveryd.recovery.admission import refuse_recovery
from recoveryd.recovery.commands import Approve, Pause, Reject, Resume, Throttle
from recoveryd.recovery.conflicts import target_conflict
from recoveryd.recovery.directing import want
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.ending import begin_end
from recoveryd.recovery.lifecycle import is_reusable
from recoveryd.recovery.limits import changed_limits, lacks_rate, with_limits
from recoveryd.recovery.model import ACTIVE, WORKING, Recovery, Wanted
from recoveryd.recovery.pausing import TELEMETRY, begin_pause, begin_resume
from recoveryd.recovery.spec import Limits, Spec
from recoveryd.recovery.throttling import refuse_over_slo

S = State


def _reject(draft: RecoveryDraft, event: CommandReceived, code: Code, message: str, hint: str = "") -> None:
    draft.answer(event, "rejected", message, code.value, hint)


def _accept(draft: RecoveryDraft, event: CommandReceived, message: str) -> None:
    draft.answer(event, "accepted", message)


def _wrong_state(draft: RecoveryDraft, event: CommandReceived, recovery: Recovery) -> None:
    message = f"{event.command.verb} is not possible while {recovery.id} is {recovery.state.value}"
    _reject(draft, event, Code.NOT_IN_THIS_STATE, message)


class _Begins(Protocol):
    """The command that asks for a recovery of some kind."""

    @property
    def meta(self) -> Meta: ...

    @property
    def verb(self) -> str: ...

    @property
    def spec(self) -> Spec: ...


def begin(draft: RecoveryDraft, event: CommandReceived, command: _Begins) -> None:
    """A new recovery of the kind that the command's spec says."""
    meta, spec = command.meta, command.spec
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


C = TypeVar("C", bound=Command)
_Steer = Callable[[RecoveryDraft, CommandReceived, C, Recovery], None]


def _on(command: type[C], steer: _Steer[C]) -> Verb[RecoveryDraft]:
    def handle(draft: RecoveryDraft, event: CommandReceived, given: C) -> None:
        recovery = draft.recovery(given.meta.subject)
        assert recovery is not None  # the kernel asked whose subject it is
        steer(draft, event, given, recovery)

    return steers(command, handle)


def _pause(draft: RecoveryDraft, event: CommandReceived, command: Pause, recovery: Recovery) -> None:
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
    begin_pause(draft, recovery, f"paused by {command.meta.who}")


def _resume(draft: RecoveryDraft, event: CommandReceived, command: Resume, recovery: Recovery) -> None:
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
    begin_resume(draft, recovery, f"resumed by {command.meta.who}")


def _stop(draft: RecoveryDraft, event: CommandReceived, command: StopCommand, recovery: Recovery) -> None:
    why = f"stopped by {command.meta.who}"
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


def _throttle(draft: RecoveryDraft, event: CommandReceived, command: Throttle, recovery: Recovery) -> None:
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
    why = f"{told_limit} by {command.meta.who}"
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


def _approve(draft: RecoveryDraft, event: CommandReceived, command: Approve, recovery: Recovery) -> None:
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
        _look_again(draft, command, recovery, f"approved by {command.meta.who}")


def _look_again(draft: RecoveryDraft, command: Approve, recovery: Recovery, approved: str) -> None:
    """The plan may be a day old: steering asks the clusters again, and `planning` starts it or says what changed."""
    why = f"{approved}; looks whether the topics are still as planned"
    changes = {"approved": approved, "why": why, "updated_ms": draft.now_ms, "version": recovery.version + 1}
    draft.put(replace(recovery, **changes))  # type: ignore[arg-type]
    draft.notice("recovery_approved", recovery.id, {"why": why}, command.meta.id)
    draft.observe(recovery.id, facts_wanted_ms=0, facts_since_ms=0)


def _reject_plan(draft: RecoveryDraft, event: CommandReceived, command: Reject, recovery: Recovery) -> None:
    if recovery.state is not S.AWAITING_APPROVAL or recovery.plan is None:
        _wrong_state(draft, event, recovery)
    elif command.plan_hash != recovery.plan.hash:
        _reject(draft, event, Code.STALE_PLAN, f"the plan waiting for approval has the hash {recovery.plan.hash}")
    else:
        _accept(draft, event, f"{recovery.id} is rejected")
        draft.move(
            recovery,
            S.REJECTED,
            f"rejected by {command.meta.who}",
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


STEERING = (
    _on(Pause, _pause),
    _on(Resume, _resume),
    _on(StopCommand, _stop),
    _on(Throttle, _throttle),
    _on(Approve, _approve),
    _on(Reject, _reject_plan),
)
