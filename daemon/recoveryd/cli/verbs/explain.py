"""`recoveryctl explain RCV-1012`: what a code means, why it comes up and what to do, without any connection. It knows
states, stop reasons, verdicts and rules too.
"""

import difflib
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

from recoveryd.cli.failure import Failure
from recoveryd.cli.options import Format, Output, argument
from recoveryd.cli.render.output import say, show
from recoveryd.cli.verbs.explain_words import EXAMPLES, FAMILIES, TABLES
from recoveryd.kernel.catalogue import Code

_ALIKE = 0.7  # less looks like a guess
_COMMAND = re.compile(r"`(recoveryctl [^`]+)`")


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Set up")(explain)


def explain(
    code: Annotated[
        str | None,
        argument("WORD", "A code like RCV-1012, a state, stop reason, verdict or rule; all codes when left out."),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Say what a code, state, stop reason, verdict or rule means, and what to do next. Works offline."""
    if code is None:
        rows = [_of_code(each) for each in Code]
        show(rows, output, lambda: [_table(rows)], [row["code"] for row in rows])
        return
    found = _find(code)
    if output.is_table:
        say("\n\n".join(_as_text(each) for each in found))
        return
    show(found, output, list, [each.get("code") or each["word"] for each in found])


def _find(text: str) -> list[dict[str, Any]]:
    """Takes `RCV-1012`, `rcv-1012`, `1012` and `STALE_PLAN`, and any word in either case; a word can mean several
    things.
    """
    wanted = text.strip().upper().replace("-", "_").replace(" ", "_")
    number = wanted.removeprefix("RCV_")
    codes = [_of_code(each) for each in Code if number == each.value.removeprefix("RCV-") or wanted == each.name]
    word = wanted.lower()
    others = [_of_word(kind, word, *rows[word]) for kind, rows in TABLES.items() if word in rows]
    if codes or others:
        return [*codes, *others]
    names = (
        [code.value for code in Code]
        + [code.name for code in Code]
        + [w.upper() for rows in TABLES.values() for w in rows]
    )
    near = difflib.get_close_matches(f"RCV-{number}" if number.isdigit() else wanted, names, n=1, cutoff=_ALIKE)
    guess = f"Did you mean {near[0]}?" if near else "`recoveryctl explain` lists all of them."
    kind = "code" if number.isdigit() else "code or word"
    raise Failure(Code.NO_SUCH_RECOVERY, f"There is no {kind} `{text}`.", guess)


def _of_code(code: Code) -> dict[str, Any]:
    number = code.value.removeprefix("RCV-")
    cause, commands = FAMILIES[max(filter(number.startswith, FAMILIES), key=len)]
    named = _COMMAND.findall(code.next_step)
    told: dict[str, Any] = {
        "code": code.value,
        "name": code.name,
        "sentence": code.sentence,
        "next_step": code.next_step,
        "cause": cause,
        "commands": [*named, *(command for command in commands if command not in named)],
    }
    return told | ({"example": EXAMPLES[code.name]} if code.name in EXAMPLES else {})


def _of_word(kind: str, word: str, sentence: str, *commands: str) -> dict[str, Any]:
    return {"word": word, "kind": kind, "sentence": sentence, "commands": list(commands)}


def _as_text(found: dict[str, Any]) -> str:
    if "word" in found:
        lines = [f"{found['word']} ({found['kind']}): {found['sentence']}"]
    else:
        lines = [f"{found['code']} {found['sentence']}", f"  next: {found['next_step']}", f"  cause: {found['cause']}"]
        lines += [f"  example: {found['example']}"] if "example" in found else []
    return "\n".join([*lines, *(f"  try: {command}" for command in found["commands"])])


def _table(rows: list[dict[str, Any]]) -> "RenderableType":
    from rich.table import Table  # noqa: PLC0415

    table = Table("CODE", "MEANS", "NEXT STEP", box=None, pad_edge=False)
    for row in rows:
        table.add_row(row["code"], row["sentence"], row["next_step"])
    return table
