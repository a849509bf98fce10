"""What a leader does when its wall clock was set: it takes over the new time and begins anew, as after a restart."""

import asyncio

import pytest

from recoveryd.adapters.memory import ManualClock as SteadyClock
from recoveryd.errors import Fenced
from recoveryd.kernel.events import BecameLeader, CommandReceived, ControlRead, Leaving
from recoveryd.kernel.state import DaemonRecord
from recoveryd.kernel.states import State
from recoveryd.live.events import OffsetsSampled
from recoveryd.ports import Folded, JournalBatch
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.pausing import LEAVING
from recoveryd.recovery.slice import RECOVERY
from recoveryd.units.events import UnitsRead
from tests.builders.core import command
from tests.builders.live_world import LiveWorld
from tests.builders.world import World
from tests.runtime.fakes import until, within
from tests.runtime.rig import Rig, all_done

HOUR_MS = 3_600_000
both_ways = pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS])


def copying() -> Recovery:
    world = World()
    world.feed(command("replay"))
    return world.run_until(State.RUNNING)


def leading_a_copy() -> Rig:
    recovery = copying()
    rig = Rig(Folded({"r1": recovery}, DaemonRecord(0, 1, "control-1"), {}, {}))
    rig.clock.ms = recovery.updated_ms
    return rig


async def set_clock(rig: Rig, by_ms: int) -> None:
    rig.clock.set_by = by_ms
    epoch = rig.runtime.state.daemon.epoch
    rig.inbox.nudge()
    await until(lambda: rig.runtime.state.daemon.epoch == epoch + 1 and rig.runtime.vitals.role == "leader")


@both_ways
async def test_it_ends_no_recovery_and_renews_its_lease_at_once(by_ms: int) -> None:
    rig = leading_a_copy()
    async with rig.leading():
        before = rig.runtime.state.of(RECOVERY).recoveries["r1"]
        batches = len(rig.journal.batches)
        await set_clock(rig, by_ms)
        after = rig.runtime.state.of(RECOVERY).recoveries["r1"]
        asked, anew = rig.journal.batches[batches : batches + 2]
    assert asked == JournalBatch(daemon=asked.daemon), "a machine that slept looks alike"
    assert (after.state, after.attempt.number) == (State.RUNNING, before.attempt.number)
    assert after.directive_sequence > before.directive_sequence
    assert [d.recovery for d in anew.directives] == ["r1"]
    [told] = [n for n in anew.notices if n.type == "leader_changed"]
    way = "forward" if by_ms > 0 else "back"
    assert told.data["why"] == f"the clock of the daemon was set {way} by 3600 s"


@both_ways
async def test_a_daemon_that_comes_to_rest_to_end_wakes_nothing_up(by_ms: int) -> None:
    rig = leading_a_copy()
    async with rig.leading():
        rig.inbox.emit(Leaving())
        await until(lambda: rig.runtime.state.of(RECOVERY).recoveries["r1"].held == LEAVING)
        await set_clock(rig, by_ms)
        after = rig.runtime.state.of(RECOVERY)
    assert (after.recoveries["r1"].state, after.recoveries["r1"].held) == (State.PAUSING, LEAVING)
    assert after.is_leaving


@both_ways
async def test_it_reads_nothing_again_and_knows_all_commands(by_ms: int) -> None:
    rig = Rig()
    async with rig.leading():
        await all_done(await rig.deliver(command("replay", offset=0)))
        await set_clock(rig, by_ms)
        await all_done(await rig.deliver(command("replay", offset=1)))
        answers = [a.kind for batch in rig.journal.batches for a in batch.answers]
    assert (rig.journal.opened, rig.lanes.started, answers) == (1, 1, ["duplicate"])


async def test_what_was_seen_before_is_dropped_and_what_lies_on_the_topic_counts_as_read() -> None:
    rig = Rig()
    async with rig.leading():
        await until(lambda: ControlRead() in rig.heard)
        rig.heard.clear()
        rig.journal.gate.clear()
        rig.clock.set_by = HOUR_MS
        rig.inbox.nudge()
        await until(lambda: rig.runtime.vitals.role == "taking_over")
        rig.inbox.emit(OffsetsSampled(()))
        rig.journal.gate.set()
        await until(lambda: ControlRead() in rig.heard)
    assert not [event for event in rig.heard if isinstance(event, OffsetsSampled)]


async def test_what_was_seen_before_is_dropped_also_when_it_was_taken_already() -> None:
    rig = Rig()
    async with rig.leading():
        await until(lambda: ControlRead() in rig.heard)
        rig.heard.clear()
        rig.clock.set_by = HOUR_MS
        rig.inbox.emit(OffsetsSampled(()))  # ends the waiting for events, after which the clock is looked at
        await all_done(await rig.deliver(command("replay", offset=0)))
        await until(lambda: ControlRead() in rig.heard)
    assert not [event for event in rig.heard if isinstance(event, OffsetsSampled)]
    assert [event for event in rig.heard if isinstance(event, CommandReceived)]


async def test_the_units_that_were_read_again_stand_before_anything_is_looked_at() -> None:
    stands = UnitsRead({}, is_told_again=True)
    rig = Rig(standing=lambda: [stands])
    async with rig.leading():
        await set_clock(rig, HOUR_MS)
    begun = [type(event) for event in rig.heard if isinstance(event, UnitsRead | BecameLeader)]
    assert begun == [UnitsRead, BecameLeader] * 2


async def test_a_leader_that_was_replaced_meanwhile_leaves() -> None:
    rig = leading_a_copy()
    async with rig.leading() as running:
        started = list(rig.effects.started)
        rig.journal.failures = [Fenced()]
        rig.clock.set_by = HOUR_MS
        rig.inbox.nudge()
        with pytest.raises(Fenced):
            await within(running)
    assert rig.effects.started == started


async def test_who_waits_to_join_again_meanwhile_is_not_forgotten() -> None:
    rig = leading_a_copy()
    async with rig.leading():
        rig.journal.gate.clear()
        rig.clock.set_by = HOUR_MS
        rig.inbox.nudge()
        await until(lambda: rig.runtime.vitals.role == "taking_over")
        joining = asyncio.create_task(rig.runtime.expelled())
        await asyncio.sleep(0)
        rig.journal.gate.set()
        await within(joining)


async def test_a_standby_takes_the_new_time_when_it_begins_to_lead() -> None:
    rig = Rig()
    rig.clock.set_by = -HOUR_MS
    wanted_ms = rig.clock.ms - HOUR_MS
    async with rig.leading():
        assert rig.runtime.state.daemon.updated_ms == wanted_ms
        assert rig.runtime.state.daemon.epoch == 1


@both_ways
def test_the_controller_goes_on_protecting_with_the_new_time(by_ms: int) -> None:
    world = LiveWorld().copying()
    world.live(120)
    world.now_ms += by_ms
    world.restart_daemon()
    world.live(60)
    before = world.rate
    world.latency_s = lambda: 0.45  # more than twice its SLO
    world.live(60)
    assert before is not None
    assert world.rate is not None
    assert world.rate < before


def test_the_wait_before_the_next_attempt_never_gets_longer_by_a_clock_set_back() -> None:
    world = World()
    world.feed(command("replay"))
    world.run_until(State.RUNNING)
    world.applications["r1"].alive = False
    world.run_until(State.STARTING)
    world.now_ms -= HOUR_MS
    world.restart_daemon()
    world.run_until(State.RUNNING)
    assert world.recovery().attempt.number == 2


def test_the_clock_of_the_memory_adapter_is_never_set() -> None:
    clock = SteadyClock()
    clock.adopt()
    assert clock.set_by_ms() == 0
