"""The pure step: state and event in, decision out. No I/O, no clock, no randomness, and no input makes it raise.

decide(state, event, now_ms) = handler of the event, then `steer` for every recovery the event can have touched
"""

from collections.abc import Callable
from dataclasses import replace

from daemon.core import forgetting, quotas
from daemon.core.commands import Refusal
from daemon.core.decision import CoreState, Decision
from daemon.core.draft import Draft
from daemon.core.events import (
    AttemptExited,
    BecameLeader,
    CommandReceived,
    ControlUnreadable,
    DriverHeartbeat,
    EffectFailed,
    Event,
    FactsGathered,
    LaneHeartbeat,
    LedgerMoved,
    LedgerRead,
    OffsetsSampled,
    QuotaSet,
    QuotasSwept,
    ReaderSampled,
    ReadingTaken,
    RecoveriesForgotten,
    SignalReceived,
    SignalRefused,
    TargetReady,
    Tick,
    WebhookEnded,
)
from daemon.core.handlers import commands, live, observations, planning
from daemon.core.params import Params
from daemon.core.steer import steer
from daemon.core.throttling import control
from daemon.core.watches import looking
from daemon.core.watches.ending import on_webhook_ended


class Decider:
    """`decide` with its frozen parameters."""

    def __init__(self, params: Params) -> None:
        self._params = params

    def decide(self, state: CoreState, event: Event, now_ms: int) -> Decision:
        """What follows from `event` at `now_ms`. Same input, same output."""
        draft = Draft(state, self._params, now_ms)
        _HANDLERS[type(event)](draft, event)
        touched = _touched(draft, event)
        for recovery_id in touched:
            steer(draft, recovery_id)
        if isinstance(event, Tick | BecameLeader):
            looking.keep_time(draft)
            forgetting.forget_old(draft)
        quotas.keep_quotas(draft, touched, everything=isinstance(event, Tick | BecameLeader | QuotasSwept))
        return draft.finish()


def _touched(draft: Draft, event: Event) -> list[str]:
    """Recoveries whose situation the event can have changed."""
    if isinstance(event, Tick | BecameLeader | OffsetsSampled):
        return [r.id for r in draft.live()]
    if isinstance(event, CommandReceived):
        command = event.command
        return [command.subject if isinstance(command, Refusal) else command.meta.subject]
    recovery_id = getattr(event, "recovery", None)
    return [recovery_id] if isinstance(recovery_id, str) else []


def _on_leader(draft: Draft, event: BecameLeader) -> None:
    """A new epoch: nothing heard before counts; applications that still run get a moment to be heard."""
    record = draft.daemon
    known = record.control_topic_id in {"", event.control_topic_id}
    applied = record.applied_control_offset if known else -1
    draft.set_daemon(
        replace(
            record,
            epoch=event.epoch,
            control_topic_id=event.control_topic_id,
            applied_control_offset=applied,
            updated_ms=draft.now_ms,
        )
    )
    draft.notice(
        "leader_changed",
        "",
        {"epoch": event.epoch, "recoveries": len(draft.state.recoveries), "control_topic_known": known},
    )
    quotas.forget_quotas(draft)
    control(draft)
    looking.forget_looks(draft)
    for recovery in draft.live():
        draft.forget(recovery.id)
        draft.observe(recovery.id, adopted_ms=draft.now_ms, drain_since_ms=draft.now_ms)


def _on_unreadable(draft: Draft, event: ControlUnreadable) -> None:
    draft.applied(event.offset)
    draft.dead_letter(event)
    told = {"partition": event.partition, "offset": event.offset, "code": event.code, "error": event.message}
    draft.notice("control_unreadable", "", told)
    draft.reason = f"control record {event.offset} is not readable: {event.message}"


def _on_effect_failed(draft: Draft, event: EffectFailed) -> None:
    observations.on_effect_failed(draft, event)
    if event.effect == "set_quota":
        quotas.on_set_failed(draft, event)


def _on_signal_refused(draft: Draft, event: SignalRefused) -> None:
    draft.applied(event.offset)
    draft.notice(
        "signal_refused", "", {"offset": event.offset, "code": event.code, "message": event.message, "hint": event.hint}
    )
    draft.reason = event.message


def _on_offsets(draft: Draft, event: OffsetsSampled) -> None:
    observations.on_offsets(draft, event)
    live.on_offsets(draft, event)
    looking.on_offsets_of_watched(draft, event)


def _on_reader(draft: Draft, event: ReaderSampled) -> None:
    live.on_reader(draft, event)
    looking.on_reader_sampled(draft, event)


def _on_tick(draft: Draft, _event: Tick) -> None:
    """Controllers take their step when it is due; steering does the rest."""
    control(draft)


_HANDLERS: dict[type, Callable[[Draft, object], None]] = {
    CommandReceived: commands.on_command,  # type: ignore[dict-item]
    ControlUnreadable: _on_unreadable,  # type: ignore[dict-item]
    SignalReceived: live.on_signal,  # type: ignore[dict-item]
    SignalRefused: _on_signal_refused,  # type: ignore[dict-item]
    FactsGathered: planning.on_facts,  # type: ignore[dict-item]
    EffectFailed: _on_effect_failed,  # type: ignore[dict-item]
    TargetReady: planning.on_target_ready,  # type: ignore[dict-item]
    AttemptExited: observations.on_attempt_exited,  # type: ignore[dict-item]
    LaneHeartbeat: observations.on_lane_heartbeat,  # type: ignore[dict-item]
    DriverHeartbeat: observations.on_driver_heartbeat,  # type: ignore[dict-item]
    LedgerRead: observations.on_ledger,  # type: ignore[dict-item]
    LedgerMoved: observations.on_ledger_moved,  # type: ignore[dict-item]
    OffsetsSampled: _on_offsets,  # type: ignore[dict-item]
    ReaderSampled: _on_reader,  # type: ignore[dict-item]
    ReadingTaken: live.on_reading,  # type: ignore[dict-item]
    QuotaSet: quotas.on_set,  # type: ignore[dict-item]
    QuotasSwept: quotas.on_swept,  # type: ignore[dict-item]
    RecoveriesForgotten: forgetting.on_forgotten,  # type: ignore[dict-item]
    WebhookEnded: on_webhook_ended,  # type: ignore[dict-item]
    BecameLeader: _on_leader,  # type: ignore[dict-item]
    Tick: _on_tick,  # type: ignore[dict-item]
}
