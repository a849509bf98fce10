"""Deadlines of waits in tests, and the cost of work measured without a clock.

A deadline that only an idle machine keeps says nothing about the product. So each wait is for a condition, names the
time that it usually takes, and gets several times as much; speed is measured in `bench`.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

_PATIENCE = 5.0
_AT_LEAST_S = 120.0


def patient_s(usual_s: float) -> float:
    """The deadline in seconds of a wait that takes up to `usual_s` on an idle machine."""
    return max(_AT_LEAST_S, _PATIENCE * usual_s)


async def until_it_works(
    ask: Callable[[], Awaitable[T]], is_passing: Callable[[Exception], bool], usual_s: float = 60
) -> T:
    """The answer once there is one: it is asked again after what passes, with the deadline of a wait of `usual_s`."""
    async with asyncio.timeout(patient_s(usual_s)):
        while True:
            try:
                return await ask()
            except Exception as error:
                if not is_passing(error):
                    raise
                await asyncio.sleep(0.1)


class Counted(tuple[T, ...]):
    """A tuple that counts how often any of its kind is gone through. Whoever asks sets `visits` to 0 before."""

    __slots__ = ()
    visits = 0

    def __iter__(self) -> Iterator[T]:
        Counted.visits += 1
        return super().__iter__()


def lines_of(work: Callable[[], Any]) -> int:
    """How many lines of Python `work` runs, in all functions it calls: the same on every machine, however busy."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
