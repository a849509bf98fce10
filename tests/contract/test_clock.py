"""Clocks: one that runs, one that stands still."""

import time

import pytest

from recoveryd.adapters.clock import SystemClock
from recoveryd.adapters.memory import ManualClock
from recoveryd.ports import Clock


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()])
def test_clocks_speak_of_milliseconds_since_the_epoch_and_never_run_back(clock: Clock) -> None:
    first_ms, first_s = clock.now_ms(), clock.monotonic_s()
    assert first_ms > 1_700_000_000_000
    assert clock.now_ms() >= first_ms
    assert clock.monotonic_s() >= first_s


def test_the_system_clock_is_the_machines() -> None:
    before_ms = time.time_ns() // 1_000_000
    now_ms = SystemClock().now_ms()
    assert before_ms - 1_000 < now_ms < time.time_ns() // 1_000_000 + 1_000


def test_a_manual_clock_moves_when_told_and_tells_each_whole_second() -> None:
    clock, heard = ManualClock(start_ms=10_500), list[int]()
    clock.each_second(lambda: heard.append(clock.now_ms()))
    clock.advance(400)
    clock.advance(2_200)
    assert (clock.now_ms(), clock.monotonic_s(), heard) == (13_100, 2.6, [11_000, 12_000, 13_000])
