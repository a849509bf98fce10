"""What is sent to the webhook that stops and starts an application, and what its status address answers."""

import hashlib
from typing import Any, Final

from recoveryd.kernel.times import format_time_ms
from recoveryd.units.control import ApplicationState, Wish
from recoveryd.wire.bounded_json import JsonProblem, parse
from recoveryd.wire.events import event_source
from recoveryd.wire.plain_json import to_json
from recoveryd.wire.spelling import nearest

EVENT_TYPE: Final = "io.recoveryd.webhook.application_wanted.v1"
_STATES: Final = {state.value: state for state in ApplicationState}
_TOLD_MOST: Final = 300


class NoStatus(ValueError):  # noqa: N818  (named for what happened)
    """The answer says nothing of the application; the message says why."""


def delivery_of(wish: Wish) -> str:
    """The same however often one wish is sent."""
    return hashlib.sha256(f"{wish.unit}\n{wish.desired.value}\n{wish.key}".encode()).hexdigest()[:32]


def encode_wish(wish: Wish, scope: str) -> bytes:
    """The body: the same bytes for the same wish."""
    at = format_time_ms(wish.since_ms)
    event = {
        "specversion": "1.0",
        "id": delivery_of(wish),
        "source": event_source(scope),
        "type": EVENT_TYPE,
        "subject": wish.workflow,
        "time": at,
        "datacontenttype": "application/json",
        "data": {
            "unit": wish.unit,
            "desired": wish.desired.value,
            "workflow": wish.workflow,
            "idempotency_key": wish.key,
            "since": at,
        },
    }
    return to_json(event)


def read_status(body: bytes) -> tuple[ApplicationState, str]:
    """The state, and what the sender says of it. Raises `NoStatus`."""
    try:
        answer: Any = parse(body)
    except JsonProblem as problem:
        raise NoStatus(str(problem)) from None
    if not isinstance(answer, dict) or not isinstance(answer.get("state"), str):
        raise NoStatus('it is no object with a text "state"')
    state = _STATES.get(answer["state"])
    if state is None:
        near = nearest(answer["state"], _STATES)
        raise NoStatus(f"its state is none of {', '.join(_STATES)}" + (f"; is {near} meant?" if near else ""))
    why = answer.get("why", "")
    return state, _one_line(why) if isinstance(why, str) else ""


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text[:_TOLD_MOST]).split())
