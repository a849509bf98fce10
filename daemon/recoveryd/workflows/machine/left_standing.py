"""How a workflow leaves its applications when it ends: stopped for it, or told to start and not seen to run."""

from collections.abc import Iterable, Mapping
from typing import Final

from recoveryd.units.model import ControlKind, Unit
from recoveryd.workflows.model.actions import AwaitStarted, AwaitStopped
from recoveryd.workflows.model.workflow import StepState, Workflow, WorkflowStep

_BROKEN_OFF: Final = frozenset({StepState.FAILED, StepState.SKIPPED})
_SEEN: Final = frozenset({StepState.DONE, StepState.UNDONE})
Units = Mapping[str, Unit]


def told_stopped(units: Units, workflow: Workflow) -> str:
    """The application that was stopped for it by whoever controls it, and that nobody was asked to start since, or that
    was told to start and did not run yet. Empty = none is; who stopped or starts one by hand knows.
    """
    told: dict[str, str] = {}
    for step in workflow.steps:
        if isinstance(step.action, AwaitStopped) and "before" in step.evidence:
            told = {step.action.unit: _told_stop(step, step.action.unit)}
        elif isinstance(step.action, AwaitStarted) and step.began_ms is not None:
            told = {} if step.state in _SEEN else {**told, **_unseen(units, workflow, step, step.action.unit)}
    return "; ".join(told.values())


def told_left_stopped(units: Units, workflow: Workflow, back: Iterable[WorkflowStep]) -> str:
    """The same of a rollback by the steps `back`, and of each application. One that was stopped before a workflow
    completed may have been started by anybody since: it counts only where the rollback was to start it, and has not
    come so far.
    """
    names = {step.name for step in back}
    has_completed = not any(step.state in _BROKEN_OFF for step in workflow.steps if step.name not in names)
    starts = (step for step in workflow.steps if step.began_ms is None)
    wanted = {step.action.unit for step in starts if isinstance(step.action, AwaitStarted)}
    told: dict[str, str] = {}
    for step in workflow.steps:
        action = step.action
        if isinstance(action, AwaitStopped) and "before" in step.evidence:
            if step.name in names or action.unit in wanted or not has_completed:
                told[action.unit] = _told_stop(step, action.unit)
        elif isinstance(action, AwaitStarted) and step.began_ms is not None:
            told.pop(action.unit, None)
            told |= {} if step.state in _SEEN else _unseen(units, workflow, step, action.unit)
    return "; ".join(told.values())


def told_unseen(units: Units, workflow: Workflow) -> str:
    """Of one that is rolled back: applications that it told to start, and that were neither seen to run nor stopped
    since. Those that it was to leave stopped are as was meant, and so is one in whose place another runs by then.
    """
    if getattr(workflow.spec, "takes_over", False):
        return ""
    told: dict[str, str] = {}
    for step in workflow.steps:
        action = step.action
        if isinstance(action, AwaitStopped | AwaitStarted) and step.state in _SEEN:
            told.pop(action.unit, None)
        elif isinstance(action, AwaitStarted) and step.began_ms is not None:
            told |= _unseen(units, workflow, step, action.unit)
    return "; ".join(told.values())


def _told_stop(step: WorkflowStep, unit: str) -> str:
    return f"{unit} is stopped" if step.state is StepState.DONE else f"{unit} was told to stop"


def _unseen(units: Units, workflow: Workflow, step: WorkflowStep, unit: str) -> dict[str, str]:
    """By unit, of one whose start began. Why the one that failed did, is said already."""
    if not _is_controlled(units, workflow, unit):
        return {}
    told = f"{unit} was told to start, and was not seen to run"
    waiting = workflow.waiting_for
    silent = waiting.last_error if waiting is not None and waiting.step == step.name else ""
    why = "" if step.state is StepState.FAILED else step.why or silent
    return {unit: f"{told}: {why}" if why else told}


def _is_controlled(units: Units, workflow: Workflow, unit: str) -> bool:
    """Whether it is told to start by the daemon, or a service, and not by a person."""
    known = units.get(unit)
    stops = (s for s in workflow.steps if isinstance(s.action, AwaitStopped) and s.action.unit == unit)
    is_told = known is not None and known.control is not ControlKind.MANUAL
    return is_told or any("before" in stop.evidence for stop in stops)
