"""Units that are read again: all take effect or none, and what changed is told once."""

from dataclasses import replace
from typing import Any

from recoveryd.kernel.metrics import Sample
from recoveryd.kernel.state import CoreState
from recoveryd.recovery.params import Params
from recoveryd.units.approvals import ApprovalBy, ApprovalRule
from recoveryd.units.draft import units_in
from recoveryd.units.events import RetentionSeen, UnitsRead
from recoveryd.units.params import with_units
from recoveryd.units.rereading import NOT_REREAD
from tests.builders.core import NOW_MS, make_book
from tests.builders.deciding import make_decider
from tests.units.test_lint import WORDS

GONE, NEW = replace(WORDS, name="gone"), replace(WORDS, name="new")
OTHER = replace(WORDS, owner="others")
PARAMS = Params(units={"words": WORDS, "gone": GONE})
READ = {"words": OTHER, "new": NEW}
RULES = (ApprovalRule(ApprovalBy.OWNER),)
BAD = UnitsRead(None, "units.d/new.yaml:3: no", "RCV-3002", "mend it")


class Told:
    """A core that is told what was read."""

    def __init__(self) -> None:
        self.core, self.state = make_decider(PARAMS), CoreState()

    def tell(self, event: object) -> list[tuple[str, dict[str, Any]]]:
        decision = self.core.decide(self.state, event, NOW_MS)
        self.state = decision.state
        return [(notice.type, dict(notice.data)) for notice in decision.notices]

    @property
    def units(self) -> Any:
        return units_in(self.state, PARAMS.units)

    @property
    def is_refused(self) -> list[float]:
        samples = make_book(PARAMS).gauges(self.state, NOW_MS)
        return [s.value for s in samples if isinstance(s, Sample) and s.metric is NOT_REREAD]


def test_before_anything_is_read_again_those_of_the_start_stand() -> None:
    assert Told().units == PARAMS.units
    assert Told().is_refused == [0.0]


def test_what_was_read_takes_effect_and_is_told() -> None:
    core = Told()
    why = "2 units were read: 1 are new, 1 changed, 1 are gone"
    changes = {"added": ["new"], "changed": ["words"], "removed": ["gone"]}
    assert core.tell(UnitsRead(READ)) == [("units_read", {"why": why, **changes})]
    assert core.units == READ


def test_rules_are_taken_with_the_units_that_they_are_written_for() -> None:
    core = Told()
    assert with_units(PARAMS, core.state) is PARAMS
    [(_, data)] = core.tell(UnitsRead(READ, approvals=RULES))
    assert data["why"].endswith(", and 1 rules say who approves")
    assert (with_units(PARAMS, core.state).units, with_units(PARAMS, core.state).approvals) == (READ, RULES)
    core.tell(replace(BAD, units=READ, approvals=RULES))
    assert with_units(PARAMS, core.state).approvals == RULES
    core.tell(UnitsRead(READ, approvals=()))
    assert with_units(replace(PARAMS, approvals=RULES), core.state).approvals == ()


def test_what_is_wrong_changes_nothing_and_is_told_once() -> None:
    core = Told()
    core.tell(UnitsRead(READ))
    bad = replace(BAD, units=READ, is_told_again=True)
    [(kind, data)] = core.tell(bad)
    assert (kind, data["message"], data["code"], data["hint"]) == ("units_refused", BAD.problem, "RCV-3002", "mend it")
    assert core.units == READ
    assert core.is_refused == [1.0]
    assert core.tell(bad) == []
    assert [kind for kind, _ in core.tell(UnitsRead(READ))] == ["units_read"]
    assert core.is_refused == [0.0]


def test_a_bad_first_reading_leaves_the_units_of_the_start() -> None:
    core = Told()
    assert [kind for kind, _ in core.tell(BAD)] == ["units_refused"]
    assert core.units == PARAMS.units


def test_a_daemon_that_begins_to_lead_takes_them_without_a_word() -> None:
    core = Told()
    assert core.tell(UnitsRead(READ, is_told_again=True)) == []
    assert core.units == READ


def test_what_was_seen_of_a_unit_stays_as_long_as_the_unit() -> None:
    core = Told()
    for name in ("words", "gone"):
        core.tell(RetentionSeen(name, {"words": 1}))
    core.tell(UnitsRead({"words": WORDS}))
    assert core.tell(RetentionSeen("words", {"words": 1})) == []
    assert core.tell(RetentionSeen("gone", {"words": 1})) == []
    core.tell(UnitsRead({"words": OTHER}))
    assert [kind for kind, _ in core.tell(RetentionSeen("words", {"words": 1}))] == ["unit_retention_short"]
