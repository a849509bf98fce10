"""Kafka's client quota as an actuator, for the variant that throttles at the broker only (POLICIES 3.1).

A rate over eleven one-second samples; over the quota the channel is muted for (X - q) / q of the window, uncapped. So a quota is bursty by nature.
"""

from collections import deque

WINDOW_S = 11


class QuotaGate:
    """`let_through` gives the bytes that pass in this second when `quota` is wanted: line rate until the window is over the quota, then silence."""

    def __init__(self, line_rate: float) -> None:
        self._line_rate = line_rate
        self._window: deque[float] = deque([0.0] * WINDOW_S, maxlen=WINDOW_S)
        self._muted_until_s = 0.0

    def let_through(self, quota: float, at_s: int) -> float:
        passed = 0.0 if at_s < self._muted_until_s or quota <= 0 else self._line_rate
        self._window.append(passed)
        measured = sum(self._window) / WINDOW_S
        if quota > 0 and measured > quota and at_s >= self._muted_until_s:
            self._muted_until_s = at_s + (measured - quota) / quota * WINDOW_S
        return passed
