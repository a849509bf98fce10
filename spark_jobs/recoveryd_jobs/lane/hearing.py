"""Whether the consumer of a lane still hears its partitions: when each gave something last, which have more than they
give, and when that is long enough for a new consumer. Asks nobody; `recoveryd_jobs.lane.chunk_filler` asks the source
and tells what it said.
"""

from collections.abc import Iterable, Mapping

QUIET_S = 20.0  # how long a partition may give nothing before it is asked about
DEAF_S = 5.0  # how long the consumer may leave out what the source surely has
TURN_S = 60.0  # after that its turn has come, whatever the others still have
# How often `QUIET_S` and `TURN_S` are doubled where new consumers hear no more: a slow network needs longer.
_QUIETER_MOST = 4


class Hearing:
    """Times are monotonic seconds. `left_out`: partitions that have more than they gave, and the position then."""

    def __init__(self) -> None:
        self.left_out: dict[int, int] = {}
        self._told_s = 0.0  # when they became known
        self._taken_bytes = 0  # since then
        self._before: set[int] = set()  # of the others, those that were not yet at their ends since then
        self._heard_s: dict[int, float] = {}
        self._asked_s = 0.0
        self._renewed: set[int] = set()  # what the newest consumers were made for and gave nothing of yet
        self._renewals = 0

    def assigned(self, partitions: Iterable[int], now_s: float) -> None:
        self._heard_s = dict.fromkeys(partitions, now_s)
        self.left_out.clear()

    def heard(self, partition: int, now_s: float) -> None:
        self._heard_s[partition] = now_s
        self.left_out.pop(partition, None)
        if partition in self._renewed:
            self._renewed.clear()
            self._renewals = 0

    def at_end(self, partition: int) -> None:
        """It gave all that there is for now."""
        self._before.discard(partition)

    def took(self, size: int) -> None:
        """So many bytes were taken from all partitions."""
        self._taken_bytes += size

    def quiet(self, partitions: Iterable[int], now_s: float) -> list[int]:
        """Those to ask about now: they gave nothing for long, beside others that may give much."""
        wait_s = QUIET_S * 2**self._renewals
        if now_s - self._asked_s < wait_s:
            return []
        self._asked_s = now_s
        return [p for p in partitions if now_s - self._heard_s.get(p, now_s) >= wait_s]

    def found_left_out(self, positions: Mapping[int, int], before: Iterable[int], now_s: float) -> None:
        """The source has more than these positions, from an answer of now. `before`: partitions that are not at their
        ends and may have their turn first.
        """
        self.left_out.update(positions)
        self._before = set(before)
        self._told_s, self._taken_bytes = now_s, 0

    def is_long_left_out(self, now_s: float, fetched_bytes: int) -> bool:
        """Whether partitions are left out for long. Whatever was fetched before the answer has to be taken first, and
        what others give until it is their turn: at most `fetched_bytes`, and at a head, where each of the others was
        at its end once, next to nothing. One that came to its stop may have more in the client.
        """
        long_s = now_s - self._told_s
        if not self.left_out or long_s < DEAF_S:
            return False
        is_at_head = self._before <= self.left_out.keys()
        return is_at_head or self._taken_bytes >= fetched_bytes or long_s >= TURN_S * 2**self._renewals

    def deaf(self, positions: Mapping[int, int]) -> set[int]:
        """Those that are still where they were, by the present positions of all that are read."""
        return {p for p, at in self.left_out.items() if positions.get(p) == at}

    def renewed(self, partitions: set[int]) -> None:
        """A new consumer was made for these."""
        self._renewed, self._renewals = partitions, min(self._renewals + 1, _QUIETER_MOST)
