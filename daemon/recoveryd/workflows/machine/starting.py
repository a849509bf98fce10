"""On the way back: an application that was stopped for a workflow, by the daemon or a service, and ran before, is
started again. Who stopped one by hand starts it by hand.
"""

from collections.abc import Mapping
from typing import Final

from recoveryd.workflows.machine.undoing import lost_for_good, puts_back
from recoveryd.workflows.model.actions import AskPerson, AwaitStarted, AwaitStopped
from recoveryd.workflows.model.step_names import CLEAN
from recoveryd.workflows.model.workflow import StepState, Workflow, WorkflowStep

BEFORE, RAN = "before", "ran_before"  # in the evidence of the step that stopped it: how it ran, and whether
STOP_AGAIN, CONFIRM_START, START_AGAIN = "stop_application_again", "confirm_start", "start_application_again"
_NAMED_MOST: Final = 5


def started_again(workflow: Workflow, back: tuple[WorkflowStep, ...], left: str = "") -> tuple[WorkflowStep, ...]:
    """The steps `back` of a rollback, before them a stop, since somebody may have started it meanwhile, also without a
    word to the workflow, and behind them the start. What is stopped already stays so, and what runs runs on where
    nothing is put back. Where records went, or local state, a person says first that it can go on: it would begin with
    what is left, of which `left` says more.
    """
    stopped = _stop_of(workflow)
    if stopped is None or not _ran(stopped):
        return back
    action, before = stopped.action, stopped.evidence[BEFORE]
    assert isinstance(action, AwaitStopped)
    assert isinstance(before, Mapping)
    begun = {step.name for step in workflow.steps if step.began_ms is not None}
    is_under_way = stopped.state is not StepState.DONE
    if not is_under_way and not puts_back(workflow, back):
        back = ()  # what was only noted is as it was
    was_started = any(isinstance(s.action, AwaitStarted) and s.name in begun for s in workflow.steps)
    if was_started and not back and not begun & {STOP_AGAIN, START_AGAIN}:
        return ()  # it runs
    stop = WorkflowStep(STOP_AGAIN, AwaitStopped(action.cluster, action.group, action.unit))
    start = AwaitStarted(action.cluster, action.group, action.unit, ", as it ran before", before)
    doubt = doubt_of(workflow, action.unit, left)
    return (
        *((stop,) if is_under_way or back else ()),
        *back,
        *((WorkflowStep(CONFIRM_START, AskPerson(doubt)),) if doubt else ()),
        WorkflowStep(START_AGAIN, start),
    )


def _stop_of(workflow: Workflow) -> WorkflowStep | None:
    """The first, if not people took it: they say nothing of how it ran."""
    stops = (s for s in workflow.steps if isinstance(s.action, AwaitStopped) and s.name != STOP_AGAIN)
    return next((step for step in stops if isinstance(step.evidence.get(BEFORE), Mapping)), None)


def _ran(stopped: WorkflowStep) -> bool:
    """Of steps of an earlier release it is known only where whoever stopped it said how it ran."""
    return bool(stopped.evidence.get(RAN, bool(stopped.evidence[BEFORE])))


def doubt_of(workflow: Workflow, unit: str, left: str = "") -> str:
    """The question for a person before the start; empty = there is none."""
    gone = lost_for_good(workflow)
    more = f" and {len(gone) - _NAMED_MOST} more" if len(gone) > _NAMED_MOST else ""
    whats = [f"records of {', '.join(gone[:_NAMED_MOST])}{more} are gone for good"] if gone else []
    if any(step.name == CLEAN and step.state is StepState.DONE for step in workflow.steps):
        whats.append("its local state was deleted")
    told = "; ".join(filter(None, (" and ".join(whats), left)))
    return f"say that {unit} can go on with what is left: {told}" if told else ""
