"""`reprocess` in the core: the order of its steps, what is refused before anything is changed, each step failing and
each cut off by the death of the daemon, and what a rollback can and cannot put back.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.states import State
from recoveryd.recovery.commands import Pause, Resume
from recoveryd.recovery.spec import AtOffset, AtTime, Earliest, Latest
from recoveryd.units.facts import GroupType, Member
from recoveryd.units.model import Unit
from recoveryd.units.topology import Topology
from recoveryd.workflows.kinds.reprocess_checks import missing_in
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.positions import AtTopicOffsets, Current, OnOutOfRange, Shift, To
from recoveryd.workflows.model.spec import OutputChoice, OutputPolicy, ReprocessSpec
from recoveryd.workflows.model.workflow import OffsetUndo, StepState, UndoState
from tests.workflows.app_world import AGAIN, INTERNAL, OUTPUTS, PARTITIONS, UNIT, AppWorld, Log
from tests.workflows.world import report

STEPS = (
    "stop_application", "await_empty", "snapshot", "delete_internal_topics", "recreate_topics", "create_outputs",
    "set_offsets", "clean_local_state", "start_application", "await_caught_up", "look_at_outputs", "confirm_output",
)  # fmt: skip
ASKED = {"clean_local_state", "confirm_output"}
TAKEN = [name for name in STEPS if name not in ASKED]
CHANGING = ("delete_internal_topics", "recreate_topics", "create_outputs", "set_offsets")


def places(topic: str, offset: int) -> dict[tuple[str, int], int]:
    return {(topic, p): offset for p in range(PARTITIONS)}


def begun(**more: object) -> AppWorld:
    world = AppWorld()
    assert world.reprocess(**more) == "accepted"  # type: ignore[arg-type]
    return world


@pytest.mark.scenario("S-WIKI-1a", "S-WIKI-2a", "S-RUN-19")
def test_it_goes_through_its_steps_in_order_and_waits_for_people_where_only_they_can_know() -> None:
    world = begun()
    assert [step.name for step in world.workflow.steps] == list(STEPS)
    assert (world.workflow.state, world.waits_at, world.done) == (State.WAITING, "stop_application", [])
    world.pass_time(60)
    assert world.done == []
    world.stops()
    assert world.waits_at == "clean_local_state"
    assert world.done == [
        *(f"drop {name}" for name in INTERNAL), "drop totals", "make totals", "make log-2", "set"
    ]  # fmt: skip
    assert world.committed == places("orders", 0) | places("steps", 80)
    assert world.topics["log"] == Log("log-1", 0, 30)
    assert world.ack("clean_local_state") == "accepted"
    assert world.waits_at == "start_application"
    world.starts()
    assert world.waits_at == "confirm_output"
    assert world.ack("confirm_output") == "accepted"
    assert (world.workflow.state, [s.state.value for s in world.workflow.steps]) == (State.COMPLETED, ["done"] * 12)


@pytest.mark.scenario("S-RUN-16")
@pytest.mark.parametrize("ends_well", [True, False], ids=["success", "failure"])
def test_inputs_are_kept_from_retention_until_it_ended_however_it_ends(ends_well: bool) -> None:
    world = AppWorld()
    before = {"cleanup.policy": "delete", "retention.ms": "3600000"}
    world.configs["orders"] = dict(before)
    assert world.reprocess(keep_inputs=True) == "accepted"
    world.pass_time(3)
    assert world.configs["orders"] == before | {"retention.ms": "-1", "retention.bytes": "-1"}
    assert world.workflow.steps[0].name == "keep_inputs"
    if ends_well:
        world.run_through()
    else:
        world.stops()
        world.ack("clean_local_state")
        world.starts(reads_all=False)
        world.pass_time(4_000, every_s=10)
    assert world.workflow.state is (State.COMPLETED if ends_well else State.FAILED)
    assert world.configs["orders"] == before
    assert not world.workflow.temporary


@pytest.mark.scenario("S-RUN-16")
def test_what_somebody_else_set_for_an_input_meanwhile_stays() -> None:
    world = AppWorld()
    world.configs["orders"] = {"retention.ms": "3600000"}
    world.reprocess(keep_inputs=True)
    world.pass_time(3)
    world.configs["orders"]["retention.ms"] = "7200000"
    world.run_through()
    assert (world.workflow.state, world.configs["orders"]) == (State.COMPLETED, {"retention.ms": "7200000"})
    assert [row.state.value for row in world.workflow.undo if row.what == "config"] == ["kept", "done"]


def test_an_input_that_is_only_compacted_needs_no_keeping() -> None:
    world = AppWorld()
    world.configs["orders"] = {"cleanup.policy": "compact"}
    world.reprocess(keep_inputs=True)
    assert world.workflow.steps[0].name == "stop_application"


def test_caught_up_means_the_ends_of_the_inputs_when_the_application_stood() -> None:
    world = begun()
    world.stops()
    world.topics["orders"].end = 10_000
    world.ack("clean_local_state")
    world.starts(reads_all=False)
    assert world.waits_at == "await_caught_up"
    world.committed |= places("orders", 100)
    world.pass_time(5)
    assert world.waits_at == "confirm_output"


def test_who_reads_on_is_waited_for_as_long_as_it_reads() -> None:
    world = begun()
    world.stops()
    world.ack("clean_local_state")
    world.starts(reads_all=False)
    for offset in range(1, 6):
        world.pass_time(1_500, every_s=10)
        world.committed |= places("orders", offset)
    assert world.waits_at == "await_caught_up"
    world.pass_time(2_000, every_s=10)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.NOT_CAUGHT_UP.value)


@pytest.mark.scenario("S-WIKI-1d", "S-RUN-12", "S-RUN-19")
@pytest.mark.parametrize(
    ("change", "more", "code", "says"),
    [
        (lambda w: w.topics.pop("orders"), {}, Code.SOURCE_TOPIC_MISSING, "orders"),
        (lambda w: w.topics.pop("steps"), {}, Code.SOURCE_TOPIC_MISSING, "steps"),
        (lambda _: None, {"outputs": {"totals": OUTPUTS["totals"]}}, Code.MISSING_FIELD, "log"),
        (lambda _: None, {"outputs": {**OUTPUTS, "logg": OUTPUTS["log"]}}, Code.INVALID_VALUE, "logg"),
        (lambda _: None, {"intermediate": {"orders": AGAIN}}, Code.INVALID_VALUE, "orders"),
        (
            lambda _: None,
            {"outputs": {**OUTPUTS, "log": OutputChoice(OutputPolicy.KEEP)}},
            Code.INVALID_VALUE,
            "append_only",
        ),
        (lambda w: w.topics.update({"log-2": Log("x", 0, 3)}), {}, Code.TARGET_NOT_EMPTY, "6"),
        (lambda w: w.topics.pop("log"), {}, Code.TARGET_TOPIC_MISSING, "log"),
        (
            lambda _: None,
            {"outputs": {**OUTPUTS, "log": OutputChoice(OutputPolicy.NEW, "orders")}},
            Code.INVALID_VALUE,
            "orders",
        ),
        (lambda w: setattr(w.topics["orders"], "start", 50), {}, Code.INPUT_INCOMPLETE, "orders 0 lacks 50"),
        (
            lambda w: setattr(w.topics["orders"], "start", 50),
            {"accept_missing": 99},
            Code.INPUT_INCOMPLETE,
            "100 records",
        ),
        (lambda _: None, {"to": AtOffset(101)}, Code.OFFSET_OUTSIDE_LOG, "101"),
        (lambda _: None, {"to": AtTopicOffsets({"ordres": {0: 5}})}, Code.INVALID_VALUE, "ordres"),
        (lambda _: None, {"to": AtTopicOffsets({"orders": {2: 5}})}, Code.SOURCE_PARTITION_MISSING, "partition 2"),
        (lambda _: None, {"to": AtTopicOffsets({"orders": {0: 17}})}, Code.INVALID_VALUE, "orders 1"),
        (lambda _: None, {"to": AtTime(1)}, Code.OFFSET_OUTSIDE_LOG, "no record is that new"),
        (lambda w: setattr(w, "kind", GroupType.SHARE), {}, Code.GROUP_TYPE, "share"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_changed(
    change, more: Mapping[str, object], code: Code, says: str
) -> None:  # type: ignore[no-untyped-def]
    world = AppWorld()
    world.members = []
    change(world)
    before = dict(world.committed)
    assert world.reprocess(**more) == "rejected"  # type: ignore[arg-type]
    assert world.answers[-1].code == code.value
    assert says in world.answers[-1].message
    assert (world.done, world.committed) == ([], before)


NAMED = ("app-totals-changelog", "somebody chose its name")


@pytest.mark.scenario("S-WIKI-1b")
@pytest.mark.parametrize("name", ["app-totals-changelog", "app-by-name-repartition"])
def test_state_that_would_stay_because_nobody_can_tell_whose_it_is_refuses_it(name: str) -> None:
    world = AppWorld()
    world.topics[name] = Log("named-1", 0, 20)
    world.ambiguous = ((name, NAMED[1]),)
    assert world.reprocess() == "rejected"
    answer = world.answers[-1]
    assert answer.code == Code.AMBIGUOUS_TOPICS.value
    assert answer.message == f"{name} may hold state of shop, and would not be taken away: somebody chose its name"
    assert f"or list all its `internal_topics`, {name} too if it is its own; else make a unit of the" in answer.hint
    assert world.done == []


@pytest.mark.scenario("S-WIKI-1c")
@pytest.mark.parametrize(
    ("unit", "name", "reason"),
    [
        (UNIT, "app-v2-KSTREAM-AGGREGATE-STATE-STORE-0000000005-changelog", "who knows"),
        (UNIT, "app-prices-STATE-STORE-0000000001-changelog", "who knows"),
        (UNIT, NAMED[0], "it is an output of billing"),
        (replace(UNIT, stateful=False), *NAMED),
        (replace(UNIT, topology=Topology(())), NAMED[0], "the topology does not name it"),
        (replace(UNIT, topology=Topology(())), NAMED[0], "app-totals can own it as well"),
    ],
)
def test_a_topic_that_cannot_bring_its_state_back_is_left_alone_and_told(unit: Unit, name: str, reason: str) -> None:
    world = AppWorld(unit)
    world.ambiguous = ((name, reason),)
    assert world.reprocess() == "accepted"
    assert world.workflow.plan is not None
    assert world.workflow.plan.ambiguous_topics == (name,)
    assert any(finding.startswith(f"{name} may be an internal topic") for finding in world.workflow.plan.findings)


@pytest.mark.scenario("S-WIKI-1b")
def test_state_of_a_run_between_the_steps_that_died_before_it_committed_goes_as_well() -> None:
    """It made its changelog again, and read from the old offsets."""
    world, came = AppWorld(), []

    def comes_back(effect: TakeStep) -> StepReported | None:
        if effect.step != "set_offsets" or came:
            return None
        came.append(INTERNAL[0])
        world.topics[INTERNAL[0]] = Log("of-nobody", 0, 7)
        return report(effect, Outcome.NOT_YET, "1 members", members=("m9",))

    world.fault = comes_back
    world.reprocess()
    world.stops()
    world.run_through()
    assert world.workflow.state is State.COMPLETED, world.workflow.why
    assert INTERNAL[0] not in world.topics
    assert world.done.count(f"drop {INTERNAL[0]}") == 2


def test_a_commit_of_which_no_offset_is_named_ends_it_also_where_it_comes_after_the_plan() -> None:
    world = AppWorld()
    at = world.committed.pop(("orders", 1))
    assert world.reprocess(AtTopicOffsets({"orders": {0: 17}})) == "accepted"
    world.committed["orders", 1] = at
    before = dict(world.committed)
    world.stops()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.STALE_PLAN.value)
    assert "app committed on orders 1 since the plan" in world.workflow.why
    assert (world.done, world.committed) == ([], before)


@pytest.mark.scenario("S-WIKI-1d")
def test_missing_records_can_be_accepted_and_are_said_to_be_missing() -> None:
    world = AppWorld()
    world.topics["orders"].start = 50
    assert world.reprocess(accept_missing=100) == "accepted"
    assert world.workflow.plan is not None
    assert any("100 records" in finding for finding in world.workflow.plan.findings)
    world.run_through()
    assert world.workflow.state is State.COMPLETED


@pytest.mark.scenario("S-WIKI-1d")
def test_records_that_go_while_the_application_is_being_stopped_are_noticed() -> None:
    world = begun()
    world.topics["orders"].start = 5
    world.stops()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.INPUT_INCOMPLETE.value)
    assert world.done == []


@pytest.mark.parametrize(("policy", "stands"), [(OnOutOfRange.FAIL, None), (OnOutOfRange.CLAMP, 55)])
def test_a_position_that_goes_while_the_application_is_being_stopped_is_noticed_before_anything_goes(
    policy: OnOutOfRange, stands: int | None
) -> None:
    """Also where so many records may be missing."""
    world = begun(to=AtOffset(50), accept_missing=100, on_out_of_range=policy)
    world.topics["orders"].start = 55
    world.stops()
    if stands is not None:
        assert world.waits_at == "clean_local_state"
        assert {at for (topic, _), at in world.committed.items() if topic == "orders"} == {stands}
        return
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.OFFSET_OUTSIDE_LOG.value)
    assert world.done == []


def test_what_went_behind_the_time_from_which_it_begins_is_missing() -> None:
    spec = ReprocessSpec("shop", AtTime(1_000))
    assert missing_in(spec, {("a", 0): (0, 0), ("a", 1): (10, 10), ("a", 2): (10, 60), ("a", 3): (80, 60)}) == {
        ("a", 1): 10,
        ("a", 3): 20,
    }


@pytest.mark.parametrize("topic", ["orders", "steps"])
@pytest.mark.parametrize("is_there", [True, False])
def test_an_input_that_is_deleted_or_created_again_while_the_application_is_being_stopped_is_noticed(
    topic: str, is_there: bool
) -> None:
    world = begun()
    del world.topics[topic]
    if is_there:
        world.topics[topic] = Log(f"{topic}-2", 0, 100)
    world.stops()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.TOPIC_RECREATED.value)
    assert world.done == []


def test_an_input_that_is_created_again_before_the_offsets_are_set_keeps_what_its_group_has() -> None:
    world = AppWorld()

    def again(effect: TakeStep) -> None:
        if effect.step == "set_offsets":
            world.topics["orders"] = Log("orders-2", 0, 100)

    world.fault = again
    world.reprocess()
    before = {place: at for place, at in world.committed.items() if place[0] == "orders"}
    world.stops()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.TOPIC_RECREATED.value)
    assert before.items() <= world.committed.items()


@pytest.mark.parametrize("policy", [OnOutOfRange.CLAMP, OnOutOfRange.FAIL])
def test_a_shift_that_would_begin_in_front_of_the_log_is_clamped_or_refused_as_it_was_said(
    policy: OnOutOfRange,
) -> None:
    world = AppWorld()
    world.topics["orders"] = Log("orders-1", 10, 100)
    answer = world.reprocess(Shift(-60), on_out_of_range=policy)
    if policy is OnOutOfRange.FAIL:
        assert (answer, world.answers[-1].code) == ("rejected", Code.OFFSET_OUTSIDE_LOG.value)
        return
    world.stops()
    assert world.workflow.state is not State.FAILED, world.workflow.why
    assert {at for (topic, _), at in world.committed.items() if topic == "orders"} == {10}


def test_partitions_that_are_added_while_the_application_is_being_stopped_are_noticed_before_anything_goes() -> None:
    world = AppWorld()
    world.reprocess()
    world.partitions += 1
    world.committed |= {("orders", PARTITIONS): 55}
    world.stops()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.STALE_PLAN.value)
    assert "has 3 partitions, and had 2 when the plan was made" in world.workflow.why
    assert not world.done


@pytest.mark.scenario("S-WIKI-1f", "S-WIKI-1j", "S-RUN-4")
def test_owners_are_told_what_it_means_for_them() -> None:
    world = AppWorld()
    world.readers = {"totals": ("billing",), "log": ("audit",)}
    outputs = {"totals": OutputChoice(OutputPolicy.RECREATE), "log": OutputChoice(OutputPolicy.APPEND)}
    world.reprocess(outputs=outputs)
    assert world.workflow.plan is not None
    told = "\n".join(world.workflow.plan.findings)
    assert "billing reads totals: its offsets there go with the topic" in told
    assert "29 records of earlier runs stay in log" in told


def test_from_a_point_the_inputs_begin_there_and_what_lies_between_is_not_read_twice() -> None:
    world = begun(to=AtOffset(33), intermediate={"steps": AGAIN})
    world.run_through()
    assert world.workflow.state is State.COMPLETED
    set_to = {(c.name, c.partition): c.after for c in world.workflow.plan.changes if c.what == "offset"}  # type: ignore[union-attr]
    assert set_to == places("orders", 33) | places("steps", 0)
    assert world.topics["steps"].id == "steps-made-2"


@pytest.mark.scenario("S-WIKI-1a")
def test_offsets_of_its_group_on_other_topics_stay() -> None:
    world = AppWorld()
    world.committed["elsewhere", 0] = 5
    world.reprocess()
    world.run_through()
    assert world.workflow.state is State.COMPLETED
    assert world.committed["elsewhere", 0] == 5
    assert world.workflow.plan is not None
    assert {change.name for change in world.workflow.plan.changes if change.what == "offset"} == {"orders", "steps"}


@pytest.mark.parametrize("name", TAKEN)
def test_a_step_that_fails_for_good_leaves_a_reason_and_what_was_before_it(name: str) -> None:
    world = AppWorld()
    before = dict(world.committed)
    world.fail_at(name, retriable=False)
    world.reprocess()
    world.run_through()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.CLUSTER_UNREACHABLE.value)
    assert [s.name for s in world.workflow.steps if s.state.value == "failed"] == [name]
    world.fault = lambda _: None
    world.members = []
    is_noted = STEPS.index(name) > STEPS.index("snapshot")
    assert world.rollback() == ("accepted" if is_noted else "rejected")
    if is_noted:
        world.pass_time(5)
        assert world.workflow.state is State.ROLLED_BACK
        assert "log-2" not in world.topics, "a topic that was made and is empty goes again"
    if STEPS.index(name) <= STEPS.index("start_application"):
        kept = {place: at for place, at in before.items() if place[0] in world.topics and place[0] not in INTERNAL}
        assert {place: at for place, at in world.committed.items() if place[0] not in INTERNAL} == kept


@pytest.mark.parametrize("name", TAKEN)
def test_a_step_that_fails_for_a_while_is_tried_again(name: str) -> None:
    world = AppWorld()
    world.fail_at(name, retriable=True, times=3)
    world.reprocess()
    world.run_through()
    assert world.workflow.state is State.COMPLETED
    assert next(s for s in world.workflow.steps if s.name == name).tries >= 4


@pytest.mark.scenario("S-WIKI-2a")
@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("is_done", [False, True])
def test_a_daemon_that_dies_before_or_after_the_effect_of_a_step_goes_on(name: str, is_done: bool) -> None:
    """`is_done`: the cluster did it, and nobody heard."""
    world = AppWorld()
    world.die_at(name, is_done=is_done)
    world.reprocess()
    world.run_through()
    world.live_again()
    world.run_through()
    assert world.workflow.state is State.COMPLETED
    assert len(world.done) == len(set(world.done)) or world.done.count("set") == 2, "nothing was made or dropped twice"
    assert [name for name in world.topics if name in INTERNAL] == []


@pytest.mark.scenario("S-WIKI-2a")
@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("how", ["stop", "pause"])
def test_a_change_that_was_called_off_while_no_daemon_led_is_not_made(name: str, is_done: bool, how: str) -> None:
    world = AppWorld()
    world.die_at(name, is_done=is_done)
    world.reprocess()
    world.run_through()
    before, committed = dict(world.topics), dict(world.committed)
    world.live_again(world.stop if how == "stop" else lambda: world.send(Pause))
    assert world.workflow.state is (State.STOPPED if how == "stop" else State.PAUSED)
    assert (world.topics, world.committed) == (before, committed)
    assert next(s for s in world.workflow.steps if s.name == name).state.value == ("done" if is_done else "running")
    if how == "pause":
        assert world.send(Resume) == "accepted"
        world.run_through()
        assert world.workflow.state is State.COMPLETED, world.workflow.why


@pytest.mark.scenario("S-WIKI-1i")
def test_what_is_asked_of_a_person_survives_the_daemon() -> None:
    world = begun()
    world.stops()
    deadline_ms = world.workflow.waiting_for.deadline_ms  # type: ignore[union-attr]
    world.lead()
    world.pass_time(10)
    assert world.waits_at == "clean_local_state"
    assert world.workflow.waiting_for.deadline_ms == deadline_ms  # type: ignore[union-attr]
    world.pass_time(86_400, every_s=60)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.ACK_EXPIRED.value)


@pytest.mark.parametrize("is_answered", [True, False], ids=["answered", "not answered"])
@pytest.mark.parametrize("is_said", [True, False])
def test_what_a_person_said_in_time_while_no_daemon_ran_is_read_before_it_is_given_up(
    is_said: bool, is_answered: bool
) -> None:
    world = begun()
    if is_answered:
        world.stops()
    else:
        world.fail_at("stop_application", retriable=True)
        world.pass_time(60)
    step = world.waits_at
    world.now_ms = world.workflow.waiting_for.deadline_ms + 3_600_000  # type: ignore[union-attr,operator]

    def unread() -> None:
        assert world.waits_at == step
        if is_said:
            assert world.ack(step) == "accepted"

    world.lead(unread)
    world.pass_time(60)
    if is_said:
        assert world.workflow.state is State.WAITING
        assert world.waits_at == ("start_application" if is_answered else "await_empty")
    else:
        assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.ACK_EXPIRED.value)


def test_an_ack_is_for_a_step_that_waits_for_a_person() -> None:
    world = begun()
    assert world.ack("no_such_step") == "rejected"
    assert world.ack("confirm_output") == "rejected"
    assert world.ack("await_empty") == "rejected"
    assert world.ack("stop_application") == "accepted"
    assert world.waits_at == "await_empty", "who says it is stopped is believed only when its group is empty"
    world.stops()
    assert world.ack("clean_local_state") == "accepted"
    assert world.ack("clean_local_state") == "accepted", "said twice it changes nothing"
    assert world.waits_at == "start_application"


@pytest.mark.parametrize("how", [StopCommand, Pause])
def test_an_ack_for_a_step_at_which_nothing_goes_on_is_refused(how: type[StopCommand | Pause]) -> None:
    world = begun()
    world.send(how)
    stands = world.workflow
    assert world.waits_at is None
    assert stands.step is not None
    assert stands.step.state is StepState.WAITING
    assert world.ack("stop_application") == "rejected"
    assert world.answers[-1].code == Code.NOT_IN_THIS_STATE.value
    assert world.workflow == stands


def test_a_member_that_comes_back_between_the_steps_keeps_everything_from_being_set() -> None:
    world = begun()

    def fault(effect: TakeStep) -> StepReported | None:
        if effect.step == "set_offsets":
            world.committed["orders", 0] = 61
        return None

    world.fault = fault
    world.stops()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.GROUP_CHANGED.value)
    assert world.committed["orders", 0] == 61


def test_a_rollback_says_what_is_gone_for_good_and_leaves_what_the_application_read_since() -> None:
    world = begun()
    world.run_through()
    world.topics["log-2"].end = 7
    world.members = []
    assert world.rollback() == "accepted"
    assert "totals" in world.answers[-1].message
    assert "gone for good" in world.answers[-1].message
    world.pass_time(5)
    assert world.workflow.state is State.ROLLED_BACK
    assert world.committed["orders", 0] == 100
    assert "log-2" in world.topics, "somebody's records lie there"


def test_a_rollback_puts_no_offsets_of_a_topic_that_went_into_the_one_that_has_its_name_now() -> None:
    """Also where the group stands there at the very offset that was set, as at its start."""
    world = begun()
    world.stops()
    assert (world.waits_at, world.stop()) == ("clean_local_state", "accepted")
    assert world.committed == places("orders", 0) | places("steps", 80)
    world.topics["orders"] = Log("orders-again", 0, 100)
    assert world.rollback() == "accepted"
    world.pass_time(5)
    assert world.workflow.state is State.ROLLED_BACK
    assert world.committed == places("orders", 0) | places("steps", 70)
    states = {row.name: row.state for row in world.workflow.undo if isinstance(row, OffsetUndo)}
    assert (states["orders"], states["steps"]) == (UndoState.KEPT, UndoState.DONE)


def test_an_internal_topic_that_was_made_since_the_plan_ends_it_before_anything_is_changed() -> None:
    world = begun()
    world.internal = (*world.internal, "app-late-changelog")
    world.topics["app-late-changelog"] = Log("late-1", 0, 5)
    before = dict(world.committed)
    world.stops()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.STALE_PLAN.value)
    assert "app-late-changelog is an internal topic of shop" in world.workflow.why
    assert (world.done, world.committed) == ([], before)


@pytest.mark.parametrize("is_done", [False, True])
def test_an_empty_topic_of_somebody_stays_theirs_also_over_the_death_of_the_daemon_that_found_it(is_done: bool) -> None:
    world = AppWorld()
    world.topics["log-2"] = Log("theirs", 0, 0)
    world.die_at("create_outputs", is_done=is_done)
    assert world.reprocess() == "accepted"
    world.run_through()
    world.live_again()
    world.run_through()
    assert world.workflow.state is State.COMPLETED, world.workflow.why
    world.members = []
    assert world.rollback() == "accepted"
    world.pass_time(5)
    assert world.workflow.state is State.ROLLED_BACK
    assert world.topics["log-2"].id == "theirs"


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_the_plan_tells_what_a_new_output_that_is_there_already_has_not(policy: str) -> None:
    world = AppWorld()
    world.topics["log-2"] = Log("theirs", 0, 0)
    world.configs |= {"log": {"cleanup.policy": "compact"}, "log-2": {"cleanup.policy": policy}}
    assert world.reprocess() == "accepted"
    assert world.workflow.plan is not None
    told = [each for each in world.workflow.plan.findings if each.startswith("log-2 is there already")]
    unlike = "log-2 is there already and stays as it is, unlike log: cleanup.policy delete and not compact"
    assert told == ([] if policy == "compact" else [unlike])


def test_pause_stop_and_a_second_one_on_the_same_unit() -> None:
    world = begun()
    assert world.send(Pause) == "accepted"
    world.stops()
    world.pass_time(60)
    assert (world.workflow.state, world.done) == (State.PAUSED, [])
    assert world.send(Resume) == "accepted"
    world.pass_time(5)
    assert world.waits_at == "clean_local_state"
    other = world.workflow.spec
    assert other.verb == "reprocess"
    assert world.reprocess_as("w2") == "rejected"
    assert world.answers[-1].code == Code.IN_USE.value
    assert world.stop() == "accepted"
    assert world.workflow.state is State.STOPPED


@pytest.mark.parametrize("to", [Latest(), Current(), Shift(-5), Earliest()])
def test_a_plan_of_positions_that_move_has_the_same_hash_while_they_do(to: To) -> None:
    world = begun(to=to, dry_run=True, accept_missing=1_000)
    plan = world.workflow.plan
    assert plan is not None
    assert " moves: " in plan.findings[0]
    world.topics["orders"].end += 50
    world.topics["orders"].start += 1
    world.committed |= places("orders", 77)
    assert world.reprocess(to=to, plan_hash=plan.hash, accept_missing=1_000) == "accepted"


def test_a_dry_run_has_the_hash_of_the_same_plan_while_the_application_goes_on() -> None:
    world = begun(dry_run=True)
    assert (world.workflow.state, world.done) == (State.PLANNED, [])
    assert world.workflow.plan is not None
    planned = world.workflow.plan.hash
    world.topics["orders"].end += 50
    world.topics["steps"].end += 50
    world.committed |= places("orders", 77)
    assert world.reprocess(to=Latest(), plan_hash=planned) == "rejected"
    assert world.reprocess(plan_hash=planned) == "accepted"
    world.topics["totals"].id = "made-by-somebody"
    world.stops()
    assert world.workflow.state in {State.FAILED, State.WAITING}


@pytest.mark.scenario("S-WIKI-1e")
def test_members_are_named_while_they_are_waited_for() -> None:
    world = AppWorld()
    world.members = [Member("m1", "shop-1", "host", "static-1")]
    world.reprocess()
    assert world.workflow.waiting_for is not None
    assert world.workflow.waiting_for.members == ("shop-1 on host, static static-1",)
