"""Kafka's client quota as the only throttle, for the variant that throttles at the broker.

The broker counts bytes over eleven one-second samples. A fetch that would exceed the quota is answered empty, its bytes
are not counted, and a client at rate X over quota q is muted for (X - q) / q of the window, without an upper bound. So
a quota makes bursts, and a cut by k mutes for about (k - 1) windows.
"""

import math
from collections import deque

WINDOW_S = 11
_FETCH_SHARE = 0.1  # of the line rate: a 12 MB fetch on 120 MB/s
_FETCH_WINDOW_S = 10  # no fetch is larger than what the quota allows in this time


class QuotaGate:
    """`let_through` returns the bytes that pass in this second under `quota`: line rate until the window is full, then
    none.
    """

    def __init__(self, line_rate: float) -> None:
        self._line_rate = line_rate
        self._window: deque[float] = deque([0.0] * (WINDOW_S - 1), maxlen=WINDOW_S - 1)
        self._muted_until_s = 0.0

    def let_through(self, quota: float, at_s: int) -> float:
        passed = 0.0
        if at_s >= self._muted_until_s and quota > 0:
            counted = sum(self._window)
            fetch = min(self._line_rate * _FETCH_SHARE, quota * _FETCH_WINDOW_S)
            room = min(self._line_rate, max(0.0, quota * WINDOW_S - counted))
            passed = math.floor(room / fetch + 1e-9) * fetch
            if passed < self._line_rate:
                measured = (counted + passed + fetch) / WINDOW_S
                self._muted_until_s = at_s + max(0.0, (measured - quota) / quota * WINDOW_S)
        self._window.append(passed)
        return passed
