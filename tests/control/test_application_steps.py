"""Steps of workflows that wait for an application: what they ask of whoever stops and starts it, and what they
journal.
"""

from dataclasses import replace

import pytest

from recoveryd.adapters.kafka.steps.application_steps import ApplicationSteps
from recoveryd.units.control import TOLD, ApplicationState, Needs, Report, Wish
from recoveryd.units.model import Behaviour, ControlKind, Output, Unit, UnitKind
from recoveryd.workflows.model.actions import AwaitStarted, AwaitStopped
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import START_FAILED, Outcome

UNIT = Unit("app", UnitKind.GROUP, "main", "app", ("in",), control=ControlKind.KUBERNETES)
STOP = TakeStep("w1", "stop", 1, AwaitStopped("main", "app", "app"), since_ms=7)
START = TakeStep("w1", "start", 1, AwaitStarted("main", "app", "app", before={"replicas": 3}), since_ms=9)


class Control:
    """Tells the reports that a test gives it, and keeps what it was asked."""

    def __init__(self, *reports: Report) -> None:
        self._reports = list(reports)
        self.asked: list[Wish] = []

    async def look(self, unit: str) -> Report:
        return self._reports.pop(0)

    async def ask(self, wish: Wish) -> Report:
        self.asked.append(wish)
        return self._reports.pop(0)

    async def start(self) -> None: ...

    async def close(self) -> None: ...


def told(state: ApplicationState, needs: Needs = Needs.NOTHING, **before: int) -> Report:
    return Report("app", state, "why", before=before, needs=needs)


async def test_how_it_ran_is_noted_as_soon_as_it_is_known_and_goes_into_both_wishes() -> None:
    control = Control(
        told(ApplicationState.UNKNOWN, Needs.TIME),
        told(ApplicationState.RUNNING, replicas=3),
        told(ApplicationState.STOPPED),
        told(ApplicationState.RUNNING),
    )
    steps = ApplicationSteps(lambda: {"app": UNIT}, control)
    first = await steps.take(STOP)
    assert (first.outcome, dict(first.evidence)) == (Outcome.NOT_YET, {}), "an answer that says nothing is not noted"
    assert first.is_under_way, "it is asked again"
    second = await steps.take(STOP)
    noted = {"before": {"replicas": 3}, "ran_before": True}
    assert (second.outcome, second.evidence) == (Outcome.NOT_YET, noted)
    assert control.asked == [], "it is noted before it is asked to stop"
    third = await steps.take(replace(STOP, seen=second.evidence))
    assert (third.outcome, third.evidence["before"]) == (Outcome.DONE, {"replicas": 3})
    assert (await steps.take(START)).outcome is Outcome.DONE
    assert [(wish.desired.value, wish.before, wish.since_ms) for wish in control.asked] == [
        ("stopped", {"replicas": 3}, 7),
        ("running", {"replicas": 3}, 9),
    ]


async def test_what_a_person_has_to_mend_is_told_with_what_to_do() -> None:
    control = Control(told(ApplicationState.UNKNOWN, Needs.MENDING), told(ApplicationState.RUNNING, Needs.MENDING))
    steps = ApplicationSteps(lambda: {"app": UNIT}, control)
    for effect in (STOP, replace(STOP, seen={"before": {}})):
        found = await steps.take(effect)
        assert found.outcome is Outcome.NOT_YET
        assert found.why == "app: why; mend it and `pause` and `resume` w1, or do it by hand and `ack` stop"


@pytest.mark.parametrize(("needs", "is_under_way"), [(Needs.TIME, True), (Needs.MENDING, False), (Needs.ACK, False)])
async def test_nobody_is_waited_for_while_it_is_being_stopped_or_started(needs: Needs, is_under_way: bool) -> None:
    for effect in (replace(STOP, seen={"before": {}}), START):
        found = await ApplicationSteps(lambda: {"app": UNIT}, Control(told(ApplicationState.CHANGING, needs))).take(
            effect
        )
        assert (found.outcome, found.is_under_way) == (Outcome.NOT_YET, is_under_way)
    noted = await ApplicationSteps(lambda: {"app": UNIT}, Control(told(ApplicationState.RUNNING))).take(STOP)
    assert noted.is_under_way, "it is asked to stop next"


async def test_it_is_noted_of_one_that_did_not_run_before() -> None:
    steps = ApplicationSteps(lambda: {"app": UNIT}, Control(told(ApplicationState.STOPPED)))
    assert (await steps.take(STOP)).evidence == {"before": {}, "ran_before": False}


async def test_a_start_that_was_told_is_known_to_whoever_asks_for_it_later_and_to_no_other_start() -> None:
    def at_it(key: str) -> Report:
        return replace(told(ApplicationState.CHANGING, Needs.TIME), evidence={TOLD: key} if key else {})

    control = Control(at_it("w1/start/9"), at_it(""), at_it(""))
    steps = ApplicationSteps(lambda: {"app": UNIT}, control)
    first = await steps.take(START)
    again = await steps.take(replace(START, seen=first.evidence))
    assert again.evidence[TOLD] == "w1/start/9", "also for the one after that"
    await steps.take(replace(START, seen=again.evidence, since_ms=10))
    assert [(wish.key, wish.was_told) for wish in control.asked] == [
        ("w1/start/9", False),
        ("w1/start/9", True),
        ("w1/start/10", False),
    ]


@pytest.mark.scenario("S-RUN-12")
async def test_a_start_that_failed_is_told_as_such_and_what_appends_may_not_be_restarted() -> None:
    appends = replace(UNIT, outputs={"rows": Output(Behaviour.APPEND_ONLY)})
    for unit, state, needs, may_restart, is_failed in (
        (UNIT, ApplicationState.STOPPED, Needs.MENDING, True, True),
        (appends, ApplicationState.STOPPED, Needs.MENDING, False, True),
        (appends, ApplicationState.CHANGING, Needs.MENDING, False, True),
        (appends, ApplicationState.CHANGING, Needs.TIME, False, False),
        (appends, ApplicationState.UNKNOWN, Needs.MENDING, False, False),
    ):
        control = Control(told(state, needs))
        steps = ApplicationSteps(lambda unit=unit: {"app": unit}, control)  # type: ignore[misc]
        report = await steps.take(START)
        assert (report.outcome, START_FAILED in report.evidence) == (Outcome.NOT_YET, is_failed)
        assert [wish.may_restart for wish in control.asked] == [may_restart]
