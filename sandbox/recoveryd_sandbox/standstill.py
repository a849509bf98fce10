"""How long this machine stood still: a thread that wants to wake up ten times a second, and notes when it could not.

A promise about live traffic is not broken by a machine on which nothing ran for a while, live traffic included.
"""

import threading
import time

_TICK_S = 0.1
_LATE_S = 0.5  # less is ordinary business
_AFTER_S = 5.0  # what queued meanwhile is slow too, and signals look back for a few seconds
_JOIN_S = 60.0


class Standstill:
    """Counts from `start` to `stop`."""

    def __init__(self) -> None:
        self._excused_s = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sandbox-standstill", daemon=True)

    def start(self) -> None:
        """Call it once."""
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def excused_s(self) -> float:
        """Seconds so far in which nothing could be expected of this machine. Thread-safe."""
        return self._excused_s

    def _run(self) -> None:
        counted_to_s = looked_s = time.monotonic()
        while not self._ended.wait(_TICK_S):
            now_s = time.monotonic()
            if now_s - looked_s > _TICK_S + _LATE_S:
                self._excused_s += now_s + _AFTER_S - max(looked_s, counted_to_s)
                counted_to_s = now_s + _AFTER_S
            looked_s = now_s
