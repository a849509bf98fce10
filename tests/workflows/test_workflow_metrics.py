"""What /metrics says of workflows that are over."""

from recoveryd.kernel.states import State
from tests.builders.core import BOOK
from tests.workflows.app_world import AppWorld

ENDED = "recoveryd_workflow_ended_timestamp_seconds"


def shown(world: AppWorld) -> dict[tuple[str, ...], float]:
    return {s.labels: s.value for s in BOOK.gauges(world.state, world.now_ms) if s.metric.name == ENDED}


def test_when_a_workflow_ended_is_known_also_to_a_daemon_that_begins_anew() -> None:
    world = AppWorld()
    world.reprocess()
    world.pass_time(3)
    assert shown(world) == {}
    assert world.stop() == "accepted"
    world.pass_time(60)
    ended_ms = world.workflow.updated_ms
    assert (world.workflow.state, ended_ms > 0) == (State.STOPPED, True)
    world.lead()
    world.pass_time(5)
    assert shown(world) == {("stopped",): ended_ms / 1000}
