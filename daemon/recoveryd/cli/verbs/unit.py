"""`recoveryctl unit`: what the config says of units, what clusters say of them, and what is missing for a recovery that
can be trusted. Nothing is changed.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recoveryd.units.control import Report
    from recoveryd.units.facts import UnitFacts
    from recoveryd.units.model import Unit

from recoveryd.cli.failure import ExitCode, Failure
from recoveryd.cli.options import Format, Output, WideOutput, argument, option
from recoveryd.cli.render.output import say, show
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import connected
from recoveryd.kernel.catalogue import Code

_group = typer.Typer(help="Units: what gets recovered.", no_args_is_help=True)
Name = Annotated[str, argument("UNIT", "A name under `units` of the config.")]


def add_to(app: typer.Typer) -> None:
    app.add_typer(_group, name="unit", rich_help_panel="Look")


@_group.callback()
def _unit() -> None:
    """Units: applications with their topics, as the config names them."""


@_group.command("list")
@connected
def list_units(connection: Connection, output: WideOutput = Format.TABLE) -> None:
    """List the units of the config."""
    rows = [
        {
            "unit": unit.name,
            "kind": unit.kind.value,
            "cluster": unit.cluster,
            "group": unit.group,
            "owner": unit.owner,
            "control": unit.control.value,
            "inputs": ", ".join(unit.inputs),
            "outputs": ", ".join(unit.outputs),
        }
        for unit in connection.settings.units().values()
    ]
    more = ("control", "inputs", "outputs") if output == Format.WIDE else ()
    columns = ("unit", "kind", "cluster", "group", "owner", *more)
    show(rows, output, lambda: [_table(columns, rows)], [str(row["unit"]) for row in rows])


@_group.command("show")
@connected
def show_unit(connection: Connection, unit: Name, output: Output = Format.TABLE) -> None:
    """Show the group of a unit, its topics and whose the internal ones are."""
    named, facts = _look(connection, unit)
    document = {
        "unit": named.name,
        "kind": named.kind.value,
        "cluster": named.cluster,
        "group": _group_document(facts),
        "exactly_once": {"is": facts.is_exactly_once, "why": facts.guarantee_why},
        "topics": _topic_rows(named, facts),
        "ambiguous_topics": [{"topic": topic, "why": why} for topic, why in facts.internal.ambiguous],
        "readers": {topic: list(groups) for topic, groups in facts.readers.items()},
        "problems": list(facts.problems),
    }
    show(document, output, lambda: _shown(document), [named.name])


@_group.command("lint")
@connected
def lint_unit(connection: Connection, unit: Name, output: Output = Format.TABLE) -> int:
    """Find what makes a unit hard to recover. Exits with 1 when something has to be mended."""
    from recoveryd.units.findings import Grade  # noqa: PLC0415
    from recoveryd.units.lint import lint  # noqa: PLC0415

    found = lint(*_look(connection, unit))
    rows = [
        {
            "finding": f.name,
            "severity": f.severity.value,
            "message": f.message,
            "next_step": f.hint,
            "topics": list(f.topics),
        }
        for f in found
    ]
    show(rows, output, lambda: [_table(("severity", "finding", "message", "next_step"), rows)], [f.name for f in found])
    return ExitCode.FAILED if any(f.severity is Grade.FAIL for f in found) else ExitCode.DONE


@_group.command("contract")
@connected
def contract_of(connection: Connection, unit: Name, output: Output = Format.TABLE) -> int:
    """Show the six things that decide whether its inputs can be processed again. Exits with 1 when one fails."""
    from recoveryd.units.contract import look_at_contract  # noqa: PLC0415
    from recoveryd.units.findings import Grade  # noqa: PLC0415

    contract = look_at_contract(*_look(connection, unit))
    clauses = contract.clauses
    rows = [
        {"clause": c.name.value, "state": c.state.value, "told": c.told, "version": contract.version} for c in clauses
    ]
    show(rows, output, lambda: [_table(("clause", "state", "told", "version"), rows)], [c.name.value for c in clauses])
    return ExitCode.FAILED if any(c.state is Grade.FAIL for c in clauses) else ExitCode.DONE


@_group.command("graph")
@connected
def graph_of(
    connection: Connection,
    unit: Name,
    mermaid: Annotated[bool, option("--mermaid", "As a Mermaid flowchart, to paste into a page.")] = False,
    output: Output = Format.JSON,
) -> None:
    """Show topics, sub-topologies, processors and stores of a unit, and what flows from where to where."""
    from recoveryd.units.graph import make_graph, to_mermaid  # noqa: PLC0415

    graph = make_graph(*_look(connection, unit))
    if mermaid:
        say(to_mermaid(graph), end="")
        return
    rows = [{"from": start, "to": end} for start, end in graph.edges]
    document = {"unit": graph.unit, "nodes": [asdict(node) for node in graph.nodes], "edges": rows}
    show(document, output, lambda: [_table(("from", "to"), rows)], [node.id for node in graph.nodes])


@_group.command("control")
@connected
def control_of(connection: Connection, unit: Name, output: Output = Format.TABLE) -> int:
    """Show who stops and starts its application, and whether it runs. Exits with 1 when that cannot be told."""
    from recoveryd.units.control import ApplicationState  # noqa: PLC0415
    from recoveryd.units.model import ControlKind  # noqa: PLC0415

    kind = find_unit(connection, unit).control
    report = asyncio.run(_ask_control(connection, unit))
    document = {
        "unit": unit,
        "control": kind.value,
        "state": report.state.value,
        "why": report.why,
        "evidence": dict(report.evidence),
    }
    show(document, output, lambda: [_table(("unit", "control", "state", "why"), [document])], [report.state.value])
    is_told = report.state is not ApplicationState.UNKNOWN or kind is ControlKind.MANUAL
    return ExitCode.DONE if is_told else ExitCode.FAILED


async def _ask_control(connection: Connection, unit: str) -> "Report":
    from recoveryd.adapters.control.make import make_controls  # noqa: PLC0415
    from recoveryd.adapters.control.process_sight import is_kept_in  # noqa: PLC0415
    from recoveryd.adapters.http.signed_posts import WebhookTarget  # noqa: PLC0415
    from recoveryd.bootstrap.outside import surroundings  # noqa: PLC0415
    from recoveryd.units.control import ApplicationState  # noqa: PLC0415
    from recoveryd.units.model import ControlKind  # noqa: PLC0415

    settings = connection.settings
    control = settings.values.units[unit].control
    needed = [] if control.webhook is None else [control.webhook]  # who asks may not be let into the secrets of others
    targets = {name: WebhookTarget(*settings.webhook_target(name)) for name in needed}
    around = surroundings(settings, targets, lambda: int(time.time() * 1000))
    controls = make_controls({unit: settings.control_options()[unit]}, around)
    try:
        report = await controls.look(unit)
    finally:
        await controls.close()
    if (
        control.kind is ControlKind.PROCESS
        and report.state is ApplicationState.STOPPED
        and not is_kept_in(around.folder / unit)
    ):
        why = (
            f"no daemon of this user keeps it in {around.folder / unit}; look on the daemon's machine, as its user and with "
            "its work_dir"
        )
        return replace(report, state=ApplicationState.UNKNOWN, why=why)
    return report


def find_unit(connection: Connection, name: str) -> "Unit":
    """The unit of the config. Raises `Failure`."""
    units = connection.settings.units()
    unit = units.get(name)
    if unit is None:
        raise Failure(
            Code.UNKNOWN_UNIT, f"The config has no unit {name!r}.", _nearest(name, units), otherwise=ExitCode.NOT_FOUND
        )
    return unit


def _look(connection: Connection, name: str) -> "tuple[Unit, UnitFacts]":
    """The unit and what its cluster says of it now."""
    from recoveryd.adapters.kafka.unit_facts import read_unit  # noqa: PLC0415

    unit = find_unit(connection, name)
    settings = connection.settings
    properties, access = settings.librdkafka(unit.cluster), settings.access(unit.cluster)
    return unit, read_unit(properties, unit, settings.units().values(), int(time.time() * 1000), access)


def _nearest(name: str, units: "dict[str, Unit]") -> str:
    from recoveryd.kernel.refused import nearest_name  # noqa: PLC0415

    return (
        nearest_name(name, frozenset(units))
        if units
        else "The config has no units; docs/units.md says how they are written."
    )


def _group_document(facts: "UnitFacts") -> dict[str, Any] | None:
    group = facts.group
    if group is None:
        return None
    return {
        "group": group.id,
        "type": group.type.value,
        "state": group.state,
        "members": [
            {"client_id": m.client_id, "host": m.host, "instance_id": m.instance_id, "topics": sorted(m.topics)}
            for m in group.members
        ],
        "sub_topologies": [
            {
                "id": part.id,
                "reads": sorted(part.sources | part.repartitions_read),
                "changelogs": sorted(part.changelogs),
                "repartitions_to": sorted(part.repartitions_written),
            }
            for part in group.parts
        ],
    }


def _topic_rows(unit: "Unit", facts: "UnitFacts") -> list[dict[str, Any]]:
    committed = facts.group.committed if facts.group else {}
    rows = []
    for role, names in (
        ("input", unit.inputs),
        ("intermediate", unit.intermediate),
        ("output", tuple(unit.outputs)),
        ("internal", facts.internal.certain),
    ):
        for name in names:
            topic = facts.topics.get(name)
            at = committed.get(name, {})
            lag = None
            if topic is not None and topic.ends and len(at) == topic.partitions:
                lags = [ends.high_watermark - at[p].offset for p, ends in topic.ends.items()]
                lag = sum(lags) if min(lags) >= 0 else None  # offsets beyond the end are of another log
            rows.append({
                "topic": name,
                "role": role,
                "exists": topic is not None,
                "partitions": topic.partitions if topic else None,
                "offsets": sum(e.records_most for e in topic.ends.values()) if topic else None,
                "committed": sum(c.offset for c in at.values()) if at else None,
                "lag": lag,
            })  # fmt: skip
    return rows


def _shown(document: dict[str, Any]) -> "list[RenderableType]":
    group = document["group"]
    if group is None:
        told = f"{document['unit']}: the cluster {document['cluster']} has no such group"
    else:
        members = ", ".join(f"{m['client_id']} on {m['host']}" for m in group["members"]) or "no members"
        told = f"{document['unit']}: group {group['group']} ({group['type']}, {group['state']}), {members}"
    rows = [{**row, "exists": "yes" if row["exists"] else "no"} for row in document["topics"]]
    columns = ("topic", "role", "exists", "partitions", "offsets", "committed", "lag")
    shown: list[RenderableType] = [told, *map(_told_part, (group or {}).get("sub_topologies", [])), ""]
    shown.append(_table(columns, rows))
    said = {True: "exactly once", False: "at least once", None: "whether it is exactly once is not known"}
    once = document["exactly_once"]
    shown += ["", f"{said[once['is']]}: {once['why']}"] if once["why"] else []
    shown += [f"not certain whose: {each['topic']} ({each['why']})" for each in document["ambiguous_topics"]]
    shown += [f"{topic} is read by {', '.join(groups)}" for topic, groups in document["readers"].items()]
    return [*shown, *document["problems"]]


def _told_part(part: dict[str, Any]) -> str:
    said = [f"sub-topology {part['id']} reads {', '.join(part['reads'])}"]
    said += [f"keeps {', '.join(part['changelogs'])}"] if part["changelogs"] else []
    said += [f"repartitions to {', '.join(part['repartitions_to'])}"] if part["repartitions_to"] else []
    return "; ".join(said)


def _table(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> "RenderableType":
    from rich.table import Table  # noqa: PLC0415

    table = Table(*(column.replace("_", " ").upper() for column in columns), box=None, pad_edge=False)
    for row in rows:
        table.add_row(
            *("" if row[c] is None else f"{row[c]:,}" if isinstance(row[c], int) else str(row[c]) for c in columns)
        )
    return table
