"""`recoveryctl diff`: two plans beside each other, with what of them differs."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
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
# What tells the rows of a list apart, as far as they have it: changes of workflows, partitions, findings.
_NAMING = ("what", "name", "topic", "group", "partition", "code")
Plan = Annotated[str, argument("PLAN", "Id of what has a plan, or a file with its status or plan as JSON.",
    autocompletion=complete_ids)]  # fmt: skip


def add_to(app: typer.Typer) -> None:
    app.command("diff", rich_help_panel="Look")(diff)


@connected
def diff(connection: Connection, left: Plan, right: Plan, output: Output = Format.TABLE) -> int:
    """Compare two plans: ranges, targets, findings, hash. Exits with 9 when something differs; estimates of time and
    cost, and what is left of budgets, are not compared.
    """
    sides = [_plan_of(connection, name) for name in (left, right)]
    rows = [
        {"field": ".".join(path), "left": before, "right": after}
        for path, before, after in _differences(sides[0], sides[1], ())
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


def _differences(left: Any, right: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Fields with both values. Rows go by what names them, not by their place in a list."""
    if _is_like(left, right, lambda value: isinstance(value, Mapping)):
        left, right = left or {}, right or {}
        for name in dict.fromkeys((*left, *right)):
            if name not in _PASSING:
                yield from _differences(left.get(name), right.get(name), (*path, str(name)))
    elif _is_like(left, right, _are_rows):
        for name, before, after in _pairs(left or (), right or ()):
            yield from _differences(before, after, (*path, *name))
    elif left != right:
        yield path, left, right


def _is_like(left: Any, right: Any, is_one: Callable[[Any], bool]) -> bool:
    """Whether both are of one kind, or one is and the other is not there."""
    return (is_one(left) and (is_one(right) or not right)) or (is_one(right) and not left)


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _pairs(
    left: Sequence[Document], right: Sequence[Document]
) -> Iterator[tuple[tuple[str, ...], Document | None, Document | None]]:
    """Each row of either side once, with that of its name on the other. Several of one name, as findings of one code
    are, go without those that both sides have, and by their order then.
    """
    names = dict.fromkeys(_name_of(row) for row in (*left, *right))
    by_name: list[dict[tuple[str, ...], list[Document]]] = [{name: [] for name in names} for _ in range(2)]
    for rows, found in zip((left, right), by_name, strict=True):
        for row in rows:
            found[_name_of(row)].append(row)
    for name in names:
        before, after = by_name[0][name], by_name[1][name]
        before, after = _without(before, after), _without(after, before)
        for number, (one, other) in enumerate(zip_longest(before, after), 1):
            shown = name if number == 1 and name else (*name, str(number))
            yield shown, _rest(one, other), _rest(other, one)


def _name_of(row: Document) -> tuple[str, ...]:
    values = (row.get(key) for key in _NAMING)
    return tuple(str(value) for value in values if isinstance(value, str | int))


def _without(rows: Sequence[Document], others: Sequence[Document]) -> list[Document]:
    """Those of `rows` that are not among `others`, as often as they are more."""
    unmatched, more = list(others), []
    for row in rows:
        if row in unmatched:
            unmatched.remove(row)
        else:
            more.append(row)
    return more


def _rest(row: Document | None, other: Document | None) -> Document | None:
    """What its name does not say; all of it where nothing else is there to tell that the other side has no such row."""
    if row is None:
        return None
    rest = {key: value for key, value in row.items() if key not in _NAMING or not isinstance(value, str | int)}
    return rest or (row if other is None else rest)


def _table(left: str, right: str, rows: list[dict[str, Any]]) -> "RenderableType":
    from recoveryd.cli.render.tables import columns  # noqa: PLC0415

    table = columns("FIELD", left, right)
    for row in rows:
        table.add_row(row["field"], _text(row["left"]), _text(row["right"]))
    return table


def _text(value: Any) -> str:
    return _NONE if value is None else value if isinstance(value, str) else json.dumps(value)
