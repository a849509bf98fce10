"""The cost of looks at groups while workflows wait for some, in counts instead of time."""

from dataclasses import replace

import pytest

from recoveryd.live.events import ReaderSampled
from recoveryd.live.lag.book import Reader
from recoveryd.workflows.machine import readiness
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.model.actions import AwaitReady
from tests.workflows.test_upgrade_online import begun
from tests.workflows.two_versions import TwoVersions


def awaiting(topics: int) -> TwoVersions:
    """A workflow that waits until a group is near on so many topics."""
    world = begun()
    world.people(until="await_ready")
    [workflow] = world.live()
    wide = tuple(f"t{n}" for n in range(topics))
    steps = tuple(
        replace(step, action=replace(step.action, topics=wide)) if isinstance(step.action, AwaitReady) else step
        for step in workflow.steps
    )
    known = world.state.of(WORKFLOWS)
    world.state = world.state.having(WORKFLOWS, known.with_workflow(replace(workflow, steps=steps)))
    return world


@pytest.mark.parametrize("group", ["next", "another"])
def test_a_look_names_no_other_reader_however_many_are_waited_for(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[str] = []

    def counted(cluster: str, topic: str, group: str) -> Reader:
        named.append(topic)
        return Reader(cluster, topic, group)

    def named_at_a_look(topics: int) -> int:
        world = awaiting(topics)
        look = ReaderSampled(Reader("main", "t0", group), (0,), ())
        with monkeypatch.context() as patch:
            patch.setattr(readiness, "Reader", counted)
            named.clear()
            world.feed(look)
        assert (look.reader in world.state.of(WORKFLOWS).readiness.topics) is (group == "next")
        return len(named)

    assert named_at_a_look(40) == named_at_a_look(2)
