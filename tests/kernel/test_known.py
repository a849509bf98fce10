"""What a daemon knows of one kind: made at once when it begins to lead, and changed one by one after that."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from recoveryd.holds.draft import HOLDS
from recoveryd.holds.known import Holds
from recoveryd.holds.model import Hold
from recoveryd.kernel.known import Joined
from recoveryd.kernel.state import CoreState
from recoveryd.kernel.states import CommandRef, State
from recoveryd.schedules.draft import SCHEDULES
from recoveryd.schedules.known import Schedules
from recoveryd.schedules.model import Schedule
from recoveryd.schedules.spec import ScheduledCommand, ScheduleSpec
from recoveryd.watches.draft import WATCHES
from recoveryd.watches.known import Watches
from recoveryd.watches.model import Watch
from recoveryd.watches.spec import UntilCaughtUp, WatchSpec
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.model.known import Workflows
from recoveryd.workflows.model.spec import SavepointSpec
from recoveryd.workflows.model.workflow import Workflow
from tests.builders.deciding import make_decider
from tests.builders.world import PARAMS
from tests.patience import lines_of

ONE = ("n", State.RUNNING, "", 1, 1, 1, CommandRef("c", "s", "r"))
WATCH = Watch(*ONE, spec=WatchSpec("main", "g", ("t",), UntilCaughtUp()))
SCHEDULE = Schedule(*ONE, spec=ScheduleSpec("0 2 * * *", ScheduledCommand("replay", {})))
HOLD = Hold(*ONE, "main", ("t",))
WORKFLOW = Workflow(*ONE, verb="savepoint", unit=None, spec=SavepointSpec("u", "n"), control_offset=1)
KINDS = [
    pytest.param(Watches, Watches.with_watch, WATCH, id="watches"),
    pytest.param(Schedules, Schedules.with_schedule, SCHEDULE, id="schedules"),
    pytest.param(Holds, Holds.with_hold, HOLD, id="holds"),
    pytest.param(Workflows, Workflows.with_workflow, WORKFLOW, id="workflows"),
]
SLOTS: list[Any] = [
    (WATCHES, Watches, WATCH),
    (SCHEDULES, Schedules, SCHEDULE),
    (HOLDS, Holds, HOLD),
    (WORKFLOWS, Workflows, WORKFLOW),
]


def some(noun: Any, count: int) -> list[Any]:
    """Every third one lives."""
    states = State.RUNNING, State.COMPLETED, State.STOPPED
    return [replace(noun, id=f"n{n}", state=states[n % 3], created_ms=n, updated_ms=n) for n in range(count)]


def in_order(known: Any) -> tuple[Any, ...]:
    """With the order of what was put in, in which the oldest is forgotten first."""
    return known, list(known.live), list(known.ended)


@pytest.mark.parametrize(("kind", "put", "noun"), KINDS)
def test_made_at_once_they_are_as_put_in_one_after_the_other(kind: Any, put: Any, noun: Any) -> None:
    one_by_one = kind()
    for each in some(noun, 10):
        one_by_one = put(one_by_one, each)
    assert in_order(kind.of(iter(some(noun, 10)))) == in_order(one_by_one)


@pytest.mark.parametrize(("kind", "put", "noun"), KINDS)
def test_to_know_many_nothing_is_copied_for_each(kind: Any, put: Any, noun: Any, monkeypatch: Any) -> None:
    made: list[None] = []
    begin = kind.__init__
    monkeypatch.setattr(kind, "__init__", lambda *args, **named: made.append(None) or begin(*args, **named))

    def copies(nouns: Iterable[Any]) -> int:
        made.clear()
        kind.of(nouns)
        return len(made)

    assert copies(some(noun, 100)) == copies(some(noun, 10))


def test_several_joined_are_as_one_dict_of_all() -> None:
    parts = {"a": 1, "b": 2}, {}, {"c": 3}
    joined, expected = Joined(*parts), {"a": 1, "b": 2, "c": 3}
    assert joined == expected
    assert (list(joined), list(joined.values()), len(joined)) == (list(expected), list(expected.values()), 3)
    assert [joined.get(name) for name in "abcd"] == [1, 2, 3, None]
    assert ["c" in joined, "d" in joined, 3 in joined.values(), 4 in joined.values()] == [True, False, True, False]
    with pytest.raises(KeyError, match="d"):
        joined["d"]


def test_to_find_one_by_its_id_none_of_the_others_is_looked_at() -> None:
    decider = make_decider(PARAMS)

    def lines(count: int) -> int:
        state = CoreState()
        for slot, kind, noun in SLOTS:
            nouns = [replace(each, id=f"{slot.name}-{each.id}") for each in some(noun, count)]
            state = state.having(slot, kind.of(nouns))
        assert len(decider.known(state)) == 4 * count
        for name in ("workflows-n0", "holds-n1"):
            assert decider.known(state)[name].id == name
        return lines_of(lambda: [decider.known(state).get(name) for name in ("workflows-n0", "holds-n1", "none")])

    assert lines(100) == lines(10)
