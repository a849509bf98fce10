"""A workflow may have begun a thousand others, at which it looks every other second."""

from dataclasses import replace

from recoveryd.kernel.draft import Draft
from recoveryd.workflows.machine.children.looking import SENT, look_at_children
from recoveryd.workflows.machine.draft import WorkflowDraft
from tests.patience import lines_of
from tests.workflows.test_children import restoring


def test_a_look_at_children_whose_commands_were_not_read_yet_costs_in_proportion_to_them() -> None:
    world = restoring()
    workflow, step = world.workflow, world.workflow.step
    (run,) = step.action.runs

    def lines(count: int) -> int:
        runs = tuple(replace(run, recovery=f"w1-{number}", data={"number": number}) for number in range(count))
        look = replace(step, tries=2, action=replace(step.action, runs=runs), evidence={SENT: count - 1})
        draft = Draft(world.state, world.now_ms + 1, world.core._views).view(WorkflowDraft)
        assert look_at_children(draft, workflow, look).why.startswith(f"0 of {count} workflows completed")
        return lines_of(lambda: look_at_children(draft, workflow, look))

    assert lines(200) <= 4.1 * lines(50)
