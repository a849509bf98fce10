"""Runs effects and turns their results into events. It holds no rule about recovery and never decides to try again.

Effects run concurrently, at most so many at a time of those that need the same clusters (`main` and `dr` together count
apart from `main` alone), and of each kind that needs none, so that whoever does not answer keeps no others waiting.
Those of one queue keep their order. Every failure becomes an event, so that the core always hears of it. Who runs which
effect is a table of `Runner`s, made in `recoveryd.runtime.runners`.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from recoveryd.errors import RecoverydError
from recoveryd.failpoints import hit
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.effects import Effect, WakeAt
from recoveryd.kernel.events import Event
from recoveryd.ports import Emit

log = structlog.stdlib.get_logger(__name__)

AT_ONCE: Final = 16  # of effects with a deadline, and again of those without
# Adapters have deadlines of their own. This one is for a missing deadline, so that it does not hold a slot for ever.
DEADLINE_S: Final = 180.0


@dataclass(frozen=True, slots=True)
class Runner:
    """How effects of one class are run.

    `failed(effect, kind, code, message, retriable)` makes the event of a failure. `queue` names the queue in which
    effects keep their order, None = none. `after` names queues whose last effect has to end first. `on` names the
    clusters that have to answer. `is_endless`: no deadline, because the effect itself notices when it makes no
    progress. `is_bug_final`: it is not tried again after a bug. `is_joined`: it is not run while another of its queue
    is, whose outcome is also its own.
    """

    kind: str
    run: Callable[[Any], Awaitable[Event | None]]
    failed: Callable[[Any, str, Code, str, bool], Event]
    queue: Callable[[Any], str | None] = lambda _: None
    after: Callable[[Any], Iterable[str]] = lambda _: ()
    on: Callable[[Any], frozenset[str]] = lambda _: frozenset()
    is_endless: bool = False
    is_bug_final: bool = False
    is_joined: bool = False


async def _at_once() -> None:
    return


class Interpreter:
    """`start` begins an effect; its result or failure goes to `emit`. `begin`: functions for effects that do not take a
    slot; they return at once. `until_may_act`: what an effect that waited for its slot waits for before it runs.
    """

    def __init__(
        self,
        runners: Mapping[type, Runner],
        emit: Emit,
        begin: Mapping[type, Callable[[Any], None]] | None = None,
        close: Callable[[], Awaitable[None]] | None = None,
        until_may_act: Callable[[], Awaitable[None]] = _at_once,
    ) -> None:
        self._runners = runners
        self._begin = begin or {}
        self._close = close
        self._until_may_act = until_may_act
        self._emit = emit
        self._slots: dict[tuple[bool, frozenset[str] | str], asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(AT_ONCE)
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._queues: dict[str, asyncio.Task[None]] = {}

    def start(self, effect: Effect) -> None:
        """Begin `effect`. Call it from the loop, once the journal holds the decision."""
        if isinstance(effect, WakeAt):
            return  # the runtime wakes itself
        begin = self._begin.get(type(effect))
        if begin is not None:
            begin(effect)
            return
        runner = self._runners[type(effect)]
        queue = runner.queue(effect)
        if runner.is_joined and queue in self._queues and not self._queues[queue].done():
            return
        names = runner.after(effect) if queue is None else (queue, *runner.after(effect))
        before = {self._queues[name] for name in names if name in self._queues}
        task = asyncio.create_task(self._run(runner, effect, before))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if queue is not None:
            self._queues[queue] = task
            task.add_done_callback(lambda done: self._forget(queue, done))

    @property
    def is_idle(self) -> bool:
        """Whether no effect runs."""
        return not self._tasks

    async def close(self) -> None:
        """Cancel what has not ended. The next leader wants it again, by the journaled state."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._close is not None:
            await self._close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, runner: Runner, effect: Effect, before: Collection[asyncio.Task[None]]) -> None:
        if before:
            await asyncio.wait(before)
        async with self._slots[runner.is_endless, runner.on(effect) or runner.kind]:
            await self._until_may_act()
            deadline = asyncio.timeout(None if runner.is_endless else DEADLINE_S)
            try:
                async with deadline:
                    result = await runner.run(effect)
                    hit("runtime.after_effects")
                    if result is not None:
                        self._emit(result)
            except RecoverydError as problem:
                self._fail(runner, effect, problem.code, problem.message, is_retriable=problem.retriable)
            except TimeoutError as late:
                why = f"No end within {DEADLINE_S:.0f} s." if deadline.expired() else f"No answer in time: {late}"
                self._fail(runner, effect, Code.CLUSTER_UNREACHABLE, why, is_retriable=True)
            except Exception as bug:
                log.exception("an effect broke", effect=runner.kind)
                why = f"{type(bug).__name__}: {bug}"
                self._fail(runner, effect, Code.INVARIANT_BROKEN, why, is_retriable=not runner.is_bug_final)

    def _fail(self, runner: Runner, effect: Effect, code: Code, message: str, *, is_retriable: bool) -> None:
        event = runner.failed(effect, runner.kind, code, message, is_retriable)
        subject = getattr(event, "recovery", "") or getattr(event, "about", "")
        log.warning("an effect failed", effect=runner.kind, recovery_id=subject, code=code.value, error=message)
        self._emit(event)

    def _forget(self, queue: str, done: asyncio.Task[None]) -> None:
        if self._queues.get(queue) is done:
            del self._queues[queue]
