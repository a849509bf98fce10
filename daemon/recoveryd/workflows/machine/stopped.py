"""Consumer groups whose application a workflow keeps stopped, and those that one works on: their lag grows meanwhile
because nobody reads, which no replay can change.
"""

from collections.abc import Iterator

from recoveryd.kernel.states import State
from recoveryd.recovery.draft import Groups
from recoveryd.workflows.model.actions import AwaitEmpty, AwaitStarted, AwaitStopped
from recoveryd.workflows.model.known import Workflows
from recoveryd.workflows.model.workflow import StepState, Workflow

_DOES_NOTHING = frozenset({State.PLANNING, State.PLANNED, State.AWAITING_APPROVAL})


def stopped_groups(workflows: Workflows) -> Groups:
    """By cluster and name, with the sentence that names the workflow: from when its application was stopped until it is
    to start again, or may. On the way back its steps tell nothing: they may be of long ago.
    """
    return {
        place: f"workflow {workflow.id} keeps {place[1]} stopped"
        for workflow in _at_work(workflows)
        if workflow.state is not State.CLOSING and not workflow.is_rolling_back
        for place in _stopped_by(workflow)
    }


def groups_at_work(workflows: Workflows) -> Groups:
    """By cluster and name, with the sentence that names the workflow."""
    return {
        (workflow.spec.cluster, group): f"workflow {workflow.id} works on {group}"
        for workflow in _at_work(workflows)
        for group in {workflow.spec.group, getattr(workflow.spec, "to_group", "") or workflow.spec.group}
    }


def _at_work(workflows: Workflows) -> Iterator[Workflow]:
    return (w for w in workflows.live.values() if w.state not in _DOES_NOTHING and not w.spec.dry_run)


def _stopped_by(workflow: Workflow) -> set[tuple[str, str]]:
    """By its steps, in their order: one group may be stopped and started several times."""
    stopped: set[tuple[str, str]] = set()
    for step in workflow.steps:
        match step.action:
            case AwaitStopped(cluster=cluster, group=group) | AwaitEmpty(cluster=cluster, group=group):
                if step.state is StepState.DONE:
                    stopped.add((cluster, group))
            case AwaitStarted(cluster=cluster, group=group) if step.began_ms is not None:
                stopped.discard((cluster, group))
    return stopped
