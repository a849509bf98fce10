"""Which partitions another producer's open transaction holds, in words, and how long that is waited for. Pure: asks
nobody; `recoveryd_jobs.lane.chunk_filler` asks the source and tells what it said.

A range with an end is held as soon as everything before the last stable offset is read. One that is followed is held
where that offset has not moved between two looks although more lies behind it: each producer of short transactions
holds it for a moment.
"""

from recoveryd_jobs.contract import JobSpec, PartitionRange
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.topics import LogBounds


class Held:
    """Times are monotonic seconds. `why`: by partition, what holds it."""

    def __init__(self, spec: JobSpec) -> None:
        self.why: dict[int, str] = {}
        self._spec = spec
        self._since: dict[int, tuple[int, float]] = {}  # last stable offset, and since when it holds the lane

    def begin(self) -> None:
        self.why.clear()
        self._since.clear()

    def rest(self) -> None:
        """No wait goes on while the lane rests."""
        self._since.clear()

    def release(self, partition: int) -> None:
        self.why.pop(partition, None)
        self._since.pop(partition, None)

    def look(self, planned: PartitionRange, found: LogBounds, position: int, now_s: float) -> None:
        """A followed partition gave nothing for long, and has these bounds now. Raises as `hold` does."""
        partition = planned.partition
        if not found.stable <= position < found.high:
            self.release(partition)
            return
        stable, _ = self._since.setdefault(partition, (found.stable, now_s))
        if stable != found.stable:
            self.release(partition)
            self._since[partition] = found.stable, now_s
        elif self._since[partition][1] < now_s:
            self.hold(planned, found, now_s)

    def hold(self, planned: PartitionRange, found: LogBounds, now_s: float) -> None:
        """Nothing more of the partition can be read now. Raises JobError after `stop_wait_ms`, but for a copy that has
        no end.
        """
        partition, stop = planned.partition, planned.stop
        why = (
            f"a foreign transaction holds {self._spec.source.topic} partition {partition}: "
            f"last stable offset {found.stable}, high watermark {found.high}"
        )
        self.why[partition] = why = why if stop is None else f"{why}, stop {stop}"
        stable, since_s = self._since.get(partition, (found.stable, now_s))
        if stable != found.stable:
            since_s = now_s  # another transaction, so the wait for it begins now
        self._since[partition] = found.stable, since_s
        is_waited_for = stop is None and self._spec.is_endless
        if not is_waited_for and now_s - since_s > self._spec.stop_wait_ms / 1000.0:
            raise JobError("stop_blocked", f"After {self._spec.stop_wait_ms // 1000} s {why}.")
