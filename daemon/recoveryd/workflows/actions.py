"""What a step does, as data. Each is harmless to do twice: who carries it out looks first whether it is done already,
and never overwrites what somebody else changed meanwhile.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class AwaitEmpty:
    """Wait until the group has no members; they are never thrown out. Static members leave only when their session
    times out.
    """

    cluster: str
    group: str
    do: Literal["await_empty"] = "await_empty"


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Read the committed offsets of these topics, with metadata and leader epochs, so that they can be put back."""

    cluster: str
    group: str
    topics: tuple[str, ...]
    do: Literal["snapshot"] = "snapshot"


@dataclass(frozen=True, slots=True)
class SetOffsets:
    """Commit what the undo rows of the workflow say, and read it back; `is_back`: the other way round. What is neither
    as it was nor as it shall be is somebody's: forward nothing is set then, back it stays as they left it.
    """

    cluster: str
    group: str
    is_back: bool = False
    do: Literal["set_offsets"] = "set_offsets"


Action = AwaitEmpty | TakeSnapshot | SetOffsets
