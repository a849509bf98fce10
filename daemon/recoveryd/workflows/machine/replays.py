"""Recoveries beside a workflow: replays that write to a topic on which it sets a group, whose end moves meanwhile, and
those that read or write a topic which it takes away; and none begins with a topic that one goes on to take away.
"""

from collections.abc import Collection, Iterable, Iterator

from recoveryd.kernel.states import State
from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.recovery.model import Recovery
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.model.actions import DeleteTopics, RecreateTopics
from recoveryd.workflows.model.known import Workflows
from recoveryd.workflows.model.workflow import NOT_ENDED, WorkflowStep

_HOLDS_NOTHING = frozenset({State.PLANNING, State.AWAITING_APPROVAL})


def writers_of(draft: WorkflowDraft, cluster: str, topics: Collection[str]) -> tuple[str, ...]:
    """A sentence for each."""
    return tuple(
        f"{found.spec.target.topic}: the replay {found.id} is {found.state.value} and writes there, so its end moves"
        for found in sorted(draft.draft.view(RecoveryDraft).live(), key=lambda recovery: recovery.id)
        if found.spec.copies and found.spec.target.cluster == cluster and found.spec.target.topic in topics
    )


def users_of(draft: WorkflowDraft, steps: Iterable[WorkflowStep]) -> tuple[str, ...]:
    """A sentence for each that a topic of is taken away from, by one of these steps."""
    gone = {place for step in steps for place in _taken_away(step)}
    return tuple(
        f"{topic}: the {found.kind} {found.id} is {found.state.value} and {does} there, and ends when the topic goes"
        for found in sorted(draft.draft.view(RecoveryDraft).live(), key=lambda recovery: recovery.id)
        for (cluster, topic), does in _uses(found)
        if (cluster, topic) in gone
    )


def taker_of(workflows: Workflows, cluster: str, topic: str) -> str | None:
    """The sentence that names a workflow which has a step before it that takes this topic away, or None."""
    for workflow in workflows.live.values():
        ahead = () if workflow.state in _HOLDS_NOTHING else workflow.steps
        if any(step.state in NOT_ENDED and (cluster, topic) in _taken_away(step) for step in ahead):
            return f"workflow {workflow.id} takes {topic} away, and is {workflow.state.value}"
    return None


def _taken_away(step: WorkflowStep) -> Iterator[tuple[str, str]]:
    match step.action:
        case DeleteTopics(cluster=cluster, topics=topics):
            yield from ((cluster, name) for name in topics)
        case RecreateTopics(cluster=cluster, topics=forms):
            yield from ((cluster, form.name) for form in forms)


def _uses(recovery: Recovery) -> Iterator[tuple[tuple[str, str], str]]:
    source, target = recovery.spec.source, recovery.spec.target
    yield (source.cluster, source.topic), "reads"
    yield (target.cluster, target.topic), "writes" if recovery.spec.copies else "reads"
