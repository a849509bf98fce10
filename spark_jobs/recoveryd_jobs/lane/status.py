"""What a lane is doing right now, as one value that the lane replaces and the heartbeat thread reads.

The lane's thread is the only writer. It replaces whole values, so a heartbeat never mixes two moments: `paused` with
`chunk_open=False` and the sequence of the directive that asked for it appear together, which is what the daemon takes
as the acknowledgement of a pause.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from recoveryd_jobs.contract import JobSpec, LaneHeartbeat, LanePosition, LaneSpec
from recoveryd_jobs.fetching import SIGN_S
from recoveryd_jobs.lane.heads import Heads
from recoveryd_jobs.pacing import RateMeter, Standstill
from recoveryd_jobs.receipts import LaneLedger

_HELD_S = 60.0  # for how long a lane that says nothing new may wait for others: a commit takes time


@dataclass(frozen=True, slots=True)
class Mood:
    state: str = "starting"
    chunk_open: bool = False
    directive_sequence: int = 0
    why: str = ""


class LaneStatus:
    """Written by the lane, read by the heartbeat thread. Totals include what is in the open chunk."""

    def __init__(self, spec: JobSpec, lane: LaneSpec, heads: Heads) -> None:
        self._spec = spec
        self._heads = heads
        self._lane = lane
        self._meter = RateMeter()
        self.standstill = Standstill()
        self.fetched_s = -math.inf  # monotonic time when it last fetched further, and found nothing that readers see
        self.mood = Mood()
        self.ledger = LaneLedger()
        self._blocked: frozenset[int] = frozenset()
        self._blocked_s = -math.inf
        self.event_times_ms: Mapping[int, int] = {}  # of the last committed record per partition, replaced as a whole
        self.records_total = 0
        self.bytes_total = 0
        self.failed_chunks = 0
        self.announce: Callable[[], None] = lambda: None  # asks for a heartbeat now

    @property
    def bytes_per_s(self) -> float:
        return self._meter.per_s()[1]

    def hold(self, blocked: frozenset[int]) -> None:
        """These partitions wait for transactions of others. Not believed for long, so that a thread that hangs later
        does not seem to wait.
        """
        self._blocked, self._blocked_s = blocked, time.monotonic()

    def feel(self, state: str, sequence: int | None = None, *, chunk_open: bool = False, why: str = "") -> bool:
        """Replace the state; True when it changed in more than `why`. `sequence` None = keep the last one."""
        before = self.mood
        self.mood = Mood(state, chunk_open, before.directive_sequence if sequence is None else sequence, why)
        return (before.state, before.directive_sequence) != (state, self.mood.directive_sequence)

    def heartbeat(self) -> LaneHeartbeat:
        mood, now_s = self.mood, time.monotonic()
        self._meter.add(self.records_total, self.bytes_total, now_s)
        records_per_s, bytes_per_s = self._meter.per_s()
        return LaneHeartbeat(
            recovery=self._spec.recovery,
            attempt=self._spec.attempt,
            lane=self._lane.lane,
            directive_sequence=mood.directive_sequence,
            state=mood.state,
            chunk_open=mood.chunk_open,
            records_per_s=round(records_per_s, 1),
            bytes_per_s=round(bytes_per_s, 1),
            positions=self._positions(mood),
            why=mood.why,
            failed_chunks=self.failed_chunks,
            ledger_from=self._heads.offset,
            throttled=self.standstill.is_held_back(now_s),
            fetching=now_s - self.fetched_s < SIGN_S,
        )

    def _positions(self, mood: Mood) -> tuple[LanePosition, ...]:
        standings = self.ledger.standings
        found = []
        for planned in self._lane.partitions:
            standing = standings.get(planned.partition)
            if standing is None:
                found.append(LanePosition(planned.partition, planned.start, planned.stop, "waiting"))
                continue
            is_done = planned.stop is not None and standing.position >= planned.stop
            state = "done" if is_done else self._state(planned.partition, mood)
            found.append(
                LanePosition(
                    planned.partition, standing.position, planned.stop, state,
                    standing.copied, standing.filtered, standing.skipped, standing.lost, standing.bytes,
                    self.event_times_ms.get(planned.partition),
                )
            )  # fmt: skip
        return tuple(found)

    def _state(self, partition: int, mood: Mood) -> str:
        if mood.state in {"paused", "leaseless"}:
            return "paused"
        is_held = partition in self._blocked and time.monotonic() - self._blocked_s < _HELD_S
        return "blocked" if is_held else "copying"
