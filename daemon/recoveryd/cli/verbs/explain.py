"""`recoveryctl explain RCV-1012`: what a code means and what to do, from the catalogue, without any connection."""

import difflib
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

from recoveryd.cli.failure import ExitCode, Failure
from recoveryd.cli.options import Format, Output, argument
from recoveryd.cli.render.output import say, show
from recoveryd.kernel.catalogue import CATALOGUE, Code


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Set up")(explain)


def explain(
    code: Annotated[str | None, argument("CODE", "Like RCV-1012; all of them when left out.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Say what an error code means and what to do next. Works offline."""
    chosen = list(CATALOGUE) if code is None else [_find(code)]
    rows = [
        {"code": c.value, "name": c.name, "sentence": CATALOGUE[c].sentence, "next_step": CATALOGUE[c].next_step}
        for c in chosen
    ]
    if code is not None and output.is_table:
        say(f"{rows[0]['code']} {rows[0]['sentence']}\n  next: {rows[0]['next_step']}")
        return
    show(rows if code is None else rows[0], output, lambda: [_table(rows)], [row["code"] for row in rows])


def _find(text: str) -> Code:
    """Takes `RCV-1012`, `rcv-1012`, `1012` and `STALE_PLAN`."""
    wanted = text.strip().upper()
    for code in Code:
        if wanted in {code.value, code.value.removeprefix("RCV-"), code.name}:
            return code
    names = [code.value for code in Code] + [code.name for code in Code]
    near = difflib.get_close_matches(wanted if not wanted.isdigit() else f"RCV-{wanted}", names, n=1, cutoff=0.5)
    guess = f"The nearest is {near[0]}." if near else "`recoveryctl explain` lists all of them."
    raise Failure(Code.USAGE, f"There is no code `{text}`.", guess, otherwise=ExitCode.USAGE)


def _table(rows: list[dict[str, str]]) -> "RenderableType":
    from rich.table import Table  # noqa: PLC0415

    table = Table("CODE", "MEANS", "NEXT STEP", box=None, pad_edge=False)
    for row in rows:
        table.add_row(row["code"], row["sentence"], row["next_step"])
    return table
