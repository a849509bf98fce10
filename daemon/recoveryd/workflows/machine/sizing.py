"""How much the recoveries copy that a workflow begins. Its plan says so where it is known, and waits for approval by
the same limits as a single copy: one that waits later would do so with the application stopped, or its state gone. So
only what turns out much larger than the plan told does.
"""

from recoveryd.kernel.states import CommandRef
from recoveryd.recovery.told_size import (
    ANY,
    SizeLimits,
    ToldSize,
    approval_for_size,
    is_much_more,
    much_more_than,
)
from recoveryd.workflows.machine.command_ids import begun_by
from recoveryd.workflows.model.known import Workflows
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.workflow import PlannedCopies, Workflow


def size_told_before(workflows: Workflows, begun: str, command: CommandRef) -> ToldSize | None:
    """What a workflow that begins this one told with its plan that it copies; None = nobody did."""
    for workflow in workflows.live.values():
        found = begun_by(workflow, begun, command)
        if found is not None and workflow.plan is not None and workflow.plan.copies is not None:
            action, run = found
            return action.told.get(run.copies) if action.told else ANY
    return None


def asked_for_size(workflows: Workflows, workflow: Workflow, params: WorkflowParams) -> str | None:
    """Why a person has to look at its plan first, by the limits that are in force now; None = nobody has."""
    copies = None if workflow.plan is None else workflow.plan.copies
    if copies is None:
        return None
    told = size_told_before(workflows, workflow.id, workflow.command)
    if told is None and copies.bytes_at_most is None and params.approval_above_bytes is not None:
        return f"nobody knows whether it is more than {params.approval_above_bytes:,} bytes (approval.above_bytes)"
    return approval_for_size(_size(copies), _limits(params), told)


def outgrown(approved: PlannedCopies | None, now: PlannedCopies | None, params: WorkflowParams) -> str | None:
    """Why a plan that was approved is not that of now any more: it is beyond a limit, and copies much more than whoever
    approved it saw. By records, which are counted: bytes are an estimate.
    """
    if approved is None or now is None or approval_for_size(_size(now), _limits(params)) is None:
        return None
    seen = approved.records_at_most
    if not is_much_more(now.records_at_most, seen):
        return None
    return f"{now.records_at_most:,} records, {much_more_than(seen, 'the approved plan')}"


def said_size(copies: PlannedCopies | None) -> str:
    """In words, empty where it is not known or nothing is copied."""
    if copies is None or not copies.records_at_most:
        return ""
    size = "" if copies.bytes_at_most is None else f", {copies.bytes_at_most:,} bytes"
    return f"; up to {copies.records_at_most:,} records{size} are copied"


def _size(copies: PlannedCopies) -> ToldSize:
    return ToldSize(copies.records_at_most, copies.bytes_at_most)


def _limits(params: WorkflowParams) -> SizeLimits:
    return SizeLimits(params.approval_above_bytes, params.approval_above_records)
