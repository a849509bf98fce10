"""What recoveries, holds, watches, schedules and workflows have in common: the envelope of their status records. All
but recoveries, which have a table of moves, get their next version here.
"""

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from recoveryd.kernel.states import TERMINAL, CommandRef, State
from recoveryd.kernel.written import TimeMs, named


@dataclass(frozen=True, slots=True)
class StatusNoun:
    """Each kind adds its own fields. `command`: the one that began it. Times are milliseconds since the epoch (UTC)."""

    id: str = field(metadata=named("recovery"))
    state: State
    why: str
    version: int
    created_ms: TimeMs = field(metadata=named("created"))
    updated_ms: TimeMs = field(metadata=named("updated"))
    command: CommandRef

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL


_Noun = TypeVar("_Noun", bound=StatusNoun)


def changed(noun: _Noun, now_ms: int, **changes: Any) -> _Noun:
    """The noun with its next version."""
    return replace(noun, version=noun.version + 1, updated_ms=now_ms, **changes)
