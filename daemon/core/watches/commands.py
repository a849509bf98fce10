"""Commands about watches: the one that makes it, and `stop`. Everything that steers lanes has no meaning for a watch and is refused as such."""

from collections.abc import Iterable
from dataclasses import replace

from daemon.core.catalogue import Code
from daemon.core.commands import Command, StartWatch, StopRecovery
from daemon.core.draft import Draft
from daemon.core.effects import WakeAt
from daemon.core.events import CommandReceived
from daemon.core.model import CommandRef, State, Stop, StopReason
from daemon.core.params import Params
from daemon.core.policies.admission import Refusal, nearest_name
from daemon.core.watches.ending import end
from daemon.core.watches.model import DeliveryState, Watch
from daemon.core.watches.spec import UntilTime, WatchSpec

ACTIVE_MOST = 200


def on_watch(draft: Draft, event: CommandReceived, command: StartWatch) -> None:
    """Begin to look, or say why not; answered at once."""
    meta, spec = command.meta, command.spec
    refusal = id_in_use(draft, meta.subject) or refuse_watch(spec, len(draft.watches.live), draft.params)
    if refusal is not None:
        draft.answer(event, "rejected", refusal.message, refusal.code.value, refusal.hint)
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
    told = {"why": meta.reason, "group": spec.group, "topics": list(spec.topics), "webhook": spec.webhook}
    draft.notice("watch_started", watch.id, told, meta.id)
    for at_ms in (spec.deadline_ms, spec.until.time_ms if isinstance(spec.until, UntilTime) else None):
        if at_ms is not None:
            draft.effect(WakeAt(at_ms))


def refuse_watch(spec: WatchSpec, active: int, params: Params) -> Refusal | None:
    """Why it may not begin, or None. Names of clusters and webhooks are the config's."""
    if spec.cluster not in params.clusters:
        message = f"cluster: the config has no cluster {spec.cluster!r}"
        return Refusal(Code.UNKNOWN_CLUSTER, message, nearest_name(spec.cluster, params.clusters))
    if spec.webhook is not None and spec.webhook not in params.webhooks:
        message = f"then.webhook: the config has no webhook {spec.webhook!r}"
        hint = nearest_name(spec.webhook, params.webhooks) if params.webhooks else "the config has no webhooks"
        return Refusal(Code.UNKNOWN_WEBHOOK, message, hint)
    own = next((topic for topic in spec.topics if topic in params.own_topics), None)
    if own is not None:
        return Refusal(Code.INTERNAL_TOPIC, f"topics: {own} is an internal topic")
    if active >= ACTIVE_MOST:
        return Refusal(Code.TOO_MANY_WATCHES, f"{active} watches are active, at most {ACTIVE_MOST} can be")
    return None


def steer_watch(draft: Draft, event: CommandReceived, command: Command, watch: Watch) -> None:
    """A command whose subject is a watch."""
    if not isinstance(command, StopRecovery):
        message = f"{watch.id} is a watch, which {command.verb} does not apply to"
        draft.answer(event, "rejected", message, Code.NOT_FOR_A_WATCH.value)
        return
    if watch.is_terminal:
        message = f"stop is not possible while {watch.id} is {watch.state.value}"
        draft.answer(event, "rejected", message, Code.NOT_IN_THIS_STATE.value)
        return
    draft.answer(event, "accepted", f"{watch.id} ends")
    why = f"stopped by {command.meta.source}: {command.meta.reason}"
    delivery = watch.delivery
    if delivery is not None:
        # It may have arrived, or still arrive: nobody waits for the answer any more.
        message = "stopped before an answer came"
        delivery = replace(delivery, state=DeliveryState.FAILED, ended_ms=draft.now_ms, message=message)
    stop = Stop(StopReason.OPERATOR, None, draft.now_ms)
    end(draft, replace(watch, stop=stop, delivery=delivery), State.STOPPED, why)


def id_in_use(draft: Draft, subject: str) -> Refusal | None:
    """Watches and recoveries share one space of ids, and one key on the status topic."""
    watch, recovery = draft.watches.get(subject), draft.recovery(subject)
    if watch is not None:
        return Refusal(Code.ID_IN_USE, f"watch {subject} exists already and is {watch.state.value}")
    if recovery is not None:
        return Refusal(Code.ID_IN_USE, f"recovery {subject} exists already and is {recovery.state.value}")
    return None


def _listed(topics: Iterable[str]) -> str:
    return ", ".join(topics)
