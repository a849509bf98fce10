"""What a `watch` asks for: whom to look at, until what, and what then. Validated and typed; the wire owns names and hints."""

from collections.abc import Mapping
from dataclasses import dataclass

from recoveryd.kernel.commands import Meta


@dataclass(frozen=True, slots=True)
class UntilCaughtUp:
    """Every partition of every topic stays at zero lag (the rule is `judge`)."""


@dataclass(frozen=True, slots=True)
class UntilOffsets:
    """The group committed at least these offsets, by topic and partition. Each partition counts from the first time it was seen there."""

    offsets: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class UntilTime:
    """The time has come, whatever the group did."""

    time_ms: int


Until = UntilCaughtUp | UntilOffsets | UntilTime


@dataclass(frozen=True, slots=True)
class WatchSpec:
    """`webhook` None = only notify. `deadline_ms` (absolute) ends it unfulfilled. `tolerance_records`: lag per partition that still counts as zero."""

    cluster: str
    group: str
    topics: tuple[str, ...]
    until: Until
    webhook: str | None = None
    deadline_ms: int | None = None
    tolerance_records: int = 0


@dataclass(frozen=True, slots=True)
class StartWatch:
    meta: Meta
    spec: WatchSpec
    verb = "watch"
