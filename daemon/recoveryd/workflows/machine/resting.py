"""Which workflows go on without a person. A daemon that runs only until nothing is left to do asks for them before it
ends.
"""

from recoveryd.kernel.state import CoreState
from recoveryd.kernel.states import State
from recoveryd.recovery.pausing import goes_on as recovery_goes_on
from recoveryd.recovery.slice import RECOVERY
from recoveryd.workflows.machine.children.whose import Child
from recoveryd.workflows.machine.command_ids import command_id
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.model.actions import (
    AwaitStarted,
    AwaitStopped,
    ChildRun,
    LookAtUnit,
    RollBackChildren,
    RunChildren,
)
from recoveryd.workflows.model.workflow import Workflow

_LOOKED_AT = (AwaitStopped, AwaitStarted, LookAtUnit)  # who answers them may have done so while no daemon ran


def goes_on(state: CoreState, workflow: Workflow) -> bool:
    """Not one that a person paused, or of which all that it began waits for people. One that waits for a person itself
    is looked at once by each daemon.
    """
    if workflow.waits_for_a_person:
        return _has_to_be_looked_at(state, workflow)
    if workflow.state is State.PAUSED:
        return workflow.steering is not None  # what it began has not read yet that it is to pause
    action = None if workflow.step is None else workflow.step.action
    runs = action.runs if isinstance(action, RunChildren | RollBackChildren) else ()
    begun = [child for run in runs if (child := _begun(state, workflow, run)) is not None]
    living = [child for child in begun if not child.is_terminal]
    is_begun = len(begun) == len(runs) or isinstance(action, RollBackChildren)
    return not (living and is_begun) or any(_child_goes_on(state, child) for child in living)


def _has_to_be_looked_at(state: CoreState, workflow: Workflow) -> bool:
    """Whether this daemon has not seen yet what it waits for, or could not see it the last time."""
    step = workflow.step
    if step is None or not isinstance(step.action, _LOOKED_AT) or workflow.state is State.AWAITING_APPROVAL:
        return False
    return step.failures > 0 or workflow.id not in state.of(WORKFLOWS).heard


def _begun(state: CoreState, workflow: Workflow, run: ChildRun) -> Child | None:
    found = state.of(WORKFLOWS).get(run.recovery) or state.of(RECOVERY).recoveries.get(run.recovery)
    return found if found is not None and found.command.id == command_id(workflow, run) else None


def _child_goes_on(state: CoreState, child: Child) -> bool:
    return goes_on(state, child) if isinstance(child, Workflow) else recovery_goes_on(child)
