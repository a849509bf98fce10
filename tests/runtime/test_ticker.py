"""Ticks come each second while a recovery or watch is active, and when a decision asked for one."""

import asyncio

import pytest

from recoveryd.kernel.events import Event, Tick
from recoveryd.runtime import ticker as ticker_module
from recoveryd.runtime.ticker import Ticker
from tests.runtime.fakes import ManualClock, until


def make(*, is_active: bool) -> tuple[Ticker, ManualClock, list[Event]]:
    clock, emitted = ManualClock(0), []
    return Ticker(clock, emitted.append, lambda: is_active), clock, emitted


def test_without_anything_active_only_wanted_times_tick() -> None:
    ticker, clock, emitted = make(is_active=False)
    ticker.wake_at(5_000)
    ticker.wake_at(9_000)
    for clock.ms in range(0, 12_000, 1_000):
        ticker.poll()
        emitted += [str(clock.ms)] if emitted and emitted[-1] == Tick() else []  # type: ignore[list-item]
    assert emitted == [Tick(), "5000", Tick(), "9000"]


@pytest.mark.parametrize(("leads", "wanted_s"), [(True, [30, 60, 90]), (False, [])])
def test_a_leader_with_nothing_to_do_gets_one_now_and_then(leads: bool, wanted_s: list[int]) -> None:
    """What ended is forgotten in time, although nothing else happens."""
    clock, at_s = ManualClock(0), list[int]()
    ticker = Ticker(clock, lambda _: at_s.append(clock.ms // 1_000), lambda: False, lambda: leads)
    for clock.ms in range(0, 100_000, 1_000):
        ticker.poll()
    assert at_s == wanted_s


def test_while_something_is_active_every_poll_ticks() -> None:
    ticker, _, emitted = make(is_active=True)
    for _ in range(3):
        ticker.poll()
    assert emitted == [Tick()] * 3


def test_of_too_many_wanted_times_the_soonest_are_kept() -> None:
    ticker, clock, emitted = make(is_active=False)
    for at_ms in range(ticker_module._WAKES_AT_MOST + 100, 0, -1):
        ticker.wake_at(at_ms)
    clock.ms = 1
    ticker.poll()
    assert emitted == [Tick()]
    assert len(ticker._wakes) == ticker_module._WAKES_AT_MOST - 1


async def test_a_wanted_time_wakes_the_ticker_before_its_second_is_over() -> None:
    clock, emitted = ManualClock(0), []
    ticker = Ticker(clock, emitted.append, lambda: False)
    running = asyncio.create_task(ticker.run())
    await asyncio.sleep(0)
    ticker.wake_at(10)
    await asyncio.sleep(0)
    clock.ms = 10
    await until(lambda: emitted, 0.8)
    running.cancel()
    assert emitted[0] == Tick()
