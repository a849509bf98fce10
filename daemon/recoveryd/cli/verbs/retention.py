"""`recoveryctl retention`: how long the inputs of a unit are kept, against what it needs. Nothing is changed."""

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recoveryd.units.facts import UnitFacts
    from recoveryd.units.model import Unit
    from recoveryd.units.reach import SeenTimes

from recoveryd.cli.failure import ExitCode
from recoveryd.cli.options import Format, WideOutput, argument
from recoveryd.cli.render.output import show
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import connected
from recoveryd.cli.verbs.unit import find_unit

_group = typer.Typer(help="How long inputs are kept.", no_args_is_help=True)
Name = Annotated[str, argument("UNIT", "A name under `units` of the config.")]
_LOOK_S = 20.0


def add_to(app: typer.Typer) -> None:
    app.add_typer(_group, name="retention", rich_help_panel="Look")


@_group.callback()
def _retention() -> None:
    """How long the inputs of units are kept, and what goes when."""


@_group.command("show")
@connected
def show_retention(connection: Connection, unit: Name, output: WideOutput = Format.TABLE) -> int:
    """Compare the inputs of a unit with its retention_objective: how far they reach, and when unread records may go.

    With `-o wide` also by partition: from which offset on, and when its oldest record may go. Exits with 1 when an
    input is kept shorter, or an unread record may be gone already.
    """
    from recoveryd.adapters.kafka.unit_facts import read_unit  # noqa: PLC0415
    from recoveryd.units.reach import Keeping, look_back  # noqa: PLC0415

    named = find_unit(connection, unit)
    settings = connection.settings
    properties, access = settings.librdkafka(named.cluster), settings.access(named.cluster)
    now_ms = int(time.time() * 1000)
    facts = read_unit(properties, named, settings.units().values(), now_ms, access, with_readers=False)
    found = look_back(named, facts, _times(properties, named, facts))
    document = {
        "unit": named.name,
        "retention_objective_ms": named.retention_objective_ms,
        "inputs": [
            {
                "topic": row.topic,
                "keeping": row.keeping.value,
                "kept_ms": row.kept_ms,
                "reaches_back_ms": row.reaches_back_ms,
                "unread_age_ms": row.unread_age_ms,
                "lost_in_ms": row.lost_in_ms,
                "why": row.why,
                "partitions": [asdict(place) for place in row.partitions],
            }
            for row in found
        ],
    }
    show(document, output, lambda: _shown(document, is_wide=output == Format.WIDE), [row.topic for row in found])
    is_bad = any(
        row.keeping in {Keeping.SHORT, Keeping.MISSING} or (row.lost_in_ms is not None and row.lost_in_ms <= 0)
        for row in found
    )
    return ExitCode.FAILED if is_bad else ExitCode.DONE


def _times(properties: Any, unit: "Unit", facts: "UnitFacts") -> "dict[str, SeenTimes]":
    from recoveryd.adapters.kafka.record_samples import sample_records  # noqa: PLC0415
    from recoveryd.units.reach import SeenTimes  # noqa: PLC0415

    committed = facts.group.committed if facts.group else {}
    times = {}
    for name in unit.inputs:
        topic = facts.topics.get(name)
        if topic is None:
            continue
        whole = {p: (ends.log_start, ends.high_watermark) for p, ends in topic.ends.items()}
        at = {p: max(row.offset, topic.ends[p].log_start) for p, row in committed.get(name, {}).items() if p in whole}
        unread = {p: (start, whole[p][1]) for p, start in at.items() if start < whole[p][1]}
        oldest = sample_records(properties, name, whole, _LOOK_S).first_ms
        times[name] = SeenTimes(oldest, sample_records(properties, name, unread, _LOOK_S).first_ms)
    return times


def _shown(document: dict[str, Any], *, is_wide: bool) -> "list[RenderableType]":
    from recoveryd.cli.render.tables import columns  # noqa: PLC0415

    table = columns("INPUT", ">KEPT", ">REACHES BACK", ">OLDEST UNREAD", ">MAY GO IN", "WHY")
    for row in document["inputs"]:
        kept = "for ever" if row["kept_ms"] is None and row["keeping"] != "missing" else _hours(row["kept_ms"])
        numbers = [_hours(row[name]) for name in ("reaches_back_ms", "unread_age_ms", "lost_in_ms")]
        table.add_row(row["topic"], kept, *numbers, row["why"])
    objective = document["retention_objective_ms"]
    said = "has no retention_objective" if objective is None else f"needs {_hours(objective)}"
    return [f"{document['unit']} {said}", "", table, *(["", _by_partition(document)] if is_wide else [])]


def _by_partition(document: dict[str, Any]) -> "RenderableType":
    from recoveryd.cli.render.tables import columns  # noqa: PLC0415

    table = columns(
        "INPUT", ">PARTITION", ">FROM OFFSET", ">REACHES BACK", ">MAY GO IN", ">OLDEST UNREAD", ">UNREAD MAY GO IN"
    )
    for row in document["inputs"]:
        for place in row["partitions"]:
            times = ("reaches_back_ms", "goes_in_ms", "unread_age_ms", "lost_in_ms")
            offset = f"{place['log_start']:,}"
            table.add_row(row["topic"], str(place["partition"]), offset, *(_hours(place[name]) for name in times))
    return table


def _hours(ms: int | None) -> str:
    return "" if ms is None else f"{ms / 3_600_000:,.1f} h"
