"""On the recorded events of real daemons, every release decides as they did: the same states, effects and sentences.

After a change of a rule, `python -m tests.builders.histories --decide` writes the new decisions; the difference shows
what the change does.
"""

import pytest

from tests.builders.histories import decided, expected, names


def test_there_are_four_of_them() -> None:
    assert names() == ["beside", "followed", "steered", "undone"]


@pytest.mark.parametrize("name", names())
def test_what_a_daemon_was_told_is_decided_as_it_was(name: str) -> None:
    found, wanted = decided(name), expected(name)
    assert len(found) == len(wanted)
    for number, (now, then) in enumerate(zip(found, wanted, strict=True), 1):
        assert now == then, f"decision {number}"
