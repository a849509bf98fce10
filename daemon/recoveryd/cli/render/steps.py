"""The steps of a workflow as a table, and what it waits for, with the answer that goes on."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from recoveryd.cli.render import figures
from recoveryd.cli.render.tables import columns, facts
from recoveryd.cli.status import Document

_STEP_STYLES = {"done": "green", "failed": "red", "running": "cyan", "waiting": "yellow"}


def waiting_parts(document: Document) -> list[RenderableType]:
    if not document.get("waiting_for"):
        return []
    return ["", Text("Waits for", style="bold"), _waiting(document)]


def step_table(steps: Sequence[Document]) -> Table:
    table = columns("STEP", "STATE", ">TRIES", "WHY")
    for step in steps:
        state = Text(step["state"], style=_STEP_STYLES.get(step["state"], "dim"))
        table.add_row(step["name"], state, str(step["tries"] or ""), Text(step["why"]))
    return table


def _waiting(document: Document) -> Table:
    waiting = document["waiting_for"]
    answer = _answer(waiting["kind"], document["recovery"], waiting["step"])
    members = waiting.get("members") or ()
    return facts(
        ("for", waiting["kind"]),
        ("step", waiting["step"] or None),
        ("since", figures.clock_time(waiting["since"])),
        ("until", figures.clock_time(waiting["deadline"]) if waiting.get("deadline") else None),
        ("members", "; ".join(members) or None),
        ("no answer since", _silence(waiting)),
        ("answer", answer),
    )


def _silence(waiting: Document) -> str | None:
    """Since when nobody knows whether it waits for that still, and why. Records of earlier releases say nothing
    of it.
    """
    since = waiting.get("unanswered_since")
    return f"{figures.clock_time(since)}: {waiting.get('last_error')}" if since else None


def _answer(kind: str, workflow: str, step: str) -> str | None:
    match kind:
        case "ack":
            return f"recoveryctl ack {workflow} {step} --reason ..."
        case "approval":
            return f"recoveryctl approve {workflow} --reason ..., or reject"
        case "gates":
            return f"recoveryctl ack {workflow} {step} --note WHY --reason ... waives those that are not green"
        case "choice":
            return f"recoveryctl runbook promote {workflow} --reason ..., or discard"
        case _:
            return None
