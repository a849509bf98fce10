"""Recoveries as a capability: the commands and events they take, and which of them are steered after each event."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import get_args

from recoveryd.holds.draft import HoldDraft
from recoveryd.kernel.capability import Capability, StatusForm, Subject, begins, on
from recoveryd.kernel.commands import RefusedCommand
from recoveryd.kernel.decision import Noun
from recoveryd.kernel.events import BecameLeader, CommandReceived, ControlRead, Leaving, Tick
from recoveryd.kernel.state import CoreState
from recoveryd.kernel.states import State
from recoveryd.live.events import OffsetsSampled
from recoveryd.recovery import events, forgetting, on_commands, on_observations, planning, quotas
from recoveryd.recovery.case import Case
from recoveryd.recovery.draft import Beside, RecoveryDraft
from recoveryd.recovery.holding import go_on_after_rest
from recoveryd.recovery.kinds import Kind
from recoveryd.recovery.measured_rate import with_rate_of
from recoveryd.recovery.measures import make_measures
from recoveryd.recovery.model import WORKING, Recovery
from recoveryd.recovery.params import Params
from recoveryd.recovery.pausing import come_to_rest, goes_on
from recoveryd.recovery.recoveries import Recoveries
from recoveryd.recovery.slice import RECOVERY, RecoverySlice
from recoveryd.recovery.steer import steer
from recoveryd.recovery.throttling import control
from recoveryd.recovery.wire.commands import FORMS
from recoveryd.recovery.wire.status import RecoveryForm
from recoveryd_jobs.contract import DriverHeartbeat, LaneHeartbeat

NAME = "recovery"
_form = cache(RecoveryForm)


def make_recoveries(params: Params, kinds: Sequence[Kind], beside: Beside) -> Capability[RecoveryDraft]:
    """`kinds`: the kinds of recoveries there are. A new one needs no change here. `beside`: what is asked of
    workflows.
    """
    by_name, form = {kind.name: kind for kind in kinds}, _form(tuple(kinds))
    return Capability(
        name=NAME,
        view=RecoveryDraft,
        make_view=lambda draft: RecoveryDraft(draft, params, by_name, beside),
        events=get_args(events.RecoveryEvent),
        verbs=(*(begins(kind.begins, on_commands.begin) for kind in kinds), *on_commands.STEERING),
        handlers=_HANDLERS,
        forms={**{kind.verb: kind.form for kind in kinds}, **FORMS},
        steer=_steer,
        subject=_subject,
        status=StatusForm(Recovery, by_name.__contains__, form.write, form.read),
        measures=make_measures([kind.name for kind in kinds], params.sample_period_ms),
        restore=_restore,
        known=lambda state: state.of(RECOVERY).recoveries,
        is_active=lambda state: bool(state.of(RECOVERY).recoveries.live),
        remaining=lambda state, _: [r.id for r in state.of(RECOVERY).recoveries.live.values() if goes_on(r)],
        moving=lambda state, _: [r.id for r in state.of(RECOVERY).recoveries.live.values() if _moves(r)],
    )


def _restore(state: CoreState, nouns: Mapping[str, Noun], sequences: Mapping[str, int]) -> CoreState:
    """Each directive sequence becomes the newest of status record and directives topic: a directive may have been
    renewed after its recovery's last status record, and no sequence may be used twice.
    """
    found = {
        name: replace(noun, directive_sequence=max(noun.directive_sequence, sequences.get(name, 0)))
        for name, noun in nouns.items()
        if isinstance(noun, Recovery)
    }
    return state.having(RECOVERY, RecoverySlice(Recoveries(found)))


def _subject(draft: RecoveryDraft, recovery_id: str) -> Subject | None:
    recovery = draft.recovery(recovery_id)
    return None if recovery is None else Subject("recovery", recovery.state.value)


def _steer(draft: RecoveryDraft, event: object) -> None:
    """Steer every recovery that the event can have touched; then measure it, forget old ones and adjust quotas."""
    is_time = isinstance(event, Tick | BecameLeader | Leaving)
    is_for_all = is_time or isinstance(event, OffsetsSampled | ControlRead)
    is_for_all = is_for_all or draft.draft.view(HoldDraft).are_others_held
    touched = [r.id for r in draft.live()] if is_for_all else _named(event)
    for recovery_id in touched:
        _rest_if_leaving(draft, recovery_id)  # before, or steering would begin what has just been planned
        steer(draft, recovery_id)
        _rest_if_leaving(draft, recovery_id)
    if isinstance(event, LaneHeartbeat):
        draft.measured_bytes_per_s = with_rate_of(draft.recovery(event.recovery), draft.measured_bytes_per_s)
    if is_time:
        forgetting.forget_old(draft)
    quotas.keep_quotas(draft, touched, everything=is_time or isinstance(event, events.QuotasSwept))


def _rest_if_leaving(draft: RecoveryDraft, recovery_id: str) -> None:
    if draft.is_leaving and draft.recovery(recovery_id) is not None:
        come_to_rest(Case(draft, recovery_id))


def _moves(recovery: Recovery) -> bool:
    """Whether it has an application, or will."""
    return not recovery.attempt.released or recovery.state in WORKING | {State.PAUSING, State.STOPPING}


def _named(event: object) -> list[str]:
    if isinstance(event, CommandReceived):
        command = event.command
        return [command.subject if isinstance(command, RefusedCommand) else command.meta.subject]
    recovery_id = getattr(event, "recovery", None)
    return [recovery_id] if isinstance(recovery_id, str) else []


def _on_leader(draft: RecoveryDraft, event: BecameLeader) -> None:
    """A new epoch: nothing heard before counts, and applications that still run get some time to be heard again."""
    known = draft.draft.before.daemon.control_topic_id in {"", event.control_topic_id}
    told = {"epoch": event.epoch, "recoveries": len(draft.stored), "control_topic_known": known}
    draft.notice("leader_changed", "", told | {"why": event.why or "this daemon leads from now on"})
    draft.is_leaving = event.is_leaving
    quotas.forget_quotas(draft)
    control(draft)
    for recovery in draft.live():
        draft.forget(recovery.id)
        draft.observe(recovery.id, adopted_ms=draft.now_ms, drain_since_ms=draft.now_ms)
    _go_on_after_rest(draft)


def _on_control_read(draft: RecoveryDraft, _event: ControlRead) -> None:
    """What was held while no daemon ran is known from now on."""
    _go_on_after_rest(draft)


def _go_on_after_rest(draft: RecoveryDraft) -> None:
    for recovery in () if draft.is_leaving else draft.live():
        go_on_after_rest(Case(draft, recovery.id))


def _on_leaving(draft: RecoveryDraft, _event: Leaving) -> None:
    draft.is_leaving = True


def _on_tick(draft: RecoveryDraft, _event: Tick) -> None:
    """Let the controllers take their step if it is due; all else is done by steering."""
    control(draft)


_HANDLERS = (
    on(events.FactsGathered, planning.on_facts),
    on(events.EffectFailed, on_observations.on_effect_failed),
    on(events.EffectFailed, quotas.on_set_failed),
    on(events.TargetReady, planning.on_target_ready),
    on(events.AttemptExited, on_observations.on_attempt_exited),
    on(LaneHeartbeat, on_observations.on_lane_heartbeat),
    on(DriverHeartbeat, on_observations.on_driver_heartbeat),
    on(events.LedgerRead, on_observations.on_ledger),
    on(events.LedgerMoved, on_observations.on_ledger_moved),
    on(events.QuotaSet, quotas.on_set),
    on(events.QuotasSwept, quotas.on_swept),
    on(events.RecoveriesForgotten, forgetting.on_forgotten),
    on(events.ForgettingFailed, forgetting.on_failed),
    on(OffsetsSampled, on_observations.on_offsets),
    on(BecameLeader, _on_leader),
    on(ControlRead, _on_control_read),
    on(Tick, _on_tick),
    on(Leaving, _on_leaving),
)
