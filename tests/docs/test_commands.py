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


def inline_commands_of(path: Path) -> list[str]:
    """Those inside of sentences. Alternatives, as `topics list|diff`, are a command each."""
    text = re.sub(r"^(```.*?^```|(?: {4}|\t).*?)$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"(?<!`)`(recoveryctl [^`]+)`(?!`)", text)
    commands = [" ".join(command.split()) for command in found]
    return [alternative for command in commands for alternative in alternatives(command)]


def alternatives(command: str) -> list[str]:
    choice = re.search(r"(?<= )[a-z]+(?:\|[a-z]+)+(?= |$)", command)
    return [command] if choice is None else [command.replace(choice[0], each, 1) for each in choice[0].split("|")]


COMMANDS = [(path.relative_to(ROOT).as_posix(), command) for path in DOCUMENTS for command in commands_of(path)]
INLINE = [(path.relative_to(ROOT).as_posix(), command) for path in DOCUMENTS for command in inline_commands_of(path)]
# A sentence may name a verb or an option only, and leave out what else it needs.
NAMED_ONLY = ("MissingParameter", "NoArgsIsHelpError", "BadOptionUsage")
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


def test_each_command_in_a_sentence_names_a_verb_and_options_that_there_are() -> None:
    """One test for all: there are hundreds, and most are the same few."""
    wrong = {(document, command): told for document, command in INLINE if (told := complaint_about(command))}
    assert wrong == {}
    assert len(INLINE) > 100


def complaint_about(command: str) -> str:
    """What the command line says against it; nothing where the sentence leaves the rest, or a value, to the reader."""
    words = shlex.split(command.replace("$(", "").replace(")", ""))[1:]
    if "..." in words or words[:1] == ["VERB"]:
        return ""
    try:
        parse(PROGRAM, arguments(words))
    except Exception as problem:  # noqa: BLE001  (typer brings click's exceptions along under no name of its own)
        kind = type(problem).__name__
        is_placeholder = kind == "BadParameter" and any(word.isupper() for word in words)
        return "" if kind in NAMED_ONLY or is_placeholder else f"{kind}: {problem}"
    return ""


def test_a_wrong_command_in_a_sentence_is_found() -> None:
    assert [
        command for command in ("recoveryctl lst", "recoveryctl get --nonsense") if not complaint_about(command)
    ] == []
    assert complaint_about("recoveryctl get") == ""


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
