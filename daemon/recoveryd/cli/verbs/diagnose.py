"""`recoveryctl diagnose`: how a unit gets on, in which of six places the fault is, what shows it, and from where to go
on. It watches for a while and changes nothing.
"""

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recoveryd.units.diagnosis.diagnose import Diagnosis
    from recoveryd.units.diagnosis.seen import OtherWork, Watched
    from recoveryd.units.model import Unit

from recoveryd.cli.failure import ExitCode, usage
from recoveryd.cli.options import Format, Output, option
from recoveryd.cli.render.output import show
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import connected
from recoveryd.cli.send.values import parse_duration_s
from recoveryd.cli.status import Document
from recoveryd.cli.verbs.unit import Name, find_unit
from recoveryd.errors import RecoverydError
from recoveryd.kernel.states import ENDED

_LEAST_S = 10.0  # two intervals in which consumers commit by default
_MOST = "35s"  # Streams commits every 30 s by default
_SHOWN_MOST = 10


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Look")(diagnose)


@connected
def diagnose(
    connection: Connection,
    unit: Name,
    most: Annotated[
        str,
        option("--for", "Longest time to watch; it ends sooner when everything moves.", "DURATION", shows_default=True),
    ] = _MOST,
    output: Output = Format.TABLE,
) -> int:
    """Find out why a unit does not get on: runtime, Kafka input, state, sink, schema or capacity.

    It watches the group and its topics for a while. Exits with 1 when something is wrong, or cannot be seen.
    """
    from recoveryd.units.diagnosis.diagnose import diagnose as judge  # noqa: PLC0415

    most_s = parse_duration_s(most, "--for")
    if most_s < 1:
        raise usage("--for must be at least 1 s.", "Consumers commit every 5 s by default, Streams every 30 s.")
    named = find_unit(connection, unit)
    watched = _watch(connection, named, most_s)
    found = judge(named, watched)
    document = _document(named, watched, found)
    show(document, output, lambda: _shown(document), [fault.value for fault in found.faults])
    return ExitCode.DONE if found.is_well else ExitCode.FAILED


def _watch(connection: Connection, unit: "Unit", most_s: float) -> "Watched":
    from dataclasses import replace  # noqa: PLC0415

    from recoveryd.adapters.kafka.unit_watch import Patience, UnitWatch  # noqa: PLC0415

    settings = connection.settings
    watch = UnitWatch(settings.librdkafka(unit.cluster), settings.access(unit.cluster), unit)
    patience = Patience(min(_LEAST_S, most_s), most_s)
    watched = watch.watch(settings.units().values(), patience, lambda: int(time.time() * 1000))
    try:
        statuses = connection.backend.statuses()
    except RecoverydError as reason:
        told = f"which recoveries are at work is not known: {reason.message}"
        return replace(watched, problems=(*watched.problems, told))
    return replace(watched, work=tuple(_at_work(statuses, {*watched.topics}, unit.cluster)))


def _at_work(statuses: Mapping[str, Document], topics: set[str], cluster: str) -> "Iterable[OtherWork]":
    """Recoveries that have not ended and use one of the topics."""
    from recoveryd.units.diagnosis.seen import OtherWork  # noqa: PLC0415

    for name, document in sorted(statuses.items()):
        plan = document.get("plan") or {}
        if document.get("state") in ENDED:
            continue
        for side in ("source", "target"):
            place = plan.get(side) or {}
            if place.get("topic") in topics and place.get("cluster") == cluster:
                yield OtherWork(name, document["state"], place["topic"], reads=side == "source")


def _document(unit: "Unit", watched: "Watched", found: "Diagnosis") -> dict[str, Any]:
    group = watched.last.group
    point = found.point
    return {
        "unit": unit.name,
        "group": group.id if group else unit.consumer_group,
        "pace": found.course.pace.value,
        "why": found.course.why,
        "classes": [fault.value for fault in found.faults],
        "causes": [
            {
                "class": cause.fault.value,
                "cause": cause.name,
                "severity": cause.severity.value,
                "message": cause.message,
                "topics": list(cause.topics),
            }
            for cause in found.causes
        ],
        "recovery_point": None
        if point is None
        else {
            "path": point.path,
            "why": point.why,
            "positions": [{"topic": t, "partition": p, "offset": at} for t, p, at in point.positions],
        },
        "watched": _numbers(watched, found),
        "partitions": [
            {
                "topic": move.topic,
                "partition": move.partition,
                "committed": move.after,
                "read": move.read,
                "arrived": move.arrived,
                "lag": move.lag,
                "stuck": move.is_stuck,
            }
            for move in found.moves
        ],
        "not_known": list(watched.problems),
    }


def _numbers(watched: "Watched", found: "Diagnosis") -> dict[str, Any]:
    group = watched.last.group
    return {
        "seconds": round(watched.seconds, 1),
        "looks": len(watched.groups),
        "members": None if group is None else len(group.members),
        "lag_records": sum(move.lag for move in found.moves),
        "read_records": sum(move.read for move in found.moves),
        "arrived_records": sum(move.arrived for move in found.moves),
    }


def _shown(document: dict[str, Any]) -> "list[RenderableType]":
    from recoveryd.cli.render.tables import columns  # noqa: PLC0415

    shown: list[RenderableType] = [
        f"{document['unit']}: {document['pace'].upper()}, {document['why']} (watched for {document['watched']['seconds']:g} s)"
    ]
    if document["causes"]:
        table = columns("CLASS", "SEVERITY", "CAUSE", "WHAT SHOWS IT")
        for cause in document["causes"]:
            table.add_row(cause["class"], cause["severity"], cause["cause"], cause["message"])
        shown += ["", table]
    point = document["recovery_point"]
    if point is not None:
        shown += ["", f"path {point['path']}: {point['why']}"]
        shown += [
            f"  {each['topic']} {each['partition']} at {each['offset']:,}" for each in point["positions"][:_SHOWN_MOST]
        ]
        if len(point["positions"]) > _SHOWN_MOST:
            shown.append(f"  and {len(point['positions']) - _SHOWN_MOST:,} more partitions, see -o json")
    return [*shown, *document["not_known"]]
