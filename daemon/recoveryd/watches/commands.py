"""Commands about watches: `watch`, which makes one, and `stop`. Commands that steer lanes are refused for a watch."""

from collections.abc import Iterable
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.effects import WakeAt
from recoveryd.kernel.events import CommandReceived
from recoveryd.kernel.refusals import id_in_use, internal_topic, not_in_this_state, refuse_cluster, too_many
from recoveryd.kernel.refused import Refused, nearest_name
from recoveryd.kernel.states import CommandRef, State, Stop, StopReason
from recoveryd.watches.draft import WatchDraft
from recoveryd.watches.known import watch_that_stops
from recoveryd.watches.model import DeliveryState, UnitStopState, Watch
from recoveryd.watches.outcome import end
from recoveryd.watches.params import WatchParams
from recoveryd.watches.spec import CallHook, StartWatch, StopUnit, UntilTime, WatchSpec
from recoveryd.watches.stopping import refuse_stop

ACTIVE_MOST = 200


def on_watch(draft: WatchDraft, event: CommandReceived, command: StartWatch) -> None:
    """Begin the watch or refuse it; answered at once."""
    meta, spec = command.meta, command.spec
    known = draft.watches.get(meta.subject)
    if known is not None:
        draft.refuse(event, id_in_use("watch", known.id, known.state.value))
        return
    refusal = refuse_watch(spec, len(draft.watches.live), meta.source, draft.params) or _refuse_rival(draft, spec)
    if refusal is not None:
        draft.refuse(event, refusal)
        return
    watch = Watch(
        id=meta.subject,
        state=State.RUNNING,
        why=f"looks at the group {spec.group}; nothing was seen yet",
        version=1,
        created_ms=draft.now_ms,
        updated_ms=draft.now_ms,
        command=CommandRef(meta.id, meta.source, meta.reason),
        spec=spec,
    )
    draft.put_watch(watch)
    draft.answer(event, "accepted", f"{watch.id} watches the group {spec.group} on {_listed(spec.topics)}")
    told = {"why": meta.reason, "group": spec.group, "topics": list(spec.topics), "webhook": _webhook_of(spec)}
    told |= {"stops": spec.then.unit} if isinstance(spec.then, StopUnit) else {}
    draft.notice("watch_started", watch.id, told, meta.id)
    for at_ms in (spec.deadline_ms, spec.until.time_ms if isinstance(spec.until, UntilTime) else None):
        if at_ms is not None:
            draft.effect(WakeAt(at_ms))


def refuse_watch(spec: WatchSpec, active: int, source: str, params: WatchParams) -> Refused | None:
    """Why the watch that `source` sent may not begin, or None. Its clusters and webhook must be in the config."""
    unknown = refuse_cluster(spec.cluster, params.clusters)
    if unknown is not None:
        return unknown
    webhook = _webhook_of(spec)
    if webhook is not None and webhook not in params.webhooks:
        message = f"then.webhook: the config has no webhook {webhook!r}"
        hint = nearest_name(webhook, params.webhooks) if params.webhooks else "the config has no webhooks"
        return Refused(Code.UNKNOWN_WEBHOOK, message, hint)
    own = next((topic for topic in spec.topics if topic in params.own_topics), None)
    if own is not None:
        return internal_topic(own)
    if isinstance(spec.then, StopUnit) and (problem := refuse_stop(spec, spec.then, source, params)) is not None:
        return problem
    if active >= ACTIVE_MOST:
        return too_many(Code.TOO_MANY_WATCHES, "watches", active, ACTIVE_MOST)
    return None


def _refuse_rival(draft: WatchDraft, spec: WatchSpec) -> Refused | None:
    """A watch that will stop an application has it to itself."""
    if not isinstance(spec.then, StopUnit):
        return None
    other = draft.workflow_on(spec.cluster, spec.group) or watch_that_stops(draft.watches, spec.cluster, spec.group)
    return None if other is None else Refused(Code.UNIT_WATCHED, other)


def _webhook_of(spec: WatchSpec) -> str | None:
    return spec.then.webhook if isinstance(spec.then, CallHook) else None


def stop_watch(draft: WatchDraft, event: CommandReceived, command: StopCommand) -> None:
    """End the watch without a call of its webhook."""
    watch = draft.watches.get(command.meta.subject)
    assert watch is not None  # the kernel has checked that the subject is a watch
    if watch.is_terminal:
        draft.refuse(event, not_in_this_state(command.verb, watch.id, watch.state.value))
        return
    draft.answer(event, "accepted", f"{watch.id} ends")
    why = f"stopped by {command.meta.who}"
    delivery = watch.delivery
    if delivery is not None:
        # The call may have arrived, or may still: its outcome is not awaited any more.
        message = "stopped before an answer came"
        delivery = replace(delivery, state=DeliveryState.FAILED, ended_ms=draft.now_ms, message=message)
    unit_stop = watch.unit_stop
    if unit_stop is not None:
        message = "not asked to stop any more; it may have been"
        unit_stop = replace(unit_stop, state=UnitStopState.FAILED, ended_ms=draft.now_ms, message=message)
    stop = Stop(StopReason.OPERATOR, None, draft.now_ms)
    end(draft, replace(watch, stop=stop, delivery=delivery, unit_stop=unit_stop), State.STOPPED, why)


def _listed(topics: Iterable[str]) -> str:
    return ", ".join(topics)
