"""Asks as a workflow does: the same wish again until its report says what there is to say."""

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import Protocol

from recoveryd.ports import ApplicationControl
from recoveryd.units.control import Desired, Needs, Report, Wish
from tests.patience import patient_s

_KEYS = itertools.count()


class MovedClock(Protocol):
    now_ms: int


def wish(desired: Desired, unit: str = "app", key: str = "", **more) -> Wish:
    return Wish(unit, desired, "w1", key or f"w1/{next(_KEYS)}", since_ms=more.pop("since_ms", 0), **more)


async def asked(control: ApplicationControl, wanted: Wish) -> Report:
    """The first report that needs no more time."""
    give_up_s = time.monotonic() + patient_s(10)
    while True:
        report = await control.ask(wanted)
        if report.needs is not Needs.TIME:
            return report
        assert time.monotonic() < give_up_s, report
        await asyncio.sleep(0.05)


async def until_it_says(control: ApplicationControl, wanted: Wish, text: str) -> Report:
    give_up_s = time.monotonic() + patient_s(5)
    while text not in (report := await control.ask(wanted)).why:
        assert time.monotonic() < give_up_s, report
        await asyncio.sleep(0.02)
    return report


async def late(control: ApplicationControl, wanted: Wish, clock: MovedClock, limit_ms: int) -> Report:
    """The report after the time that it has from when it was told, and not from when that was wanted."""
    for _ in range(2):
        assert (await control.ask(wanted)).needs is Needs.TIME
    clock.now_ms += limit_ms
    return await control.ask(wanted)


async def until(holds: Callable[[], bool], what: str) -> None:
    give_up_s = time.monotonic() + patient_s(5)
    while not holds():
        assert time.monotonic() < give_up_s, what
        await asyncio.sleep(0.02)
