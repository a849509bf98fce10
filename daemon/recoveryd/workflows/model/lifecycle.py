"""The life of a workflow: one table of legal moves, and the only function that changes a state.

    planning ──┬── planned (dry run), rejected
               ├── awaiting_approval ── rejected, expired, stopped
               └── running ◄──► waiting ──► completed, failed, stopped
                    │  ▲  pausing, paused       │
                    │  └────── rollback ────────┘   then rolled_back or failed
                    └── stopping ── stopped, failed

    closing comes before an end as long as something is not put back that was changed for a time only.

What has ended can be put back once, so `completed`, `failed` and `stopped` lead to `running` again.
"""

from typing import Any

from recoveryd.kernel.noun import changed
from recoveryd.kernel.states import State
from recoveryd.workflows.model.workflow import Workflow

S = State
REUSABLE = frozenset({S.PLANNED, S.REJECTED, S.EXPIRED})  # another one may have the id of one of these
_ENDS = frozenset({S.COMPLETED, S.FAILED, S.STOPPED, S.ROLLED_BACK})

MOVES: dict[State, frozenset[State]] = {
    S.PLANNING: frozenset({S.PLANNED, S.AWAITING_APPROVAL, S.RUNNING, S.REJECTED, S.STOPPED, S.FAILED}),
    S.PLANNED: frozenset(),
    S.AWAITING_APPROVAL: frozenset({S.RUNNING, S.REJECTED, S.EXPIRED, S.STOPPED}),
    S.RUNNING: frozenset({S.WAITING, S.PAUSING, S.PAUSED, S.STOPPING, S.CLOSING, *_ENDS}),
    S.WAITING: frozenset({S.RUNNING, S.PAUSING, S.PAUSED, S.STOPPING, S.CLOSING, *_ENDS}),
    S.PAUSING: frozenset({S.PAUSED, S.RUNNING, S.STOPPING, S.CLOSING, *_ENDS}),
    S.PAUSED: frozenset({S.RUNNING, S.STOPPING, S.CLOSING, S.STOPPED, S.FAILED}),
    S.STOPPING: frozenset({S.STOPPED, S.CLOSING, S.FAILED}),
    S.CLOSING: _ENDS,
    S.COMPLETED: frozenset({S.RUNNING}),
    S.FAILED: frozenset({S.RUNNING}),
    S.STOPPED: frozenset({S.RUNNING}),
    S.REJECTED: frozenset(),
    S.EXPIRED: frozenset(),
    S.ROLLED_BACK: frozenset(),
}


class IllegalWorkflowMoveError(AssertionError):
    """The core tried a move that the table does not have."""


def advance(workflow: Workflow, to: State, why: str, now_ms: int, **changes: Any) -> Workflow:
    """The workflow in its next state, with `why` as its sentence and its version one higher."""
    if to not in MOVES.get(workflow.state, frozenset()):
        raise IllegalWorkflowMoveError(f"{workflow.id}: {workflow.state} to {to}")
    return changed(workflow, now_ms, state=to, why=why, **changes)
