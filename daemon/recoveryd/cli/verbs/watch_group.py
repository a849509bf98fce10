"""`recoveryctl watch-group`: guard a consumer group that is not ours, and be told (or have a webhook called) when it is
where it is wanted.

`recoveryctl watch ID` only follows; this verb sends the command `watch`.
"""

import re
from typing import Annotated

import typer

from recoveryd.cli.failure import ExitCode, invalid, usage
from recoveryd.cli.options import Reason, argument, id_option, option
from recoveryd.cli.render.output import note
from recoveryd.cli.render.showing import show_recovery
from recoveryd.cli.send.command import make_id
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import connected
from recoveryd.cli.send.sending import Staying, begin, quiet_status
from recoveryd.cli.send.waiting import exit_code_of_state
from recoveryd.cli.status import Document, has_ended
from recoveryd.kernel.catalogue import Code

_FORMS = "Use caught_up, offsets:P=N,P=N, offsets:TOPIC/P=N,TOPIC/P=N or deadline:2h."
_OFFSET = re.compile(r"(?:([a-zA-Z0-9._-]{1,249})/)?([0-9]{1,10})=([0-9]{1,19})")

Group = Annotated[str, argument("GROUP", "Consumer group to watch; it is only looked at.")]
Topics = Annotated[list[str] | None, option("--topic", "Topic it reads; may be repeated.", "TOPIC")]
Until = Annotated[
    str,
    option(
        "--until",
        (
            "caught_up (zero lag that stays), offsets:0=N,1=N or offsets:TOPIC/0=N (committed once), deadline:2h "
            "(a time has come)."
        ),
        "CONDITION",
        shows_default=True,
    ),
]
Then = Annotated[
    str,
    option(
        "--then", "notify, webhook:NAME or stop:UNIT, with a name of the daemon's config.", "ACTION", shows_default=True
    ),
]
Deadline = Annotated[str | None, option("--deadline", "Give up then: a duration like 2h, or a time with zone.", "TIME")]
Tolerance = Annotated[
    int | None,
    option(
        "--tolerance-records",
        "Lag per partition that counts as zero; 1 where the topic ends in transaction markers.",
        "N",
        min=0,
    ),
]
NewId = Annotated[str | None, id_option("Id of the watch; made from the group when left out.")]
Cluster = Annotated[str, option("--cluster", "A cluster of the daemon's config.", "NAME", shows_default=True)]


def add_to(app: typer.Typer) -> None:
    app.command("watch-group", rich_help_panel="Start")(watch_group)


@connected
def watch_group(
    connection: Connection,
    group: Group,
    topics: Topics = None,
    until: Until = "caught_up",
    then: Then = "notify",
    deadline: Deadline = None,
    tolerance: Tolerance = None,
    cluster: Cluster = "main",
    new_id: NewId = None,
    reason: Reason = None,
    *,
    sending: Staying,
) -> int:
    """Be told, or have a webhook called or an application stopped, when a consumer group has caught up."""
    if not topics:
        raise usage("--topic is missing.", "Name the topic that the group reads; repeat --topic for several.")
    data: Document = {"reason": reason, "cluster": cluster, "group": group}
    data |= {"topic": topics[0]} if len(topics) == 1 else {"topics": topics}
    data |= {"until": parse_until(until), "then": parse_then(then)}
    data |= {} if deadline is None else {"deadline": deadline}
    data |= {} if tolerance is None else {"tolerance_records": tolerance}
    watch = new_id or make_id(f"{group}-watch")
    record = sending.make(connection, "watch", watch, data)
    if record is None:
        return ExitCode.DONE
    born_of = begin(connection, record, sending.timeout_s)
    if not sending.wait:
        show_recovery(quiet_status(connection, watch, born_of), sending.output)
        note(f"Follow it with `recoveryctl watch {watch}`, end it with `recoveryctl stop {watch} --reason TEXT`.")
        return ExitCode.DONE
    document = sending.stay(connection, watch, has_ended, born_of)
    show_recovery(document, sending.output, with_result=True)
    return exit_code_of_state(document)


def parse_until(text: str) -> object:
    """`--until` as the record's data has it."""
    text = text.strip()
    kind, colon, rest = text.partition(":")
    if text in {"caught_up", "caught-up"}:
        return "caught_up"
    if kind == "deadline" and colon:
        return {"deadline": rest}
    if kind == "offsets" and colon:
        return {"offsets": _offsets(rest)}
    raise invalid(Code.INVALID_VALUE, f"--until `{text}` is no condition.", _FORMS)


def _offsets(text: str) -> dict[str, object]:
    """By partition, or by topic and partition where topics are named."""
    found: dict[str, dict[str, int]] = {}
    for pair in text.split(","):
        match = _OFFSET.fullmatch(pair.strip())
        if match is None:
            raise invalid(Code.INVALID_VALUE, f"--until: `{pair}` is no offset of a partition.", _FORMS)
        topic, partition, offset = match[1] or "", str(int(match[2])), int(match[3])
        if partition in found.setdefault(topic, {}):
            raise invalid(Code.INVALID_VALUE, f"--until names partition {partition} twice.", "Name each one once.")
        found[topic][partition] = offset
    if "" in found and len(found) > 1:
        raise invalid(Code.INVALID_VALUE, "--until names a topic for some offsets only.", _FORMS)
    return dict(found[""]) if "" in found else dict(found)


def parse_then(text: str) -> object:
    """`--then` as the record's data has it."""
    kind, colon, name = text.strip().partition(":")
    if kind == "webhook" and colon and name:
        return {"webhook": name}
    if kind == "stop" and colon and name:
        return {"stop": name}
    if text.strip() == "notify":
        return "notify"
    raise invalid(Code.INVALID_VALUE, f"--then `{text}` is no action.", "Use notify, webhook:NAME or stop:UNIT.")
