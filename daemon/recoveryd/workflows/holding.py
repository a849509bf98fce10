"""Held topics (`recoveryd.holds`): a workflow changes nothing where somebody holds the topic. Looked at when its plan is
made and again before it changes something.
"""

from recoveryd.holds.draft import HoldDraft
from recoveryd.holds.held import refuse_held
from recoveryd.kernel.refused import Refused
from recoveryd.workflows.draft import WorkflowDraft
from recoveryd.workflows.model import Workflow, WorkflowPlan

_OF_TOPICS = frozenset({"offset", "topic", "config"})


def held_from(draft: WorkflowDraft, workflow: Workflow, plan: WorkflowPlan | None) -> Refused | None:
    """The refusal that names the hold in the way of this plan, or None."""
    topics = dict.fromkeys(change.name for change in plan.changes if change.what in _OF_TOPICS) if plan else ()
    holds = draft.draft.view(HoldDraft).holds
    return refuse_held(holds, [(workflow.spec.cluster, topic) for topic in topics])
