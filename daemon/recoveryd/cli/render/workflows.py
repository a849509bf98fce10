"""What people see of a workflow: what is to be changed, the steps, what it waits for, and what can be put back."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from recoveryd.cli.render import figures
from recoveryd.cli.render.runbooks import runbook_parts
from recoveryd.cli.render.steps import step_table, waiting_parts
from recoveryd.cli.render.tables import columns, facts
from recoveryd.cli.status import Document

_ROWS_MOST = 100
_VERDICT_STYLES = {"compatible": "green", "unknown": "yellow", "incompatible": "red"}


def workflow_parts(document: Document) -> list[RenderableType]:
    """The rest of a status record of kind `workflow`, behind its heading."""
    parts: list[RenderableType] = []
    if document.get("plan"):
        parts += ["", *workflow_plan_parts(document["plan"])]
    if document.get("workflow") == "runbook":
        parts += runbook_parts(document)
    if document.get("steps"):
        parts += ["", Text("Steps", style="bold"), step_table(document["steps"])]
    parts += waiting_parts(document)
    parts += _kept_parts(document.get("undo") or ())
    return parts


def _kept_parts(rows: Sequence[Document]) -> list[RenderableType]:
    """How much of what was noted is not put back, and why."""
    kept = [row for row in rows if row["state"] == "kept" and not _is_foreign(row)]
    gone = {row["name"] for row in rows if row["what"] == "topic" and row["to"] and (row["was_set"] or row["is_gone"])}
    with_topics = sum(row["what"] == "offset" and row["name"] in gone for row in kept)
    told = {
        f"{with_topics} offsets went with their topics.": with_topics,
        f"{len(kept) - with_topics} of what it noted stay as they are: somebody else set them, or it did not.": (
            len(kept) - with_topics
        ),
    }
    return [part for text, count in told.items() if count for part in ("", Text(text))]


def _is_foreign(row: Document) -> bool:
    """Whether it is a topic of somebody else that the plan found: nothing was to be put back there."""
    return row["what"] == "topic" and row["was_set"] is None and not row["is_gone"]


def workflow_plan_parts(plan: Document) -> list[RenderableType]:
    """What the workflow would change: as it is now, and as it would be. Then what the plan found."""
    parts: list[RenderableType] = [facts(("plan", plan.get("hash"))), _changes(plan["changes"])]
    more = len(plan["changes"]) - _ROWS_MOST
    if more > 0:
        parts.append(Text(f"and {more:,} more"))
    parts += _copied(plan.get("copies"))
    parts += _version_parts(plan["version"]) if plan.get("version") else []
    parts += [Text(finding) for finding in plan.get("findings") or ()]
    parts += [Text(_confirmed(found)) for found in plan.get("confirmations") or ()]
    parts += [Text(f"not certain whose, left alone: {topic}") for topic in plan.get("ambiguous_topics") or ()]
    return parts


def _copied(copies: Document | None) -> list[RenderableType]:
    if not copies or not copies.get("records_at_most"):
        return []
    size = "" if copies.get("bytes_at_most") is None else f", {figures.size(copies['bytes_at_most'])}"
    return [Text(f"at most {figures.count(copies['records_at_most'])} records are copied{size}")]


def _confirmed(found: Document) -> str:
    words = {"plan": "by the plan", "person": "by the one who asks", "open": "by nobody"}
    return f"{found['item']} confirmed {words[found['by']]}: {found['told']}"


def _version_parts(version: Document) -> list[RenderableType]:
    """Whether the new version fits, and what it leaves as the old one made it."""
    parts: list[RenderableType] = [
        Text.assemble("the new version is ", (version["verdict"], _VERDICT_STYLES[version["verdict"]]))
    ]
    parts += [Text(f"{found['verdict']}: {found['message']}") for found in version["differences"]]
    ranges = [(topic, p, *bounds) for topic, found in version["unfixed_range"].items() for p, bounds in found.items()]
    if ranges:
        table = columns("OF THE OLD VERSION", ">PARTITION", ">FROM", ">UP TO")
        for topic, partition, start, stop in ranges[:_ROWS_MOST]:
            table.add_row(topic, partition, figures.count(start), figures.count(stop))
        parts += [Text("results that stay as the old version made them"), table]
    if version["fix"]:
        parts += [Text("to give this range to the new version, beside what it reads:"), *map(_replay, version["fix"])]
    return parts


def _replay(data: Document) -> Text:
    source, target = data["source"], data["target"]
    bounds = {side: ",".join(f"{p}={at}" for p, at in source[side]["offsets"].items()) for side in ("from", "to")}
    words = f"--from offsets:{bounds['from']} --to offsets:{bounds['to']} --target {target['topic']} --create"
    partitions = ",".join(map(str, source["partitions"]))
    cluster = "" if source["cluster"] == "main" else f" --source-cluster {source['cluster']}"
    return Text(
        f"recoveryctl replay --source {source['topic']}{cluster} --partitions {partitions} {words} --reason ..."
    )


def _changes(changes: Sequence[Document]) -> Table:
    table = columns("WHAT", "NAME", ">PARTITION", ">FROM", ">TO")
    for change in changes[:_ROWS_MOST]:
        cells = (_value(change.get("from")), _value(change.get("to")))
        table.add_row(change["what"], change["name"], figures.count(change.get("partition")), *cells)
    return table


def _value(value: object) -> str:
    return figures.count(value) if isinstance(value, int) else figures.NONE if value is None else str(value)
