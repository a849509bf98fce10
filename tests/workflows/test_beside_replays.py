"""Workflows beside replays: one that writes to a topic of the group, or uses one that goes, is named in the plan."""

import pytest

from recoveryd.kernel.states import State
from recoveryd.recovery.spec import Earliest, Latest, SourceRef
from recoveryd.replay.spec import Replay, ReplaySpec, TargetRef
from recoveryd.workflows.model.positions import moving_notes
from tests.workflows.app_world import INTERNAL, AppWorld
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
