"""Small stand-ins for what is around the loop, each with faults that a test can switch on. They have no rules."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from typing import TypeVar

from recoveryd.errors import ClusterProblem
from recoveryd.kernel.effects import Effect
from recoveryd.live.events import OffsetsSampled
from recoveryd.ports import ControlRecord, Emit, Folded, JournalBatch
from recoveryd.recovery.effects import CreateTarget, ForgetRecoveries, GatherFacts, LaunchAttempt, ReadLedger
from recoveryd.recovery.events import LedgerRead, TargetReady
from recoveryd.recovery.plan_facts import PlanFacts

DEADLINE_S = 120.0
FAR = 1_000_000  # an offset behind all that a test writes
T = TypeVar("T")


class ManualClock:
    """A clock that moves only when told. `set_by`: how far the wall clock was set away from it, for long enough;
    `jumped`: that it was set, or the machine slept, just now.
    """

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self.ms = now_ms
        self.set_by = 0
        self.jumped = False

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return self.ms / 1000

    def set_by_ms(self) -> int:
        return self.set_by

    def differs(self) -> bool:
        return self.jumped or self.set_by != 0

    def adopt(self) -> None:
        self.ms, self.set_by, self.jumped = self.ms + self.set_by, 0, False


class ScriptedJournal:
    """Keeps what was committed. `failures` are raised first, one per call; `gate` holds commits until it is set; `log`
    gets the order of commits and effects.
    """

    def __init__(self, folded: Folded | None = None, log: list[str] | None = None) -> None:
        self.folded = folded or Folded()
        self.batches: list[JournalBatch] = []
        self.tried: list[JournalBatch] = []
        self.failures: list[Exception] = []
        self.open_failures: list[Exception] = []
        self.opened = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.log = log if log is not None else []

    async def open(self) -> Folded:
        self.opened += 1
        if self.open_failures:
            raise self.open_failures.pop(0)
        return self.folded

    async def commit(self, batch: JournalBatch) -> None:
        self.tried.append(batch)
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        self.batches.append(batch)
        self.log.append("commit")

    async def close(self) -> None:
        return


class QuietClusters:
    """Answers `topic_id`, samples nothing, refuses to plan: tests of the loop run no effects through it."""

    def __init__(self, topic_id: str = "control-1") -> None:
        self.topic_id = topic_id
        self.sampled: list[list[tuple[str, str]]] = []
        self.answer = OffsetsSampled(())
        self.sample_error: Exception | None = None
        self.width_error: Exception | None = None
        self.end = FAR  # of the control topic
        self.end_error: Exception | None = None

    async def gather_facts(self, effect: GatherFacts) -> PlanFacts:
        raise ClusterProblem(f"no answer about {effect.spec.source.topic}")

    async def create_target(self, effect: CreateTarget) -> TargetReady:
        return TargetReady(effect.recovery, "target-1", effect.partitions)

    async def sample(self, topics: Iterable[tuple[str, str]]) -> OffsetsSampled:
        self.sampled.append(list(topics))
        if self.sample_error is not None:
            raise self.sample_error
        return self.answer

    async def control_topic_id(self) -> str:
        return self.topic_id

    async def control_end(self, position: int) -> int:
        if self.end_error is not None:
            raise self.end_error
        return self.end

    async def check_own_topics(self) -> None:
        return

    async def check_width(self) -> None:
        if self.width_error is not None:
            raise self.width_error

    async def close(self) -> None:
        return


class SilentLanes:
    """A progress topic that nobody writes to."""

    def __init__(self) -> None:
        self.started = 0

    async def start(self, emit: Emit) -> None:
        self.started += 1

    async def close(self) -> None:
        return


class RecordingEffects:
    """Remembers effects in the order they were started."""

    def __init__(self, log: list[str]) -> None:
        self.started: list[Effect] = []
        self.log = log

    def start(self, effect: Effect) -> None:
        self.started.append(effect)
        self.log.append(type(effect).__name__)


class ListLog:
    """A control topic in memory; records may leave gaps in the offsets. `failures` are raised at the next reads."""

    def __init__(self, records: Sequence[ControlRecord] = ()) -> None:
        self.records = list(records)
        self.failures: list[Exception] = []
        self.reads: list[tuple[int, int | None]] = []

    async def pages(self, start: int, stop: int | None) -> AsyncIterator[Sequence[ControlRecord]]:
        self.reads.append((start, stop))
        found = [r for r in self.records if start <= r.offset and (stop is None or r.offset < stop)]
        for i in range(0, len(found), 2):
            if self.failures and i:
                raise self.failures.pop(0)
            yield found[i : i + 2]
        if self.failures:
            raise self.failures.pop(0)


class StillIntake:
    """An intake that takes nothing. How far it came is what the test says, and what it finds when it is asked to look,
    one entry each time: records that the group missed.
    """

    def __init__(self) -> None:
        self.position, self.deliveries, self.missed = FAR, 0, 0
        self.is_idle = True
        self.finds: list[int] = []
        self.looked: list[int] = []

    def look_for_missed(self, end: int) -> None:
        self.looked.append(end)
        self.missed += self.finds.pop(0) if self.finds else 0
        self.position = end

    def deliver(self, position: int) -> None:
        self.position, self.deliveries, self.missed = position, self.deliveries + 1, 0


class SlowLog(ListLog):
    """A control topic whose reader gets nothing until it `may` go on."""

    def __init__(self, records: Sequence[ControlRecord]) -> None:
        super().__init__(records)
        self.may = asyncio.Event()

    async def pages(self, start: int, stop: int | None) -> AsyncIterator[Sequence[ControlRecord]]:
        await self.may.wait()
        async for page in super().pages(start, stop):
            yield page


class ScriptedJobs:
    """Applications that start when told; `log` has (what, recovery, attempt) in the order in which calls ended."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str, int]] = []
        self.launching = asyncio.Event()
        self.launching.set()
        self.error: Exception | None = None
        self.running = 0
        self.most_running = 0

    async def launch(self, effect: LaunchAttempt) -> None:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await self.launching.wait()
        self.running -= 1
        if self.error is not None:
            raise self.error
        self.log.append(("launch", effect.recovery, effect.attempt))

    async def kill(self, recovery: str, attempt: int) -> None:
        self.log.append(("kill", recovery, attempt))

    async def kill_all(self) -> None:
        self.log.append(("kill", "*", 0))

    async def forget(self, recoveries: Collection[str]) -> None:
        self.log.append(("forget folders", tuple(recoveries), 0))

    async def close(self) -> None:
        return


class ScriptedLedger:
    """Raises `error`, or says that nothing was copied yet."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    async def read(self, effect: ReadLedger, moved: Callable[[], None] = lambda: None) -> LedgerRead:
        if self.error is not None:
            raise self.error
        return LedgerRead(effect.recovery, effect.attempt, effect.fence, (), (), effect.sequence)

    async def forget(self, effect: ForgetRecoveries) -> None:
        if self.error is not None:
            raise self.error


def record(offset: int, value: bytes | None = b"{}") -> ControlRecord:
    return ControlRecord(0, offset, 1_800_000_000_000, None, value)


async def until(condition: Callable[[], object], wait_s: float = DEADLINE_S) -> None:
    """Wait for a condition with a deadline."""
    async with asyncio.timeout(wait_s):
        while not condition():  # noqa: ASYNC110  (any condition, not an event)
            await asyncio.sleep(0.001)


async def within(awaitable: Awaitable[T], wait_s: float = DEADLINE_S) -> T:
    return await asyncio.wait_for(awaitable, wait_s)
