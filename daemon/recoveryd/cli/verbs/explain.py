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
from recoveryd.cli.verbs.explain_cases import CASES
from recoveryd.cli.verbs.explain_words import EXAMPLES, FAMILIES, RULES, TABLES
from recoveryd.kernel.catalogue import Code

_ALIKE = 0.7  # less looks like a guess
_RULE_LIKE = re.compile(r"[0-9]{1,3}|RULE_.*")
_BY_NUMBER = {str(number): rule for number, rule in enumerate(RULES, start=1)}  # events have a rule's number
_SHOWN_MOST = 80
_COMMAND = re.compile(r"`(recoveryctl [^`]+)`")


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Set up")(explain)


def explain(
    code: Annotated[
        str | None,
        argument("WORD", "A code like RCV-1012, a state, reason, verdict, rule or its number; all when left out."),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Say what a code, state, stop reason, verdict or rule means, and what to do next. Works offline."""
    if code is None:
        codes = [_of_code(each) for each in Code]
        words = [_of_word(kind, word) for kind, rows in TABLES.items() for word in rows]
        names = dict.fromkeys([*(row["code"] for row in codes), *(row["word"] for row in words)])
        show([*codes, *words], output, lambda: [_codes_table(codes), "", _words_table(words)], list(names))
        return
    found = _find(code)
    if output.is_table:
        say("\n\n".join(_as_text(each) for each in found))
        return
    show(found, output, list, [each.get("code") or each["word"] for each in found])


def _find(text: str) -> list[dict[str, Any]]:
    """Takes `RCV-1012`, `rcv-1012`, `1012` and `STALE_PLAN`, any word in either case, and the number of a rule; a word
    can mean several things.
    """
    wanted = text.strip().upper().replace("-", "_").replace(" ", "_")
    number = wanted.removeprefix("RCV_")
    codes = [_of_code(each) for each in Code if number == each.value.removeprefix("RCV-") or wanted == each.name]
    word = wanted.lower()
    word = _BY_NUMBER.get(word.removeprefix("rule_"), word)
    others = [_of_word(kind, word) for kind, rows in TABLES.items() if word in rows]
    if codes or others:
        return [*codes, *others]
    names = (
        [code.value for code in Code]
        + [code.name for code in Code]
        + [w.upper() for rows in TABLES.values() for w in rows]
    )
    near = difflib.get_close_matches(f"RCV-{number}" if number.isdigit() else wanted, names, n=1, cutoff=_ALIKE)
    guess = f"Did you mean {near[0]}?" if near else "`recoveryctl explain` lists all of them."
    if _RULE_LIKE.fullmatch(wanted):
        guess = f"Rules are 1 to {len(RULES)}, and a code has four digits. {guess}"
    kind = "code" if number.isdigit() else "code or word"
    shown = text if len(text) <= _SHOWN_MOST else f"{text[: _SHOWN_MOST - 3]}..."
    raise Failure(Code.NO_SUCH_RECOVERY, f"There is no {kind} `{shown}`.", guess)


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


def _of_word(kind: str, word: str) -> dict[str, Any]:
    sentence, *commands = TABLES[kind][word]
    cause, example = CASES[kind][word]
    return {
        "word": word,
        "kind": kind,
        "sentence": sentence,
        "commands": commands,
        "cause": cause,
        "example": example,
    }


def _as_text(found: dict[str, Any]) -> str:
    if "word" in found:
        lines = [f"{found['word']} ({found['kind']}): {found['sentence']}"]
    else:
        lines = [f"{found['code']} {found['sentence']}", f"  next: {found['next_step']}"]
    lines += [f"  {name}: {found[name]}" for name in ("cause", "example") if name in found]
    return "\n".join([*lines, *(f"  try: {command}" for command in found["commands"])])


def _codes_table(rows: list[dict[str, Any]]) -> "RenderableType":
    from rich.table import Table  # noqa: PLC0415

    table = Table("CODE", "MEANS", "NEXT STEP", box=None, pad_edge=False)
    for row in rows:
        table.add_row(row["code"], row["sentence"], row["next_step"])
    return table


def _words_table(rows: list[dict[str, Any]]) -> "RenderableType":
    from rich.table import Table  # noqa: PLC0415

    table = Table("KIND", "WORD", "MEANS", "NEXT STEP", box=None, pad_edge=False)
    for row in rows:
        table.add_row(row["kind"], row["word"], row["sentence"], row["commands"][0])
    return table
