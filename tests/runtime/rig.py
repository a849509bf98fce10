"""A runtime with fakes around it, for tests of the loop and of leadership."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from recoveryd.adapters.http.metrics_page import Metrics
from recoveryd.errors import Fenced, RecoverydError
from recoveryd.kernel.decide import Decider
from recoveryd.kernel.decision import Decision
from recoveryd.kernel.events import Event, SignalReceived
from recoveryd.kernel.state import CoreState
from recoveryd.live.signals import HealthSignal
from recoveryd.ports import ControlRecord, Folded, JournalBatch
from recoveryd.recovery.params import Params
from recoveryd.runtime import ControlIntake, Inbox, Runtime
from recoveryd.runtime.freezes import FreezeGuard
from tests.builders.core import BOOK, NOW_MS
from tests.builders.deciding import make_decider
from tests.runtime.fakes import (
    ListLog,
    ManualClock,
    QuietClusters,
    RecordingEffects,
    ScriptedJournal,
    SilentLanes,
    record,
    until,
    within,
)

SIGNAL = HealthSignal("main", "produce_latency_p99", 0.02, "s", "ok", NOW_MS)


class HearingCore:
    """Decides as the core does, and keeps what it was told."""

    def __init__(self, core: Decider, heard: list[Event]) -> None:
        self._core = core
        self._heard = heard
        self.restore, self.known, self.is_active = core.restore, core.known, core.is_active

    def decide(self, state: CoreState, event: Event, now_ms: int) -> Decision:
        self._heard.append(event)
        return self._core.decide(state, event, now_ms)


@dataclass
class Rig:
    """A runtime with fakes around it. Control records are decoded to the entry of `events` for their offset."""

    folded: Folded = field(default_factory=Folded)
    control_log: ListLog = field(default_factory=ListLog)
    capacity: int = 10_000
    standing: Callable[[], Sequence[Event]] = tuple
    freeze_s: float = 5.0
    deaf_s: float = 15.0

    def __post_init__(self) -> None:
        self.log: list[str] = []
        self.events: dict[int, Event] = {}
        self.heard: list[Event] = []  # what the core was told, in order
        self.clock = ManualClock()
        self.freezes = FreezeGuard(self.clock, self.freeze_s)
        self.journal = ScriptedJournal(self.folded, self.log)
        self.clusters = QuietClusters()
        self.lanes = SilentLanes()
        self.effects = RecordingEffects(self.log)
        self.inbox = Inbox(self.capacity)
        self.intake = ControlIntake(self.inbox, self.control_log, self._decode)
        self.metrics = Metrics(BOOK.metrics)
        self.runtime = Runtime(
            core=HearingCore(make_decider(Params()), self.heard),
            journal=self.journal,
            clusters=self.clusters,
            when_leading=lambda: self.lanes.start(self.inbox.emit),
            effects=self.effects,
            inbox=self.inbox,
            intake=self.intake,
            clock=self.clock,
            metrics=self.metrics,
            book=BOOK,
            standing=self.standing,
            freezes=self.freezes,
            deaf_s=self.deaf_s,
        )

    def _decode(self, taken: ControlRecord) -> Event:
        return self.events.get(taken.offset) or SignalReceived(taken.offset, NOW_MS, SIGNAL)

    def pass_s(self, seconds: float) -> None:
        """Time passes in which the process runs and waits."""
        for _ in range(round(seconds)):
            self.clock.ms += 1_000
            self.freezes.look()

    async def deliver(self, *events: Event) -> list[asyncio.Future[None]]:
        """Deliver events of control records, as the group would."""
        futures = []
        for event in events:
            offset = getattr(event, "offset", 0)
            self.events[offset] = event
            futures.append(await within(self.intake.accept(record(offset))))
        return futures

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[asyncio.Task[None]]:
        """The loop runs and leads. Its error is raised at the end, unless the test has taken it."""
        self.runtime.assigned()
        task = asyncio.create_task(self.runtime.run())
        await until(lambda: self.runtime.vitals.role == "leader" or task.done())
        await within(self.intake.catch_up())
        reading = asyncio.create_task(self.intake.run())
        taken = False
        try:
            yield task
        except BaseException:
            taken = True
            raise
        finally:
            self.runtime.stop()
            reading.cancel()
            if task.done() and not taken:
                with suppress(Fenced, RecoverydError):
                    task.result()
            else:
                await within(task)

    def batches_after_leadership(self) -> list[JournalBatch]:
        return self.journal.batches[1:]


async def all_done(futures: list[asyncio.Future[None]]) -> None:
    await within(asyncio.gather(*futures))
