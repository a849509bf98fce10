"""How much the recoveries copy that a workflow begins. Its plan says so where it is known, and waits for approval by
the same limits as a single copy: one that waits later would do so with the application stopped, or its state gone.
"""

from recoveryd.kernel.states import CommandRef
from recoveryd.recovery.admission import approval_for_size
from recoveryd.workflows.machine.command_ids import begins_by
from recoveryd.workflows.model.known import Workflows
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.workflow import PlannedCopies, Workflow


def is_told_before(workflows: Workflows, begun: str, command: CommandRef) -> bool:
    """Whether a workflow that begins this one said with its plan how much is copied."""
    return any(
        begins_by(workflow, begun, command)
        for workflow in workflows.live.values()
        if workflow.plan is not None and workflow.plan.copies is not None
    )


def asked_for_size(workflows: Workflows, workflow: Workflow, params: WorkflowParams) -> str | None:
    """Why a person has to look at its plan first, by the limits that are in force now; None = nobody has."""
    copies = None if workflow.plan is None else workflow.plan.copies
    if copies is None or is_told_before(workflows, workflow.id, workflow.command):
        return None
    limits = params.approval_above_bytes, params.approval_above_records
    return approval_for_size(copies.bytes_at_most, copies.records_at_most, *limits)


def told_size(copies: PlannedCopies | None) -> str:
    """In words, empty where it is not known or nothing is copied."""
    if copies is None or not copies.records_at_most:
        return ""
    size = "" if copies.bytes_at_most is None else f", {copies.bytes_at_most:,} bytes"
    return f"; up to {copies.records_at_most:,} records{size} are copied"
