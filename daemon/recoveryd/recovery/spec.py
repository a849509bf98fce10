"""What a recovery is asked to do, as far as all kinds share it: which range of which topic, which target, within what
limits.

The values are validated already; JSON names, defaults and hints are in `wire`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

from recoveryd.kernel.times import format_time_ms, parse_time_ms
from recoveryd.kernel.written import DurationMs, TimeMs, Written, named


@dataclass(frozen=True, slots=True)
class Earliest:
    """The log start offset."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The high watermark at the time of planning, pinned once."""


@dataclass(frozen=True, slots=True)
class AtOffset:
    """The same offset for every partition."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset per partition. Planning refuses partitions that are not named, unless `others_earliest` says to take
    them from their beginning, and a topic with another id than `topic_id`, unless that is empty. `since_ms`: older
    records are left out, as behind a start at a time, of which this is the rest.
    """

    offsets: Mapping[int, int]
    others_earliest: bool = False
    topic_id: str = ""
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record at or after `time_ms` (durations are made absolute by the wire layer, against the record's
    broker time).
    """

    time_ms: int


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Follow the live head and stop at zero lag."""


@dataclass(frozen=True, slots=True)
class Never:
    """Follow the live head until a command stops it."""


_WORDS = {"earliest": Earliest(), "latest": Latest(), "caught_up": CaughtUp(), "never": Never()}
_WORD_OF = {type(bound): word for word, bound in _WORDS.items()}


def _write_bound(bound: Any) -> Any:
    """As in commands, but with absolute times."""
    match bound:
        case AtOffset(offset):
            return {"offset": offset}
        case AtOffsets(offsets):
            written: dict[str, Any] = {"offsets": {str(partition): offset for partition, offset in offsets.items()}}
            more = {"others": "earliest"} if bound.others_earliest else {}
            more |= {"topic_id": bound.topic_id} if bound.topic_id else {}
            return written | more | ({} if bound.since_ms is None else {"since": format_time_ms(bound.since_ms)})
        case AtTime(time_ms):
            return format_time_ms(time_ms)
        case word:
            return _WORD_OF[type(word)]


def _read_bound(data: Any) -> Any:
    if isinstance(data, str):
        return _WORDS.get(data) or AtTime(parse_time_ms(data))
    if "offset" in data:
        return AtOffset(data["offset"])
    offsets = {int(partition): offset for partition, offset in data["offsets"].items()}
    since_ms = parse_time_ms(data["since"]) if "since" in data else None
    return AtOffsets(offsets, "others" in data, data.get("topic_id", ""), since_ms)


def oldest_ms(start: "From") -> int | None:
    """Records that are older are left out of a range that begins so; None = none are."""
    match start:
        case AtTime(time_ms):
            return time_ms
        case AtOffsets(since_ms=since_ms):
            return since_ms
        case _:
            return None


_BOUND = Written(_write_bound, _read_bound, {})
From = Annotated[Earliest | AtOffset | AtOffsets | AtTime, _BOUND]
To = Annotated[Latest | AtOffset | AtOffsets | AtTime | CaughtUp | Never, _BOUND]


@dataclass(frozen=True, slots=True)
class Limits:
    """None = no limit. `deadline_ms` is absolute, `max_runtime_ms` counts from the first attempt. `event_time_ms`: stop
    when every partition is past records of this time, or has been at its end for `idle_ms` (a minute when that is
    None). `idle_ms`: stop when nothing came for that long. At most `max_lanes` lanes copy at once.

    `mode` is unlimited | fixed | controller, None = by what is protected and what rate is given. The controller serves
    recoveries of a lower `tier` first, and shares by `weight` within a tier. `override_live_slo` lets it start although
    live traffic is over its SLO already.
    """

    max_bytes_per_s: float | None = None
    max_records_per_s: float | None = None
    max_bytes: int | None = None
    max_records: int | None = None
    max_runtime_ms: DurationMs | None = field(default=None, metadata=named("max_runtime"))
    deadline_ms: TimeMs | None = field(default=None, metadata=named("deadline"))
    mode: str | None = None
    weight: float = 1.0
    tier: int = 0
    override_live_slo: bool = False
    event_time_ms: TimeMs | None = field(default=None, metadata=named("event_time"))
    idle_ms: DurationMs | None = field(default=None, metadata=named("idle"))
    max_lanes: int | None = None


@dataclass(frozen=True, slots=True)
class SourceRef:
    topic: str
    start: From = field(metadata=named("from"))
    stop: To = field(metadata=named("to"))
    cluster: str = "main"
    partitions: tuple[int, ...] | None = None  # None = all


class TargetTopic(Protocol):
    """The topic that a recovery writes to, or compares with."""

    @property
    def cluster(self) -> str: ...

    @property
    def topic(self) -> str: ...

    @property
    def mapping(self) -> str:
        """In which partition of the target a record of the source belongs: same | key_hash."""
        ...

    @property
    def headers_add(self) -> tuple[tuple[str, str], ...]: ...

    @property
    def headers_drop(self) -> tuple[str, ...]: ...


class Spec(Protocol):
    """A specification: a frozen dataclass of each kind. `copies`: the recovery writes to its target, so it has lanes,
    receipts and completeness.
    """

    @property
    def kind(self) -> str: ...

    @property
    def copies(self) -> bool: ...

    @property
    def appends(self) -> bool:
        """Whether others may write to the same target partitions."""
        ...

    @property
    def source(self) -> SourceRef: ...

    @property
    def target(self) -> TargetTopic: ...

    @property
    def target_bounds(self) -> tuple[From, To] | None:
        """The bounds of the target, if planning has to resolve any."""
        ...

    @property
    def limits(self) -> Limits: ...

    @property
    def dry_run(self) -> bool: ...

    @property
    def plan_hash(self) -> str | None: ...

    @property
    def profile(self) -> str: ...

    @property
    def on_data_loss(self) -> str:
        """What to do when part of the range is gone: fail | continue."""
        ...

    @property
    def verify(self) -> str:
        """Which proof follows the copy: source | digest | count | none."""
        ...
