"""`recoveryctl reset` and `rollback`: set the offsets of a consumer group, step by step, and put them back."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from recoveryd.cli.failure import usage
from recoveryd.cli.options import Reason, id_option, option
from recoveryd.cli.render.output import say
from recoveryd.cli.send.command import make_id
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import Id, connected
from recoveryd.cli.send.sending import Staying
from recoveryd.cli.send.values import parse_pairs
from recoveryd.cli.status import Document
from recoveryd.cli.verbs.begin_workflow import PlanHash, PlanOnly, begin_workflow, roll_back
from recoveryd.cli.verbs.reset_files import plan_as_csv, read_file

_TO = "earliest, latest, current, offset:N, shift:N, snapshot:RUN, savepoint:NAME, a time with zone, or -2h."
_STATE = "Of a unit that keeps state: leave it as it is, or wait until somebody emptied it; required there."
_CONFIRM = "What you say of outputs, retention or scope, such as what is rebuilt; may be repeated."
_CONFIRMED = 'Write --confirm outputs="totals are overwritten by key".'
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_PARTITION = re.compile(r"[0-9]{1,10}")
NewId = Annotated[str | None, id_option("Id of the workflow; made from the group when left out.")]


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Start")(reset)
    app.command(rich_help_panel="Steer")(rollback)


@connected
def reset(
    connection: Connection,
    unit: Annotated[str | None, option("--unit", "A unit of the daemon's config.", "NAME")] = None,
    group: Annotated[str | None, option("--group", "The consumer group, where there is no unit.", "GROUP")] = None,
    cluster: Annotated[str | None, option("--cluster", "The group's cluster; main when left out.", "NAME")] = None,
    to: Annotated[str | None, option("--to", _TO, "POSITION")] = None,
    from_file: Annotated[
        Path | None, option("--from-file", "Offsets as CSV, [group,]topic,partition,offset in each line.", "FILE")
    ] = None,
    topics: Annotated[
        list[str] | None, option("--topic", "Only this topic, or TOPIC:0,2; may be repeated.", "TOPIC")
    ] = None,
    on_out_of_range: Annotated[
        Literal["fail", "clamp"],
        option("--on-out-of-range", "What to do with a position outside the log.", shows_default=True),
    ] = "fail",
    on_no_record: Annotated[
        Literal["fail", "at_end"],
        option("--on-no-record", "What to do with a time that no record reaches.", shows_default=True),
    ] = "fail",
    confirm: Annotated[list[str] | None, option("--confirm", _CONFIRM, "ITEM=TEXT")] = None,
    state: Annotated[Literal["keep", "clean"] | None, option("--state", _STATE)] = None,
    plan_only: PlanOnly = False,
    export: Annotated[
        bool,
        option("--export", "Print the plan as CSV, of --to current when that is left out; needs no --reason."),
    ] = False,
    plan_hash: PlanHash = None,
    new_id: NewId = None,
    reason: Reason = None,
    *,
    sending: Staying,
) -> int:
    """Set where a consumer group goes on, once it has no members; `rollback` puts it back."""
    if (unit is None) == (group is None):
        raise usage("Say whose offsets.", "Give --unit or --group.")
    to = "current" if export and to is None and from_file is None else to
    reason = reason or ("offsets are exported" if export else None)
    if (to is None) == (from_file is None):
        raise usage("Say where to.", f"Give --to ({_TO}) or --from-file.")
    given = {"reason": reason, "unit": unit, "group": group, "cluster": cluster, "state": state}
    data: Document = {name: value for name, value in given.items() if value is not None}
    data["to"] = _read_to(connection, to, from_file, unit, group)
    if topics:
        data["topics"] = _parse_topics(topics)
    elif isinstance(data["to"], dict) and "offsets" in data["to"]:
        data["topics"] = list(data["to"]["offsets"])
    data |= {} if on_out_of_range == "fail" else {"on_out_of_range": on_out_of_range}
    data |= {} if on_no_record == "fail" else {"on_no_record": on_no_record}
    data |= {"confirm": parse_pairs(confirm, "--confirm", "ITEM=TEXT", _CONFIRMED)} if confirm else {}

    def show_csv(document: Document) -> None:
        say(plan_as_csv(document), end="")

    return begin_workflow(
        connection,
        "reset",
        new_id or make_id(unit or group or "reset"),
        data,
        sending,
        plan_only=plan_only or export,
        plan_hash=plan_hash,
        show_plan=show_csv if export else None,
    )


@connected
def rollback(connection: Connection, workflow: Id, reason: Reason = None, *, sending: Staying) -> int:
    """Put back what a workflow changed, where nobody else changed it since."""
    return roll_back(connection, workflow, reason, sending)


def _read_to(
    connection: Connection, to: str | None, from_file: Path | None, unit: str | None, group: str | None
) -> Any:
    if to is not None:
        return parse_to(to)
    assert from_file is not None
    return read_file(connection, from_file, unit, group)


def parse_to(text: str, flag: str = "--to") -> Any:
    name, _, rest = text.partition(":")
    if name in {"offset", "shift"}:
        if not _WHOLE.fullmatch(rest):
            raise usage(f"{flag} {text} has no whole number behind {name}:.", f"Give {_TO}")
        return {name: int(rest)}
    if name in {"snapshot", "savepoint"} and rest:
        return {name: rest}
    if not text.startswith("{"):
        return text
    from recoveryd.wire.bounded_json import JsonProblem, parse  # noqa: PLC0415

    try:
        return parse(text.encode())
    except (JsonProblem, UnicodeEncodeError) as problem:
        raise usage(f"{flag} {text} is not JSON that can be read: {problem}.", f"Give {_TO}") from None


def _parse_topics(texts: list[str]) -> Any:
    if not any(":" in text for text in texts):
        return texts
    found: dict[str, list[int]] = {}
    for text in texts:
        topic, _, partitions = text.partition(":")
        if not partitions:
            raise usage(f"{text} names no partitions.", "Write TOPIC:0,2 for each --topic, or partitions for none.")
        numbers = [part.strip() for part in partitions.split(",")]
        if not all(_PARTITION.fullmatch(number) for number in numbers):
            raise usage(f"{text} is not TOPIC:0,2.", "Partitions are whole numbers, separated by commas.")
        found.setdefault(topic, []).extend(map(int, numbers))
    for topic, given in found.items():
        if len(set(given)) < len(given):
            raise usage(f"--topic names a partition of {topic} more than once.", "Name each one once.")
    return found
