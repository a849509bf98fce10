"""A watch with `then: stop`: it asks whoever controls the application, once it is known how it ran, until it is
stopped; and it has the application to itself.
"""

import json
from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.decision import Decision
from recoveryd.kernel.events import CommandReceived, ControlRead, ControlUnread, Event
from recoveryd.kernel.states import State
from recoveryd.recovery.spec import Earliest
from recoveryd.units.approvals import ApprovalBy, ApprovalRule, ApprovedVerb
from recoveryd.units.model import ControlKind, Unit, UnitKind
from recoveryd.units.topology import parse_topology
from recoveryd.watches.effects import StopApplication
from recoveryd.watches.events import UnitStopReported
from recoveryd.watches.model import UnitStopState
from recoveryd.watches.spec import CallHook, StopUnit
from recoveryd.workflows.model.commands import Reset
from recoveryd.workflows.model.events import WorkflowFacts
from recoveryd.workflows.model.facts import Found, GroupFound
from recoveryd.workflows.model.positions import PartitionLook
from recoveryd.workflows.model.spec import ResetSpec
from tests.builders.core import STATUS, make_meta
from tests.builders.deciding import make_decider
from tests.builders.watch_world import CAUGHT_UP, PARAMS, WatchWorld

UNIT = Unit("shop", UnitKind.GROUP, "main", "reports", ("flights",), control=ControlKind.PROCESS)
STOPPING = replace(CAUGHT_UP, then=StopUnit("shop"))
LONG_ENOUGH = 14


class StopWorld(WatchWorld):
    """`asked`: what whoever controls the application was asked."""

    def __init__(self, *units: Unit) -> None:
        self.asked: list[StopApplication] = []
        super().__init__(params=replace(PARAMS, units={unit.name: unit for unit in units or (UNIT,)}))

    def feed(self, event: Event) -> Decision:
        decision = super().feed(event)
        self.asked += [effect for effect in decision.effects if isinstance(effect, StopApplication)]
        return decision

    def hear(
        self,
        *,
        stopped: bool = False,
        message: str = "it ends",
        before: dict[str, object] | None = None,
        question: int | None = None,
    ) -> None:
        """An answer to the newest question, or to that one."""
        self.feed(UnitStopReported("w1", question or self.asked[-1].question, stopped, message, before))


def fulfilled(*units: Unit) -> StopWorld:
    world = StopWorld(*units)
    assert world.start(STOPPING).state is State.RUNNING
    world.looks(3)
    assert world.asked == []
    world.catch_up()
    world.looks(LONG_ENOUGH)
    return world


@pytest.mark.scenario("S-WIKI-4")
def test_it_looks_how_the_application_runs_before_it_has_it_stopped_and_ends_when_it_is() -> None:
    world = fulfilled()
    assert {(ask.unit, ask.before) for ask in world.asked} == {("shop", None)}
    world.hear(before={"replicas": 3})
    assert world.asked[-1].before == {"replicas": 3}
    world.hear(message="2 of 3 are gone")
    assert (world.watch().state, "2 of 3" in world.watch().why) == (State.RUNNING, True)
    world.hear(stopped=True, message="all are gone")
    watch = world.watch()
    assert (watch.state, watch.unit_stop.state) == (State.COMPLETED, UnitStopState.STOPPED)  # type: ignore[union-attr]
    assert watch.stop is not None
    assert watch.stop.evidence["partitions_judged"] == 2
    assert world.notices[-1].type == "watch_completed"
    asked = len(world.asked)
    world.looks(5)
    assert len(world.asked) == asked


@pytest.mark.scenario("S-WIKI-4b")
def test_a_partition_that_does_not_move_keeps_the_application_running() -> None:
    world = StopWorld()
    world.start(STOPPING)
    world.catch_up()
    world.topics["flights"].committed[1] = 49
    world.looks(40)
    assert (world.asked, world.watch().state) == ([], State.RUNNING)


@pytest.mark.parametrize("is_known", [False, True])
def test_a_new_daemon_asks_again_with_what_was_journaled(is_known: bool) -> None:
    world = fulfilled()
    if is_known:
        world.hear(before={"replicas": 3})
    world.asked.clear()
    world.restart()
    assert [ask.before for ask in world.asked] == [{"replicas": 3} if is_known else None]
    assert world.asked[0].since_ms == world.watch().unit_stop.wanted_ms  # type: ignore[union-attr]
    world.hear(stopped=True)
    assert (world.watch().state is State.COMPLETED) is is_known, "who only looked has stopped nothing"


@pytest.mark.parametrize("is_known", [False, True])
def test_a_new_daemon_reads_first_whether_the_watch_was_ended(is_known: bool) -> None:
    world = fulfilled()
    if is_known:
        world.hear(before={"replicas": 3})
    asked = len(world.asked)
    world.restart(unread=True)
    world.looks(3)
    world.hear(before={"replicas": 3})
    assert len(world.asked) == asked
    world.send("stop")
    world.feed(ControlRead())
    world.looks(3)
    assert (world.watch().state, len(world.asked)) == (State.STOPPED, asked)


def test_what_the_application_reads_into_a_global_table_need_not_be_watched() -> None:
    text = """
    Sub-topology: 0 for global store (will not generate tasks)
     Source: A (topics: [prices])
       --> none
    Sub-topology: 1
     Source: B (topics: [flights])
       --> none
    """
    world = StopWorld(replace(UNIT, inputs=("flights", "prices"), topology=parse_topology(text)))
    assert world.start(STOPPING).state is State.RUNNING


def test_what_does_not_stop_in_time_fails_with_what_was_heard_last() -> None:
    world = fulfilled()
    world.hear(before={})
    world.hear(message="it ignores SIGTERM")
    world.looks(130)
    watch = world.watch()
    assert (watch.state, watch.error_code) == (State.FAILED, Code.UNIT_NOT_STOPPED.value)
    assert "it ignores SIGTERM" in watch.why


NOBODY_LED_MS = 7_200_000


def after_nobody_led(*, is_told: bool) -> StopWorld:
    """The next daemon, long after the application should have stopped."""
    world = fulfilled()
    if is_told:
        world.hear(before={"replicas": 3})
        world.hear(message="2 of 3 are gone")
    world.asked.clear()
    world.now_ms += NOBODY_LED_MS
    world.restart()
    world.looks(3)
    assert world.watch().state is State.RUNNING, "nobody has told this daemon how far it is"
    assert {ask.before is not None for ask in world.asked} == {is_told}
    return world


def test_what_stopped_while_no_daemon_ran_is_found_stopped() -> None:
    world = after_nobody_led(is_told=True)
    world.hear(stopped=True, message="all are gone")
    assert world.watch().state is State.COMPLETED


def test_what_did_not_stop_while_no_daemon_ran_is_said_once_it_was_looked_at() -> None:
    world = after_nobody_led(is_told=True)
    world.hear(message="1 of 3 is left")
    world.looks(1)
    watch = world.watch()
    assert (watch.state, watch.error_code) == (State.FAILED, Code.UNIT_NOT_STOPPED.value)
    assert "1 of 3 is left" in watch.why


def test_what_was_not_told_to_stop_before_has_its_time_from_then() -> None:
    world = after_nobody_led(is_told=False)
    world.hear(before={"replicas": 3})
    assert world.asked[-1].before == {"replicas": 3}
    world.hear(message="it ends")
    world.looks(100)
    assert world.watch().state is State.RUNNING
    world.looks(30)
    assert world.watch().error_code == Code.UNIT_NOT_STOPPED.value


def test_of_what_nobody_can_say_how_it_runs_that_is_said_after_one_look() -> None:
    world = after_nobody_led(is_told=False)
    world.hear(message="no answer")
    world.looks(1)
    assert (world.watch().state, "no answer" in world.watch().why) == (State.FAILED, True)


def test_what_was_looked_at_while_commands_were_unread_was_not_told_to_stop() -> None:
    world = fulfilled()
    world.feed(ControlUnread())
    why = world.watch().why
    world.now_ms += NOBODY_LED_MS
    world.hear(before={"replicas": 3}, message="3 of 3 run")
    assert world.watch().why == why, "nobody was asked to stop it"
    world.feed(ControlRead())
    world.looks(2)
    assert world.watch().state is State.RUNNING
    assert world.asked[-1].before is None
    world.hear(before={"replicas": 3})
    assert world.asked[-1].before == {"replicas": 3}
    world.looks(100)
    assert world.watch().state is State.RUNNING, "its time counts from when it was told"


@pytest.mark.parametrize("is_heard", [False, True])
@pytest.mark.parametrize("is_stopped", [False, True])
def test_after_commands_were_unread_it_is_asked_once_more_before_it_is_given_up(
    is_heard: bool, is_stopped: bool
) -> None:
    world = fulfilled()
    world.hear(before={"replicas": 3})
    world.hear(message="2 of 3 are gone")
    world.feed(ControlUnread())
    world.now_ms += NOBODY_LED_MS
    world.looks(3)
    if is_heard:
        world.hear(message="1 of 3 is left")
    asked = len(world.asked)
    world.feed(ControlRead())
    assert (world.watch().state, len(world.asked)) == (State.RUNNING, asked + 1)
    assert world.asked[-1].before == {"replicas": 3}
    world.looks(3)
    assert world.watch().state is State.RUNNING
    world.hear(stopped=is_stopped, message="0 of 3 are left" if is_stopped else "1 of 3 is left")
    world.looks(1)
    assert world.watch().state is (State.COMPLETED if is_stopped else State.FAILED)


def test_an_answer_under_way_while_commands_were_unread_answers_no_later_question() -> None:
    world = fulfilled()
    world.hear(before={"replicas": 3})
    early = world.asked[-1].question
    world.feed(ControlUnread())
    world.now_ms += NOBODY_LED_MS
    world.feed(ControlRead())
    world.hear(message="2 of 3 are gone", question=early)
    world.looks(3)
    assert world.watch().state is State.RUNNING
    world.hear(message="1 of 3 is left")
    world.looks(1)
    assert world.watch().state is State.FAILED


def test_a_record_of_an_earlier_release_does_not_say_when_it_was_told() -> None:
    world = fulfilled()
    world.hear(before={})
    world.hear(message="it ignores SIGTERM")
    key, value = STATUS.encode(world.watch())
    document = json.loads(value)
    assert document["watch"]["unit_stop"].pop("told") is not None
    world.status[key] = json.dumps(document).encode()
    world.restart()
    assert world.watch().unit_stop.told_ms is None  # type: ignore[union-attr]
    world.hear(message="it ignores SIGTERM")
    world.looks(130)
    assert world.watch().error_code == Code.UNIT_NOT_STOPPED.value


def test_what_the_config_gives_much_time_to_stop_is_waited_for() -> None:
    world = fulfilled(replace(UNIT, stop_timeout_ms=3_600_000))
    world.hear(before={})
    world.looks(700)
    assert world.watch().state is State.RUNNING
    world.looks(80)
    assert world.watch().error_code == Code.UNIT_NOT_STOPPED.value


def test_an_operator_who_ends_the_watch_ends_its_asking() -> None:
    world = fulfilled()
    assert world.send("stop").kind == "accepted"
    asked = len(world.asked)
    world.hear(stopped=True)
    world.looks(5)
    watch = world.watch()
    assert (watch.state, watch.unit_stop.state, len(world.asked)) == (State.STOPPED, UnitStopState.FAILED, asked)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("units", "changes", "code", "says"),
    [
        ((UNIT,), {"then": StopUnit("shopp")}, Code.UNKNOWN_UNIT, "shop"),
        ((replace(UNIT, control=ControlKind.MANUAL),), {}, Code.INVALID_VALUE, "only people"),
        ((replace(UNIT, group="others"),), {}, Code.INVALID_VALUE, "reads as others"),
        ((replace(UNIT, inputs=("flights", "planes")),), {}, Code.INVALID_VALUE, "planes"),
    ],
)
def test_what_nobody_could_stop_or_would_be_stopped_too_early_is_refused(
    units: tuple[Unit, ...], changes: dict[str, object], code: Code, says: str
) -> None:
    world = StopWorld(*units)
    answer = world.send("watch", spec=replace(STOPPING, **changes))  # type: ignore[arg-type]
    assert (answer.kind, answer.code) == ("rejected", code.value)
    assert says in answer.message + answer.hint


def reset(world: StopWorld, subject: str) -> str:
    """The code of its refusal, empty when it was taken."""
    told = len(world.answers)
    world.offset += 1
    made = Reset(make_meta(subject, f"c-{subject}"), ResetSpec("main", "reports", Earliest()))
    world.feed(CommandReceived(world.offset, world.now_ms, made))
    look = PartitionLook("flights", 0, 0, 100, 50)
    world.feed(WorkflowFacts(subject, Found((GroupFound(None, (look,), (), {"flights": "id"}),))))
    return world.answers[told].code


def test_a_watch_and_a_workflow_on_the_same_application_refuse_each_other() -> None:
    world = StopWorld()
    world.start(STOPPING)
    assert reset(world, "r1") == Code.UNIT_WATCHED.value
    assert "watch w1" in world.answers[-1].message
    answer = world.send("watch", "w2", spec=STOPPING)
    assert (answer.kind, answer.code) == ("rejected", Code.UNIT_WATCHED.value)
    world.send("stop")
    assert reset(world, "r2") == ""
    answer = world.send("watch", "w3", spec=STOPPING)
    assert (answer.kind, answer.code) == ("rejected", Code.UNIT_WATCHED.value)
    assert "workflow r2" in answer.message


def test_who_only_looks_is_in_nobodys_way() -> None:
    world = StopWorld()
    world.start(replace(CAUGHT_UP, then=CallHook("stop-it")))
    assert reset(world, "r1") == ""
    assert world.start(replace(CAUGHT_UP), "w2").state is State.RUNNING


GUARDED = replace(UNIT, approvers=("//ops/kim",))


def test_an_application_with_approvers_is_stopped_by_a_watch_of_one_of_them_only() -> None:
    answer = StopWorld(GUARDED).send("watch", spec=STOPPING)
    assert (answer.kind, answer.code) == ("rejected", Code.NOT_AN_APPROVER.value)
    assert "is no approver of shop; it has //ops/kim" in answer.message
    sender = StopWorld().start(STOPPING).command.source
    assert StopWorld(replace(GUARDED, approvers=(sender,))).start(STOPPING).state is State.RUNNING


def test_a_rule_of_the_config_counts_for_watches_as_well() -> None:
    world = StopWorld(UNIT)
    rule = ApprovalRule(ApprovalBy.APPROVERS, frozenset({ApprovedVerb.WATCH}))
    world.decider = make_decider(replace(PARAMS, units={"shop": UNIT}, approvals=(rule,)))
    answer = world.send("watch", spec=STOPPING)
    assert (answer.code, "it has none" in answer.message) == (Code.NOT_AN_APPROVER.value, True)


@pytest.mark.parametrize(
    ("unit", "code"),
    [
        (GUARDED, Code.NOT_AN_APPROVER),
        (replace(UNIT, control=ControlKind.MANUAL), Code.INVALID_VALUE),
        (replace(UNIT, name="renamed"), Code.UNKNOWN_UNIT),
    ],
)
def test_what_changed_since_the_watch_began_counts_when_it_fires(unit: Unit, code: Code) -> None:
    world = StopWorld()
    world.start(STOPPING)
    world.decider = make_decider(replace(PARAMS, units={unit.name: unit}))
    world.looks(3)
    world.catch_up()
    world.looks(LONG_ENOUGH)
    watch = world.watch()
    assert (watch.state, watch.error_code, world.asked) == (State.FAILED, code.value, [])
    assert "shop is not stopped" in watch.why
