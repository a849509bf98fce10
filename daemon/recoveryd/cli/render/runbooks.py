"""The one page of a runbook, from its status record: what is known while it runs, and its report once it ended."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from recoveryd.cli.render import figures
from recoveryd.cli.render.steps import step_table, waiting_parts
from recoveryd.cli.render.tables import columns, facts
from recoveryd.cli.status import Document, told_why

_STYLES = {"green": "green", "ok": "green", "waived": "yellow", "warn": "yellow", "red": "red", "fail": "red"}
_PARTITIONS_MOST = 20


def runbook_page(document: Document) -> list[RenderableType]:
    heading = f"{document['recovery']}: runbook of {document['unit']}, {document['state']}"
    parts: list[RenderableType] = [Text(heading, style="bold"), Text(told_why(document))]
    return [
        *parts,
        *runbook_parts(document),
        "",
        Text("Steps", style="bold"),
        step_table(document["steps"]),
        *waiting_parts(document),
    ]


def runbook_parts(document: Document) -> list[RenderableType]:
    """Truths, dependencies, decision, gates, and of one that ended what was changed and is open."""
    seen, confirmed = _evidence(document, "identify"), _evidence(document, "confirm_input")
    parts: list[RenderableType] = []
    if seen:
        parts += ["", Text("Identified", style="bold"), _seen(seen), *_truths(seen)]
    if confirmed:
        parts += ["", Text("Dependencies", style="bold"), _graded(confirmed["dependencies"], "if_unknown")]
        proposed = confirmed["proposed"]
        parts.append(facts(("proposed", proposed["path"]), ("because", proposed["why"])))
    gates = _evidence(document, "verify_again").get("gates") or _evidence(document, "verify").get("gates")
    if gates:
        parts += ["", Text("Gates", style="bold"), _graded(gates, "")]
    if document.get("report"):
        parts += ["", Text(_title(document), style="bold"), *_report(document["report"])]
    return parts


def _title(document: Document) -> str:
    return "Closed" if document["state"] == "completed" else "Handed over"


def _evidence(document: Document, name: str) -> Mapping[str, Any]:
    return next((step.get("evidence") or {} for step in document.get("steps") or () if step["name"] == name), {})


def _seen(seen: Mapping[str, Any]) -> Table:
    group = seen["group"]
    return facts(
        ("verdict", f"{seen['verdict']}: {seen['told']}"),
        ("group", f"{group['id']}: {group['state']}, {group['members']} members"),
        ("owner", seen.get("owner") or "unknown"),
        ("approvers", ", ".join(seen.get("approvers") or ()) or "none"),
        ("outputs", "; ".join(f"{name} ({behaviour})" for name, behaviour in seen["outputs"].items()) or None),
        ("read by", "; ".join(f"{name}: {', '.join(g)}" for name, g in seen["readers"].items() if g) or None),
        ("savepoint", seen.get("savepoint")),
        ("checkpoint", seen.get("checkpoint")),
    )


def _truths(seen: Mapping[str, Any]) -> Iterator[RenderableType]:
    table = columns("INPUT", ">PARTITION", ">OFFSET", ">STATE", ">SINK")
    rows = [(topic, p, row) for topic, found in seen["truths"].items() for p, row in found.items()]
    for topic, partition, row in rows[:_PARTITIONS_MOST]:
        table.add_row(topic, partition, *(figures.count(at) if at is not None else "?" for at in row))
    yield table
    if len(rows) > _PARTITIONS_MOST:
        yield Text(f"and {len(rows) - _PARTITIONS_MOST} more partitions")


def _graded(rows: Mapping[str, Any], more: str) -> Table:
    table = columns("WHAT", "STATE", "WHY")
    for name, row in rows.items():
        told = row["told"] + (f" (if it stays unknown: {row[more]})" if more and row.get(more) else "")
        table.add_row(name, Text(row["state"], style=_STYLES.get(row["state"], "magenta")), Text(told))
    return table


def _report(report: Mapping[str, Any]) -> Iterator[RenderableType]:
    decided, final = report["decided"], report["final"]
    yield facts(
        ("path", decided["path"]),
        ("decided", decided["why"] or None),
        ("asked for by", f"{decided['by']}: {decided['reason']}"),
        ("approved", decided["approved"] or None),
        ("changed", "; ".join(report["changed"]) or "nothing"),
        ("final offsets", _offsets(final.get("offsets") or {})),
        ("checkpoints", ", ".join(final.get("checkpoints") or ()) or None),
        ("stays", "; ".join(report["stays"]) or None),
        ("open", "; ".join(report["open"]) or "nothing"),
    )


def _offsets(offsets: Mapping[str, Mapping[str, int]]) -> str | None:
    told = [
        f"{topic}: {', '.join(f'{p}={at}' for p, at in list(found.items())[:_PARTITIONS_MOST])}"
        for topic, found in offsets.items()
    ]
    return "; ".join(told) or None
