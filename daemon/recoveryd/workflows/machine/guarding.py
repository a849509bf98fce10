"""A defect of ours in one workflow stops nobody else: neither the ticks of the others, nor the daemon. The workflow
says why it stands.
"""

from collections.abc import Callable

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.model.workflow import Workflow

_BEFORE_STEPS = frozenset({State.PLANNING, State.AWAITING_APPROVAL})


def guarded(
    draft: WorkflowDraft,
    workflow: Workflow,
    do: Callable[[WorkflowDraft, Workflow], None],
    refuse: Callable[[WorkflowDraft, Workflow, Code, str], None] | None = None,
) -> None:
    """`do` it; where that raises, nothing of it stays. One that has no plan yet is refused then, any other is tried
    again after a while, and says why it stands.
    """
    before, ended = draft.workflows, len(draft.draft.ended)
    try:
        do(draft, workflow)
    except Exception as bug:  # noqa: BLE001  (whatever it is, the others go on)
        draft.workflows = before
        del draft.draft.ended[ended:]
        draft.put(workflow)  # what was journaled of it halfway does not count
        where = _where(bug)
        if workflow.state in _BEFORE_STEPS and refuse is not None:
            refuse(draft, workflow, Code.INVARIANT_BROKEN, f"a defect of recoveryd: {bug!r} at {where}")
            return
        why = f"stands still by a defect of recoveryd: {bug!r} at {where}; `stop` ends it"
        if why != workflow.why:
            draft.notice("workflow_broken", workflow.id, {"why": why, "code": Code.INVARIANT_BROKEN.value})
            draft.revise(workflow, why=why)
        draft.due(workflow.id, draft.now_ms + draft.params.close_every_ms)


def _where(bug: Exception) -> str:
    last = bug.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return "?" if last is None else f"{last.tb_frame.f_code.co_name}:{last.tb_lineno}"
