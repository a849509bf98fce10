"""The two shapes that all output for people is made of: columns, and facts one under the other."""

from typing import Any, Literal

from rich.table import Table
from rich.text import Text

from recoveryd.cli.render.figures import NONE
from recoveryd.cli.status import Document


def facts(*pairs: tuple[str, Any]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        if value not in {None, ""}:
            table.add_row(name, Text(str(value)))
    return table


def asker(document: Document) -> str:
    """Who gave the command of a status record."""
    return str((document.get("command") or {}).get("source") or NONE)


def columns(*headers: str) -> Table:
    """Columns by name; `>` in front sets numbers to the right. The last column wraps, the others never."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for header in headers:
        justify: Literal["left", "right"] = "right" if header.startswith(">") else "left"
        is_last = header == headers[-1]
        table.add_column(header.removeprefix(">"), justify=justify, no_wrap=not is_last, overflow="fold")
    return table
