"""Status records of format 1, which releases up to 0.1.0 wrote: made into documents of today, once, when a new daemon
first reads them.

This format is not written any more. In it, the specification is the data of its command, which the command's model
still reads.
"""

from typing import Any, Final

from recoveryd.wire.forms import VerbForm
from recoveryd.wire.nouns import Document

COLUMNS: Final = {
    "high_watermark": "high_watermarks",
    "log_start": "log_starts",
    "bytes_at_most": "bytes_at_most",
    "first_ms": "first_ms",
    "last_ms": "last_ms",
}
_KINDS: Final = {"count": "ledger", "digest": "altered"}


def upgraded(document: Document, form: VerbForm) -> Document:
    """The same record in the present format, except for the specification, which was read before."""
    internal, plan, proof = document["internal"], document["plan"], document["verification"]
    asked: Any = form.model.model_validate({**internal["spec"], "reason": "-"}, context={"now_ms": 0})
    return {
        **document,
        "internal": {
            **internal["fields"],
            "attempt": internal["attempt"],
            "spec": asked.to_core(),
            "plan": None if plan is None else _plan_rest(internal["plan"]),
        },
        "verification": None
        if proof is None
        else {**proof, "differences": [_difference(d) for d in proof["differences"]]},
    }


def _plan_rest(rest: Document) -> Document:
    columns = {name: rest[old] for name, old in COLUMNS.items() if rest.get(old) is not None}
    return {**rest, "partitions": columns}


def _difference(told: dict[str, Any]) -> dict[str, Any]:
    """The oldest records have a difference as `partition`, `start` and `stop`, without the side. Kind `count` is about
    the source; all others are taken as about the target, which most were, and the message says where.
    """
    if "count" in told:
        return told
    side = "source" if told["kind"] == "count" else "target"
    return {
        "kind": _KINDS.get(told["kind"], told["kind"]),
        f"{side}_partition": told["partition"],
        f"{side}_offset": told["start"],
        "count": told["stop"] - told["start"],
        "message": told["message"],
    }
