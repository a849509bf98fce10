"""A clock that stands still until it is told to move."""

from collections.abc import Callable

START_MS = 1_800_000_000_000


class ManualClock:
    """Both clocks move together. `advance` calls those registered with `each_second` once per whole second."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self._start_ms = start_ms
        self._now_ms = start_ms
        self._listeners: list[Callable[[], None]] = []

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return (self._now_ms - self._start_ms) / 1000.0

    def set_by_ms(self) -> int:
        return 0

    def differs(self) -> bool:
        return False

    def adopt(self) -> None:
        """There is no other clock."""

    def each_second(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def advance(self, by_ms: int) -> None:
        """Let time pass, second by second."""
        target_ms = self._now_ms + by_ms
        while self._now_ms < target_ms:
            next_second_ms = (self._now_ms // 1000 + 1) * 1000
            self._now_ms = min(next_second_ms, target_ms)
            if self._now_ms == next_second_ms:
                for listener in self._listeners:
                    listener()
