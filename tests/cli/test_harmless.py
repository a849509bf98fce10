"""What others wrote, such as reasons and names, reaches the terminal without its control characters."""

import io
import json
import unicodedata
from typing import Any

import pytest
import yaml

from recoveryd.cli.render.console import HarmlessConsole
from recoveryd.cli.render.harmless import harmless
from recoveryd.kernel.catalogue import Code
from tests.builders.core import to_document
from tests.cli.recoveries import MISMATCHED
from tests.cli.scripted import ScriptedBackend, refuse_with, run

ID = "flights-rerun"
HOSTILE = "\x1b[2J\x1b]0;gone\x07\x9b31m\r\x08\x7f\x00\u202egone\u2028\ud800"
SHOWN = "\\u001b[2J\\u001b]0;gone\\u0007\\u009b31m\\u000d\\u0008\\u007f\\u0000\\u202egone\\u2028\\ud800"
READ_BY_THE_PROGRAM = frozenset({"state", "created", "updated", "at", "recovery"})


def hostile(value: Any, name: str = "") -> Any:
    """The document with the hostile text at the end of every text that is only shown."""
    match value:
        case dict():
            return {key: hostile(inner, key) for key, inner in value.items()}
        case list():
            return [hostile(inner, name) for inner in value]
        case str() if name not in READ_BY_THE_PROGRAM:
            return value + HOSTILE
    return value


def documents() -> dict[str, Any]:
    return {ID: hostile(to_document(MISMATCHED))}


def harmful(text: str) -> set[str]:
    """Control and format characters, line separators and surrogates."""
    return {character for character in text if unicodedata.category(character) in {"Cc", "Cf", "Zl", "Zp", "Cs"}}


@pytest.mark.parametrize("form", ["table", "json", "yaml", "name"])
@pytest.mark.parametrize("verb", [("list",), ("get", ID), ("describe", ID), ("wait", ID)])
def test_no_form_of_output_lets_a_terminal_be_steered(verb: tuple[str, ...], form: str) -> None:
    result = run(ScriptedBackend(documents()), *verb, "-o", form)

    assert harmful(result.stdout + result.stderr) <= {"\n"}
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert ID in result.stdout


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_data_for_programs_stays_the_same(form: str, read: Any) -> None:
    document = documents()[ID]
    document["reason"] = HOSTILE.removesuffix("\ud800")  # no reader of YAML takes half of a surrogate pair

    result = run(ScriptedBackend({ID: document}), "get", ID, "-o", form)

    assert read(result.stdout)["reason"] == document["reason"]


def test_a_text_without_such_characters_is_shown_as_it_is() -> None:
    plain = "Zürich \N{AIRPLANE} [a]\n\tb"

    assert harmless(plain) == plain


def test_a_refusal_is_shown_without_control_characters() -> None:
    backend = ScriptedBackend(documents(), refuse_with(Code.NOT_IN_THIS_STATE, f"No.{HOSTILE}"))

    result = run(backend, "stop", ID, "--reason", "r")

    assert f"No.{SHOWN}" in result.stderr
    assert harmful(result.stderr) <= {"\n"}


def test_following_shows_lines_without_control_characters() -> None:
    result = run(ScriptedBackend(documents()), "watch", ID)

    assert SHOWN in result.stdout
    assert harmful(result.stdout) <= {"\n"}


def test_a_shell_is_offered_no_id_with_control_characters() -> None:
    backend = ScriptedBackend({name: documents()[ID] for name in ("fl-1", "fl-\x1b[2J")})
    env: dict[str, str | None] = {
        "_RECOVERYCTL_COMPLETE": "complete_bash",
        "COMP_WORDS": "recoveryctl get fl",
        "COMP_CWORD": "2",
    }

    assert run(backend, env=env).stdout.split() == ["fl-1"]


def test_a_console_keeps_its_own_control_sequences() -> None:
    stream = io.StringIO()
    console = HarmlessConsole(stream, 80)
    console._force_terminal = True

    console.bell()
    console.print("\x1b[2J")

    assert stream.getvalue() == "\x07\\u001b[2J\n"
