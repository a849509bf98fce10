"""The table of scenarios is true: what works has a test, what a test is marked with is there, and each command in it is
understood.
"""

import ast
import json
import re
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from recoveryd.__main__ import _parser
from recoveryd.kernel.commands import RefusedCommand
from recoveryd.scenarios.table import RowStatus, ScenarioRow, proofs, scenarios
from recoveryd.wire.codec import Unreadable
from tests.builders.core import CODEC
from tests.cli.scripted import run
from tests.docs.test_commands import PROGRAM, parse
from tests.e2e.scenario_sheets import FOLLOWED, NOT_FOLLOWED, essence
from tools.scenarios_page import PAGE, find_marks

ROOT = Path(__file__).resolve().parents[2]
ROWS = list(scenarios().values())
MARKS = find_marks()
FAMILIES = {"S-WIKI": 43, "S-RUN": 42, "S-CASTLE": 16, "S-OSO": 23}

FOLLOWING = {
    "verb": "replay",
    "data": {
        "source": {"topic": "orders", "from": {"schedule": "last_end", "first": "earliest"}, "to": "latest"},
        "target": {"topic": "orders.kept", "create": True, "on_existing": "append"},
    },
}


def can_be_printed(words: list[str]) -> bool:
    """Whether it is a verb that sends a command. An approval is left out: it asks the cluster for the plan first."""
    command: Any = PROGRAM
    for word in words:
        if not hasattr(command, "commands"):
            break
        command = command.commands[word]
    return words[0] != "approve" and any("--print-record" in parameter.opts for parameter in command.params)


BROKER = re.compile(r"^(?:pytestmark = .*|@)pytest\.mark\.broker", re.MULTILINE)
WITHOUT_A_BROKER = {"S-WIKI-0a", "S-WIKI-0b", "S-RUN-18", "S-RUN-32", "S-CASTLE-8"}  # rows about words and arithmetic


def test_no_row_is_left_out() -> None:
    """Rows are marked `not yet`, never taken away."""
    prefixes = [re.match(r"S-[A-Z]+", row.id)[0] for row in ROWS]  # type: ignore[index]
    assert {name: prefixes.count(name) for name in FAMILIES} == FAMILIES


@pytest.mark.scenario("S-WIKI-0a", "S-WIKI-0b")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_what_works_has_a_test_and_what_does_not_says_why(row: ScenarioRow) -> None:
    assert row.use
    assert row.behaviour
    assert bool(MARKS.get(row.id)) == (row.status is not RowStatus.NOT_YET), "a test and its status go together"
    assert bool(row.missing) == (row.status is not RowStatus.WORKS)
    assert bool(row.steps) or row.status is RowStatus.NOT_YET or not row.missing


@pytest.mark.parametrize("row", [row for row in ROWS if row.status is RowStatus.WORKS], ids=lambda row: row.id)
def test_what_works_is_shown_on_a_real_broker(row: ScenarioRow) -> None:
    files = {test.partition("::")[0] for test in MARKS[row.id]}
    has_broker = any(BROKER.search((ROOT / file).read_text(encoding="utf-8")) for file in files)
    assert has_broker != (row.id in WITHOUT_A_BROKER)


def test_each_mark_of_a_test_names_a_row() -> None:
    assert set(MARKS) - set(scenarios()) == set()


def test_each_mark_stands_where_it_is_read() -> None:
    """At a function of a module: elsewhere it would count for nothing."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        calls = [
            node
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.scenario"
        ]
        here = path.relative_to(ROOT).as_posix()
        read = {(test, row) for row, tests in MARKS.items() for test in tests if test.startswith(f"{here}::")}
        assert len(read) == sum(len(call.args) for call in calls), here


def test_a_mark_is_found_where_it_stands_and_an_unknown_row_comes_last(tmp_path: Path) -> None:
    (tmp_path / "tests" / "a").mkdir(parents=True)
    (tmp_path / "tests" / "a" / "test_b.py").write_text(
        '@pytest.mark.scenario("S-NO", "S-WIKI-1")\nasync def test_c():\n    pass\n\n\n'
        '@pytest.mark.broker\n@pytest.mark.scenario("S-WIKI-1")\ndef test_d():\n    pass\n'
    )
    first, second = "tests/a/test_b.py::test_c", "tests/a/test_b.py::test_d"
    assert list(find_marks(tmp_path / "tests").items()) == [("S-WIKI-1", [first, second]), ("S-NO", [first])]


def test_what_the_program_tells_is_what_the_tests_say() -> None:
    assert {row: list(tests) for row, tests in proofs().items()} == MARKS


@pytest.mark.scenario("S-WIKI-0c")
@pytest.mark.parametrize(("row", "step"), [(row.id, step) for row in ROWS for step in row.steps])
def test_each_step_is_understood(row: str, step: str) -> None:
    if step.startswith("#"):
        return
    words = shlex.split(step.split(" #", maxsplit=1)[0])
    if words[0] == "recoveryctl":
        parse(PROGRAM, words[1:])
    elif words[0] == "recoveryd":
        _parser().parse_args(words[1:])
    else:
        assert words[0] == "make", f"{row}: {step}"
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


SENT = sorted(
    {
        step
        for row in ROWS
        for step in row.steps
        if step.startswith("recoveryctl") and can_be_printed(shlex.split(step)[1:])
    }
)


@pytest.mark.scenario("S-WIKI-0c")
@pytest.mark.parametrize("step", SENT)
def test_each_command_that_a_step_sends_is_one_that_the_daemon_reads(step: str, tmp_path: Path) -> None:
    """Its values too, also of the steps that no story follows."""
    for name in ("nightly.yaml", "hourly.yaml"):
        (tmp_path / name).write_text(yaml.safe_dump(FOLLOWING), encoding="utf-8")
    words = [
        str(tmp_path / word) if word.endswith("ly.yaml") else word for word in shlex.split(step, comments=True)[1:]
    ]
    printed = run(None, *words, "--print-record", "-o", "json")
    assert printed.exit_code == 0, printed.output
    record = json.loads(printed.stdout)
    found = CODEC.decode(record["key"].encode(), record["value"].encode(), (), int(time.time() * 1000), 0)
    assert not isinstance(found, RefusedCommand | Unreadable), found


def test_each_step_is_run_as_it_stands_or_it_is_said_why_not() -> None:
    """On a broker, by `tests/e2e/test_scenario_sheets.py`, of which `make test` runs some and `make test-all` all."""
    followed = {essence(step) for story in FOLLOWED.values() for row in story for step in scenarios()[row].steps}
    left = {row.id: [step for step in row.steps if essence(step) not in followed] for row in ROWS}
    unrun = {row for row, steps in left.items() if any(not step.startswith("#") for step in steps)}
    excused = {essence(step) for row in NOT_FOLLOWED for step in scenarios()[row].steps}
    assert {row for row in unrun if any(essence(step) not in excused for step in left[row])} == set()
    assert set(NOT_FOLLOWED) <= unrun, "what is followed needs no excuse"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_each_page_that_a_row_names_is_there(row: ScenarioRow) -> None:
    assert [page for page in row.see if not (ROOT / "docs" / page.partition("#")[0]).exists()] == []


def test_the_page_links_to_its_own_sections() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    headings = re.findall(r"^### (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", text)) == anchors
