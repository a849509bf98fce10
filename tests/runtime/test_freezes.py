"""What a daemon that stood still does not do: act on what it journaled before, when another may lead by now."""

import asyncio

import pytest

from recoveryd.errors import Fenced
from recoveryd.kernel.events import ControlUnread, Event
from recoveryd.ports import JournalBatch
from recoveryd.recovery.effects import CreateTarget
from recoveryd.recovery.events import TargetReady
from recoveryd.recovery.slice import RECOVERY
from recoveryd.runtime import freezes
from recoveryd.runtime.freezes import FreezeGuard
from recoveryd.runtime.interpreter import AT_ONCE, Interpreter
from recoveryd.runtime.runners import recovery_runners
from tests.builders.core import command
from tests.runtime.fakes import ManualClock, QuietClusters, ScriptedJobs, ScriptedLedger, until, within
from tests.runtime.rig import Rig, all_done


def freezes_behind_the_journal(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, *, times: int = 1, sleeps: bool = False
) -> None:
    """From now on the process stands still after the journal took a batch, and before anything follows from it."""
    commit, left = rig.journal.commit, [times]

    async def answered_late(batch: JournalBatch) -> None:
        await commit(batch)
        if left[0]:
            left[0] -= 1
            rig.clock.ms += 0 if sleeps else 12_000
            rig.clock.jumped = sleeps

    monkeypatch.setattr(rig.journal, "commit", answered_late)


@pytest.mark.parametrize("sleeps", [False, True])
async def test_what_was_journaled_before_a_freeze_is_not_done_by_a_daemon_that_was_replaced_in_it(
    monkeypatch: pytest.MonkeyPatch, *, sleeps: bool
) -> None:
    rig = Rig()
    async with rig.leading() as running:
        before = list(rig.effects.started)
        freezes_behind_the_journal(rig, monkeypatch, sleeps=sleeps)
        commit = rig.journal.commit

        async def once(batch: JournalBatch) -> None:
            await commit(batch)
            rig.journal.failures = [Fenced()]

        monkeypatch.setattr(rig.journal, "commit", once)
        await all_done(await rig.deliver(command("replay", offset=0)))
        with pytest.raises(Fenced):
            await within(running)
        assert rig.journal.tried[-1] == JournalBatch(daemon=rig.runtime.state.daemon)
    assert rig.effects.started == before
    assert "r1" in rig.runtime.state.of(RECOVERY).recoveries, "that is journaled"


@pytest.mark.parametrize(("times", "writes"), [(1, 2), (2, 3), (9, 3)])
async def test_what_was_journaled_before_a_freeze_is_done_once_the_journal_was_written_again(
    monkeypatch: pytest.MonkeyPatch, times: int, writes: int
) -> None:
    """A write around which it stood still once more shows nothing; of some in a row the last one counts."""
    rig = Rig(deaf_s=3_600.0)
    async with rig.leading():
        freezes_behind_the_journal(rig, monkeypatch, times=times)
        rig.log.clear()
        await all_done(await rig.deliver(command("replay", offset=0)))
        await until(lambda: rig.effects.started)
        assert rig.log[: writes + 1] == ["commit"] * writes + ["GatherFacts"]
        await all_done(await rig.deliver(command("pause", offset=1)))


async def test_a_slow_journal_is_no_freeze() -> None:
    rig = Rig()
    async with rig.leading():
        rig.journal.gate.clear()
        [done] = await rig.deliver(command("replay", offset=0))
        await until(lambda: len(rig.journal.tried) == 2)
        rig.pass_s(14)
        rig.journal.gate.set()
        await all_done([done])
        await until(lambda: rig.effects.started)
        assert rig.log[1:] == ["commit", "GatherFacts"]
        assert ControlUnread() not in rig.heard


async def test_a_daemon_that_runs_notices_by_itself_that_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nothing else is done than waiting for the journal."""
    monkeypatch.setattr(freezes, "LOOK_EVERY_S", 0.001)
    rig = Rig()
    async with rig.leading():
        rig.journal.gate.clear()
        [done] = await rig.deliver(command("replay", offset=0))
        await until(lambda: len(rig.journal.tried) == 2)
        looks, look = [0], rig.freezes.look

        def counted() -> int:
            looks[0] += 1
            return look()

        monkeypatch.setattr(rig.freezes, "look", counted)
        for _ in range(4):
            seen = looks[0]
            rig.clock.ms += 4_000
            await until(lambda seen=seen: looks[0] > seen)
        rig.journal.gate.set()
        await all_done([done])
        await until(lambda: rig.effects.started)
        assert rig.log[1:3] == ["commit", "GatherFacts"]


class SlowClusters(QuietClusters):
    """Makes topics only once it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.let = asyncio.Event()
        self.begun: list[str] = []

    async def create_target(self, effect: CreateTarget) -> TargetReady:
        self.begun.append(effect.recovery)
        await self.let.wait()
        return await super().create_target(effect)


class GuardedRig:
    """An interpreter that asks the guard."""

    def __init__(self) -> None:
        self.clusters, self.clock = SlowClusters(), ManualClock()
        self.events: list[Event] = []
        self.guard = FreezeGuard(self.clock)
        runners = recovery_runners(self.clusters, ScriptedLedger(), ScriptedJobs(), None, self.events.append)
        self.interpreter = Interpreter(runners, self.events.append, until_may_act=self.guard.until_may_act)

    def start(self, recovery: str) -> None:
        self.interpreter.start(CreateTarget(recovery, "main", "t", 4, 1, {}))


async def test_an_effect_that_waited_for_its_slot_in_a_freeze_begins_once_the_journal_was_written() -> None:
    rig = GuardedRig()
    for i in range(AT_ONCE + 1):
        rig.start(f"r{i}")
    await until(lambda: len(rig.clusters.begun) == AT_ONCE)
    rig.clock.ms += 12_000
    rig.clusters.let.set()
    await until(lambda: len(rig.events) == AT_ONCE)
    await asyncio.sleep(0.02)
    assert (len(rig.clusters.begun), rig.interpreter.is_idle) == (AT_ONCE, False)
    rig.guard.wrote(rig.guard.look())
    await until(lambda: rig.interpreter.is_idle)
    assert len(rig.events) == AT_ONCE + 1


async def test_an_effect_that_waits_for_the_journal_after_a_freeze_is_given_up_with_the_daemon() -> None:
    rig = GuardedRig()
    rig.clock.ms += 12_000
    rig.start("r1")
    await asyncio.sleep(0.02)
    await within(rig.interpreter.close())
    assert (rig.clusters.begun, rig.events) == ([], [])
