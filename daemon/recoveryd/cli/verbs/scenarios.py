"""`recoveryctl scenarios [ID]`: what people want to do, how it is done and whether a test shows it. Works offline."""

import difflib
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recoveryd.scenarios.table import ScenarioRow

from recoveryd.cli.failure import Failure
from recoveryd.cli.options import Format, Output, argument
from recoveryd.cli.render.output import say, show
from recoveryd.kernel.catalogue import Code


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Set up")(scenarios)


def scenarios(
    scenario: Annotated[str | None, argument("ID", "Like S-WIKI-1; all of them when left out.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """What recoveryd is for: each scenario, the commands for it, whether it works and which test shows that. Works
    offline.
    """
    from recoveryd.scenarios import table  # noqa: PLC0415  (reads the files)

    rows = table.scenarios()
    if scenario is None:
        found = list(rows.values())
        show([_record(row) for row in found], output, lambda: [_table(found)], list(rows))
        return
    row = rows.get(scenario.strip().upper()) or rows.get(_as_written(scenario, list(rows)))
    if row is None:
        raise _unknown(scenario, list(rows))
    if output.is_table:
        say("\n".join(_sheet(row)))
        return
    show(_record(row), output, list, [row.id])


def _as_written(text: str, ids: list[str]) -> str:
    """Ids end in small letters where a row is a part of another one, and people write them in any case."""
    return next((known for known in ids if known.lower() == text.strip().lower()), "")


def _unknown(text: str, ids: list[str]) -> Failure:
    near = difflib.get_close_matches(text.strip().upper(), ids, n=1, cutoff=0.6)
    guess = f"Did you mean {near[0]}?" if near else "`recoveryctl scenarios` lists all of them."
    return Failure(Code.NO_SUCH_RECOVERY, f"There is no scenario `{text}`.", guess)


def _record(row: "ScenarioRow") -> dict[str, Any]:
    from recoveryd.scenarios.table import proofs  # noqa: PLC0415

    told = asdict(row) | {"status": row.status.value, "steps": list(row.steps), "see": list(row.see)}
    return told | {"tests": list(proofs().get(row.id, ()))}


def _table(rows: "list[ScenarioRow]") -> "RenderableType":
    from rich.table import Table  # noqa: PLC0415

    shown = Table("ID", "STATUS", "SCENARIO", box=None, pad_edge=False)
    for row in rows:
        shown.add_row(row.id, row.status.value, row.title)
    return shown


def _sheet(row: "ScenarioRow") -> Iterator[str]:
    """One row as a page of text: headings, and under `Steps` lines that can be copied as they are."""
    record = _record(row)
    yield f"{row.id}  {row.title}"
    for heading, text in (("Use", row.use), ("Behaviour", row.behaviour)):
        yield f"\n{heading}\n  {text}"
    if row.steps:
        yield "\nSteps"
        yield from (f"  {step}" for step in row.steps)
    for heading, text in (("Limits", row.limits), ("Status", _status(row))):
        if text:
            yield f"\n{heading}\n  {text}"
    for heading, lines in (("Tests", record["tests"]), ("See", [f"docs/{page}" for page in row.see])):
        if lines:
            yield f"\n{heading}"
            yield from (f"  {line}" for line in lines)


def _status(row: "ScenarioRow") -> str:
    return f"{row.status.value}: {row.missing}" if row.missing else row.status.value
