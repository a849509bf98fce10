"""What ended costs nothing while others go on, however much of it a daemon knows."""

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from recoveryd.kernel.events import Tick
from recoveryd.kernel.states import State
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.model.cut import Cut
from recoveryd.workflows.model.known import Workflows
from recoveryd.workflows.model.size import noted_bytes
from recoveryd.workflows.model.workflow import OffsetUndo, Workflow
from tests.patience import lines_of
from tests.workflows.world import GroupWorld

CUT = Cut("n", "app", "main", "g", 0)
STATES = State.RUNNING, State.COMPLETED, State.PLANNED, State.FAILED, State.STOPPED


def reset() -> GroupWorld:
    world = GroupWorld()
    world.reset()
    return world


WORKFLOW = reset().workflow


def with_ended(count: int) -> Workflows:
    """So many that ended just now."""
    return Workflows.of(replace(WORKFLOW, id=f"e{n}", state=State.COMPLETED) for n in range(count))


def test_one_that_goes_on_is_put_in_without_a_look_at_those_that_ended() -> None:
    def lines(count: int) -> int:
        after = replace(WORKFLOW, state=State.STOPPING)
        known = with_ended(count).with_workflow(replace(WORKFLOW, state=State.RUNNING))
        found = known.with_workflow(after)
        assert (found.live, found.ended) == ({after.id: after}, known.ended)
        assert found.ended is known.ended
        assert found.forgettable is known.forgettable
        return lines_of(lambda: known.with_workflow(after))

    assert lines(500) == lines(5)


def test_as_time_passes_none_of_those_that_ended_is_looked_at_before_it_is_to_be_forgotten() -> None:
    def lines(count: int) -> int:
        world = reset()
        world.state = world.state.having(WORKFLOWS, with_ended(count))
        tick = lines_of(lambda: world.feed(Tick()))
        assert len(world.state.of(WORKFLOWS).ended) == count
        return tick

    assert lines(500) == lines(5)


def forgettable(known: Workflows) -> Mapping[str, Workflow]:
    return {i: w for i, w in known.ended.items() if w.cut is None or w.state is not State.COMPLETED}


_puts = st.builds(
    lambda number, state, cut, rows: replace(WORKFLOW, id=f"w{number}", state=state, cut=cut, undo=rows),
    st.integers(0, 4),
    st.sampled_from(STATES),
    st.sampled_from([None, CUT]),
    st.lists(st.just(OffsetUndo("orders", 0, 50)), max_size=3).map(tuple),
)
_forgets = st.sets(st.sampled_from([f"w{n}" for n in range(5)]))


@given(st.lists(_puts | _forgets, max_size=20))
def test_what_may_be_forgotten_and_what_it_noted_is_known_after_every_change(
    changes: list[Workflow | set[str]],
) -> None:
    known, expected = Workflows(), dict[str, Workflow]()
    for change in changes:
        if isinstance(change, Workflow):
            known = known.with_workflow(change)
            expected.pop(change.id, None)
            expected[change.id] = change
        else:
            known = known.without(change)
            expected = {i: w for i, w in expected.items() if i in known.live or i not in change}
        assert {w.id: w for w in known} == expected
        assert [w.id for w in known] == [*known.live, *known.ended]
        assert list(known.ended) == [i for i in expected if i in known.ended]
        assert all((w.state is State.RUNNING) == (i in known.live) for i, w in expected.items())
        assert list(known.forgettable.items()) == list(forgettable(known).items())
        assert known.noted_bytes == sum(map(noted_bytes, known.forgettable.values()))
