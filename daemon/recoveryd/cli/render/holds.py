"""What people see of a hold: its topics, who placed it, and until when."""

from rich.console import RenderableType
from rich.text import Text

from recoveryd.cli.render import figures
from recoveryd.cli.render.tables import facts
from recoveryd.cli.status import Document


def hold_parts(document: Document) -> list[RenderableType]:
    """The hold of a status record of that kind."""
    hold = document["hold"]
    return [
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
