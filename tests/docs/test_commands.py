"""The command line accepts each command in the documents. `tests/e2e/test_readme.py` also runs the README's."""

import re
import shlex
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer

from recoveryd.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def commands_of(path: Path) -> list[str]:
    """Lines of code blocks that call recoveryctl, continued lines joined, comments cut."""
    text = path.read_text().replace("\\\n", " ")
    lines = [
        line.strip() for line in re.findall(r"^(?: {4}|)(?:\$ )?((?:[A-Z_]+=\S+ )*recoveryctl .*)$", text, re.MULTILINE)
    ]
    return [line.split(" #")[0].strip() for line in lines]


COMMANDS = [(path.relative_to(ROOT).as_posix(), command) for path in DOCUMENTS for command in commands_of(path)]
PROGRAM = typer.main.get_command(app)  # made once: it takes longer than all the parsing


def test_the_documents_name_commands() -> None:
    assert len(COMMANDS) > 10


@pytest.mark.parametrize(("document", "command"), COMMANDS)
def test_each_command_of_the_documents_is_understood(document: str, command: str) -> None:
    for part in command.split("&&"):
        words = shlex.split(part.replace("$(", "").replace(")", ""))
        if "recoveryctl" not in words or "..." in words:
            continue
        parse(PROGRAM, arguments(words[words.index("recoveryctl") + 1 :]))


def arguments(words: list[str]) -> list[str]:
    """Those of the first command: what the shell does with its output is not among them."""
    return list(takewhile(lambda word: word not in {"&", "|", ">", ">>", "||"}, words))


def parse(command: Any, words: list[str]) -> None:
    """Find the command through its groups and parse its arguments; wrong options raise."""
    context = command.make_context("recoveryctl", list(words), resilient_parsing=False)
    while hasattr(context.command, "resolve_command"):
        words_left = [*context._protected_args, *context.args]
        if not words_left and context.command.invoke_without_command:
            return  # a verb of its own, which has others below it
        name, sub, left = context.command.resolve_command(context, words_left)
        context = sub.make_context(name, list(left), parent=context)


def test_a_command_with_a_wrong_option_is_not_understood() -> None:
    for words in (["replay", "--nonsense"], ["nonsense"], ["topics", "apply", "--nonsense"]):
        with pytest.raises(Exception, match="nonsense"):
            parse(PROGRAM, words)
