"""The record of a watch: everything that must survive a restart. All times are milliseconds since the epoch (UTC).

A watch is not a recovery: it has no plan, no lanes and no attempts. It has the same envelope and the states running,
completed, stopped and failed. `running` covers both looking and, once the condition held, calling the webhook or
stopping the application.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from recoveryd.kernel.noun import StatusNoun
from recoveryd.kernel.states import Stop
from recoveryd.kernel.written import TimeMs, named
from recoveryd.watches.spec import WatchSpec

KIND = "watch"


class DeliveryState(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Delivery:
    """The call of the webhook. `id` is its idempotency key, the same however often it is sent; `status` is the HTTP
    status, None = no answer.
    """

    webhook: str
    id: str
    state: DeliveryState
    wanted_ms: TimeMs = field(metadata=named("wanted"))
    ended_ms: TimeMs | None = field(default=None, metadata=named("ended"))
    status: int | None = None
    attempts: int = 0
    message: str = ""


class UnitStopState(StrEnum):
    PENDING = "pending"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class UnitStop:
    """How the application of a unit is stopped. `before`: how it ran, as whoever controls it said, so that somebody can
    start it like that; None = not known yet, and it is not asked to stop before. `told_ms`: since when it is asked to.
    """

    unit: str
    state: UnitStopState
    wanted_ms: TimeMs = field(metadata=named("wanted"))
    ended_ms: TimeMs | None = field(default=None, metadata=named("ended"))
    before: Mapping[str, object] | None = None
    message: str = ""
    told_ms: TimeMs | None = field(default=None, metadata=named("told"))


@dataclass(frozen=True, slots=True)
class WatchedPartition:
    """What was last seen of one partition; None = not known. `reached` (for `UntilOffsets`) stays true once it is."""

    topic: str
    partition: int
    position: int | None
    end: int | None
    wanted: int | None
    verdict: str
    reached: bool


@dataclass(frozen=True, slots=True)
class WatchProgress:
    """`partitions`: those for which the condition does not hold yet, worst first, bounded. `lag_records` and
    `lag_seconds` are None while any partition is not known.

    `evaluations` in a row found the group caught up; for `done` of `planned` partitions the condition holds.
    """

    lag_records: int | None = None
    lag_seconds: float | None = None
    coverage: float = 0.0
    evaluations: int = 0
    done: int = 0
    planned: int = 0
    partitions: tuple[WatchedPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class Watch(StatusNoun):
    """`reached`: by topic, the partitions that reached their offset. `topic_ids`: the ids of the topics when first
    seen; another topic of the same name ends the watch.
    """

    spec: WatchSpec
    progress: WatchProgress = WatchProgress()
    reached: Mapping[str, frozenset[int]] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    stop: Stop | None = None
    delivery: Delivery | None = None
    unit_stop: UnitStop | None = None
    error_code: str | None = None
    kind = KIND

    @property
    def is_looking(self) -> bool:
        """Whether it has not ended and its condition has not held yet."""
        return not self.is_terminal and self.delivery is None and self.unit_stop is None
