"""What people see of a hold: its topics, who placed it, until when, and which consumers obey it."""

from collections import Counter
from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from recoveryd.cli.render import figures
from recoveryd.cli.render.tables import columns, facts
from recoveryd.cli.status import Document


def hold_parts(document: Document) -> list[RenderableType]:
    """The hold of a status record of that kind."""
    hold = document["hold"]
    parts: list[RenderableType] = [
        "",
        Text("Hold", style="bold"),
        facts(
            ("owner", (document.get("command") or {}).get("source")),
            ("topics", f"{', '.join(hold.get('topics') or ())} on {hold.get('cluster')}"),
            ("keeps from", "writing, resetting and copying from there" if hold.get("reads") else "writing, resetting"),
            ("expires", figures.clock_time(hold["expires"]) if hold.get("expires") else "never by itself"),
            ("let go", ", ".join(hold["released"]) if hold.get("released") else None),
            ("missing", f"{', '.join(hold['missing'])}: no such topic" if hold.get("missing") else None),
        ),
    ]
    members = hold.get("members") or ()
    if members:
        parts += [
            "",
            Text("Consumers that were told", style="bold"),
            *map(Text, say_groups(members)),
            _members(members),
        ]
    return parts


def say_groups(members: Sequence[Document]) -> list[str]:
    """One sentence for each group."""
    told = []
    for group in dict.fromkeys(member["group"] for member in members):
        mine = [member for member in members if member["group"] == group]
        counts = Counter(member["state"] for member in mine)
        parts = [f"{counts['paused']} of {len(mine)} members of {group} have paused"]
        for state in ("draining", "silent"):
            if counts[state]:
                since = min(member["since"] for member in mine if member["state"] == state)
                parts.append(f"{counts[state]} {state} since {figures.clock_time(since)}")
        told.append(", ".join(parts))
    return told


def _members(members: Sequence[Document]) -> Table:
    table = columns("group", "member", "state", "since", "stands at")
    for member in members:
        at = ", ".join(
            f"{p['topic']} {p['partition']}: {'-' if p['offset'] is None else format(p['offset'], ',')}"
            for p in member["positions"]
        )
        table.add_row(
            member["group"],
            member["client"] or member["member"],
            member["state"],
            figures.clock_time(member["since"]),
            at,
        )
    return table
