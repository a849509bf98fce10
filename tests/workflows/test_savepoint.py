"""`savepoint` and `restore_savepoint` in the core: what is cut, what is copied by whom, and that what was changed for a
time only is put back however it ends.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from recoveryd.adapters.kafka.steps.offset_steps import is_settled
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.states import State
from recoveryd.recovery.kept_topics import AS_WRITTEN, FOREVER
from recoveryd.recovery.spec import Earliest
from recoveryd.replay.spec import Replay
from recoveryd.units.control import ENDED_CLEANLY
from recoveryd.units.facts import Member, PartitionEnds
from recoveryd.units.topology import parse_topology
from recoveryd.wire.nouns import NounForm
from recoveryd.workflows.model.actions import AwaitCaughtUp, TakeSnapshot
from recoveryd.workflows.model.commands import Ack, Reset, RestoreSavepoint, Rollback, Savepoint
from recoveryd.workflows.model.cut import Cut
from recoveryd.workflows.model.effects import GatherForWorkflow, TakeStep
from recoveryd.workflows.model.events import GatheringFailed, Outcome, StepReported, WorkflowFacts
from recoveryd.workflows.model.positions import OfSavepoint, OfSnapshot, PartitionLook, To
from recoveryd.workflows.model.spec import (
    OutputChoice,
    OutputPolicy,
    ResetSpec,
    RestoreSpec,
    SavepointSpec,
    StateChoice,
)
from recoveryd.workflows.model.workflow import ConfigUndo, UndoState
from recoveryd.workflows.wire.savepoint import SavepointData
from recoveryd.workflows.wire.status import WorkflowForm
from recoveryd_jobs.contract import Verification
from tests.builders.core import make_spec
from tests.builders.deciding import make_decider
from tests.builders.records import make_recovery
from tests.workflows.app_world import GROUP, INTERNAL, OUTPUTS, PARTITIONS, UNIT, AppWorld, Log
from tests.workflows.world import report

COMPACTED = {name: {"cleanup.policy": "compact"} for name in INTERNAL}
APPEND = {name: OutputChoice(OutputPolicy.APPEND) for name in UNIT.outputs}
SAVED = ("stop_application", "await_empty", "keep_changelogs", "snapshot", "create_copies", "copy_state")
RESTORED = (
    "stop_application", "await_empty", "snapshot", "recreate_state_topics", "copy_state", "settle_state_topics", "set_offsets",
    "clean_local_state", "start_application", "await_caught_up", "look_at_outputs", "confirm_output",
)  # fmt: skip
CHOSEN = "somebody chose its name"
EARLIER = "the application stood still: its group had no members when offsets and ends were read"
TAKEN = [name for name in SAVED if name != "copy_state"]


def save(world: AppWorld, name: str = "before", workflow: str = "w1", **more: bool) -> str:
    spec = SavepointSpec(UNIT.name, name, **more)
    return world.send(lambda meta: Savepoint(meta, spec), subject=workflow)


def restore(world: AppWorld, workflow: str = "w2", outputs: Mapping[str, OutputChoice] = APPEND) -> str:
    spec = RestoreSpec("before", UNIT.name, outputs)
    return world.send(lambda meta: RestoreSavepoint(meta, spec), subject=workflow)


def makes_late_topic(world: AppWorld) -> Callable[[TakeStep], StepReported | None]:
    """A fault that makes an internal topic just before the snapshot is taken."""

    def made(effect: TakeStep) -> StepReported | None:
        if effect.step == "snapshot":
            world.internal = (*INTERNAL, "app-late-changelog")
            world.topics["app-late-changelog"] = Log("late-1", 0, 5)
        return None

    return made


def saved() -> AppWorld:
    world = AppWorld()
    save(world)
    world.run_through()
    assert world.workflow.state is State.COMPLETED
    return world


@pytest.mark.scenario("S-WIKI-3")
def test_a_cut_has_offsets_state_and_ends_of_one_moment() -> None:
    world = AppWorld()
    assert save(world) == "accepted"
    assert [step.name for step in world.workflow.steps] == list(SAVED)
    world.stops()
    assert world.waits_at == "copy_state"
    assert {world.configs[name]["min.compaction.lag.ms"] for name in INTERNAL} == {FOREVER}, "records may be of any age"
    copies = [name for name in world.topics if name.startswith("savepoint.")]
    assert all(AS_WRITTEN.items() <= world.configs[name].items() for name in copies), "each record with its own time"
    [between, changelog] = [sent.data for sent in world.sent]
    assert changelog["source"] == {
        "cluster": "main", "topic": INTERNAL[0], "partitions": [0, 1], "from": {"offsets": {"0": 0, "1": 0}},
        "to": {"offsets": {"0": 20, "1": 20}},
    }  # fmt: skip
    assert between["source"]["from"] == {"offsets": {"0": 9, "1": 9}}, "what was read of it is in the state already"  # type: ignore[index]
    world.run_through()
    cut = world.workflow.cut
    assert cut is not None
    assert (world.workflow.state, cut.is_exact, cut.is_exact_if_clean) == (State.COMPLETED, False, True)
    assert cut.offsets == {
        "orders": dict.fromkeys(range(PARTITIONS), 60),
        "steps": dict.fromkeys(range(PARTITIONS), 70),
    }
    assert cut.ends == {
        topic: dict.fromkeys(range(PARTITIONS), end)
        for topic, end in (("orders", 100), ("steps", 80), ("totals", 40), ("log", 30))
    }
    assert {name: world.configs[name] for name in INTERNAL} == COMPACTED


def test_a_cut_is_of_the_time_at_which_it_was_noted_however_long_that_was_waited_for() -> None:
    world = AppWorld()

    def waits(effect: TakeStep) -> StepReported | None:
        return report(effect, Outcome.NOT_YET, "a transaction is open") if effect.step == "snapshot" else None

    world.fault = waits
    save(world)
    world.stops()
    world.pass_time(300)
    assert world.waits_at == "snapshot"
    since_ms, world.fault = world.now_ms, lambda _: None
    world.run_through()
    cut = world.workflow.cut
    assert cut is not None
    assert since_ms < cut.at_ms <= since_ms + 2_000


def test_an_input_that_is_created_again_before_the_cut_is_noticed() -> None:
    world = AppWorld()
    save(world)
    world.topics["orders"] = Log("orders-2", 0, 100)
    world.stops()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.TOPIC_RECREATED.value)


def becomes_as_wide(world: AppWorld, topic: str, partitions: int) -> None:
    """While the application is being stopped; with none it is gone."""

    def moves(effect: TakeStep) -> StepReported | None:
        if effect.step != "snapshot":
            return None
        told = world.take(effect)
        others = {name: logs for name, logs in told.logs.items() if name != topic}
        now = dict.fromkeys(range(partitions), PartitionEnds(0, world.topics[topic].end))
        return replace(told, logs={**others, topic: now} if partitions else others)

    world.fault = moves


@pytest.mark.parametrize(("partitions", "code"), [(0, Code.SOURCE_TOPIC_MISSING), (PARTITIONS + 1, Code.STALE_PLAN)])
def test_a_changelog_that_went_or_grew_since_the_plan_is_noticed_before_a_copy_is_made(
    partitions: int, code: Code
) -> None:
    world = AppWorld()
    save(world)
    becomes_as_wide(world, INTERNAL[0], partitions)
    world.stops()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, code.value)
    assert INTERNAL[0] in world.workflow.why
    assert [name for name in world.topics if name.startswith("savepoint.")] == []
    assert {name: world.configs[name] for name in INTERNAL} == COMPACTED


@pytest.mark.parametrize("live", [False, True])
def test_an_internal_topic_that_was_made_since_the_plan_is_not_left_out_of_the_cut(live: bool) -> None:
    world = AppWorld()

    world.fault = makes_late_topic(world)
    assert save(world, live=live) == "accepted"
    world.stops()
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.STALE_PLAN.value)
    assert "app-late-changelog is an internal topic of shop" in world.workflow.why
    assert world.sent == []


def test_a_live_cut_does_not_pass_over_an_input_that_went_since_the_plan() -> None:
    world = AppWorld()

    def goes(effect: TakeStep) -> StepReported | None:
        if effect.step == "keep_changelogs":
            del world.topics["orders"]
        return None

    world.fault = goes
    save(world, live=True)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.SOURCE_TOPIC_MISSING.value)
    assert "orders was deleted" in world.workflow.why
    assert {name: world.configs[name] for name in INTERNAL} == COMPACTED


EXACT, IF_CLEAN, NOT_EXACT = (True, False), (False, True), (False, False)


@pytest.mark.parametrize(
    ("is_once", "ended", "expected", "why"),
    [
        (True, None, EXACT, "the application stood still"),
        (True, False, EXACT, "the application stood still"),
        (False, True, EXACT, "it had ended as it was told to"),
        (None, None, IF_CLEAN, "the cut is exact if it was stopped cleanly, which is not known"),
        (False, None, IF_CLEAN, "the cut is exact if it was stopped cleanly, which is not known"),
        (False, False, NOT_EXACT, "the application was killed and is not known to be exactly once"),
    ],
)
def test_a_cut_of_what_was_stopped_is_exact_only_where_it_is_known_not_to_have_been_killed(
    is_once: bool | None, ended: bool | None, expected: tuple[bool, bool], why: str
) -> None:
    world = AppWorld()
    world.is_exactly_once = is_once

    def stopped(effect: TakeStep) -> StepReported | None:
        if effect.step != "stop_application" or world.members:
            return None
        evidence = {} if ended is None else {ENDED_CLEANLY: ended}
        return report(effect, Outcome.DONE, "it is stopped", evidence=evidence)

    world.fault = stopped
    save(world)
    assert world.workflow.plan is not None
    assert any("is stopped cleanly" in f for f in world.workflow.plan.findings) is (is_once is not True)
    world.run_through()
    cut = world.workflow.cut
    assert cut is not None
    assert (cut.is_exact, cut.is_exact_if_clean) == expected
    assert why in cut.why
    world.fault = lambda _: None
    world.starts()
    assert restore(world) == "accepted", "whatever is known of it"
    plan = world.look("w2").plan
    assert plan is not None
    assert (cut.why in plan.findings) is (expected != EXACT)


@pytest.mark.parametrize("is_bare", [False, True])
def test_a_cut_of_an_earlier_release_is_exact_if_what_was_stopped_ended_cleanly(is_bare: bool) -> None:
    world = AppWorld()
    world.is_exactly_once = True
    save(world)
    world.run_through()
    assert world.workflow.cut is not None
    stored = WorkflowForm().write(world.workflow)
    earlier = {**stored["cut"], "why": EARLIER}
    del earlier["is_exact_if_clean"]
    cut = WorkflowForm().read({**stored, "cut": {**earlier, **({"topics": []} if is_bare else {})}}).cut
    assert cut is not None
    assert (cut.is_exact, cut.is_exact_if_clean) == (EXACT if is_bare else IF_CLEAN)
    assert ("taken by an earlier release" in cut.why) is not is_bare
    assert NounForm(Cut).read(NounForm(Cut).write(cut)) == cut


def test_a_cut_of_offsets_alone_is_exact_however_it_was_stopped() -> None:
    world = AppWorld()
    world.internal = ()
    save(world)
    world.run_through()
    assert world.workflow.cut is not None
    assert world.workflow.cut.is_exact


def test_a_savepoint_waits_for_a_consumer_that_commits_without_being_a_member() -> None:
    world = AppWorld()
    save(world)
    note = next(step.action for step in world.workflow.steps if step.name == "snapshot")
    assert isinstance(note, TakeSnapshot)
    assert note.looks_twice
    save(world, "live", "w9", live=True, dry_run=True)
    live = next(step.action for step in world.look("w9").steps if step.name == "snapshot")
    assert isinstance(live, TakeSnapshot)
    assert not live.looks_twice, "it commits all the time"


def test_topics_in_between_are_copied_first_and_a_live_plan_says_that_what_is_read_of_them_goes() -> None:
    world = AppWorld()
    save(world, live=True)
    assert world.workflow.plan is not None
    [told] = [finding for finding in world.workflow.plan.findings if "repartition.purge.interval.ms" in finding]
    assert told.startswith(f"{INTERNAL[1]}: while it runs")
    assert [sent.data["source"]["topic"] for sent in world.sent] == [INTERNAL[1], INTERNAL[0]]  # type: ignore[index]
    save(world, "stopped", "w9", dry_run=True)
    stopped = world.look("w9").plan
    assert stopped is not None
    assert not any("purge" in finding for finding in stopped.findings), "nobody reads then"
    changelogs = AppWorld()
    changelogs.internal = INTERNAL[:1]
    save(changelogs, live=True)
    assert changelogs.workflow.plan is not None
    assert not any("purge" in finding for finding in changelogs.workflow.plan.findings)


@pytest.mark.scenario("S-WIKI-3")
def test_a_live_cut_says_that_it_may_count_twice() -> None:
    world = AppWorld()
    save(world, live=True)
    world.run_through()
    assert [step.name for step in world.workflow.steps][:2] == ["keep_changelogs", "snapshot"]
    assert world.workflow.cut is not None
    assert not world.workflow.cut.is_exact
    assert "counted twice" in world.workflow.cut.why


@pytest.mark.scenario("S-RUN-26b")
@pytest.mark.parametrize("name", TAKEN)
def test_whatever_fails_compaction_goes_on_again(name: str) -> None:
    world = AppWorld()

    def fault(effect: TakeStep) -> StepReported | None:
        code = Code.CLUSTER_UNREACHABLE.value
        return report(effect, Outcome.FAILED, "no", code=code) if effect.step == name else None

    world.fault = fault
    save(world)
    world.run_through()
    assert world.workflow.state is State.FAILED
    assert {name: world.configs[name] for name in INTERNAL} == COMPACTED
    assert not world.workflow.temporary


@pytest.mark.scenario("S-RUN-26b")
def test_it_stays_closing_until_what_was_temporary_is_put_back() -> None:
    world = unrestored()
    world.lead()
    world.pass_time(300, every_s=10)
    assert world.workflow.state is State.CLOSING
    assert "restore_configs: no; it is tried again until 2" in world.workflow.why
    assert "`recoveryctl stop w1 --reason TEXT` leaves it changed" in world.workflow.why
    world.fault = lambda _: None
    world.pass_time(130, every_s=10)
    assert world.workflow.state is State.COMPLETED
    assert {name: world.configs[name] for name in INTERNAL} == COMPACTED


def unrestored() -> AppWorld:
    """A savepoint that is done, and may not put the configs of its changelogs back."""
    world = AppWorld()

    def fault(effect: TakeStep) -> StepReported | None:
        is_it = effect.step == "restore_configs"
        return report(effect, Outcome.FAILED, "no", code=Code.NOT_AUTHORISED.value) if is_it else None

    world.fault = fault
    save(world)
    world.run_through()
    assert world.workflow.state is State.CLOSING
    return world


def says_how_to_put_back(world: AppWorld) -> bool:
    """Of each changelog, what is set and what was, and the command."""
    rows = [row for row in world.workflow.undo if isinstance(row, ConfigUndo)]
    tool = "`kafka-configs.sh --bootstrap-server BROKERS --alter --entity-type topics --entity-name"
    told = {f"{row.config} of {row.name} is {row.was_set}, was not set" for row in rows}
    for name in {row.name for row in rows}:
        told.add(f"{tool} {name} --delete-config {','.join(row.config for row in rows if row.name == name)}`")
    return {row.state for row in rows} == {UndoState.LEFT} and all(part in world.workflow.why for part in told)


def test_what_cannot_be_put_back_in_time_is_left_changed_and_the_reason_says_how_to_put_it_back() -> None:
    world = unrestored()
    world.pass_time(86_400, every_s=600)
    world.lead()
    world.pass_time(1_800, every_s=60)
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.LEFT_CHANGED.value)
    assert "(no), so it is left changed" in world.workflow.why
    assert says_how_to_put_back(world), world.workflow.why


def test_who_gives_up_what_cannot_be_put_back_gets_the_end_that_was_meant() -> None:
    world = unrestored()
    assert world.stop() == "accepted"
    assert (world.workflow.state, world.workflow.error_code) == (State.COMPLETED, None)
    assert "was given up by" in world.workflow.why
    assert says_how_to_put_back(world), world.workflow.why


def test_the_last_try_before_it_is_given_up_may_still_work() -> None:
    world = unrestored()
    world.fault = lambda _: None
    assert world.stop() == "accepted"
    assert world.workflow.state is State.COMPLETED
    assert {name: world.configs[name] for name in INTERNAL} == COMPACTED


def test_a_last_try_that_nobody_answers_is_not_waited_for_without_an_end() -> None:
    world = unrestored()
    world.fault = lambda effect: StepReported(effect.workflow, "of somebody who is gone", 0, Outcome.DONE)
    assert world.stop() == "accepted"
    assert world.workflow.state is State.CLOSING
    world.pass_time(300, every_s=10)
    assert world.workflow.state is State.COMPLETED
    assert "nothing was heard of the last try" in world.workflow.why


def test_a_copy_that_fails_or_does_not_match_ends_it_with_its_reason() -> None:
    world = AppWorld()
    save(world)
    world.stops()
    world.have_recovery(make_recovery(world.sent[0].subject, state=State.FAILED, why="the broker is gone"))
    world.pass_time(5)
    assert world.workflow.state is State.FAILED
    assert "the broker is gone" in world.workflow.why
    assert {name: world.configs[name] for name in INTERNAL} == COMPACTED


def test_a_command_that_was_not_seen_is_sent_again_with_its_id() -> None:
    world = AppWorld()
    save(world)
    world.stops()
    world.lead()
    world.pass_time(120)
    assert len({sent.id for sent in world.sent}) == len(INTERNAL)
    assert len(world.sent) > len(INTERNAL)


def test_a_stop_ends_what_it_began_first() -> None:
    world = AppWorld()
    save(world)
    world.stops()
    child = world.sent[0].subject
    world.have_recovery(make_recovery(child, state=State.PLANNED))
    assert world.stop() == "accepted"
    assert (world.workflow.state, world.sent[-1].verb, world.sent[-1].subject) == (State.STOPPING, "stop", child)
    world.have_recovery(make_recovery(child, state=State.STOPPED))
    world.pass_time(10)
    assert world.workflow.state is State.STOPPED


def test_one_without_a_name_has_that_of_its_workflow_so_that_a_schedule_can_take_one_after_the_other() -> None:
    assert SavepointData.model_validate({"unit": UNIT.name, "reason": "each night"}).to_core() == SavepointSpec(
        UNIT.name, ""
    )
    world = AppWorld()
    for workflow in ("nightly.20261122t0100", "nightly.20261123t0100"):
        assert save(world, "", workflow) == "accepted"
        world.run_through(workflow)
        done = world.look(workflow)
        assert (done.state, done.cut.name) == (State.COMPLETED, workflow)  # type: ignore[union-attr]
    assert f"savepoint.nightly.20261123t0100.{INTERNAL[0]}" in world.topics
    assert (save(world, "nightly.20261122t0100", "w3"), world.answers[-1].code) == ("rejected", Code.ID_IN_USE.value)


def test_names_are_taken_until_a_savepoint_is_deleted() -> None:
    world = saved()
    assert (save(world, workflow="w2"), world.answers[-1].code) == ("rejected", Code.ID_IN_USE.value)
    world.pass_time(400 * 86_400, every_s=86_400)
    assert world.workflow.state is State.COMPLETED, "it is kept until somebody deletes it"
    copies = [name for name in world.topics if name.startswith("savepoint.before.")]
    assert len(copies) == len(INTERNAL)
    assert world.rollback() == "accepted"
    assert world.workflow.state is State.ROLLED_BACK
    assert not set(copies) & set(world.topics)
    assert save(world, workflow="w3") == "accepted"


def test_copies_that_a_failed_savepoint_left_are_told_before_the_application_is_stopped_for_another() -> None:
    world = AppWorld()
    save(world)
    world.stops()
    world.have_recovery(make_recovery(world.sent[0].subject, state=State.FAILED))
    world.pass_time(30)
    assert world.workflow.state is State.FAILED
    assert (save(world, workflow="w2"), world.answers[-1].code) == ("rejected", Code.INVALID_VALUE.value)
    assert f"savepoint.before.{INTERNAL[0]} exists already" in world.answers[-1].message
    assert world.rollback() == "accepted"
    assert save(world, workflow="w3") == "accepted"


@pytest.mark.scenario("S-RUN-21b", "S-OSO-5a")
def test_the_same_unit_goes_back_to_its_cut() -> None:
    world = saved()
    world.committed = {("orders", p): 90 for p in range(PARTITIONS)} | {("steps", p): 79 for p in range(PARTITIONS)}
    world.topics[INTERNAL[0]].end = 44
    assert restore(world) == "accepted"
    back = world.look("w2")
    assert [step.name for step in back.steps] == list(RESTORED)
    world.run_through("w2")
    assert world.look("w2").state is State.COMPLETED
    assert {name: world.topics[name].end for name in INTERNAL} == dict.fromkeys(INTERNAL, 20)
    assert {name: world.configs[name]["cleanup.policy"] for name in INTERNAL} == dict.fromkeys(INTERNAL, "compact")
    set_to = {(c.name, c.partition): c.after for c in world.look("w2").plan.changes if c.what == "offset"}  # type: ignore[union-attr]
    assert set_to == {
        (topic, p): at for topic, at in (("orders", 60), ("steps", 70), (INTERNAL[1], 0)) for p in range(PARTITIONS)
    }


@pytest.mark.parametrize(
    "name", [n for n in RESTORED if n not in {"copy_state", "clean_local_state", "confirm_output"}]
)
def test_wherever_a_restore_fails_state_topics_have_their_own_configs_again(name: str) -> None:
    world = saved()
    world.fail_at(name, retriable=False)
    restore(world)
    world.run_through("w2")
    assert world.look("w2").state is State.FAILED
    assert {name: world.configs[name] for name in INTERNAL} == COMPACTED
    assert not world.look("w2").temporary


def test_a_copy_back_that_fails_leaves_state_topics_with_their_own_configs() -> None:
    world = saved()
    restore(world)
    world.stops()
    assert {world.configs[name]["cleanup.policy"] for name in INTERNAL} == {"delete"}
    sent = next(sent for sent in world.sent if sent.subject.startswith("w2-"))
    world.have_recovery(make_recovery(sent.subject, state=State.FAILED))
    world.run_through("w2")
    assert world.look("w2").state is State.FAILED
    assert {name: world.configs[name] for name in INTERNAL} == COMPACTED


def assert_taken_away_until_a_rollback(world: AppWorld, place: tuple[str, int], at: int) -> None:
    """Of the commit at a place: w2 takes it away and says so, and a rollback of w2 puts it back."""
    assert place not in world.committed
    [change] = [c for c in world.look("w2").plan.changes if (c.name, c.partition) == place]  # type: ignore[union-attr]
    assert (change.before, change.after) == (at, None)
    world.send(StopCommand, subject="w2")
    assert world.send(Rollback, subject="w2") == "accepted"
    world.run_through("w2")
    assert world.committed[place] == at


@pytest.mark.parametrize("before_the_plan", [True, False])
def test_a_commit_where_there_was_none_at_the_cut_is_taken_away_and_comes_back_with_a_rollback(
    *, before_the_plan: bool
) -> None:
    """Else the records before it would be in no state and never be read."""
    world, place = AppWorld(), ("orders", 1)
    at = world.committed.pop(place)
    save(world)
    world.run_through()
    if before_the_plan:
        world.committed[place] = at
    world.members = [Member("m1", "shop-1", "host")]
    assert restore(world) == "accepted"
    world.committed[place] = at  # its application went on until it was stopped
    world.stops()
    world.complete_children()
    world.pass_time(40)
    world.ack("clean_local_state", "w2")
    assert world.waiting("w2") == "start_application"
    assert_taken_away_until_a_rollback(world, place, at)


def test_a_restore_leaves_no_internal_topic_that_was_made_since_the_plan() -> None:
    world = saved()
    before = dict(world.committed)

    world.fault = makes_late_topic(world)
    assert restore(world) == "accepted"
    world.run_through("w2")
    back = world.look("w2")
    assert (back.state, back.error_code) == (State.FAILED, Code.STALE_PLAN.value)
    assert "app-late-changelog is an internal topic of shop" in back.why
    assert world.committed == before


@pytest.mark.scenario("S-WIKI-3a")
def test_what_cannot_be_restored_is_refused() -> None:
    world = AppWorld()
    assert (restore(world), world.answers[-1].code) == ("rejected", Code.NO_SUCH_SAVEPOINT.value)
    world = saved()
    world.topics["orders"].start = 61
    assert (restore(world), world.answers[-1].code) == ("rejected", Code.OFFSET_OUTSIDE_LOG.value)
    world = saved()
    world.topics["steps"] = Log("steps-2", 0, 80)
    assert (restore(world), world.answers[-1].code) == ("rejected", Code.TOPIC_RECREATED.value)
    assert "steps was created again since the savepoint" in world.answers[-1].message
    world = saved()
    del world.topics[f"savepoint.before.{INTERNAL[0]}"]
    assert (restore(world), world.answers[-1].code) == ("rejected", Code.SOURCE_TOPIC_MISSING.value)


@pytest.mark.parametrize(
    ("name", "reason", "is_refused"),
    [
        ("app-totals-changelog", CHOSEN, True),  # a store that the savepoint does not have
        ("app-totals-changelog", "it is an output of billing", False),
        (INTERNAL[0], CHOSEN, False),  # made again and filled, whoever's it is
        ("app-v2-KSTREAM-AGGREGATE-STATE-STORE-0000000005-changelog", CHOSEN, False),
    ],
)
def test_a_topic_that_may_hold_state_and_would_stay_ahead_of_the_cut_refuses_a_restore(
    name: str, reason: str, is_refused: bool
) -> None:
    world = saved()
    world.internal = INTERNAL[1:]
    world.ambiguous = ((name, reason),)
    before = list(world.done)
    assert restore(world) == ("rejected" if is_refused else "accepted")
    if is_refused:
        told = f"{name} may hold state of shop, and would stay ahead of before: somebody chose its name"
        assert (world.answers[-1].code, world.answers[-1].message) == (Code.AMBIGUOUS_TOPICS.value, told)
        assert world.done == before


@pytest.mark.parametrize("policy", ["compact", "compact,delete", None])
def test_a_copy_that_somebody_lets_be_compacted_is_not_taken_for_the_state(policy: str | None) -> None:
    """A record that somebody wrote to it since may have the key of one of the state, which compaction removes."""
    world = saved()
    copy = f"savepoint.before.{INTERNAL[0]}"
    del world.configs[copy]["cleanup.policy"]
    if policy is not None:
        world.configs[copy]["cleanup.policy"] = policy
    before = list(world.done)
    assert (restore(world), world.answers[-1].code) == ("rejected", Code.OFFSET_OUTSIDE_LOG.value)
    assert f"{copy} has the cleanup.policy {policy or 'of its broker'}" in world.answers[-1].message
    assert world.done == before
    world.configs[copy]["cleanup.policy"] = "delete"
    assert restore(world) == "accepted"


@pytest.mark.parametrize(
    ("log", "code"),
    [
        (Log("made-by-somebody", 0, 0), Code.TOPIC_RECREATED),
        (Log("made-by-somebody", 0, 20), Code.TOPIC_RECREATED),
        (None, Code.OFFSET_OUTSIDE_LOG),
        ("short", Code.OFFSET_OUTSIDE_LOG),
    ],
)
def test_a_copy_that_is_another_topic_now_or_was_cut_is_not_taken_for_the_state(
    log: Log | str | None, code: Code
) -> None:
    world = saved()
    copy = f"savepoint.before.{INTERNAL[0]}"
    there = world.topics[copy]
    world.topics[copy] = (
        log if isinstance(log, Log) else replace(there, end=19) if log == "short" else replace(there, start=20)
    )
    assert (restore(world), world.answers[-1].code) == ("rejected", code.value)
    assert copy in world.answers[-1].message


def copied_back(world: AppWorld, workflow: str = "w2") -> list[Mapping[str, object]]:
    """What a restore asks for of each copy."""
    return [sent.data["source"] for sent in world.sent if sent.subject.startswith(f"{workflow}-")]  # type: ignore[misc]


def test_what_somebody_wrote_to_a_copy_after_the_savepoint_is_left_out_and_told() -> None:
    world = saved()
    copy = f"savepoint.before.{INTERNAL[0]}"
    world.topics[copy].end += 5
    assert restore(world) == "accepted"
    plan = world.look("w2").plan
    assert plan is not None
    told = f"{copy} has up to 10 records that are not of the savepoint, but came later: they are left out"
    assert [found for found in plan.findings if "came later" in found] == [told]
    world.stops()
    world.topics[copy].end += 5
    world.run_through("w2")
    assert world.look("w2").state is State.COMPLETED
    assert copied_back(world)[0] == {
        "cluster": "main", "topic": copy, "partitions": [0, 1], "from": {"offsets": {"0": 0, "1": 0}},
        "to": {"offsets": {"0": 20, "1": 20}},
    }  # fmt: skip
    assert world.topics[INTERNAL[0]].end == 20


def test_a_savepoint_of_an_earlier_release_is_restored_with_all_that_its_copies_hold() -> None:
    world = AppWorld()
    world.tells_ends = False
    save(world)
    world.run_through()
    copy = f"savepoint.before.{INTERNAL[0]}"
    world.topics[copy].end += 5
    assert restore(world) == "accepted"
    assert not any("came later" in found for found in world.look("w2").plan.findings)  # type: ignore[union-attr]
    world.run_through("w2")
    assert world.look("w2").state is State.COMPLETED
    assert copied_back(world)[0] == {"cluster": "main", "topic": copy, "from": "earliest", "to": "latest"}
    assert world.topics[INTERNAL[0]].end == 25


def test_where_copies_end_is_noted_of_what_was_verified_and_outlives_the_recovery_and_the_daemon() -> None:
    world = AppWorld()
    save(world)
    world.stops()
    first, second = "w1-0", "w1-1"
    ends = {first: {0: 21, 1: 0}, second: {0: 12, 1: 13}}
    for recovery in (first, second):
        proof = Verification("match", 20, 20, "d", target_ends=ends[recovery])
        world.have_recovery(make_recovery(recovery, state=State.COMPLETED, verification=proof))
        world.pass_time(5)
        world.forget_recovery(recovery)
        world.lead()
    done = world.workflow
    assert done.cut is not None
    assert (done.state, [topic.copy_ends for topic in done.cut.topics]) == (State.COMPLETED, list(ends.values()))
    step = next(step for step in done.steps if step.name == "copy_state")
    assert step.evidence == {recovery: {"records": 0, "verified": "match"} for recovery in ends}


def test_a_copy_in_which_nothing_had_to_be_kept_is_not_copied_back() -> None:
    """All that lay in the changelog was compacted away, or aborted."""
    world = AppWorld()
    save(world)
    world.stops()
    for number in range(len(INTERNAL)):
        proof = Verification("match", 0, 0, "d", target_ends=dict.fromkeys(range(PARTITIONS), number))
        world.have_recovery(make_recovery(f"w1-{number}", state=State.COMPLETED, verification=proof))
    for name in INTERNAL:
        world.topics[f"savepoint.before.{name}"].end = 1
    world.pass_time(5)
    assert restore(world) == "accepted"
    world.run_through("w2")
    assert [source["topic"] for source in copied_back(world)] == [f"savepoint.before.{INTERNAL[1]}"]
    assert world.look("w2").state is State.COMPLETED


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("", True),
        (
            "Source: a (topics: [orders])\n      --> c\n    Processor: c (stores: [counts])\n      --> none\n      <-- a",
            True,
        ),
        (
            "Source: a (topics: [steps])\n      --> c\n    Processor: c (stores: [counts])\n      --> none\n      <-- a",
            False,
        ),
    ],
)
def test_state_topics_that_have_too_few_partitions_for_an_input_by_now_are_not_restored(
    text: str, is_refused: bool
) -> None:
    """An application of Streams would not start with them."""
    topology = parse_topology(f"Topologies:\n   Sub-topology: 0\n    {text}\n") if text else None
    world = saved()
    world.core = make_decider(replace(world.params, units={UNIT.name: replace(UNIT, topology=topology)}))
    gather = world.gather

    def grown(effect: GatherForWorkflow) -> WorkflowFacts:
        told = gather(effect)
        (group,) = told.found.groups
        added = PartitionLook("orders", PARTITIONS, 0, 5)
        found = replace(told.found, groups=(replace(group, looks=(*group.looks, added)),))
        return replace(told, found=found)

    world.gather = grown  # type: ignore[method-assign]
    assert restore(world) == ("rejected" if is_refused else "accepted")
    if is_refused:
        assert world.answers[-1].code == Code.TARGET_PARTITIONS.value
        assert "orders has 3 partitions, and had 2 when before was made" in world.answers[-1].message
    else:
        assert any("orders 2 and 0 more came since the cut" in told for told in world.look("w2").plan.findings)  # type: ignore[union-attr]


@pytest.mark.parametrize("begin", [lambda world, name: save(world, "other", name), restore])
def test_an_id_that_leaves_no_room_for_those_of_copies_is_refused(begin: Callable[[AppWorld, str], str]) -> None:
    world = saved()
    before = list(world.done)
    assert (begin(world, "x" * 59), world.answers[-1].code) == ("rejected", Code.INVALID_SUBJECT.value)
    assert world.done == before
    assert begin(world, "x" * 58) == "accepted"


def test_a_restore_notices_an_input_that_is_created_again_before_it_changes_anything() -> None:
    world = saved()
    world.members = [Member("m1", "shop-1", "host")]
    assert restore(world) == "accepted"
    before = list(world.done)
    world.topics["orders"] = Log("orders-2", 0, 100)
    world.stops()
    ended = world.look("w2")
    assert (ended.state, ended.error_code, world.done) == (State.FAILED, Code.TOPIC_RECREATED.value, before)


def test_a_restore_notices_offsets_of_the_cut_that_go_before_it_changes_anything() -> None:
    world = saved()
    world.members = [Member("m1", "shop-1", "host")]
    assert restore(world) == "accepted"
    before = list(world.done)
    world.topics["orders"].start = 90
    world.stops()
    ended = world.look("w2")
    assert (ended.state, ended.error_code, world.done) == (State.FAILED, Code.OFFSET_OUTSIDE_LOG.value, before)


@pytest.mark.parametrize(
    ("topic", "is_refused"), [("orders", True), ("steps", True), ("totals", True), ("log", True), (INTERNAL[1], False)]
)
def test_a_restore_notices_partitions_that_are_added_before_it_changes_anything(topic: str, is_refused: bool) -> None:
    """To what is read, and to outputs that are made again or like which a new one is made. What holds state is made as
    it was.
    """
    world = saved()
    world.members = [Member("m1", "shop-1", "host")]
    assert restore(world, outputs=OUTPUTS) == "accepted"
    before = list(world.done)
    becomes_as_wide(world, topic, PARTITIONS + 1)
    world.stops()
    ended = world.look("w2")
    if not is_refused:
        assert ended.state is State.WAITING
        return
    assert (ended.state, ended.error_code, world.done) == (State.FAILED, Code.STALE_PLAN.value, before)
    assert f"{topic} has 3 partitions, and had 2 when the plan was made; no offset was set" in ended.why


def test_partitions_of_an_output_that_is_only_appended_to_do_not_matter_to_a_restore() -> None:
    world = saved()
    world.members = [Member("m1", "shop-1", "host")]
    restore(world)
    becomes_as_wide(world, "totals", PARTITIONS + 1)
    world.stops()
    assert world.look("w2").state is State.WAITING


def test_a_restore_that_one_record_cannot_hold_is_refused_before_anything_is_changed() -> None:
    world = saved()
    before = list(world.done)
    world.metadata = "x" * 2_000_000
    assert (restore(world), world.answers[-1].code) == ("rejected", Code.TOO_MANY_CHANGES.value)
    assert world.done == before


def test_a_savepoint_that_one_record_cannot_hold_is_refused_before_anything_is_changed() -> None:
    world = AppWorld()
    world.partitions = 15_000
    assert (save(world), world.answers[-1].code) == ("rejected", Code.TOO_MANY_CHANGES.value)
    assert "60,000 partitions need" in world.answers[-1].message
    assert not world.done


def test_a_reset_and_a_reprocess_can_begin_at_a_savepoint() -> None:
    world = saved()
    world.committed |= {("orders", p): 99 for p in range(PARTITIONS)}
    said = {"outputs": "compared by hand"}
    spec = ResetSpec("main", "app", OfSavepoint("before"), unit=UNIT.name, confirm=said, state=StateChoice.KEEP)
    assert world.send(lambda meta: Reset(meta, spec), subject="w2") == "accepted"
    assert {p: world.committed["orders", p] for p in range(PARTITIONS)} == dict.fromkeys(range(PARTITIONS), 60)
    assert world.reprocess_as("w3", OfSavepoint("before")) == "accepted"
    assert world.reprocess_as("w4", OfSavepoint("after")) == "rejected"
    assert world.answers[-1].code == Code.NO_SUCH_SAVEPOINT.value


@pytest.mark.parametrize("before_the_plan", [True, False])
@pytest.mark.parametrize("to", [OfSavepoint("before"), OfSnapshot("w1")])
def test_a_reprocess_takes_a_commit_away_where_there_was_none_when_its_offsets_were_noted(
    *, to: To, before_the_plan: bool
) -> None:
    """Else that partition would go on in the middle of what the others read again, with empty state."""
    world, place = AppWorld(), ("orders", 1)
    at = world.committed.pop(place)
    if isinstance(to, OfSavepoint):
        save(world)
        world.run_through()
    else:
        world.members = []
        spec = ResetSpec("", "", Earliest(), unit=UNIT.name, state=StateChoice.KEEP)
        assert world.send(lambda meta: Reset(meta, spec)) == "accepted"
        world.pass_time(40)
    assert world.workflow.state is State.COMPLETED
    world.committed.pop(place, None)
    if before_the_plan:
        world.committed[place] = at
    world.members = [Member("m1", "shop-1", "host")]
    assert world.reprocess_as("w2", to) == "accepted"
    assert any("1 partitions of the inputs had no commit then" in told for told in world.look("w2").plan.findings)  # type: ignore[union-attr]
    world.committed[place] = at  # its application went on until it was stopped
    world.stops()
    assert world.waiting("w2") == "clean_local_state"
    assert world.committed["orders", 0] == 60
    assert_taken_away_until_a_rollback(world, place, at)


@pytest.mark.parametrize("verb", ["reset", "reprocess"])
def test_offsets_of_a_savepoint_are_not_those_of_a_topic_that_was_created_again(verb: str) -> None:
    """Also where the daemon dies before it has made the plan."""
    world = saved()
    world.topics["orders"] = Log("orders-2", 0, 100)
    world.gathering_fails = [GatheringFailed("w2", Code.CLUSTER_UNREACHABLE.value, "no answer", True)]
    to = OfSavepoint("before")
    if verb == "reset":
        spec = ResetSpec("", "", to, unit=UNIT.name, state=StateChoice.KEEP)
        world.send(lambda meta: Reset(meta, spec), subject="w2")
    else:
        world.reprocess_as("w2", to, outputs=APPEND)
    world.lead()
    world.pass_time(5)
    assert (world.look("w2").state, world.look("w2").error_code) == (State.REJECTED, Code.TOPIC_RECREATED.value)


def test_offsets_of_a_savepoint_are_not_those_of_another_cluster() -> None:
    world = saved()
    world.core = make_decider(replace(world.params, clusters=frozenset({"main", "far"})))
    spec = ResetSpec("far", GROUP, OfSavepoint("before"))
    assert world.send(lambda meta: Reset(meta, spec), subject="w2") == "rejected"
    assert "the savepoint before is of main, whose offsets mean nothing on far" in world.answers[-1].message


def test_a_recovery_of_others_that_has_the_id_is_not_taken_for_the_copy() -> None:
    world = AppWorld()
    world.have_recovery(make_recovery("w1-1", state=State.COMPLETED), is_foreign=True)
    save(world)
    world.stops()
    [first, _] = world.sent
    assert (world.waits_at, first.subject) == ("copy_state", "w1-1")
    assert world.send(lambda meta: Replay(meta, make_spec()), subject=first.subject, command=first.id) == "rejected"
    assert (world.workflow.state, world.workflow.error_code) == (State.FAILED, Code.ID_IN_USE.value)
    assert {name: world.configs[name] for name in INTERNAL} == COMPACTED


@pytest.mark.parametrize(
    ("states", "is_open", "settled"),
    [
        ({}, False, True),
        ({}, True, False),
        ({"other-1": "Ongoing"}, True, False),
        ({"app-1": "Ongoing"}, True, True),
        ({"app-1": "CompleteCommit", "app-2": "PrepareCommit"}, True, False),
        ({"app-1": "PrepareAbort"}, True, False),
    ],
)
def test_a_transaction_that_is_being_ended_may_be_seen_in_one_place_only(
    states: dict[str, str], is_open: bool, settled: bool
) -> None:
    assert is_settled("app", states, is_open=is_open) is settled


HOUR_S, DAY_S = 3_600, 86_400


def restore_until(world: AppWorld, step: str) -> None:
    """The application is started with the state of the cut, and has read nothing yet."""
    assert restore(world) == "accepted"
    for _ in range(10):
        if world.waiting("w2") == step:
            return
        match world.waiting("w2"):
            case "stop_application":
                world.stops()
            case "copy_state":
                world.complete_children()
            case "clean_local_state":
                world.ack("clean_local_state", "w2")
            case "start_application":
                world.starts(reads_all=False)
        world.pass_time(10)
    assert world.waiting("w2") == step


def restoring() -> AppWorld:
    """The application was started with the state of the savepoint, and reads that back first."""
    world = saved()
    restore_until(world, "await_caught_up")
    return world


@pytest.mark.parametrize("is_led_anew", [False, True])
def test_an_application_that_restores_its_state_for_hours_is_waited_for_as_long_as_a_person(is_led_anew: bool) -> None:
    world = restoring()
    world.pass_time(3 * HOUR_S, every_s=60)
    if is_led_anew:
        world.lead()
        world.pass_time(3 * HOUR_S, every_s=60)
    assert world.waiting("w2") == "await_caught_up", world.look("w2").why
    world.starts()
    world.pass_time(40)
    assert world.waiting("w2") == "confirm_output"


@pytest.mark.parametrize("start", [80, 100])
def test_records_that_go_while_it_restores_its_state_are_noticed(start: int) -> None:
    world = restoring()
    world.pass_time(HOUR_S, every_s=60)
    world.topics["orders"].start = start
    world.pass_time(40)
    ended, gone = world.look("w2"), PARTITIONS * (start - 60)
    assert (ended.state, ended.error_code) == (State.FAILED, Code.OFFSET_OUTSIDE_LOG.value)
    assert f"up to {gone} records went from the inputs" in ended.why
    assert f"orders 0 [60, {start}), orders 1 [60, {start})" in ended.why


def test_once_it_has_committed_it_has_to_get_on() -> None:
    world = restoring()
    world.pass_time(3 * HOUR_S, every_s=60)
    world.committed |= {("orders", p): 61 for p in range(PARTITIONS)}
    world.pass_time(HOUR_S // 3, every_s=60)
    assert world.waiting("w2") == "await_caught_up"
    world.pass_time(HOUR_S // 3, every_s=60)
    assert (world.look("w2").state, world.look("w2").error_code) == (State.FAILED, Code.NOT_CAUGHT_UP.value)


@pytest.mark.parametrize("at", [61, 100])
def test_what_is_behind_is_waited_for_though_the_rest_of_it_has_restored_its_state_already(at: int) -> None:
    """Also where that stands still since: its other part may have all of the machine."""
    world = restoring()
    world.pass_time(HOUR_S, every_s=60)
    world.committed["orders", 0] = at
    world.pass_time(3 * HOUR_S, every_s=60)
    assert world.waiting("w2") == "await_caught_up", world.look("w2").why
    world.starts()
    world.pass_time(40)
    assert world.waiting("w2") == "confirm_output"


def test_progress_elsewhere_gives_its_state_no_other_day() -> None:
    world = restoring()
    for _ in range(23):
        world.pass_time(HOUR_S, every_s=60)
        world.committed["orders", 0] += 1
    assert world.waiting("w2") == "await_caught_up", world.look("w2").why
    world.pass_time(2 * HOUR_S, every_s=60)
    assert (world.look("w2").state, world.look("w2").error_code) == (State.FAILED, Code.NOT_CAUGHT_UP.value)


def test_one_that_never_commits_is_given_up_after_a_day() -> None:
    world = restoring()
    world.pass_time(DAY_S - HOUR_S, every_s=60)
    assert world.waiting("w2") == "await_caught_up"
    world.pass_time(2 * HOUR_S, every_s=60)
    assert (world.look("w2").state, world.look("w2").error_code) == (State.FAILED, Code.NOT_CAUGHT_UP.value)


def test_one_that_died_before_its_first_commit_is_not_waited_for_as_if_it_restored_its_state() -> None:
    world = restoring()
    world.pass_time(HOUR_S, every_s=60)
    world.members = []
    world.pass_time(HOUR_S // 3, every_s=60)
    assert world.waiting("w2") == "await_caught_up"
    world.pass_time(HOUR_S // 3, every_s=60)
    assert (world.look("w2").state, world.look("w2").error_code) == (State.FAILED, Code.NOT_CAUGHT_UP.value)


@pytest.mark.parametrize("is_led_anew", [False, True])
def test_one_that_is_started_again_and_again_is_given_up_after_a_day(is_led_anew: bool) -> None:
    world = restoring()
    joined = world.members
    for number in range(3 * 23):
        world.members = joined if number % 2 else []
        world.pass_time(HOUR_S // 3, every_s=60)
        if is_led_anew:
            world.lead()
    assert world.waiting("w2") == "await_caught_up", world.look("w2").why
    for number in range(3 * 2):
        world.members = [] if number % 2 else joined
        world.pass_time(HOUR_S // 3, every_s=60)
    assert (world.look("w2").state, world.look("w2").error_code) == (State.FAILED, Code.NOT_CAUGHT_UP.value)


def test_time_in_which_nobody_led_is_none_of_the_day_for_its_state() -> None:
    world = restoring()
    world.pass_time(HOUR_S, every_s=60)
    world.now_ms += 30 * HOUR_S * 1_000
    world.lead()
    world.pass_time(DAY_S - 2 * HOUR_S, every_s=60)
    assert world.waiting("w2") == "await_caught_up", world.look("w2").why
    world.pass_time(2 * HOUR_S, every_s=60)
    assert (world.look("w2").state, world.look("w2").error_code) == (State.FAILED, Code.NOT_CAUGHT_UP.value)


def test_a_person_may_say_that_it_need_not_be_waited_for() -> None:
    world = restoring()
    assert world.ack("await_caught_up", "w2") == "rejected"
    assert world.send(lambda meta: Ack(meta, "await_caught_up", "seen in its log"), subject="w2") == "accepted"
    assert world.waiting("w2") == "confirm_output"


def test_a_cut_of_offsets_alone_brings_no_state_to_be_waited_for() -> None:
    world = AppWorld()
    world.internal = ()
    save(world)
    world.run_through()
    assert restore(world) == "accepted"
    world.run_through("w2")
    assert [s.action.brings_state for s in world.look("w2").steps if isinstance(s.action, AwaitCaughtUp)] == [False]
