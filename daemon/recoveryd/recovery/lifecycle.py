"""The life of a recovery: one table of legal moves, and the only function that changes a state.

    requested ── planning ──┬── planned (dry run)
                            ├── awaiting_approval ──┬── rejected, expired, stopped
                            │                       │
                            └── starting ◄──────────┘
                                  │  ▲
                                  ▼  │ (attempt lost)
                 pausing ◄────  running ────► stopping ────► stopped, failed
                    │             ▲  │            │
                    ▼             │  ▼            ▼
                  paused ─────────┘ verifying ──► completed, stopped, failed

Verifying is work like running: it is paused, resumed and stopped the same way, and `resume` goes back to where
`Recovery.resume_state` says. A recovery with nothing to copy goes from starting to verifying. One whose proof finds
partitions that its copy lacks is stopped then.

A move that is not in the table is a bug of the core, not an outcome: `advance` refuses it, and the property tests walk
every (state, event) pair.
"""

from typing import Any

from recoveryd.kernel.replacing import replaced
from recoveryd.kernel.states import State
from recoveryd.recovery.model import Recovery

S = State

MOVES: dict[State, frozenset[State]] = {
    S.REQUESTED: frozenset({S.PLANNING, S.REJECTED, S.STOPPED}),
    S.PLANNING: frozenset({S.PLANNED, S.AWAITING_APPROVAL, S.STARTING, S.REJECTED, S.STOPPED, S.FAILED}),
    S.PLANNED: frozenset(),
    S.AWAITING_APPROVAL: frozenset({S.STARTING, S.REJECTED, S.EXPIRED, S.STOPPED}),
    S.STARTING: frozenset({S.RUNNING, S.PAUSING, S.STOPPING, S.VERIFYING, S.COMPLETED, S.FAILED}),
    S.RUNNING: frozenset({S.STARTING, S.PAUSING, S.STOPPING, S.VERIFYING, S.COMPLETED, S.FAILED}),
    S.PAUSING: frozenset({S.PAUSED, S.RUNNING, S.STARTING, S.VERIFYING, S.STOPPING, S.FAILED}),
    S.PAUSED: frozenset({S.RUNNING, S.STARTING, S.VERIFYING, S.STOPPING, S.FAILED}),
    S.STOPPING: frozenset({S.STOPPED, S.FAILED, S.VERIFYING, S.COMPLETED}),
    S.VERIFYING: frozenset({S.PAUSING, S.STOPPING, S.COMPLETED, S.STOPPED, S.FAILED}),
    S.COMPLETED: frozenset(),
    S.STOPPED: frozenset(),
    S.FAILED: frozenset(),
    S.REJECTED: frozenset(),
    S.EXPIRED: frozenset(),
    # Of workflows only.
    S.WAITING: frozenset(),
    S.CLOSING: frozenset(),
    S.ROLLED_BACK: frozenset(),
}


class IllegalMoveError(AssertionError):
    """The core tried a move that is not in the table."""


def advance(recovery: Recovery, to: State, why: str, now_ms: int, **changes: Any) -> Recovery:
    """The recovery in state `to`, with `why` as its sentence and its version one higher."""
    if to not in MOVES[recovery.state]:
        raise IllegalMoveError(f"{recovery.id}: {recovery.state} to {to}")
    return replaced(recovery, state=to, why=why, updated_ms=now_ms, version=recovery.version + 1, **changes)


def is_reusable(recovery: Recovery) -> bool:
    """Whether its id may be used again: it never ran (a dry run, a refused or expired plan)."""
    return recovery.attempt.number == 0 and recovery.state in {S.PLANNED, S.REJECTED, S.EXPIRED}
