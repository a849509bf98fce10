"""`recoveryctl diff`: two plans beside each other, with what of them differs."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

from recoveryd.cli.failure import ExitCode, Failure, usage
from recoveryd.cli.options import Format, Output, argument
from recoveryd.cli.render.output import note, show
from recoveryd.cli.send.connect import Connection
from recoveryd.cli.send.connected import complete_ids, connected
from recoveryd.cli.status import Document
from recoveryd.kernel.catalogue import Code

_FILE_MOST = 64 * 1024 * 1024
_NONE = "-"
# How long it takes depends on when it was asked.
_PASSING = frozenset({"eta_seconds", "forecast", "budget"})
Plan = Annotated[str, argument("PLAN", "Id of what has a plan, or a file with its status or plan as JSON.",
    autocompletion=complete_ids)]  # fmt: skip


def add_to(app: typer.Typer) -> None:
    app.command("diff", rich_help_panel="Look")(diff)


@connected
def diff(connection: Connection, left: Plan, right: Plan, output: Output = Format.TABLE) -> int:
    """Compare two plans: ranges, targets, findings, hash. Exits with 9 when something differs; estimates of time and
    cost, and what is left of budgets, are not compared.
    """
    sides = [dict(_facts(_plan_of(connection, name), ())) for name in (left, right)]
    rows = [
        {"field": field, "left": sides[0].get(field), "right": sides[1].get(field)}
        for field in dict.fromkeys((*sides[0], *sides[1]))
        if sides[0].get(field) != sides[1].get(field)
    ]
    show(rows, output, lambda: [_table(left, right, rows)], [str(row["field"]) for row in rows])
    if not rows and output.is_table:
        note(f"The plans of {left} and {right} are the same.")
    return ExitCode.DIFFERENCES if rows else ExitCode.DONE


def _plan_of(connection: Connection, name: str) -> Document:
    path = Path(name)
    document = _read(path) if path.is_file() else connection.backend.status(name)
    if document is None:
        raise Failure(
            Code.NO_SUCH_RECOVERY,
            f"Nothing has the id `{name}`, and there is no such file.",
            "`recoveryctl list` has the ids; `recoveryctl get ID -o json` writes a file.",
        )
    plan = document.get("plan", document if "hash" in document else None)
    if not isinstance(plan, dict) or "hash" not in plan:
        raise Failure(
            Code.NOT_IN_THIS_STATE,
            f"{name} has no plan.",
            "A plan is made when a recovery is accepted; --plan-only makes one and runs nothing.",
            otherwise=ExitCode.USAGE,
        )
    return plan


def _read(path: Path) -> Document:
    try:
        if path.stat().st_size > _FILE_MOST:
            raise usage(f"{path} is larger than a plan can be.", "Give a file that `-o json` wrote.")
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise usage(f"{path} is not JSON: {error}.", "Write it with `recoveryctl get ID -o json`.") from None
    if not isinstance(found, dict):
        raise usage(f"{path} holds no object.", "Write it with `recoveryctl get ID -o json`.")
    return found


def _facts(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Dotted fields; rows go by their partition or finding, not by their place in a list."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name not in _PASSING:
                yield from _facts(inner, (*path, str(name)))
    elif isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
        for number, row in enumerate(value):
            name = row.get("partition", row.get("code", row.get("name", number)))
            rest = {key: inner for key, inner in row.items() if key not in {"partition", "code", "name"}}
            yield from _facts(rest, (*path, str(name)))
    else:
        yield ".".join(path), value


def _table(left: str, right: str, rows: list[dict[str, Any]]) -> "RenderableType":
    from recoveryd.cli.render.tables import columns  # noqa: PLC0415

    table = columns("FIELD", left, right)
    for row in rows:
        table.add_row(row["field"], _text(row["left"]), _text(row["right"]))
    return table


def _text(value: Any) -> str:
    return _NONE if value is None else value if isinstance(value, str) else json.dumps(value)
