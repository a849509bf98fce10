"""What webhooks are told of transitions: one CloudEvent, or the form that a chat or an Alertmanager takes as it is."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from recoveryd.kernel.decision import Notice
from recoveryd.kernel.times import format_time_ms
from recoveryd.wire.cloudevents import STRUCTURED_CONTENT_TYPE
from recoveryd.wire.events import event_source
from recoveryd.wire.plain_json import to_json

EVENT_TYPE: Final = "io.recoveryd.webhook.transition.v1"
_JSON: Final = "application/json"
_VERBS: Final = {"verification": "verify"}  # of kinds that are not called as what begins them
_CRITICAL: Final = frozenset({"failed", "rejected", "expired"})


class BodyForm(StrEnum):
    CLOUDEVENT = "cloudevent"
    SLACK = "slack"
    ALERTMANAGER = "alertmanager"


@dataclass(frozen=True, slots=True)
class Transition:
    """Something moved from one state to another. `verb` is that of the command which began it; `told` what the event on
    the events topic says besides.
    """

    id: str
    verb: str
    before: str
    state: str
    why: str
    at_ms: int
    told: Mapping[str, Any]

    @property
    def delivery(self) -> str:
        """The same for the same transition."""
        named = "\n".join((self.id, self.before, self.state, str(self.at_ms)))
        return hashlib.sha256(named.encode()).hexdigest()[:32]


def verb_of(document: Mapping[str, Any]) -> str:
    """The verb that began what has this status record."""
    return str(document.get("workflow") or _VERBS.get(document.get("kind", ""), document.get("kind", "")))


def transition_of(notice: Notice, verb: str, now_ms: int) -> Transition | None:
    """None of a notice that is no transition."""
    before, state = notice.data.get("from"), notice.data.get("to")
    if not isinstance(before, str) or not isinstance(state, str) or not notice.type.endswith(f"_{state}"):
        return None
    told = {name: value for name, value in notice.data.items() if name not in {"from", "to", "why"}}
    return Transition(notice.subject, verb, before, state, str(notice.data.get("why", "")), now_ms, told)


def encode_transition(
    transition: Transition, form: BodyForm, scope: str, states: Collection[str] = ()
) -> tuple[bytes, str]:
    """Body and content type: the same bytes for the same transition. `states`: those that the receiver hears of, and so
    has alerts of; empty = all.
    """
    if form is BodyForm.SLACK:
        return to_json({"text": _sentence(transition)}), _JSON
    if form is BodyForm.ALERTMANAGER:
        return to_json(_alerts(transition, scope, states)), _JSON
    at = format_time_ms(transition.at_ms)
    event = {
        "specversion": "1.0",
        "id": transition.delivery,
        "source": event_source(scope),
        "type": EVENT_TYPE,
        "subject": transition.id,
        "time": at,
        "datacontenttype": "application/json",
        "data": {
            "recovery": transition.id,
            "verb": transition.verb,
            "from": transition.before,
            "to": transition.state,
            "why": transition.why,
            "at": at,
            **transition.told,
        },
    }
    return to_json(event), STRUCTURED_CONTENT_TYPE


def _sentence(transition: Transition) -> str:
    text = f"{transition.verb} {transition.id} is {transition.state} (was {transition.before})"
    text = f"{text}: {transition.why}" if transition.why else text
    # The three characters that have a meaning in such messages.
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _alerts(transition: Transition, scope: str, states: Collection[str]) -> list[dict[str, Any]]:
    """One of the state that is entered; that of the state which is left is resolved."""
    at = format_time_ms(transition.at_ms)
    alerts: list[dict[str, Any]] = []
    if not states or transition.state in states:
        summary = f"{transition.verb} {transition.id} is {transition.state}"
        annotations = {"summary": summary, "description": transition.why}
        labels = _labels(transition, transition.state, scope)
        alerts.append({"labels": labels, "annotations": annotations, "startsAt": at})
    if not states or transition.before in states:
        alerts.append({"labels": _labels(transition, transition.before, scope), "endsAt": at})
    return alerts


def _labels(transition: Transition, state: str, scope: str) -> dict[str, str]:
    return {
        "alertname": "RecoverydTransition",
        "scope": scope,
        "recovery": transition.id,
        "verb": transition.verb,
        "state": state,
        "severity": "critical" if state in _CRITICAL else "info",
    }
