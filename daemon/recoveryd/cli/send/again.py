"""The command that would do again what a recovery was asked to do, or the rest of it where that is exact.

Rest means: the partitions that are not done, from the position that was read back at the end to the end that its plan
had; where it began at a time, without the older records inside of that. It is only exact where every position was read
back.
"""

from collections.abc import Mapping
from typing import Any

from recoveryd.cli.failure import ExitCode, Failure
from recoveryd.cli.status import Document
from recoveryd.kernel.catalogue import Code

_VERBS = {"replay": "replay", "verification": "verify"}
# Of what is not tried again, where the verb that begins it is not called as it is.
_OTHER_VERBS = {
    "watch": "watch-group",
    "schedule": "schedule add",
    "savepoint": "savepoint create",
    "runbook": "runbook run",
}
AGAIN = ("failed", "stopped", "rejected", "expired")


def begun_by(document: Document) -> tuple[str, Document]:
    """The verb that began a recovery, and the data of its command; without what bound it to one plan. Raises `Failure`
    for what cannot be begun again.
    """
    recovery, kind, state = document["recovery"], document.get("kind"), document["state"]
    if kind not in _VERBS:
        what = str(document.get("workflow") or kind)
        verb = _OTHER_VERBS.get(what, what.replace("_", "-"))
        raise refused(
            f"{recovery} is a {what}; only replays and verifications can be tried again.",
            f"Send its command again with `recoveryctl {verb}`, under a new id.",
        )
    if state not in AGAIN:
        hint = (
            f"Stop it first with `recoveryctl stop {recovery} --reason TEXT`, or resume it where it is paused."
            if document.get("stop") is None
            else "Give a new `recoveryctl replay` for another range."
        )
        raise refused(f"{recovery} is {state}; only what has {' or '.join(AGAIN[:2])} is tried again.", hint)
    return _VERBS[kind], _data(spec_of(document), kind)


def rest_of(document: Document, data: Document) -> tuple[Document, str]:
    """The data of a command for what a replay has not copied, and a sentence about it. Raises `Failure` where that
    cannot be said exactly.
    """
    plan, rows = plan_and_rows(document)
    recovery = document["recovery"]
    otherwise = "Begin from its start in another topic: `--target TOPIC`."
    if not _is_exact(document):  # before anything is concluded from the positions: they may lie behind what was copied
        raise refused(f"Where {recovery} stopped is not known exactly, so a record could be copied twice.", otherwise)
    if plan is None or not rows or not _has_copied(plan, rows):
        return data, "It had copied nothing, so it begins where it was asked to."
    _refuse_unsound(document, data, rows)
    moving = data["source"]["to"] in ("caught_up", "never")
    left = [row for row in rows if moving or row["position"] < row["stop"]]
    if not left:
        raise refused(
            f"{recovery} has copied all of its range; what is left to do is the proof.",
            f"Prove it with `recoveryctl verify --source {data['source']['topic']} --target {data['target']['topic']}`.",
        )
    since = _since(document["internal"]["plan"].get("from_time_ms"))
    source = {**data["source"], "from": _offsets(left, "position", plan["source"]["topic_id"]) | since}
    if not moving:
        source |= {"to": _offsets(left, "stop"), "partitions": [row["partition"] for row in left]}
    target = {**data["target"], "create": False, "on_existing": "append"}
    if plan["target"]["topic_id"]:  # what was copied is in no other one
        target["topic_id"] = plan["target"]["topic_id"]
    data = {**data, "limits": _what_caps_leave(recovery, data["limits"], rows)}
    done = len(rows) - len(left)
    said = f"It goes on where {recovery} stopped, in {len(left)} of {len(rows)} partitions; {done} are done."
    return {**data, "source": source, "target": target}, said


def _refuse_unsound(document: Document, data: Document, rows: list[Document]) -> None:
    """Raises `Failure` where nothing may be put behind what was copied before somebody has looked: records are gone, or
    the copy is not what its source holds.
    """
    recovery, code, lost = document["recovery"], document.get("error_code"), sum(row["lost"] for row in rows)
    if code == Code.DATA_LOST or (lost and data["on_data_loss"] != "continue"):
        raise refused(
            f"Records that {recovery} was to copy are gone; to go on would pass over them.",
            f"`recoveryctl describe {recovery}` names them. If they are given up, send a new `recoveryctl replay` "
            "from behind them; with `--on-data-loss continue` it goes on over a further loss.",
        )
    if code == Code.VERIFICATION_MISMATCH and data["source"]["to"] in ("caught_up", "never"):
        raise refused(
            f"What {recovery} copied is not what its source holds.",
            f"See with `recoveryctl describe {recovery}` where, or begin in another topic: `--target TOPIC`.",
        )


def _since(from_time_ms: int | None) -> Document:
    """What is said beside offsets that go on behind a start at a time."""
    from recoveryd.kernel.times import format_time_ms  # noqa: PLC0415

    return {} if from_time_ms is None else {"since": format_time_ms(from_time_ms)}


def _what_caps_leave(recovery: str, limits: Document, rows: list[Document]) -> Document:
    """Caps are of the whole, so what was copied counts. Raises `Failure` where nothing is left of one."""
    left = dict(limits)
    for name, counted in (("max_records", "copied"), ("max_bytes", "bytes")):
        if limits.get(name) is None:
            continue
        left[name] = limits[name] - sum(row[counted] for row in rows)
        if left[name] <= 0:
            raise refused(
                f"{recovery} has copied as much as its limits.{name} of {limits[name]} allows.",
                "Send a new `recoveryctl replay` with a limit of its own for the rest.",
            )
    return left


def elsewhere(data: Document, topic: str) -> Document:
    """The data of a command that begins it again from its start, into another topic."""
    target = {name: value for name, value in data["target"].items() if name != "topic_id"}
    return {**data, "target": {**target, "topic": topic, "create": True, "on_existing": "refuse"}}


def plan_and_rows(document: Document) -> tuple[Document | None, list[Document]]:
    """What it was to copy, and how far each partition came; of one that never ran there is neither."""
    return document.get("plan"), (document.get("progress") or {}).get("partitions") or []


def refused(message: str, hint: str) -> Failure:
    return Failure(Code.NOT_IN_THIS_STATE, message, hint, otherwise=ExitCode.REJECTED)


def spec_of(document: Document) -> Document:
    """As this release stores it, also of a record that an earlier one wrote."""
    from recoveryd.capabilities import make_status_topic  # noqa: PLC0415

    topic = make_status_topic()
    spec: Document = topic.document(topic.read(dict(document)))["internal"]["spec"]
    return spec


def _data(spec: Mapping[str, Any], kind: str) -> Document:
    target = {name: value for name, value in spec["target"].items() if not name.startswith("headers_")}
    headers = {"add": dict(spec["target"]["headers_add"]), "drop": list(spec["target"]["headers_drop"])}
    if headers["add"] or headers["drop"]:
        target["headers"] = headers
    data: Document = {
        "source": _given(spec["source"]),
        "target": _given(target),
        "job": {"profile": spec["profile"]},
    }
    data["limits"] = {
        # A deadline was meant for that run.
        name: value
        for name, value in spec["limits"].items()
        if value is not None and name != "deadline"
    }
    for name in ("on_data_loss", "verify") if kind == "replay" else ("compare",):
        data[name] = spec[name]
    return data


def _given(part: Mapping[str, Any]) -> Document:
    return {name: value for name, value in part.items() if value is not None}


def _is_exact(document: Document) -> bool:
    """Whether its positions say all that was copied: nothing was ever started, or they were read back at the end."""
    said: bool | None = document["internal"].get("is_position_exact")
    return not document.get("attempt") if said is None else said  # 0.1.0 did not say so


def _has_copied(plan: Mapping[str, Any], rows: list[Document]) -> bool:
    starts = {row["partition"]: row["start"] for row in plan["source"]["partitions"]}
    return any(row["position"] > starts.get(row["partition"], 0) for row in rows)


def _offsets(rows: list[Document], name: str, topic_id: str = "") -> Document:
    found: Document = {"offsets": {str(row["partition"]): row[name] for row in rows}}
    return {**found, "others": "earliest", "topic_id": topic_id} if topic_id else found
