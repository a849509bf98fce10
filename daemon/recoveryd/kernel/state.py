"""All the core knows: the daemon's own record, and one slice per capability."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from recoveryd.kernel.events import Seen
from recoveryd.kernel.written import TimeMs, named

T = TypeVar("T")
Numbers = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class DaemonRecord:
    """The `_daemon` record. `applied_control_offset`: the last control record whose outcome is journaled; -1 = none.

    `kept`: numbers that a capability wants to have again after a restart: by its name, a domain, what they are, of
    what. `decided`: by idempotency key (hex), commands from `applied_control_offset` on that were decided before the
    control topic was seen cut back there: if it was not, after all, they come again.
    """

    applied_control_offset: int = -1
    epoch: int = 0
    control_topic_id: str = ""
    updated_ms: TimeMs = field(default=0, metadata=named("updated"))
    kept: Mapping[str, Mapping[str, Numbers]] = field(default_factory=dict)
    decided: Mapping[str, Seen] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Slot(Generic[T]):
    """Where a capability keeps its slice of the state: an immutable value, at first `empty`."""

    name: str
    empty: T


@dataclass(frozen=True, slots=True)
class CoreState:
    """Immutable. `slices` by the name of their slot; only the owner of a slot knows which part of it is journaled and
    which is lost at a restart. `has_read`: whether commands are known that were sent while no daemon ran, or while this
    one stood still. Until then nothing may be done that such a command would have kept from being done.
    """

    daemon: DaemonRecord = DaemonRecord()
    slices: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    has_read: bool = True

    def of(self, slot: Slot[T]) -> T:
        found: T = self.slices.get(slot.name, slot.empty)
        return found

    def having(self, slot: Slot[T], value: T) -> "CoreState":
        """The same state with this slice; the same object when the slice is the same."""
        if self.slices.get(slot.name) is value:
            return self
        return replace(self, slices={**self.slices, slot.name: value})
