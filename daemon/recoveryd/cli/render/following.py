"""Showing a recovery as it changes: drawn again and again on a terminal, one line per change anywhere else.

A status that says the same as the one before, only later, is no change.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

from recoveryd.cli.options import Format
from recoveryd.cli.render.harmless import harmless
from recoveryd.cli.render.output import flush, say, show
from recoveryd.cli.status import Document, OnChange


@contextmanager
def following(console: "Console") -> Iterator[OnChange]:
    """Gives the function that shows a status on `console`; the last one stays on the screen."""
    from recoveryd.cli.render.recoveries import clock, live_view, progress_line  # noqa: PLC0415

    if not console.is_terminal:
        last = ""

        def print_change(document: Document) -> None:
            nonlocal last
            line = progress_line(document)
            if line != last and not console.quiet:
                print(harmless(f"{clock(document)} {line}"), file=console.file, flush=True)
            last = line

        yield print_change
        return
    from rich.live import Live  # noqa: PLC0415

    with Live(console=console, auto_refresh=False) as live:
        yield lambda document: live.update(live_view(document), refresh=True)


@contextmanager
def lines_of(output: Format) -> Iterator[OnChange]:
    """Gives the function that prints each status as one line to stdout: JSON, what `-o` names of it, or a line of text
    that begins with the id.
    """
    from recoveryd.cli.render.recoveries import clock, progress_line  # noqa: PLC0415
    from recoveryd.cli.render.showing import public  # noqa: PLC0415

    def show_line(document: Document) -> None:
        if output.is_table:
            say(f"{clock(document)} {document['recovery']} {progress_line(document)}")
        elif output != Format.YAML:
            show(public(document), Format.JSONL if output == Format.JSON else output, list, [document["recovery"]])
        else:
            say("---")
            show(public(document), output, list)
        flush()

    yield show_line
