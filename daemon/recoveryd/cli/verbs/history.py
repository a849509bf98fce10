"""`recoveryctl history FILE`: takes the decisions of a daemon again, from the file that `log.events` of its config
names, and shows what led to what.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recoveryd.runtime.history import Taken

from recoveryd.cli.failure import Failure
from recoveryd.cli.options import Format, Output, argument
from recoveryd.cli.render.output import show
from recoveryd.kernel.catalogue import Code


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Look")(history)


def history(
    file: Annotated[Path, argument("FILE", "What `log.events` of the daemon's config named.")],
    recovery: Annotated[str | None, argument("ID", "Only what is about this recovery or watch.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Take every decision of a daemon again, by the same code, and show what led to what. Works offline."""
    from recoveryd.capabilities import make_decider  # noqa: PLC0415  (other verbs do without)
    from recoveryd.runtime.history import take_again  # noqa: PLC0415

    try:
        with file.open(encoding="utf-8") as lines:
            rows = [row for taken in take_again(lines, make_decider) if (row := _row(taken, recovery)) is not None]
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        hint = "Name a file that a daemon of this release wrote, by log.events of its config."
        raise Failure(Code.USAGE, f"{file} is no history: {why}.", hint) from None
    show(rows, output, lambda: [_table(rows)], [row["event"] for row in rows])


def _row(taken: "Taken", recovery: str | None) -> dict[str, Any] | None:
    """None for what changes nothing, or is about another recovery."""
    from recoveryd.kernel.times import format_time_ms  # noqa: PLC0415

    decision = taken.decision
    about = {noun.id for noun in decision.changed} | {notice.subject for notice in decision.notices}
    about |= {answer.subject for answer in decision.answers} | set(decision.forgotten)
    is_news = decision.needs_journal or decision.effects or taken.event is None or taken.bug is not None
    if not is_news or (recovery is not None and recovery not in about):
        return None
    return {
        "time": format_time_ms(taken.at_ms) if taken.at_ms else "",
        "event": "BecameLeader" if taken.event is None else type(taken.event).__name__,
        "about": sorted(about - {""}),
        "why": decision.reason,
        "told": [notice.type for notice in decision.notices],
        "effects": [type(effect).__name__ for effect in decision.effects],
    }


def _table(rows: list[dict[str, Any]]) -> "RenderableType":
    from rich.table import Table  # noqa: PLC0415

    table = Table("TIME", "EVENT", "ABOUT", "WHY", "EFFECTS", box=None, pad_edge=False)
    for row in rows:
        why = row["why"] or ", ".join(row["told"])
        table.add_row(row["time"], row["event"], " ".join(row["about"]), why, " ".join(row["effects"]))
    return table
