"""How a watch ends: its condition held, its deadline passed, an operator stopped it, or the condition can never hold.
Each end is told once, with its evidence.

With a webhook, the end has two steps. The intended call is journaled first and then made (at least once, always with
the same delivery id), and the watch ends when the outcome is known.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.noun import changed
from recoveryd.kernel.states import State, Stop, StopReason
from recoveryd.watches.draft import WatchDraft
from recoveryd.watches.effects import CallWebhook
from recoveryd.watches.events import WebhookEnded
from recoveryd.watches.model import Delivery, DeliveryState, Watch
from recoveryd.watches.outcome import end
from recoveryd.watches.spec import CallHook, StopUnit
from recoveryd.watches.stopping import begin_stop

CALL_AGAIN_MS = 300_000  # longer than a whole series of tries; after that, the outcome counts as lost


def fulfil(
    draft: WatchDraft, watch: Watch, reason: StopReason, mode: str | None, why: str, evidence: Mapping[str, object]
) -> None:
    """The condition held: tell so, then call the webhook or end."""
    stop = Stop(reason, mode, draft.now_ms, evidence)
    then = watch.spec.then
    webhook = then.webhook if isinstance(then, CallHook) else None
    told = {"reason": reason.value, "mode": mode, "why": why, "evidence": evidence, "webhook": webhook}
    told |= {"stops": then.unit} if isinstance(then, StopUnit) else {}
    draft.notice("watch_fulfilled", watch.id, told, watch.command.id)
    if isinstance(then, StopUnit):
        begin_stop(draft, replace(watch, stop=stop), then.unit, why)
        return
    if webhook is None:
        end(draft, replace(watch, stop=stop), State.COMPLETED, why)
        return
    delivery = Delivery(webhook, delivery_id(watch), DeliveryState.PENDING, draft.now_ms)
    draft.reason = f"{why}; calls the webhook {webhook}"
    call(draft, draft.put_watch(changed(watch, draft.now_ms, why=draft.reason, stop=stop, delivery=delivery)))


def give_up(draft: WatchDraft, watch: Watch, reason: StopReason, code: Code, why: str, **evidence: object) -> None:
    """The condition did not hold in time, or can never hold."""
    end(draft, replace(watch, stop=Stop(reason, None, draft.now_ms, evidence)), State.FAILED, why, code)


def call(draft: WatchDraft, watch: Watch) -> None:
    """Call the webhook with journaled data only, so that a repeated call says the same."""
    assert watch.delivery is not None
    draft.see_watch(watch.id, called_ms=draft.now_ms)
    draft.effect(CallWebhook(watch.id, watch.delivery.webhook, watch.delivery.id, _body(watch)))


def call_again(draft: WatchDraft, watch: Watch) -> None:
    """Repeat the call after a restart, or when its outcome was lost."""
    called_ms = draft.watches.seen_of(watch.id).called_ms
    if watch.delivery is not None and (not called_ms or draft.now_ms - called_ms >= CALL_AGAIN_MS):
        draft.reason = f"calls the webhook {watch.delivery.webhook} of {watch.id}"
        call(draft, watch)


def on_webhook_ended(draft: WatchDraft, event: WebhookEnded) -> None:
    """End the watch by the outcome of its call; an outcome that is not awaited any more changes nothing."""
    watch = draft.watches.live.get(event.watch)
    if watch is None or watch.delivery is None or watch.stop is None:
        return
    state = DeliveryState.DELIVERED if event.delivered else DeliveryState.FAILED
    delivery = replace(
        watch.delivery,
        state=state,
        ended_ms=draft.now_ms,
        status=event.status,
        attempts=event.attempts,
        message=event.message,
    )
    told = {
        "webhook": delivery.webhook,
        "delivery": delivery.id,
        "status": event.status,
        "attempts": event.attempts,
        "message": event.message,
    }
    draft.notice(f"webhook_{state.value}", watch.id, told)
    known = replace(watch, delivery=delivery)
    if event.delivered:
        end(draft, known, State.COMPLETED, f"its condition held, and the webhook {delivery.webhook} was told")
    else:
        why = f"its condition held, but the webhook {delivery.webhook} was not reached: {event.message}"
        end(draft, known, State.FAILED, why, Code.WEBHOOK_FAILED)


def delivery_id(watch: Watch) -> str:
    """The delivery id: the same for the same watch, and safe as a header's value."""
    seed = "\n".join((watch.id, watch.command.source, watch.command.id, str(watch.created_ms)))
    return hashlib.sha256(seed.encode()).hexdigest()[:32]


def _body(watch: Watch) -> dict[str, object]:
    """The data of the webhook, from the watch's record alone. Times in ms; `wire` writes them as text."""
    assert watch.delivery is not None
    assert watch.stop is not None
    return {
        "watch": watch.id,
        "cluster": watch.spec.cluster,
        "group": watch.spec.group,
        "topics": list(watch.spec.topics),
        "reason": watch.stop.reason.value,
        "mode": watch.stop.mode,
        "at_ms": watch.stop.at_ms,
        "evidence": dict(watch.stop.evidence),
        "command": {"id": watch.command.id, "source": watch.command.source, "reason": watch.command.reason},
    }
