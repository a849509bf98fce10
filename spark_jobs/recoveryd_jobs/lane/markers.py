"""Waits, when a lane comes to rest, until readers see what it committed last: while it works, its next commit shows
them what a broker forgot to mark; at rest no commit follows. What is lacking is mended by the next attempt
(`recoveryd_jobs.lane.mending`).
"""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Final

from recoveryd_jobs.contract import JobSpec, Receipt
from recoveryd_jobs.errors import Doubt
from recoveryd_jobs.topics import NoAnswer, Topic

_PAUSE_S: Final = 0.2
_MARKERS_S: Final = 10.0
_FIRST_LOOK_S: Final = 0.02
_ANSWERS_S: Final = 45.0  # a broker that comes back may leave the first questions without an answer
_REMEMBERED: Final = 1_000  # begins of what was committed; a transaction that lost its marker begins with one of them


class Markers:
    """Looks, when a lane comes to rest, whether readers see what it committed last: no later commit shows it to
    them.
    """

    def __init__(self, spec: JobSpec, target: Topic, ledger: Topic | None) -> None:
        self._spec, self._target, self._ledger = spec, target, ledger
        self._begins: dict[int, deque[int]] = {}  # by target partition, of what was committed last
        self._ends: dict[int, int] = {}
        self._firsts: deque[int] = deque(maxlen=_REMEMBERED)  # where receipts of chunks begin
        self._last = -1  # offset of the newest receipt

    def committed(self, receipts: Iterable[Receipt], places: Collection[int]) -> None:
        """`places`: their offsets in the ledger."""
        begins: dict[int, int] = {}
        for run in (run for receipt in receipts for run in receipt.targets if run.runs):
            begins[run.partition] = min(run.runs[0][0], begins.get(run.partition, run.runs[0][0]))
            self._ends[run.partition] = max(self._ends.get(run.partition, 0), sum(run.runs[-1]))
        for partition, begin in begins.items():
            self._begins.setdefault(partition, deque(maxlen=_REMEMBERED)).append(begin)
        if places:
            self._firsts.append(min(places))
            self._last = max(places)

    def wait(self, obey: Callable[[], object]) -> None:
        """Raises Doubt when a marker is certainly lacking. Where nobody can tell in time, the lane goes on: another
        producer's open transaction lies before it, or the cluster does not answer.
        """
        give_up_s, pause_s = time.monotonic() + _ANSWERS_S, _FIRST_LOOK_S
        lacking: list[str] | None = None  # not told yet
        while self._ends or self._last >= 0:
            with contextlib.suppress(NoAnswer):
                waits, found = self._lacking()
                if not waits:
                    lacking = []
                    break
                if lacking is None:
                    give_up_s = min(give_up_s, time.monotonic() + _MARKERS_S)
                lacking = found
            obey()
            if time.monotonic() >= give_up_s:
                break
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _PAUSE_S)
        self._begins.clear()
        self._ends.clear()
        self._last = -1
        if lacking:
            raise Doubt(f"readers do not see what was committed in {', '.join(lacking)}")

    def _lacking(self) -> tuple[bool, list[str]]:
        """(whether something is not seen, where a transaction of ours is certainly open)."""
        stable = {p: each.stable for p, each in self._target.bounds(self._ends).items()} if self._ends else {}
        waits = [p for p, at in stable.items() if at < self._ends[p]]
        found = [f"{self._target.name} {p}" for p in waits if stable[p] in self._begins[p]]
        place = self._spec.receipts
        if self._ledger is None or place is None or self._last < 0:
            return bool(waits), found
        at = self._ledger.bounds([place.partition])[place.partition].stable
        if at in self._firsts and at <= self._last:
            found.append(f"{self._ledger.name} {place.partition}")
        return bool(waits) or at <= self._last, found
