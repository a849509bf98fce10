"""What a replay has left is copied once, whoever tries it again and when: the id of a retry, and what is in its way.

The id is made from what is tried again. So all who try it again ask for one id, and of these the daemon takes the first
and refuses the others (RCV-1008), also where nobody had read the first when they were sent. What stands in the statuses
is looked at too, because a retry may have an id that somebody chose.

A retry that ended before it copied anything leaves the rest as it was. That rest stays a matter of the recovery that
left it, never of the retry: else there were two ids for it. It gets the same id where that can be used again, which is
so exactly where the daemon would still take an old command for it, and the next one where it cannot. A plan that is
being made under that id only has to be waited for.
"""

import hashlib
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from recoveryd.cli.send.again import AGAIN, plan_and_rows, refused, spec_of
from recoveryd.cli.send.command import SUFFIX_CHARACTERS, is_begun_by, make_id
from recoveryd.cli.status import Document

_MARK_CHARS = 8
_NEVER_RAN = ("rejected", "expired")  # and their ids can be used again
_BEING_PLANNED = ("requested", "planning")
_Left = Mapping[int, tuple[int, int | None]]


def retry_id(document: Document, others: Mapping[str, Document]) -> str:
    """The id under which what it left is copied, by whomever. `others`: all statuses by id."""
    topic = spec_of(document)["source"]["topic"]
    names = (make_id(topic, mark) for mark in _marks(document))
    return next(name for name in names if name not in others or _is_left_to_it(others[name]))


def _is_left_to_it(other: Document) -> bool:
    """Whether its id can be used again, or can be in a moment: while a plan is made the daemon refuses, and a second id
    would be one more for the same rest.
    """
    return other["state"] in (*_NEVER_RAN, "planned") or (other["state"] in _BEING_PLANNED and is_plan_only(other))


def is_plan_only(document: Document) -> bool:
    """Whether it is a replay that copies nothing."""
    return document.get("kind") == "replay" and bool(spec_of(document).get("dry_run"))


def left_by(document: Document, others: Mapping[str, Document]) -> Document:
    """The recovery whose rest a retry of this one would copy: itself, or the one that it was a retry of, where it
    copied nothing. `others`: all statuses by id.
    """
    endings = {_ending(name) for name in others}
    for _ in others:
        if not _left_all(document):
            break
        earlier = next((o for o in others.values() if _is_retry_of(document, o, endings)), None)
        if earlier is None:
            break
        document = earlier
    return document


def _is_retry_of(document: Document, other: Document, endings: set[str]) -> bool:
    """By its id. The numbers of retries of `other` have no gap before that of a later one."""
    if other.get("kind") != "replay" or other["recovery"] == document["recovery"]:
        return False
    mine = _ending(document["recovery"])
    for mark in _marks(other):
        if mark not in endings:
            return False
        if mark == mine:
            return True
    raise AssertionError  # marks do not end


def _marks(document: Document) -> Iterator[str]:
    """How the ids of its retries end, of the first and then of each that follows one that has left all. Its command is
    in it, because a recovery that was forgotten leaves its id to others.
    """
    command = (document.get("command") or {}).get("id", "")
    base = len(SUFFIX_CHARACTERS)
    for number in count(1):
        digest = hashlib.sha256(f"{document['recovery']}\n{command}\n{number}".encode()).digest()
        value = int.from_bytes(digest)
        yield "".join(SUFFIX_CHARACTERS[value // base**place % base] for place in range(_MARK_CHARS))


def _ending(recovery: str) -> str:
    return recovery.rpartition("-")[2]


def _left_all(document: Document) -> bool:
    """Whether it ended before it had a plan that it was allowed to carry out."""
    return document["state"] in _NEVER_RAN or (document["state"] in AGAIN and document.get("plan") is None)


def refuse_twice(document: Document, others: Mapping[str, Document], own: tuple[str | None, str | None]) -> None:
    """Raises `Failure` where a later replay between the same topics was, or may be, to copy something of what is left.
    `others`: all statuses by id. `own`: the id and the command id that were typed; what this very command began is not
    in its way, since the daemon carries it out once.
    """
    left = _left(document)
    for name, other in sorted(others.items()):
        if name == document["recovery"] or (name == own[0] and is_begun_by(other, own[1])):
            continue
        if not _is_later_between_the_same(document, other) or _left_all(other):
            continue
        plan = other.get("plan")
        if left is None and spec_of(other)["source"] != spec_of(document)["source"]:
            continue
        if plan is not None and left is not None and not _covers(plan, left):
            continue
        hint = (
            f"Retry that one: `recoveryctl retry {name}`."
            if other["state"] in AGAIN
            else f"Look at that one: `recoveryctl describe {name}`."
        )
        was_to = "was to be copied" if plan is not None else "may be copied"
        raise refused(
            f"What {document['recovery']} did not copy {was_to} by {name}, which is {other['state']}; "
            "records could be copied twice.",
            hint,
        )


def _left(document: Document) -> _Left | None:
    """By partition, from where to where; no end is the head. None = all that its command asks for, without a plan."""
    plan, rows = plan_and_rows(document)
    if plan is None:
        return None
    positions = {row["partition"]: row["position"] for row in rows}
    return {
        p["partition"]: (positions.get(p["partition"], p["start"]), p.get("stop")) for p in plan["source"]["partitions"]
    }


def _is_later_between_the_same(document: Document, other: Document) -> bool:
    """Whether it is a later replay, no dry run, between the same topics."""
    if other.get("kind") != "replay" or other["created"] < document["created"] or other["state"] == "planned":
        return False
    spec, others = spec_of(document), spec_of(other)
    return not others.get("dry_run") and all(
        spec[side][part] == others[side][part] for side in ("source", "target") for part in ("cluster", "topic")
    )


def _covers(plan: Mapping[str, Any], left: _Left) -> bool:
    """Whether its range has something in common with what is left. No end is the head."""
    for row in plan["source"]["partitions"]:
        start, stop = left.get(row["partition"], (0, 0))
        ends = [end for end in (stop, row.get("stop")) if end is not None]
        if not ends or max(start, row["start"]) < min(ends):
            return True
    return False


def refuse_continued(document: Document, others: Mapping[str, Document]) -> None:
    """Raises `Failure` for a run of a schedule whose next run begins where this one stopped, and for a retry of such a
    run, behind which the schedule was made again. `others`: all statuses by id.
    """
    from recoveryd.schedules.carry import is_mark, source_of  # noqa: PLC0415
    from recoveryd.schedules.firing import is_run_of  # noqa: PLC0415

    recovery, command_id = document["recovery"], str((document.get("command") or {}).get("id"))
    for name, other in sorted(others.items()):
        if other.get("kind") != "schedule":
            continue
        schedule = other["schedule"]
        if not is_run_of(name, command_id) and (schedule.get("last_end") or {}).get("recovery") != recovery:
            continue
        if schedule.get("next_run") is not None and is_mark(source_of(schedule["command"]["data"]).get("from")):
            end = f"`recoveryctl schedule remove {name} --reason TEXT`"
            raise refused(
                f"The next run of the schedule {name} goes on where {recovery} stopped, at {schedule['next_run']}; "
                "records would be copied twice.",
                f"Leave it to that run, or end the schedule first with {end}.",
            )
