"""Each row of the table of scenarios stands for itself: whoever reads only that one knows where its ids come from, and
where to go on if it is not there yet.
"""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

import pytest

from recoveryd.scenarios.table import RowStatus, ScenarioRow, scenarios

ROWS = list(scenarios().values())
ROW_ID = re.compile(r"\bS-[A-Z]+-\w+")

# By verb, how many words there are before the ids, and how many ids.
ASKS_FOR = {
    "ack": (1, 1), "approve": (1, 1), "describe": (1, 1), "get": (1, 1), "pause": (1, 1), "reject": (1, 1), "release": (1, 1), "resume": (1, 1),
    "retry": (1, 1), "rollback": (1, 1), "stop": (1, 1), "throttle": (1, 1), "wait": (1, 1), "restore-savepoint": (1, 1),
    "runbook show": (2, 1), "runbook promote": (2, 1), "runbook discard": (2, 1), "savepoint diff": (2, 2), "schedule show": (2, 1),
}  # fmt: skip
GIVES = {"hold": 1, "savepoint create": 2, "schedule add": 2}


def words_of(step: str) -> list[str]:
    """Without the name of the program; none of what a person does."""
    return [] if step.startswith("#") else shlex.split(step, comments=True)[1:]


def behind(option: str, words: list[str]) -> list[str]:
    return [after for word, after in pairwise(words) if word == option]


def asked_for(words: list[str]) -> Iterator[str]:
    """What has to be there before: things with an id, savepoints, and the copy that a verification reads."""
    for verb in (" ".join(words[:2]), words[0]):
        before, count = ASKS_FOR.get(verb, (0, 0))
        yield from words[before : before + count]
    yield from behind("--savepoint", words)
    for copy in behind("--target", words) if words[0] == "verify" else ():
        yield copy.split(".")[1] if copy.startswith("savepoint.") else copy


def given(words: list[str]) -> Iterator[str]:
    for verb in (" ".join(words[:2]), *words[:1]):
        if verb in GIVES:
            yield words[GIVES[verb]]
    yield from behind("--id", words)
    yield from behind("--target", words)
    yield from (output.partition("=new:")[2] for output in behind("--outputs", words))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_each_id_of_its_steps_is_given_by_one_of_them_or_by_a_row_that_is_named(row: ScenarioRow) -> None:
    known: set[str] = set()
    for step in row.steps:
        for other in ROW_ID.findall(step) if step.startswith("#") else ():
            known.update(name for line in scenarios()[other].steps for name in given(words_of(line)))
        words = words_of(step)
        if words:
            assert set(asked_for(words)) - known == set(), step
            known.update(given(words))


@pytest.mark.parametrize("row", [row for row in ROWS if row.status is RowStatus.NOT_YET], ids=lambda row: row.id)
def test_what_is_not_there_yet_names_a_row_with_commands_that_comes_near(row: ScenarioRow) -> None:
    near = [scenarios()[name] for name in ROW_ID.findall(row.missing)]
    assert any(other.steps for other in near)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_rows_that_its_words_name_are_there(row: ScenarioRow) -> None:
    words = " ".join((row.use, row.behaviour, row.limits, row.missing, *row.steps))
    assert set(ROW_ID.findall(words)) - set(scenarios()) == set()
