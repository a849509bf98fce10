"""What a workflow copies is told with its plan, and asked about there once: no copy of it waits for an approval once
the application was stopped, or its state was taken away.
"""

import pytest

from recoveryd.kernel.states import State
from recoveryd.recovery.events import FactsGathered
from recoveryd.recovery.slice import RECOVERY
from recoveryd.replay.spec import Replay
from recoveryd.workflows.model.spec import RunbookPath
from recoveryd.workflows.model.workflow import PlannedCopies
from tests.builders.core import make_facts, make_spec
from tests.workflows.app_world import INTERNAL, AppWorld
from tests.workflows.runbook_world import RunbookWorld
from tests.workflows.test_savepoint import restore, save, saved
from tests.workflows.test_upgrade_other_id import two_versions, upgrade

RECORDS = 80  # 20 in each of two partitions of two internal topics
ABOVE = {"approval_above_records": RECORDS - 1}


def copy_of(world: AppWorld) -> State:
    """The first copy that it asks for is planned: the state in which it is then."""
    sent = next(sent for sent in reversed(world.sent) if sent.verb == "replay")
    world.send(lambda meta: Replay(meta, make_spec()), sent.source, sent.subject, sent.id)
    world.feed(FactsGathered(sent.subject, make_facts()))
    found = world.state.of(RECOVERY).recoveries.get(sent.subject)
    assert found is not None
    return found.state


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


def test_a_plan_that_is_small_enough_or_whose_size_nobody_tells_does_not_wait() -> None:
    world = AppWorld()
    world.limit(approval_above_records=RECORDS, approval_above_bytes=1)
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


@pytest.mark.parametrize("limit", [ABOVE, {}])
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
