"""The writer: decide, journal, adopt, act. In this order, whatever fails."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import pytest

from daemon.adapters.prometheus import Metrics
from daemon.core.catalogue import Code
from daemon.core.commands import HealthSignal
from daemon.core.decide import Decider
from daemon.core.effects import GatherFacts
from daemon.core.events import Event, Seen, SignalReceived
from daemon.core.model import DaemonRecord, State
from daemon.core.params import Params
from daemon.errors import ClusterProblem, Fenced, RecoverydError
from daemon.ports import ControlRecord, Folded, JournalBatch
from daemon.runtime import Inbox, Intake, Runtime, loop
from tests.builders.core import NOW_MS, command
from tests.builders.world import World
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


@dataclass
class Rig:
    """A runtime between fakes. Control records decode to what `events` has for their offset."""

    folded: Folded = field(default_factory=Folded)
    control_log: ListLog = field(default_factory=ListLog)
    capacity: int = 10_000

    def __post_init__(self) -> None:
        self.log: list[str] = []
        self.events: dict[int, Event] = {}
        self.clock = ManualClock()
        self.journal = ScriptedJournal(self.folded, self.log)
        self.clusters = QuietClusters()
        self.lanes = SilentLanes()
        self.effects = RecordingEffects(self.log)
        self.inbox = Inbox(self.capacity)
        self.intake = Intake(self.inbox, self.control_log, self._decode)
        self.metrics = Metrics()
        self.runtime = Runtime(
            decide=Decider(Params()).decide,
            journal=self.journal,
            clusters=self.clusters,
            when_leading=lambda: self.lanes.start(self.inbox.emit),
            effects=self.effects,
            inbox=self.inbox,
            intake=self.intake,
            clock=self.clock,
            metrics=self.metrics,
        )

    def _decode(self, taken: ControlRecord) -> Event:
        return self.events.get(taken.offset) or SignalReceived(taken.offset, NOW_MS, SIGNAL)

    async def deliver(self, *events: Event) -> list[asyncio.Future[None]]:
        """Events of control records, as the group delivers them."""
        futures = []
        for event in events:
            offset = getattr(event, "offset", 0)
            self.events[offset] = event
            futures.append(await within(self.intake.accept(record(offset))))
        return futures

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[asyncio.Task[None]]:
        """The loop runs and has taken over; what it raised is raised at the end unless the test took it."""
        self.runtime.assigned()
        task = asyncio.create_task(self.runtime.run())
        await until(lambda: self.runtime.vitals.role == "leader" or task.done())
        await within(self.intake.catch_up())
        taken = False
        try:
            yield task
        except BaseException:
            taken = True
            raise
        finally:
            self.runtime.stop()
            if task.done() and not taken:
                with suppress(Fenced, RecoverydError):
                    task.result()
            else:
                await within(task)

    def batches_after_leadership(self) -> list[JournalBatch]:
        return self.journal.batches[1:]


async def all_done(futures: list[asyncio.Future[None]]) -> None:
    await within(asyncio.gather(*futures))


async def test_becoming_leader_folds_the_journal_and_raises_the_epoch_before_anything_else() -> None:
    known = World()
    known.feed(command("replay"))
    rig = Rig(Folded(dict(known.state.recoveries), DaemonRecord(4, 7, "control-1"), {}, {}))
    async with rig.leading():
        assert rig.runtime.state.recoveries.keys() == {"r1"}
        first = rig.journal.batches[0]
        assert first.daemon is not None
        assert (first.daemon.epoch, first.daemon.applied_control_offset) == (8, 4)
        assert rig.intake.next_offset == 5


async def test_commands_that_came_together_share_one_transaction() -> None:
    rig = Rig()
    async with rig.leading():
        rig.journal.gate.clear()
        first = await rig.deliver(command("replay", "r0", offset=0))
        await until(lambda: len(rig.journal.tried) == 2)
        others = await rig.deliver(*(command("replay", f"r{i}", offset=i) for i in range(1, 9)))
        rig.journal.gate.set()
        await all_done(first + others)
        assert [[r.id for r in b.changed] for b in rig.batches_after_leadership()] == [
            ["r0"],
            [f"r{i}" for i in range(1, 9)],
        ]


async def test_nothing_is_adopted_answered_or_done_before_the_journal_holds_it() -> None:
    rig = Rig()
    async with rig.leading():
        rig.journal.gate.clear()
        [done] = await rig.deliver(command("replay", offset=0))
        await until(lambda: len(rig.journal.tried) == 2)
        assert rig.runtime.state.recoveries == {}
        assert not done.done()
        assert rig.effects.started == []
        rig.journal.gate.set()
        await all_done([done])
        await until(lambda: rig.effects.started)
        assert rig.runtime.state.recoveries["r1"].state is State.PLANNING
        assert rig.log == ["commit", "commit", "GatherFacts"]


async def test_a_failed_commit_is_tried_again_with_the_same_batch_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "BACKOFF_FIRST_S", 0.001)
    rig = Rig()
    async with rig.leading():
        rig.journal.failures = [ClusterProblem("no broker"), ClusterProblem("no broker")]
        rig.journal.gate.clear()
        futures = await rig.deliver(command("replay", offset=0))
        await until(lambda: len(rig.journal.tried) == 2)
        later = await rig.deliver(command("replay", "r2", offset=1))
        rig.journal.gate.set()
        await all_done(futures + later)
        same = rig.journal.tried[1:4]
        assert same[0] is same[1] is same[2]
        assert [[r.id for r in b.changed] for b in rig.batches_after_leadership()] == [["r1"], ["r2"]]
        assert rig.runtime.vitals.journal_failing_s is None


async def test_while_the_journal_fails_health_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "BACKOFF_FIRST_S", 30.0)
    rig = Rig()
    async with rig.leading():
        rig.journal.failures = [ClusterProblem("no broker")]
        [done] = await rig.deliver(command("replay", offset=0))
        await until(lambda: rig.runtime.vitals.journal_failing_s is not None)
        assert not done.done()
    assert rig.runtime.state.recoveries == {}, "stopping while it waits adopts nothing"
    assert not done.done()


async def test_a_fenced_daemon_leaves_at_once_without_acting() -> None:
    rig = Rig()
    async with rig.leading() as running:
        rig.journal.failures = [Fenced()]
        [done] = await rig.deliver(command("replay", offset=0))
        with pytest.raises(Fenced):
            await within(running)
    assert rig.effects.started == []
    assert rig.runtime.state.recoveries == {}
    assert not done.done()


async def test_a_final_error_of_the_journal_ends_the_loop() -> None:
    rig = Rig()
    async with rig.leading() as running:
        rig.journal.failures = [ClusterProblem("no", code=Code.NOT_AUTHORISED, retriable=False)]
        await rig.deliver(command("replay", offset=0))
        with pytest.raises(ClusterProblem):
            await within(running)
    assert rig.effects.started == []


async def test_signals_cost_no_transaction_and_are_done_at_once() -> None:
    rig = Rig()
    async with rig.leading():
        await all_done(await rig.deliver(*(SignalReceived(i, NOW_MS, SIGNAL) for i in range(50))))
        assert rig.batches_after_leadership() == []
        for _ in range(16):
            rig.clock.ms += 4_000
            rig.inbox.nudge()
            await asyncio.sleep(0.005)
        await until(rig.batches_after_leadership)
        [cover] = rig.batches_after_leadership()
        assert cover == JournalBatch(daemon=replace(rig.runtime.state.daemon, applied_control_offset=49))


async def test_waiters_are_released_in_the_order_of_the_topic() -> None:
    rig = Rig()
    released: list[int] = []
    async with rig.leading():
        rig.journal.gate.clear()
        futures = await rig.deliver(*(command("replay", f"r{i}", offset=i) for i in range(20)))
        for i, future in enumerate(futures):
            future.add_done_callback(lambda _, i=i: released.append(i))
        rig.journal.gate.set()
        await all_done(futures)
        await until(lambda: len(released) == 20)
    assert released == list(range(20))


async def test_a_command_known_from_before_the_start_is_a_duplicate() -> None:
    earlier = {("//ops/alice", "replay-r1"): Seen(3, "h")}
    rig = Rig(Folded({}, DaemonRecord(3, 1, "control-1"), earlier, {}))
    async with rig.leading():
        await all_done(await rig.deliver(command("replay", offset=4)))
        [batch] = rig.batches_after_leadership()
        assert [(a.kind, a.control_offset) for a in batch.answers] == [("duplicate", 4)]


async def test_a_control_topic_made_anew_is_read_from_its_beginning_and_forgets_what_was_seen() -> None:
    earlier = {("//ops/alice", "replay-r1"): Seen(0, "h")}
    rig = Rig(Folded({}, DaemonRecord(90, 1, "control-0"), earlier, {}), ListLog([record(0)]))
    rig.events[0] = command("replay", offset=0)
    async with rig.leading():
        await until(lambda: "r1" in rig.runtime.state.recoveries)
        assert rig.runtime.state.daemon.applied_control_offset == 0


async def test_what_the_last_leader_left_unhandled_is_read_from_the_topic_itself() -> None:
    rig = Rig(Folded({}, DaemonRecord(0, 1, "control-1"), {}, {}), ListLog([record(i) for i in range(3)]))
    rig.events = {i: command("replay", f"r{i}", offset=i) for i in range(3)}
    async with rig.leading():
        await until(lambda: len(rig.runtime.state.recoveries) == 2)
        assert list(rig.runtime.state.recoveries) == ["r1", "r2"]
        redelivered = await rig.deliver(*rig.events.values())
        await all_done(redelivered)
        assert rig.runtime.state.daemon.applied_control_offset == 2


async def test_a_directive_sequence_is_never_used_twice_over_a_restart() -> None:
    known = World()
    known.feed(command("replay"))
    recovery = known.recovery()
    rig = Rig(Folded({"r1": recovery}, DaemonRecord(0, 1, "control-1"), {}, {"r1": recovery.directive_sequence + 40}))
    async with rig.leading():
        assert rig.runtime.state.recoveries["r1"].directive_sequence >= recovery.directive_sequence + 40


async def test_a_partition_that_comes_back_costs_one_write_and_no_reload() -> None:
    rig = Rig()
    async with rig.leading():
        await all_done(await rig.deliver(command("replay", offset=0)))
        rig.runtime.revoked()
        [waiting] = await rig.deliver(command("pause", offset=1))
        await asyncio.sleep(0.02)
        assert not waiting.done(), "nothing is decided while the partition may be another's"
        assert rig.runtime.vitals.role == "standby"
        rig.runtime.assigned()
        await all_done([waiting])
        assert (rig.journal.opened, rig.lanes.started) == (1, 1)
        assert rig.journal.batches[2] == JournalBatch(daemon=rig.journal.batches[1].daemon)


async def test_a_partition_that_comes_back_after_another_led_ends_this_daemon() -> None:
    rig = Rig()
    async with rig.leading() as running:
        rig.runtime.revoked()
        rig.journal.failures = [Fenced()]
        rig.runtime.assigned()
        with pytest.raises(Fenced):
            await within(running)
    assert len(rig.journal.batches) == 1


async def test_a_daemon_that_was_frozen_asks_the_journal_before_it_goes_on() -> None:
    rig = Rig()
    async with rig.leading() as running:
        await all_done(await rig.deliver(command("replay", offset=0)))
        started = list(rig.effects.started)
        rig.journal.failures = [Fenced()]
        rig.clock.ms += 8_000
        rig.inbox.nudge()
        with pytest.raises(Fenced):
            await within(running)
        assert rig.journal.tried[-1] == JournalBatch(daemon=rig.runtime.state.daemon)
    assert rig.effects.started == started


async def test_a_journal_that_does_not_open_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "BACKOFF_FIRST_S", 0.001)
    rig = Rig()
    rig.journal.open_failures = [ClusterProblem("no coordinator"), ClusterProblem("no coordinator")]
    async with rig.leading():
        assert rig.journal.opened == 3
        assert rig.runtime.vitals.is_loaded


async def test_a_standby_does_nothing() -> None:
    rig = Rig()
    running = asyncio.create_task(rig.runtime.run())
    rig.inbox.emit(command("replay", offset=0))
    await asyncio.sleep(0.02)
    assert (rig.journal.opened, rig.runtime.vitals.role, len(rig.inbox)) == (0, "standby", 1)
    assert rig.lanes.started == 0, "what a standby heard would look like life later"
    rig.runtime.stop()
    await within(running)


async def test_stopping_finishes_the_round_under_way_and_leaves_the_rest_for_later() -> None:
    rig = Rig()
    async with rig.leading() as running:
        rig.journal.gate.clear()
        [under_way] = await rig.deliver(command("replay", "r0", offset=0))
        await until(lambda: len(rig.journal.tried) == 2)
        [rest] = await rig.deliver(command("replay", "r1", offset=1))
        rig.runtime.stop()
        rig.journal.gate.set()
        await within(running)
        assert under_way.done()
        assert not rest.done()
        assert list(rig.runtime.state.recoveries) == ["r0"]
        assert [e.recovery for e in rig.effects.started if isinstance(e, GatherFacts)] == ["r0"]


async def test_one_command_a_thousand_times_starts_one_recovery_and_answers_each() -> None:
    rig = Rig(capacity=100)
    once = command("replay", offset=0)
    async with rig.leading():
        futures = await rig.deliver(*(replace(once, offset=i) for i in range(1_000)))
        await all_done(futures)
        answers = [a for b in rig.journal.batches for a in b.answers]
        assert [a.control_offset for a in answers] == list(range(1, 1_000))
        assert {a.kind for a in answers} == {"duplicate"}
        assert len([e for e in rig.effects.started if isinstance(e, GatherFacts)]) == 1


async def test_counters_and_histograms_move_with_rounds() -> None:
    rig = Rig()
    async with rig.leading():
        once = command("replay", offset=0)
        await all_done(await rig.deliver(once, replace(once, offset=1)))
        text = rig.metrics.render().decode()
    assert 'recoveryd_commands_total{answer="duplicate",verb="replay"} 1.0' in text
    assert f"recoveryd_journal_commit_seconds_count {len(rig.journal.batches)}.0" in text
