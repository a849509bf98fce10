"""An application that was started and failed, and that appends: what it wrote would be there twice if it were started
again. So nothing starts it again by itself: it is stopped, lest its platform does so, and its start stands behind a
question for a person.

Attempts of replays need none of this: records and receipts are one transaction, so that another attempt goes on where
the last one ended, whatever the target is for others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from recoveryd.units.model import Unit
from recoveryd.workflows.model.actions import AskPerson, AwaitStarted, AwaitStopped
from recoveryd.workflows.model.events import START_FAILED, Outcome, StepReported
from recoveryd.workflows.model.passed import RAN
from recoveryd.workflows.model.workflow import StepState, Workflow, WorkflowStep

_HOLD, _DECIDE = "hold_", "decide_"
Units = Mapping[str, Unit]


def appends(units: Units, step: WorkflowStep) -> tuple[str, ...]:
    """Outputs of the application that the step starts, in which a record that is written again is there twice, or of
    which nobody said that it is not.
    """
    unit = units.get(step.action.unit) if isinstance(step.action, AwaitStarted) else None
    return () if unit is None else unit.appended


def has_to_be_decided(units: Units, step: WorkflowStep, event: StepReported) -> bool:
    return event.outcome is Outcome.NOT_YET and START_FAILED in event.evidence and bool(appends(units, step))


def with_decision(units: Units, workflow: Workflow, step: WorkflowStep, event: StepReported) -> Workflow:
    """With a stop and the question in front of the step, which begins anew once it was answered."""
    action = step.action
    assert isinstance(action, AwaitStarted)
    named = ", ".join(appends(units, step))
    question = (
        f"{action.unit} was started and failed: {event.why}. It may have written to {named}, where a record that is written "
        f"again is there twice, so it is not started again by itself. Look what is there; `ack` starts it once more, `stop` leaves it"
    )
    seen = {RAN: True} if action.inputs else {}
    again = replace(step, state=StepState.PENDING, why=event.why, evidence=seen, began_ms=None, failures=0)
    held = WorkflowStep(_name(_HOLD, workflow.steps, step), AwaitStopped(action.cluster, action.group, action.unit))
    asked = WorkflowStep(_name(_DECIDE, workflow.steps, step), AskPerson(question))
    steps = (part for each in workflow.steps for part in ((held, asked, again) if each.name == step.name else (each,)))
    return replace(workflow, steps=tuple(steps), waiting_for=None)


def told_appended(units: Units, workflow: Workflow) -> str:
    """Of a workflow that failed behind a start: what it means for whoever starts it again. Empty = nothing."""
    for step in workflow.steps:
        if isinstance(step.action, AwaitStarted) and step.has_begun and (named := appends(units, step)):
            return (
                f"{step.action.unit} was started and appends to {', '.join(named)}: compare before you start it again"
            )
    return ""


def _name(doing: str, steps: Iterable[WorkflowStep], step: WorkflowStep) -> str:
    name = f"{doing}{step.name}"
    count = sum(each.name.startswith(name) for each in steps)
    return name if not count else f"{name}_{count + 1}"
