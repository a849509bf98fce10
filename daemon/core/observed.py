"""The soft half of the state: what lanes and brokers were last heard to say. Never journaled; after a restart it fills again within seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from daemon.core.events import DriverHeartbeat, LaneHeartbeat, TopicSample


@dataclass(frozen=True, slots=True)
class Heard:
    """A lane's last heartbeat and when this daemon received it (its own clock: no other machine's clock is trusted)."""

    heartbeat: LaneHeartbeat
    received_ms: int


@dataclass(frozen=True, slots=True)
class Observed:
    """Of one recovery. `lanes` holds heartbeats of the present attempt only."""

    lanes: Mapping[int, Heard] = field(default_factory=dict)
    driver: DriverHeartbeat | None = None
    driver_heard_ms: int = 0
    progress_at_ms: int = 0  # when a durable position last moved
    directive_at_ms: int = 0  # when the last directive was journaled
    status_at_ms: int = 0  # when progress was last journaled
    ledger_wanted: bool = False  # a ReadLedger is under way
    ledger_wanted_at_ms: int = 0
    facts_wanted_at_ms: int = 0
    target_wanted_at_ms: int = 0
    caught_up_since_ms: int = 0
    caught_up_count: int = 0
    adopted_at_ms: int = 0  # when this daemon became leader and began to wait for a running attempt
    blocked_since_ms: int = 0


@dataclass(frozen=True, slots=True)
class SampleHistory:
    """The last few offset samples of one topic, oldest first (bounded)."""

    samples: tuple[TopicSample, ...] = ()
