"""Commands about recoveries. One that asks for a new recovery is answered when its plan is made or refused; everything
else at once.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from recoveryd.kernel.capability import Verb, steers
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import Command, Meta, StopCommand
from recoveryd.kernel.draft import ALL_READ
from recoveryd.kernel.events import CommandReceived
from recoveryd.kernel.refusals import id_in_use, not_in_this_state
from recoveryd.kernel.states import CommandRef, State, Stop, StopReason
from recoveryd.kernel.times import format_time_ms
from recoveryd.recovery.admission import refuse_over_limit, refuse_recovery
from recoveryd.recovery.attempts import may_be_held
from recoveryd.recovery.beside import refuse_taken_away, taken_away_now
from recoveryd.recovery.case import Case
from recoveryd.recovery.commands import Approve, Pause, Reject, Resume, Throttle
from recoveryd.recovery.conflicts import target_conflict
from recoveryd.recovery.directing import retell
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.ending import begin_end
from recoveryd.recovery.holding import held_from, held_now, resume_once_known, why_it_rests
from recoveryd.recovery.lifecycle import is_reusable
from recoveryd.recovery.limits import changed_limits, lacks_rate, with_limits
from recoveryd.recovery.model import ACTIVE, RESTING, WORKING, Recovery, Wanted
from recoveryd.recovery.pausing import TELEMETRY, begin_pause
from recoveryd.recovery.spec import Limits, Spec
from recoveryd.recovery.throttling import refuse_over_slo

S = State


def _reject(case: Case, event: CommandReceived, code: Code, message: str) -> None:
    case.draft.answer(event, "rejected", message, code.value)


def _accept(case: Case, event: CommandReceived, message: str) -> None:
    case.draft.answer(event, "accepted", message)


def _wrong_state(case: Case, event: CommandReceived) -> None:
    case.draft.refuse(event, not_in_this_state(event.command.verb, case.id, case.recovery.state.value))


class _Begins(Protocol):
    """A command that asks for a new recovery, of any kind."""

    @property
    def meta(self) -> Meta: ...

    @property
    def verb(self) -> str: ...

    @property
    def spec(self) -> Spec: ...


def begin(draft: RecoveryDraft, event: CommandReceived, command: _Begins) -> None:
    """Make a recovery of the kind of the command's specification."""
    meta, spec = command.meta, command.spec
    existing = draft.recovery(meta.subject)
    if existing is not None and not is_reusable(existing):
        draft.refuse(event, id_in_use("recovery", meta.subject, existing.state.value))
        return
    origin = CommandRef(meta.id, meta.source, meta.reason)
    refusal = refuse_recovery(spec, draft.live(), draft.params)
    if not spec.dry_run:
        refusal = refusal or held_from(draft, spec) or refuse_taken_away(draft, meta.subject, origin, spec)
    if refusal is not None:
        draft.refuse(event, refusal)
        return
    recovery = Recovery(
        id=meta.subject,
        kind=spec.kind,
        state=S.REQUESTED,
        why=meta.reason,
        version=existing.version + 1 if existing else 1,
        created_ms=draft.now_ms,
        updated_ms=draft.now_ms,
        command=origin,
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
_Steer = Callable[[Case, CommandReceived, C], None]


def _on(command: type[C], steer: _Steer[C]) -> Verb[RecoveryDraft]:
    def handle(draft: RecoveryDraft, event: CommandReceived, given: C) -> None:
        steer(Case(draft, given.meta.subject), event, given)  # the kernel has checked that the subject is a recovery

    return steers(command, handle)


def _pause(case: Case, event: CommandReceived, command: Pause) -> None:
    recovery = case.recovery
    if recovery.state in RESTING:
        _accept(case, event, f"{recovery.id} is {recovery.state.value} already")
        if recovery.held:  # from now on this is the operator's pause, which only an operator ends
            case.revise(held="", why=f"paused by {command.meta.who}")
        if command.release:
            case.revise(releases=True)
        return
    if recovery.state not in WORKING:
        _wrong_state(case, event)
        return
    how = "lets its verification stand still and pauses" if recovery.is_proving else "drains its open chunks and pauses"
    _accept(case, event, f"{recovery.id} {how}")
    begin_pause(case, f"paused by {command.meta.who}")
    if command.release:
        case.revise(releases=True)


def _resume(case: Case, event: CommandReceived, command: Resume) -> None:
    recovery = case.recovery
    if recovery.state in WORKING:
        _accept(case, event, f"{recovery.id} is {recovery.state.value} already")
        return
    if recovery.state not in RESTING:
        _wrong_state(case, event)
        return
    if recovery.held == TELEMETRY:
        why = why_it_rests(case, recovery) if may_be_held(case) else recovery.rule
        _reject(case, event, Code.LIVE_UNKNOWN, f"{recovery.id}: {why}")
        return
    if refused := held_now(case) or taken_away_now(case.draft, recovery):
        case.draft.refuse(event, refused)
        return
    goes_on = f"{recovery.id} goes on {'verifying' if recovery.is_proving else 'at its exact position'}"
    _accept(case, event, f"{goes_on} once {ALL_READ}" if may_be_held(case) else goes_on)
    resume_once_known(case, f"resumed by {command.meta.who}")


def _stop(case: Case, event: CommandReceived, command: StopCommand) -> None:
    recovery = case.recovery
    why = f"stopped by {command.meta.who}"
    if recovery.state is S.STOPPING:
        _accept(case, event, f"{recovery.id} is stopping already")
    elif recovery.state in {S.REQUESTED, S.PLANNING, S.AWAITING_APPROVAL}:
        _accept(case, event, f"{recovery.id} ends before it started")
        case.draft.answer_creation(recovery, "accepted", "stopped by an operator before the plan was made")
        case.move(S.STOPPED, why, stop=Stop(StopReason.OPERATOR, None, case.now_ms))
    elif recovery.state in ACTIVE:
        how = "ends without a verdict" if recovery.is_proving else "drains its open chunks and stops"
        _accept(case, event, f"{recovery.id} {how}")
        begin_end(case, StopReason.OPERATOR, S.STOPPED, why)
    else:
        _wrong_state(case, event)


def _throttle(case: Case, event: CommandReceived, command: Throttle) -> None:
    recovery = case.recovery
    if recovery.is_terminal or recovery.state in {S.PLANNED, S.STOPPING}:
        _wrong_state(case, event)
        return
    limits = changed_limits(recovery.limits, command.changes)
    if command.changes.get("mode") == "fixed" and lacks_rate(limits):
        _reject(
            case, event, Code.MISSING_FIELD, "the mode is to be fixed, but no rate is set and the command names none"
        )
        return
    told_limit = _limit(limits, command)
    why = f"{told_limit} by {command.meta.who}"
    _accept(case, event, f"{recovery.id}: {told_limit}")
    told = {"max_bytes_per_s": limits.max_bytes_per_s, "max_records_per_s": limits.max_records_per_s, "why": why}
    case.notice("throttle_changed", told, command.meta.id)
    case.draft.remember(with_limits(recovery, limits, case.params, why))
    case.revise()
    if not recovery.attempt.released:
        retell(case, why)


def _approve(case: Case, event: CommandReceived, command: Approve) -> None:
    recovery = case.recovery
    if recovery.state is not S.AWAITING_APPROVAL or recovery.plan is None:
        _wrong_state(case, event)
    elif command.plan_hash != recovery.plan.hash:
        _reject(case, event, Code.STALE_PLAN, f"the plan waiting for approval has the hash {recovery.plan.hash}")
    elif recovery.approved:
        _accept(case, event, f"{recovery.id} is approved already")
    elif min(event.broker_ms, case.now_ms) >= case.approval_ends_ms:  # it ends once all that was sent is read
        until = format_time_ms(case.approval_ends_ms)
        _reject(case, event, Code.APPROVAL_EXPIRED, f"the plan of {recovery.id} could be approved until {until}")
    elif refused := held_now(case) or refuse_over_limit(case.draft.live(), case.params):
        case.draft.refuse(event, refused)
    elif conflict := target_conflict(recovery, case.draft.live()):
        case.draft.refuse(event, conflict)
    elif over_slo := refuse_over_slo(case.draft, recovery):
        _reject(case, event, Code.LIVE_OVER_SLO, over_slo)
    else:
        once = f" once {ALL_READ}" if may_be_held(case) else ""
        _accept(case, event, f"{recovery.id} is approved and starts{once}, if the topics are still as planned")
        _look_again(case, command, f"approved by {command.meta.who}")


def _look_again(case: Case, command: Approve, approved: str) -> None:
    """Have the approved plan checked again, since it may be a day old: steering asks the clusters, and `planning`
    starts the recovery or says what changed.
    """
    why = f"{approved}; looks whether the topics are still as planned"
    case.revise(approved=approved, why=why)
    case.notice("recovery_approved", {"why": why}, command.meta.id)
    case.observe(facts_wanted_ms=0, facts_since_ms=0)


def _reject_plan(case: Case, event: CommandReceived, command: Reject) -> None:
    recovery = case.recovery
    if recovery.state is not S.AWAITING_APPROVAL or recovery.plan is None:
        _wrong_state(case, event)
    elif command.plan_hash != recovery.plan.hash:
        _reject(case, event, Code.STALE_PLAN, f"the plan waiting for approval has the hash {recovery.plan.hash}")
    else:
        _accept(case, event, f"{recovery.id} is rejected")
        case.move(S.REJECTED, f"rejected by {command.meta.who}", error_code=Code.REJECTED_BY_OPERATOR.value)


def _limit(limits: Limits, command: Throttle) -> str:
    """A sentence: the rates that hold now, and the other limits that were named."""
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
