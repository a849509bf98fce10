"""docs/scenarios.md and the list of proofs, made from the table of scenarios and from the marks of the tests.

A test says which rows it shows: `@pytest.mark.scenario("S-WIKI-1", ...)` right at the function, where this reads it
without importing the tests.
"""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from recoveryd.scenarios.table import PROOFS, RowStatus, ScenarioRow, families, scenarios
from tools.markdown import table

PAGE: Final = Path("docs/scenarios.md")
LIST: Final = Path("daemon/recoveryd/scenarios") / PROOFS
_ROOT: Final = Path(__file__).resolve().parents[1]

_HEAD: Final = """\
# Scenarios

<!-- Made by `python -m tools.generate`; edit daemon/recoveryd/scenarios and the marks of the tests instead. -->

What people want to do when results are wrong, lost or late, row by row: what it is for, what recoveryd does, the commands,
the limits, and whether it works. `works` means that the tests named with it show it, at least one of them on a real broker;
`partly` says what of it is missing, `not yet` why none of it is there. Tests of `tests/recovery`, `tests/live`,
`tests/forecast`, `tests/watches`, `tests/holds`, `tests/schedules` and `tests/workflows` take decisions without a broker.
`recoveryctl scenarios ID` shows a row offline.

A row that is missing is welcome: write what you need, what should come out, and why no row covers it, as a row of
`daemon/recoveryd/scenarios` with `status: not yet`.

"""


def make_files() -> dict[Path, str]:
    marks = find_marks()
    return {PAGE: _page(marks), LIST: json.dumps(marks, indent=1) + "\n"}


def find_marks(tests: Path = _ROOT / "tests") -> dict[str, list[str]]:
    """By the id of a row, the tests that are marked with it; rows in the order of the table, unknown ones
    behind them.
    """
    found: dict[str, list[str]] = {}
    for path in sorted(tests.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.scenario(" not in text:
            continue
        where = path.relative_to(tests.parent).as_posix()
        for name, ids in _marked(ast.parse(text)):
            for row in ids:
                found.setdefault(row, []).append(f"{where}::{name}")
    order = list(scenarios())
    return dict(sorted(found.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)))


def _marked(module: ast.Module) -> Iterator[tuple[str, list[str]]]:
    for node in module.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for call in node.decorator_list:
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.scenario":
                yield node.name, [ast.literal_eval(word) for word in call.args]


def _page(marks: Mapping[str, Sequence[str]]) -> str:
    rows = scenarios().values()
    counts = {standing: sum(row.status is standing for row in rows) for standing in RowStatus}
    told = ", ".join(f"{count} `{standing.value}`" for standing, count in counts.items())
    parts = [f"{_HEAD}Of {len(rows)} rows: {told}.\n"]
    for family in families():
        parts.append(f"\n## {family.title}\n\n{family.about}\n\n")
        lines = ((f"[{row.id}](#{_anchor(row)})", row.title, row.status.value) for row in family.rows)
        parts.append(table(("row", "scenario", "status"), lines) + "\n")
        parts.extend(_section(row, marks.get(row.id, ())) for row in family.rows)
    return "".join(parts)


def _anchor(row: ScenarioRow) -> str:
    kept = "".join(c for c in f"{row.id} {row.title}".lower() if c.isalnum() or c in "- ")
    return kept.replace(" ", "-")


def _section(row: ScenarioRow, tests: Sequence[str]) -> str:
    lines = [f"\n### {row.id} {row.title}\n", f"**Use.** {row.use}\n", f"**Behaviour.** {row.behaviour}\n"]
    if row.steps:
        lines += [*(f"    {step}" for step in row.steps), ""]
    if row.limits:
        lines.append(f"**Limits.** {row.limits}\n")
    lines.append(f"**Status.** {row.status.value}{f': {row.missing}' if row.missing else ''}\n")
    if row.see:
        lines.append(f"**See** {', '.join(f'[{page}]({page})' for page in row.see)}\n")
    if tests:
        lines += ["**Tests**\n", *(f"- `{test}`" for test in tests), ""]
    return "\n".join(lines)
