"""The command line accepts each command in the documents. `tests/e2e/test_readme.py` also runs the README's."""

import re
import shlex
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


def test_the_documents_name_commands() -> None:
    assert len(COMMANDS) > 10


@pytest.mark.parametrize(("document", "command"), COMMANDS)
def test_each_command_of_the_documents_is_understood(document: str, command: str) -> None:
    for part in command.split("&&"):
        words = shlex.split(part.replace("$(", "").replace(")", ""))
        if "recoveryctl" not in words or "..." in words:
            continue
        parse(typer.main.get_command(app), [w for w in words[words.index("recoveryctl") + 1 :] if w not in {"&", "|"}])


def parse(command: Any, words: list[str]) -> None:
    """Find the command through its groups and parse its arguments; wrong options raise."""
    context = command.make_context("recoveryctl", list(words), resilient_parsing=False)
    while hasattr(context.command, "resolve_command"):
        name, sub, left = context.command.resolve_command(context, [*context._protected_args, *context.args])
        context = sub.make_context(name, list(left), parent=context)


def test_a_command_with_a_wrong_option_is_not_understood() -> None:
    for words in (["replay", "--nonsense"], ["nonsense"], ["topics", "apply", "--nonsense"]):
        with pytest.raises(Exception, match="nonsense"):
            parse(typer.main.get_command(app), words)
