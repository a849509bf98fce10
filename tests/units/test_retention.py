"""The daemon tells of a retention that is too short once, and once more when it is mended; what it does not know it
does not judge.
"""

from dataclasses import replace
from types import MappingProxyType

import pytest

from recoveryd.kernel.metrics import Sample
from recoveryd.kernel.state import CoreState
from recoveryd.recovery.params import Params
from recoveryd.units.events import RetentionSeen
from recoveryd.units.retention import RETENTION_SHORT
from tests.builders.core import NOW_MS, make_book
from tests.builders.deciding import make_decider
from tests.units.test_lint import HOUR_MS, WORDS

TWO = replace(WORDS, inputs=("words", "more"))
PARAMS = Params(
    units=MappingProxyType({"words": TWO, "free": replace(WORDS, name="free", retention_objective_ms=None)})
)


class Watch:
    """A core that is told what was seen."""

    def __init__(self) -> None:
        self.core, self.state = make_decider(PARAMS), CoreState()

    def see(self, unit: str = "words", *unknown: str, **kept_ms: int | None) -> list[str]:
        """What the events topic is told."""
        decision = self.core.decide(self.state, RetentionSeen(unit, kept_ms, unknown), NOW_MS)
        self.state = decision.state
        return [f"{notice.type} {notice.data['why']}" for notice in decision.notices]

    @property
    def shown(self) -> dict[str, float]:
        samples = make_book(PARAMS).gauges(self.state, NOW_MS)
        return {s.labels[0]: s.value for s in samples if isinstance(s, Sample) and s.metric is RETENTION_SHORT}


def test_what_is_kept_long_enough_is_no_news() -> None:
    watch = Watch()
    assert watch.see(words=None, more=72 * HOUR_MS) == []
    assert watch.shown == {"words": 0.0}


@pytest.mark.scenario("S-RUN-10")
def test_an_input_that_is_kept_too_short_is_told_once_with_the_worst_of_them() -> None:
    watch = Watch()
    told = ["unit_retention_short more is kept for 1 h, the objective of words is 72 h"]
    assert watch.see(words=48 * HOUR_MS, more=HOUR_MS) == told
    assert watch.see(words=48 * HOUR_MS, more=HOUR_MS) == []
    assert watch.shown == {"words": 1.0}


def test_another_input_is_news_and_so_is_the_end_of_it() -> None:
    watch = Watch()
    watch.see(words=None, more=HOUR_MS)
    assert len(watch.see(words=HOUR_MS, more=HOUR_MS)) == 1
    assert watch.see(words=None, more=None) == ["unit_retention_met every input is kept 72 h or longer"]
    assert watch.shown == {"words": 0.0}


def test_what_is_not_known_is_neither_short_nor_well() -> None:
    watch = Watch()
    assert watch.see("words", "more", words=None) == []
    assert watch.shown == {}
    assert len(watch.see("words", "more", words=HOUR_MS)) == 1  # one that is short is enough
    assert watch.see("words", "words", "more") == []
    assert watch.shown == {}


def test_units_without_an_objective_and_units_that_nobody_knows_are_not_judged() -> None:
    watch = Watch()
    assert watch.see("free", words=1) == []
    assert watch.see("gone", words=1) == []
    assert watch.shown == {}
