"""Replays beside a workflow: those that write to a topic on which it sets a group, whose end moves meanwhile."""

from collections.abc import Collection

from recoveryd.recovery.draft import RecoveryDraft
from recoveryd.workflows.machine.draft import WorkflowDraft


def writers_of(draft: WorkflowDraft, cluster: str, topics: Collection[str]) -> tuple[str, ...]:
    """A sentence for each."""
    return tuple(
        f"{found.spec.target.topic}: the replay {found.id} is {found.state.value} and writes there, so its end moves"
        for found in sorted(draft.draft.view(RecoveryDraft).live(), key=lambda recovery: recovery.id)
        if found.spec.copies and found.spec.target.cluster == cluster and found.spec.target.topic in topics
    )
