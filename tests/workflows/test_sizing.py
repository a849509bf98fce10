"""What a workflow copies is told with its plan, and asked about there once: no copy of it waits for an approval once
the application was stopped, or its state was taken away.
"""

from dataclasses import replace

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.recovery.commands import Pause, Resume
from recoveryd.recovery.events import FactsGathered
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.slice import RECOVERY
from recoveryd.recovery.told_size import ANY, SizeLimits, ToldSize, approval_for_size
from recoveryd.replay.spec import Replay
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.model.actions import RunChildren
from recoveryd.workflows.model.spec import RunbookPath
from recoveryd.workflows.model.workflow import PlannedCopies
from tests.builders.core import make_facts, make_spec
from tests.workflows.app_world import INTERNAL, AppWorld
from tests.workflows.runbook_world import RunbookWorld
from tests.workflows.test_savepoint import restore, save, saved
from tests.workflows.test_upgrade_other_id import two_versions, upgrade

RECORDS = 80  # 20 in each of two partitions of two internal topics
ABOVE = {"approval_above_records": RECORDS - 1}


def planned(world: AppWorld, each: int = 20) -> Recovery:
    """The last copy that it asks for is planned, with so many records of 100 bytes in each of two partitions."""
    sent = next(sent for sent in reversed(world.sent) if sent.verb == "replay")
    world.send(lambda meta: Replay(meta, make_spec()), sent.source, sent.subject, sent.id)
    world.feed(FactsGathered(sent.subject, make_facts((each, each))))
    found = world.state.of(RECOVERY).recoveries.get(sent.subject)
    assert found is not None
    return found


def copy_of(world: AppWorld) -> State:
    """The state in which it is then."""
    return planned(world).state


def test_a_savepoint_waits_once_for_all_that_it_copies() -> None:
    world = AppWorld()
    world.limit(**ABOVE)
    assert save(world) == "accepted"
    waiting = world.workflow
    assert waiting.state is State.AWAITING_APPROVAL
    assert "waits for approval: 80 records are more than 79 (approval.above_records)" in waiting.why
    assert waiting.plan is not None
    assert waiting.plan.copies == PlannedCopies(RECORDS)
    assert world.members, "nothing was stopped"
    assert world.approve("//ops/ann") == "accepted", "as of a single copy"
    world.stops()
    assert world.waits_at == "copy_state"
    assert copy_of(world) is State.STARTING


def test_so_does_a_restore_and_takes_nothing_away_before() -> None:
    world = saved()
    before = world.topics[INTERNAL[0]].id
    world.record_bytes = 10
    world.limit(approval_above_bytes=100)
    assert restore(world) == "accepted"
    plan = world.look("w2").plan
    assert plan is not None
    assert plan.copies is not None
    assert plan.copies.bytes_at_most == 10 * plan.copies.records_at_most
    assert "bytes are more than 100 (approval.above_bytes)" in world.look("w2").why
    world.pass_time(90_000, every_s=10_000)
    assert world.look("w2").state is State.EXPIRED
    assert world.topics[INTERNAL[0]].id == before


def test_a_plan_that_is_small_enough_does_not_wait() -> None:
    world = AppWorld()
    world.limit(approval_above_records=RECORDS)
    save(world)
    assert world.workflow.state is State.WAITING
    assert world.workflow.why == "1 members"


def test_a_dry_run_says_that_it_would_wait() -> None:
    world = AppWorld()
    world.limit(**ABOVE)
    save(world, dry_run=True)
    assert world.workflow.state is State.PLANNED
    assert "up to 80 records are copied" in world.workflow.why
    assert world.workflow.why.endswith(
        "it would wait for approval: 80 records are more than 79 (approval.above_records)"
    )


def test_an_approval_that_is_needed_no_more_is_refused() -> None:
    world = AppWorld()
    world.limit(**ABOVE)
    save(world)
    world.limit(approval_above_records=RECORDS)
    assert world.approve("//ops/ann") == "rejected"


@pytest.mark.parametrize(("each", "state"), [(30, State.STARTING), (31, State.AWAITING_APPROVAL)])
def test_a_copy_that_turns_out_much_larger_than_the_plan_told_waits_itself(each: int, state: State) -> None:
    world = AppWorld()
    world.limit(approval_above_records=39)
    save(world)
    world.approve("//ops/ann")
    world.stops()
    found = planned(world, each)
    assert found.state is state
    if state is State.AWAITING_APPROVAL:
        told = "62 records are more than 39 (approval.above_records), and more than 1.5 times the 40 that the plan of its workflow told"
        assert found.why == f"waits for approval: {told}"
        world.pass_time(3)
        assert f"0 of 2 recoveries completed: {found.id}: waits for approval: {told}" in world.workflow.why
        assert world.workflow.step is not None
        assert world.workflow.step.evidence["waits_for_approval"] == [found.id]


def test_so_it_does_when_it_is_asked_for_again_and_a_new_daemon_leads() -> None:
    world = AppWorld()
    world.limit(approval_above_records=39)
    save(world)
    world.approve("//ops/ann")
    world.stops()
    world.send(Pause)
    world.lead()
    world.send(Resume)
    world.pass_time(40)
    assert "." in world.sent[-1].id.removeprefix(f"w1.{world.workflow.created_ms}."), "under another id"
    assert planned(world, 31).state is State.AWAITING_APPROVAL


@pytest.mark.parametrize(("record_bytes", "state"), [(100, State.STARTING), (60, State.AWAITING_APPROVAL)])
def test_of_bytes_as_of_records(record_bytes: int, state: State) -> None:
    world = AppWorld()
    world.record_bytes = record_bytes
    world.limit(approval_above_bytes=3_999)
    save(world)
    world.approve("//ops/ann")
    world.stops()
    assert planned(world).state is state, "4,000 bytes"


def test_bytes_that_nobody_knows_are_asked_about_before_anything_is_stopped() -> None:
    world = AppWorld()
    world.limit(approval_above_bytes=3_999)
    save(world)
    assert world.workflow.state is State.AWAITING_APPROVAL
    assert "nobody knows whether it is more than 3,999 bytes (approval.above_bytes)" in world.workflow.why
    assert world.members, "nothing was stopped"
    world.approve("//ops/ann")
    world.stops()
    assert planned(world).state is State.STARTING


def test_a_copy_of_a_workflow_that_told_only_a_sum_does_not_wait() -> None:
    """As one that an earlier release has journaled."""
    world = AppWorld()
    world.limit(approval_above_records=79)
    save(world)
    world.approve("//ops/ann")
    world.stops()
    known, workflow = world.state.of(WORKFLOWS), world.workflow
    assert workflow.step is not None
    assert isinstance(workflow.step.action, RunChildren)
    untold = workflow.with_step(replace(workflow.step, action=replace(workflow.step.action, told={})))
    world.state = world.state.having(WORKFLOWS, known.with_workflow(untold))
    assert planned(world, 1_000).state is State.STARTING


def test_a_plan_that_grew_much_while_it_waited_for_its_approval_is_not_carried_out() -> None:
    world = AppWorld()
    world.limit(**ABOVE)
    save(world)
    for name in INTERNAL:
        world.topics[name].end = 31
    world.approve("//ops/ann")
    assert (world.workflow.state, world.workflow.error_code) == (State.REJECTED, Code.STALE_PLAN.value)
    assert "124 records, more than 1.5 times the 80 that the approved plan told" in world.workflow.why
    assert world.members, "nothing was stopped"


@pytest.mark.parametrize(
    ("size", "told", "waits"),
    [
        (ToldSize(100, 100), None, False),
        (ToldSize(101, 100), None, True),
        (ToldSize(100, 101), None, True),
        (ToldSize(150, 150), ToldSize(100, 100), False),
        (ToldSize(151, 150), ToldSize(100, 100), True),
        (ToldSize(150, 151), ToldSize(100, 100), True),
        (ToldSize(100, 100), ToldSize(0, 0), False),  # what is small waits never
        (ToldSize(150, 10**9), ToldSize(100, None), False),  # it was asked about for that
        (ToldSize(150, None), ToldSize(100, 100), False),
        (ToldSize(10**12, 10**15), ANY, False),
    ],
)
def test_what_waits_beyond_a_limit_of_100(size: ToldSize, told: ToldSize | None, *, waits: bool) -> None:
    assert (approval_for_size(size, SizeLimits(100, 100), told) is not None) is waits
    assert approval_for_size(size, SizeLimits(None, None), told) is None


@pytest.mark.parametrize("limit", [{"approval_above_records": 39}, {}])
def test_a_copy_of_a_workflow_whose_plan_did_not_tell_its_size_waits_itself(limit: dict[str, int]) -> None:
    world = RunbookWorld()
    world.limit(**limit)
    world.begin(RunbookPath.REPLAY, topic="orders", ranges={0: (10, 20)})
    assert copy_of(world) is (State.AWAITING_APPROVAL if limit else State.STARTING)


def test_an_upgrade_asks_for_the_copies_of_its_savepoint_and_of_its_restore() -> None:
    world = two_versions()
    world.limit(approval_above_records=1)
    assert upgrade(world) == "accepted"
    assert world.workflow.state is State.AWAITING_APPROVAL
    assert world.workflow.plan is not None
    copies = world.workflow.plan.copies
    assert copies is not None
    assert copies.records_at_most > 0
    world.approve("//ops/ann")
    world.people()
    assert world.workflow.state is State.COMPLETED
