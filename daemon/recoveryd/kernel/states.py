"""The states of everything that has a status (recoveries, watches, holds, schedules, workflows), why it stopped, and
which command began it.

The moves between states are tables of those that live: `recoveryd.recovery.lifecycle`,
`recoveryd.workflows.model.lifecycle`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from recoveryd.kernel.written import TimeMs, named


class State(StrEnum):
    """Where something is in its life."""

    REQUESTED = "requested"
    PLANNING = "planning"
    PLANNED = "planned"
    AWAITING_APPROVAL = "awaiting_approval"
    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    STOPPING = "stopping"
    VERIFYING = "verifying"
    WAITING = "waiting"
    CLOSING = "closing"
    COMPLETED = "completed"
    STOPPED = "stopped"
    FAILED = "failed"
    REJECTED = "rejected"
    EXPIRED = "expired"
    ROLLED_BACK = "rolled_back"


TERMINAL = frozenset({State.COMPLETED, State.STOPPED, State.FAILED, State.REJECTED, State.EXPIRED, State.ROLLED_BACK})
# A dry run ends in `planned`, which is not terminal, but nothing follows it.
ENDED = TERMINAL | {State.PLANNED}


class StopReason(StrEnum):
    ZERO_LAG = "zero_lag"
    OPERATOR = "operator"
    DEADLINE = "deadline"
    MAX_RUNTIME = "max_runtime"
    MAX_RECORDS = "max_records"
    MAX_BYTES = "max_bytes"
    EVENT_TIME = "event_time"
    IDLE = "idle"
    STALLED = "stalled"
    DATA_LOST = "data_lost"
    TOPIC_RECREATED = "topic_recreated"
    RETENTION_RACE = "retention_race"
    ERROR_RATE = "error_rate"
    LIVE_SLO = "live_slo"
    SOURCE_UNAVAILABLE = "source_unavailable"
    TARGET_UNAVAILABLE = "target_unavailable"
    SPARK_UNAVAILABLE = "spark_unavailable"


@dataclass(frozen=True, slots=True)
class Stop:
    """Why and when something ended or is ending; `evidence` holds the numbers the rule saw."""

    reason: StopReason
    mode: str | None  # bounded | caught_up for zero_lag, else None
    at_ms: TimeMs = field(metadata=named("at"))
    evidence: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommandRef:
    """The origin of something that has a status: the CloudEvents id and source of its command, and the reason given for
    it.
    """

    id: str
    source: str
    reason: str
