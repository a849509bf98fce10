"""The part of the state that is not journaled: what lanes and brokers last reported. After a restart it is filled again
within seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from recoveryd.forecast.completion import Forecast
from recoveryd.forecast.track import ForecastTrack
from recoveryd.recovery.events import AttemptExited, EffectFailed, LedgerRead
from recoveryd.recovery.log_starts import LogStarts
from recoveryd.recovery.model import Recovery
from recoveryd_jobs.contract import DriverHeartbeat, LaneHeartbeat


@dataclass(frozen=True, slots=True)
class Heard:
    """A lane's last heartbeat and when this daemon received it (its own clock: no other machine's clock is trusted).
    `before` is the previous one only.
    """

    heartbeat: LaneHeartbeat
    received_ms: int
    before: "Heard | None" = None
    moved_ms: int = 0  # when one of its positions last moved, or it was first heard
    kept_ms: int = 0  # when it last said that a pause, its lease, its rate or what no reader sees keeps it from copying
    deaf_ms: int = 0  # since when it rests by an older directive than others act on, 0 = it does not
    held: frozenset[int] = frozenset()  # its partitions that open transactions of others hold now
    held_ms: int = 0  # when it last said that one is
    ended_ms: int = 0  # when a sample of a source that it follows last showed nothing left for it

    def idle_ms(self, now_ms: int) -> int:
        """For how long it has made nothing durable, although nothing kept it from that; what is held now is not told
        apart here.
        """
        return now_ms - max(self.moved_ms, self.kept_ms, self.ended_ms, 0 if self.held else self.held_ms)


@dataclass(frozen=True, slots=True)
class Candidate:
    """Evaluations in a row at which a following recovery was caught up. `counted_ms`: the last one that held, by the
    sample of `sampled_ms`.
    """

    since_ms: int
    count: int
    evidence: Mapping[str, object]
    counted_ms: int
    sampled_ms: int


class AtEnd(NamedTuple):
    """A partition whose durable position has been the end of its log, without moving, since then."""

    position: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class Pace:
    """Sums of the durable positions of each lane's partitions, and when they were taken. `granted`: the bytes/s that
    the controller granted then, None without one.
    """

    at_ms: int
    lanes: tuple[int, ...]
    granted: float | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """Observations of one recovery. `lanes` holds heartbeats of the present attempt only; a time of 0 means never."""

    lanes: Mapping[int, Heard] = field(default_factory=dict)
    readers: Mapping[int, Heard] = field(default_factory=dict)  # tasks of the verification, of the present attempt
    driver: DriverHeartbeat | None = None
    driver_heard_ms: int = 0
    exited: AttemptExited | None = None
    exited_ms: int = 0
    progress_ms: int = 0  # when a durable position last moved, or the verification last read or compared something
    throttled_ms: int = 0  # when a lane or task last waited for nothing but its rate, its lease or the end of a pause
    ended_ms: int = 0  # when a sample of a source that it follows last showed nothing left at all
    heeded: int = 0  # sequence of the newest directive that anything of the present attempt acts on
    directive_ms: int = 0  # when the last directive was journaled
    status_ms: int = 0  # when progress was last journaled
    told: Recovery | None = None  # the recovery as it was journaled then
    facts_wanted_ms: int = 0
    facts_since_ms: int = 0  # since when facts have been awaited
    facts_version: int = 0  # of the recovery then, which travels with the question
    target_records: int = 0  # what ended recoveries had written to the target when the facts were asked for
    target_wanted_ms: int = 0
    ledger_wanted_ms: int = 0  # when a ReadLedger was last sent, 0 = none is needed or under way
    ledger_since_ms: int = 0  # since when the ledger has been awaited
    drain_since_ms: int = 0  # when lanes were asked to drain
    adopted_ms: int = 0  # when this daemon became leader and began to wait for heartbeats of a running attempt
    ledger: LedgerRead | None = None  # an answer that steering has not used yet
    ledger_error: EffectFailed | None = None  # why the last question for the ledger was not answered
    effect_error: EffectFailed | None = None
    missing_topic: str = ""
    missing: int = 0  # samples in a row in which the source or target topic did not exist
    failed_chunks_ms: Mapping[int, tuple[int, ...]] = field(
        default_factory=dict
    )  # by lane, over attempts, of the last hour
    candidate: Candidate | None = None
    pace: tuple[Pace, ...] = ()  # the newest few samples of the present run
    log_starts: LogStarts = LogStarts()  # of a source that is kept by size
    track: ForecastTrack = ForecastTrack()
    at_end: Mapping[int, AtEnd] = field(default_factory=dict)  # partitions at their log end
    heads_ms: int = 0  # when `at_end` was last updated
    forecast: Forecast | None = None  # the newest one from measured rates

    def idle_ms(self, now_ms: int) -> int:
        """For how long nothing of it has moved, although there was something to do, and neither rate nor lease nor
        pause kept it from that.
        """
        return now_ms - max(self.progress_ms, self.throttled_ms, self.ended_ms, self.adopted_ms)

    @property
    def heard_ms(self) -> int:
        """When anything of the present attempt was last heard."""
        heard = (*self.lanes.values(), *self.readers.values())
        return max([self.driver_heard_ms, *(h.received_ms for h in heard)])
