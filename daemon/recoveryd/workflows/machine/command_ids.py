"""Ids of the commands that workflows send, and what such an id says: of which workflow it is, what it asks for, and
whether that is wanted now. The same command has the same id, however often it is sent.
"""

from typing import Final

from recoveryd.kernel.states import CommandRef, State
from recoveryd.workflows.model.actions import ChildRun, RollBackChildren, RunChildren
from recoveryd.workflows.model.known import Workflows
from recoveryd.workflows.model.workflow import Steering, Workflow, WorkflowStep

BACK: Final = ".rollback."  # in those by which something is put back
WANTS: Final = frozenset({State.RUNNING, State.WAITING})


def command_id(workflow: Workflow, run: ChildRun) -> str:
    base = f"{workflow.id}.{workflow.created_ms}.{run.recovery}"
    return f"{base}.{run.again}" if run.again else base


def begun_by(workflow: Workflow, recovery: str, command: CommandRef) -> tuple[RunChildren, ChildRun] | None:
    """How it wants this one, at any of its steps, by this command and from the source that asked for it."""
    if command.source != workflow.command.source:
        return None
    actions = (step.action for step in workflow.steps if isinstance(step.action, RunChildren))
    runs = ((action, run) for action in actions for run in action.runs)
    return next((f for f in runs if f[1].recovery == recovery and command_id(workflow, f[1]) == command.id), None)


def is_begun(workflows: Workflows, begun: str, command: CommandRef) -> bool:
    """Whether a workflow that is known wants this one, by this command."""
    return any(begun_by(workflow, begun, command) for workflow in workflows.live.values())


def steering_id(workflow: Workflow, wanted: Steering, child: str) -> str:
    return f"{workflow.id}.{workflow.created_ms}.{wanted.verb}.{wanted.number}.{child}"


def rollback_id(workflow: Workflow, step: WorkflowStep, run: ChildRun) -> str:
    return f"{command_id(workflow, run)}{BACK}{step.began_ms}"


def asks_back(workflow: Workflow, step: WorkflowStep, command: str) -> bool:
    runs = step.action.runs if isinstance(step.action, RollBackChildren) else ()
    return any(command == rollback_id(workflow, step, run) for run in runs)


def is_child_of(workflow: Workflow, command: str) -> bool:
    """Whether a command is one by which this workflow begins something."""
    runs = (run for step in workflow.steps if isinstance(step.action, RunChildren) for run in step.action.runs)
    return any(command == command_id(workflow, run) for run in runs)


def is_taken_back(workflow: Workflow, command: str) -> bool:
    """Whether a command is one by which this workflow, now, has something put back that it began."""
    step = workflow.step
    return step is not None and workflow.state in WANTS and asks_back(workflow, step, command)


def sent_by(workflow: Workflow, command: str) -> bool:
    """Whether the present step wants something by this command."""
    step = workflow.step
    if step is not None and isinstance(step.action, RunChildren):
        return any(command == command_id(workflow, run) for run in step.action.runs)
    return step is not None and asks_back(workflow, step, command)
