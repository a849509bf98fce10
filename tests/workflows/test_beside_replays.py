"""Workflows beside replays: one that writes to a topic of the group, or uses one that goes, is named in the plan; and
one that would begin with a topic that goes is refused.
"""

from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.states import State
from recoveryd.recovery.commands import Pause, Resume
from recoveryd.recovery.events import FactsGathered
from recoveryd.recovery.plan_facts import TargetReaders
from recoveryd.recovery.slice import RECOVERY
from recoveryd.recovery.spec import Earliest, Latest, SourceRef
from recoveryd.replay.spec import Replay, ReplaySpec, TargetRef
from recoveryd.workflows.model.positions import moving_notes
from recoveryd.workflows.model.spec import RunbookPath
from tests.builders.core import make_facts, make_spec, make_target
from tests.workflows.app_world import INTERNAL, AppWorld
from tests.workflows.runbook_world import RunbookWorld
from tests.workflows.test_children import unapproved
from tests.workflows.test_savepoint import save
from tests.workflows.world import TOPIC, GroupWorld


@pytest.mark.parametrize(("target", "named"), [(TargetRef(TOPIC), True), (TargetRef("other"), False)])
def test_a_replay_that_writes_to_a_topic_of_the_group_is_named(target: TargetRef, named: bool) -> None:
    world = GroupWorld()
    spec = ReplaySpec(SourceRef("flights", Earliest(), Latest()), target)
    world.send(lambda meta: Replay(meta, spec), subject="refill")
    assert world.reset(dry_run=True) == "accepted"
    assert world.workflow.plan is not None
    told = ("orders: the replay refill is planning and writes there, so its end moves",)
    assert world.workflow.plan.findings == (*moving_notes(Earliest()), *(told if named else ()))
    assert world.workflow.state is State.PLANNED


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        ("flights", "totals", ["totals: the replay refill is planning and writes there, and ends when the topic goes"]),
        ("totals", "other", ["totals: the replay refill is planning and reads there, and ends when the topic goes"]),
        (
            INTERNAL[0],
            "other",
            [f"{INTERNAL[0]}: the replay refill is planning and reads there, and ends when the topic goes"],
        ),
        ("log", "other", []),
    ],
)
def test_a_replay_of_which_a_topic_is_taken_away_is_named(source: str, target: str, told: list[str]) -> None:
    world = AppWorld()
    spec = ReplaySpec(SourceRef(source, Earliest(), Latest()), TargetRef(target))
    world.send(lambda meta: Replay(meta, spec), subject="refill")
    assert world.reprocess(dry_run=True) == "accepted"
    assert world.workflow.plan is not None
    assert [finding for finding in world.workflow.plan.findings if "the replay refill" in finding] == told


@pytest.mark.parametrize(
    ("source", "target", "gone"),
    [("flights", "totals", "totals"), ("totals", "other", "totals"), ("flights", INTERNAL[0], INTERNAL[0])],
)
def test_a_replay_does_not_begin_with_a_topic_that_a_workflow_will_take_away(
    source: str, target: str, gone: str
) -> None:
    world = AppWorld()
    assert world.reprocess() == "accepted"
    spec = ReplaySpec(SourceRef(source, Earliest(), Latest()), TargetRef(target))
    assert world.send(lambda meta: Replay(meta, spec), subject="refill") == "rejected"
    assert world.answers[-1].code == Code.IN_USE.value
    assert world.answers[-1].message == f"workflow w1 takes {gone} away, and is waiting"
    world.send(lambda meta: Replay(meta, replace(spec, dry_run=True)), subject="look")
    world.feed(FactsGathered("look", make_facts(target=make_target())))
    found = world.state.of(RECOVERY).recoveries["look"]
    assert found.plan is not None
    assert [f.message for f in found.plan.findings if f.code == "topic_taken_away"] == [world.answers[-2].message]


def test_a_replay_beside_a_workflow_that_has_taken_its_topic_away_already_begins() -> None:
    world = AppWorld()
    world.reprocess()
    world.stops()
    assert world.waits_at == "clean_local_state"
    spec = ReplaySpec(SourceRef("flights", Earliest(), Latest()), TargetRef("totals"))
    world.send(lambda meta: Replay(meta, spec), subject="refill")
    assert world.state.of(RECOVERY).recoveries["refill"].state is State.PLANNING


def test_a_replay_that_rests_is_not_resumed_while_a_workflow_will_take_its_topic_away() -> None:
    world = AppWorld()
    spec = ReplaySpec(SourceRef("flights", Earliest(), Latest()), TargetRef("totals"))
    world.send(lambda meta: Replay(meta, spec), subject="refill")
    world.feed(FactsGathered("refill", make_facts(target=make_target())))
    assert world.send(Pause, subject="refill") == "accepted"
    assert world.reprocess() == "accepted"
    assert world.send(Resume, subject="refill") == "rejected"
    assert (world.answers[-1].code, world.answers[-1].message) == (
        Code.IN_USE.value, "workflow w1 takes totals away, and is waiting",
    )  # fmt: skip
    assert world.state.of(RECOVERY).recoveries["refill"].state is State.PAUSING
    assert world.send(StopCommand, subject="refill") == "accepted", "it may be ended"


@pytest.mark.parametrize(("is_ours", "state"), [(True, State.STARTING), (False, State.AWAITING_APPROVAL)])
def test_what_a_workflow_begins_needs_no_approval_of_who_reads_its_target(*, is_ours: bool, state: State) -> None:
    """That was looked at with the plan of the workflow. The same by somebody else waits."""
    world = AppWorld()
    save(world)
    world.stops()
    sent = world.sent[0]
    if not is_ours:
        sent = replace(sent, subject="refill", id="c.1700000000000.refill")
    world.send(lambda meta: Replay(meta, make_spec()), sent.source, sent.subject, sent.id)
    readers = TargetReaders(groups=("reports",))
    world.feed(FactsGathered(sent.subject, replace(make_facts(target=make_target()), readers=readers)))
    assert world.state.of(RECOVERY).recoveries[sent.subject].state is state


@pytest.mark.parametrize(("is_ours", "state"), [(True, State.AWAITING_APPROVAL), (False, State.REJECTED)])
def test_what_a_workflow_begins_waits_for_approval_although_many_plans_do(*, is_ours: bool, state: State) -> None:
    """Refused, the workflow would fail, for its plan is known and is not sent again. By somebody else it is refused."""
    world = RunbookWorld()
    world.limit(max_active_recoveries=1, approval_above_records=10)
    world.begin(RunbookPath.REPLAY, topic="orders", ranges={0: (10, 20)})  # how much it is, its plan does not say
    world.have_recovery(unapproved(world, "other"))
    sent = world.sent[0]
    if not is_ours:
        sent = replace(sent, subject="refill", id="c.1700000000000.refill")
    world.send(lambda meta: Replay(meta, make_spec()), sent.source, sent.subject, sent.id)
    world.feed(FactsGathered(sent.subject, make_facts(target=make_target())))
    found = world.state.of(RECOVERY).recoveries[sent.subject]
    assert found.state is state, found.why
    assert is_ours or found.error_code == Code.TOO_MANY_RECOVERIES.value
