"""Who leads, and what a daemon does before it believes that it does."""

import asyncio

import pytest

from recoveryd.errors import ClusterProblem, Fenced, RecoverydError
from recoveryd.holds.draft import HOLDS
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import idempotency_key
from recoveryd.kernel.events import (
    BecameLeader,
    CommandReceived,
    ControlCutBack,
    ControlRead,
    ControlUnread,
    Seen,
    SignalReceived,
    Tick,
)
from recoveryd.kernel.state import DaemonRecord
from recoveryd.ports import Folded, JournalBatch
from recoveryd.recovery.slice import RECOVERY
from recoveryd.runtime import loop
from recoveryd.wire.status_topic import daemon_from_document, daemon_to_document
from tests.builders.core import NOW_MS, command, make_hold
from tests.builders.world import World
from tests.runtime.fakes import (
    ListLog,
    SlowLog,
    record,
    until,
    within,
)
from tests.runtime.rig import SIGNAL, Rig, all_done


async def test_becoming_leader_folds_the_journal_and_raises_the_epoch_before_anything_else() -> None:
    known = World()
    known.feed(command("replay"))
    rig = Rig(Folded(dict(known.state.of(RECOVERY).recoveries), DaemonRecord(4, 7, "control-1"), {}, {}))
    async with rig.leading():
        assert rig.runtime.state.of(RECOVERY).recoveries.keys() == {"r1"}
        first = rig.journal.batches[0]
        assert first.daemon is not None
        assert (first.daemon.epoch, first.daemon.applied_control_offset) == (8, 4)
        assert rig.control_log.reads == [(5, None)]


async def test_a_command_known_from_before_the_start_is_a_duplicate() -> None:
    earlier = {idempotency_key("//ops/alice", "replay-r1"): Seen(3, "h")}
    rig = Rig(Folded({}, DaemonRecord(3, 1, "control-1"), earlier, {}))
    async with rig.leading():
        await all_done(await rig.deliver(command("replay", offset=4)))
        [batch] = rig.batches_after_leadership()
        assert [(a.kind, a.control_offset) for a in batch.answers] == [("duplicate", 4)]


async def test_a_control_topic_made_anew_is_read_from_its_beginning_and_forgets_what_was_seen() -> None:
    earlier = {idempotency_key("//ops/alice", "replay-r1"): Seen(0, "h")}
    rig = Rig(Folded({}, DaemonRecord(90, 1, "control-0"), earlier, {}), ListLog([record(0)]))
    rig.events[0] = command("replay", offset=0)
    async with rig.leading():
        await until(lambda: "r1" in rig.runtime.state.of(RECOVERY).recoveries)
        assert rig.runtime.state.daemon.applied_control_offset == 0


async def test_a_control_topic_that_was_cut_back_is_read_on_from_its_new_end_and_what_is_left_stays_known() -> None:
    earlier = {idempotency_key("//ops/alice", "replay-r1"): Seen(3, "h")}
    rig = Rig(Folded({}, DaemonRecord(10, 1, "control-1"), earlier, {}), ListLog([record(i) for i in range(7)]))
    rig.clusters.end = 5
    rig.events = {5: command("replay", "r2", offset=5), 6: command("replay", "r1", offset=6)}
    async with rig.leading():
        await until(lambda: rig.runtime.state.daemon.applied_control_offset == 6)
        first, *later = rig.journal.batches
        assert first.daemon is not None
        assert (first.daemon.epoch, first.daemon.applied_control_offset) == (2, 4)
        [told] = [notice for notice in first.notices if notice.type == "control_cut_back"]
        assert (told.data["end"], told.data["position"]) == (5, 11)
        answers = [(a.control_offset, a.kind) for batch in later for a in batch.answers if a.kind == "duplicate"]
        assert answers == [(6, "duplicate")]
        assert "r2" in rig.runtime.state.of(RECOVERY).recoveries


async def test_what_was_decided_is_passed_over_where_the_cut_of_the_topic_was_told_wrong() -> None:
    earlier = {idempotency_key("//ops/alice", "replay-r1"): Seen(6, "h")}
    log = ListLog([record(i) for i in range(11)])
    rig = Rig(Folded({}, DaemonRecord(10, 1, "control-1"), earlier, {}), log)
    rig.clusters.end = 5
    rig.events = {6: command("replay", "r1", offset=6), 10: command("replay", "r2", offset=10)}
    async with rig.leading():
        await until(lambda: rig.runtime.state.daemon.applied_control_offset == 10)
        assert list(rig.runtime.state.of(RECOVERY).recoveries) == ["r2"]
        assert not [a for batch in rig.journal.batches for a in batch.answers if a.control_offset == 6]


async def test_a_leader_that_ends_for_a_cut_leaves_the_next_one_what_it_decided_there() -> None:
    rig = Rig()
    async with rig.leading() as running:
        await all_done(await rig.deliver(command("replay", "r1", offset=4)))
        await all_done(await rig.deliver(command("replay", "r2", offset=7)))
        rig.inbox.emit(ControlCutBack(6, 8))
        with pytest.raises(RecoverydError, match="cut back to 6"):
            await within(running)
    left = rig.journal.batches[-1].daemon
    assert left is not None
    assert [seen.offset for seen in left.decided.values()] == [7]

    after = Rig(Folded({}, daemon_from_document(daemon_to_document(left)), {}, {}), ListLog([record(6), record(7)]))
    after.clusters.end = 8
    after.events = {6: command("replay", "r3", offset=6), 7: command("replay", "r2", offset=7)}
    async with after.leading():
        await all_done(await after.deliver(command("replay", "r4", offset=8)))
        assert list(after.runtime.state.of(RECOVERY).recoveries) == ["r3", "r4"]
        assert after.runtime.state.daemon.decided == {}


async def test_the_end_of_a_control_topic_of_which_nothing_is_told_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "BACKOFF_FIRST_S", 0.001)
    rig = Rig(Folded({}, DaemonRecord(10, 1, "control-1"), {}, {}))
    rig.clusters.end_error = ClusterProblem("no leader")
    rig.runtime.assigned()
    running = asyncio.create_task(rig.runtime.run())
    await until(lambda: rig.runtime.vitals.journal_failing_s is not None)
    assert rig.journal.batches == []
    rig.clusters.end_error = None
    await until(lambda: rig.runtime.vitals.role == "leader")
    assert rig.runtime.state.daemon.applied_control_offset == 10
    rig.runtime.stop()
    await within(running)


async def test_a_control_topic_that_is_cut_back_under_a_leader_is_journaled_before_it_leaves() -> None:
    rig = Rig()
    async with rig.leading() as running:
        await all_done(await rig.deliver(command("replay", offset=7)))
        await all_done(await rig.deliver(SignalReceived(9, NOW_MS, SIGNAL)))
        assert rig.runtime.state.daemon.applied_control_offset == 7
        rig.inbox.emit(ControlCutBack(5, 10))
        with pytest.raises(RecoverydError, match="cut back to 5") as raised:
            await within(running)
        assert raised.value.code is Code.INVARIANT_BROKEN
    last = rig.journal.batches[-1]
    assert last.daemon is not None
    assert last.daemon.applied_control_offset == 4
    assert [notice.type for notice in last.notices] == ["control_cut_back"]


async def test_signals_that_were_not_journaled_do_not_hide_where_the_topic_was_cut() -> None:
    rig = Rig()
    async with rig.leading() as running:
        await all_done(await rig.deliver(command("replay", offset=2)))
        await all_done(await rig.deliver(SignalReceived(9, NOW_MS, SIGNAL)))
        rig.inbox.emit(ControlCutBack(6, 10))
        with pytest.raises(RecoverydError):
            await within(running)
    last = rig.journal.batches[-1]
    assert last.daemon is not None
    assert last.daemon.applied_control_offset <= 5


async def test_what_the_last_leader_left_unhandled_is_read_from_the_topic_itself() -> None:
    rig = Rig(Folded({}, DaemonRecord(0, 1, "control-1"), {}, {}), ListLog([record(i) for i in range(3)]))
    rig.events = {i: command("replay", f"r{i}", offset=i) for i in range(3)}
    async with rig.leading():
        await until(lambda: len(rig.runtime.state.of(RECOVERY).recoveries) == 2)
        assert list(rig.runtime.state.of(RECOVERY).recoveries) == ["r1", "r2"]
        redelivered = await rig.deliver(*rig.events.values())
        await all_done(redelivered)
        assert rig.runtime.state.daemon.applied_control_offset == 2


async def test_nothing_counts_as_held_or_free_before_the_topic_was_read() -> None:
    rig = Rig(control_log=ListLog([record(0)]))
    rig.events[0] = command("hold", "h1", offset=0)
    async with rig.leading():
        await until(lambda: ControlRead() in rig.heard)
        kinds = [type(event) for event in rig.heard if isinstance(event, BecameLeader | CommandReceived | ControlRead)]
        assert kinds == [BecameLeader, CommandReceived, ControlRead]
        [became] = [event for event in rig.heard if isinstance(event, BecameLeader)]
        assert became.reads_control
        await until(lambda: rig.runtime.state.has_read)
        assert rig.runtime.state.of(HOLDS).held.keys() == {("main", "flights.v2")}


async def test_a_hold_whose_time_is_over_ends_before_the_commands_that_lay_on_the_topic_are_decided() -> None:
    known = World()
    known.feed(command("hold", "h1", spec=make_hold(expires_ms=known.now_ms + 60_000)))
    rig = Rig(Folded(dict(known.state.of(HOLDS).live), DaemonRecord(0, 1, "control-1"), {}), ListLog([record(1)]))
    rig.clock.ms = known.now_ms + 60_000
    rig.events[1] = command("replay", offset=1)
    async with rig.leading():
        await until(lambda: "r1" in rig.runtime.state.of(RECOVERY).recoveries)
        assert [noun.id for noun in rig.journal.batches[0].changed] == ["h1"]
        assert rig.runtime.state.of(HOLDS).held == {}
        assert not [answer for batch in rig.journal.batches for answer in batch.answers], "it is planned"


async def test_a_directive_sequence_is_never_used_twice_over_a_restart() -> None:
    known = World()
    known.feed(command("replay"))
    recovery = known.recovery()
    rig = Rig(Folded({"r1": recovery}, DaemonRecord(0, 1, "control-1"), {}, {"r1": recovery.directive_sequence + 40}))
    async with rig.leading():
        assert rig.runtime.state.of(RECOVERY).recoveries["r1"].directive_sequence >= recovery.directive_sequence + 40


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


async def test_a_record_that_the_group_skips_when_the_partition_comes_back_is_read_all_the_same() -> None:
    rig = Rig()
    async with rig.leading():
        await all_done(await rig.deliver(command("replay", offset=0)))
        rig.runtime.revoked()
        rig.events[1] = command("replay", "r2", offset=1)
        rig.control_log.records.append(record(1))
        rig.runtime.assigned()
        await until(lambda: "r2" in rig.runtime.state.of(RECOVERY).recoveries)
        heard = len(rig.heard)
        await all_done(await rig.deliver(rig.events[1]))
        assert not [event for event in rig.heard[heard:] if isinstance(event, CommandReceived)], "it is taken once"


@pytest.mark.parametrize("is_taken_away", [True, False])
async def test_a_leader_that_goes_on_knows_no_holds_before_it_has_read_what_was_sent_meanwhile(
    *, is_taken_away: bool
) -> None:
    log = SlowLog([])
    log.may.set()
    rig = Rig(control_log=log)
    async with rig.leading():
        await until(lambda: ControlRead() in rig.heard)
        log.may.clear()
        rig.heard.clear()
        if is_taken_away:
            rig.runtime.revoked()
            await asyncio.sleep(0.01)
        rig.inbox.emit(ControlRead())  # of an earlier look
        rig.inbox.emit(Tick())
        rig.events[0] = command("hold", "h1", offset=0)
        log.records.append(record(0))
        if is_taken_away:
            rig.runtime.assigned()
        else:
            rig.clock.ms += 8_000
        await until(lambda: Tick() in rig.heard)
        assert rig.heard == [ControlUnread(), Tick()]
        assert not rig.runtime.state.has_read
        log.may.set()
        await until(lambda: ControlRead() in rig.heard)
        await until(lambda: rig.runtime.state.has_read)
        kinds = [type(event) for event in rig.heard if not isinstance(event, Tick)]
    assert kinds == [ControlUnread, CommandReceived, ControlRead]
    assert rig.runtime.state.of(HOLDS).held.keys() == {("main", "flights.v2")}


async def test_what_was_read_before_counts_only_once_it_was_looked_again() -> None:
    """Of two times without the partition, the look after the first one ends after the second."""
    log = SlowLog([])
    log.may.set()
    rig = Rig(control_log=log)
    async with rig.leading():
        await until(lambda: ControlRead() in rig.heard)
        log.may.clear()
        for _ in range(2):
            rig.runtime.revoked()
            await asyncio.sleep(0.01)
            rig.runtime.assigned()
            await until(lambda: rig.runtime.vitals.role == "leader")
        rig.heard.clear()
        log.may.set()
        await until(lambda: ControlRead() in rig.heard)
        await until(lambda: rig.intake.is_caught_up)
        assert rig.heard == [ControlRead()]
        assert len(log.reads) == 3, "the first, and both looks"


async def test_a_partition_that_comes_back_after_another_led_ends_this_daemon() -> None:
    rig = Rig()
    async with rig.leading() as running:
        rig.runtime.revoked()
        rig.journal.failures = [Fenced()]
        rig.runtime.assigned()
        with pytest.raises(Fenced):
            await within(running)
    assert len(rig.journal.batches) == 1


async def test_a_leader_whose_partition_went_to_another_daemon_ends_if_it_stays_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its state is of before, and so would be what it tells."""
    monkeypatch.setattr(loop, "IDLE_S", 0.001)
    rig = Rig()
    async with rig.leading() as running:
        rig.runtime.revoked()
        rig.runtime.passed_over()
        rig.clock.ms += 59_000
        await asyncio.sleep(0.02)
        rig.runtime.passed_over()  # after another rebalance
        assert not running.done()
        rig.clock.ms += 1_000
        with pytest.raises(Fenced):
            await within(running)
    assert len(rig.journal.batches) == 1


async def test_a_leader_that_gets_its_partition_back_from_one_that_was_about_to_end_leads_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "IDLE_S", 0.001)
    rig = Rig()
    async with rig.leading():
        rig.runtime.revoked()
        rig.runtime.passed_over()
        rig.clock.ms += 10_000
        await asyncio.sleep(0.02)
        rig.runtime.assigned()
        await until(lambda: rig.runtime.vitals.role == "leader")
        rig.clock.ms += 3_600_000
        rig.runtime.revoked()
        await asyncio.sleep(0.02)
        rig.runtime.assigned()
        await all_done(await rig.deliver(command("replay", offset=0)))


async def test_a_standby_that_is_passed_over_stays_one() -> None:
    rig = Rig()
    rig.runtime.passed_over()
    async with rig.leading():
        assert rig.runtime.vitals.role == "leader"


async def test_a_daemon_that_the_group_took_for_dead_joins_again_when_the_journal_is_still_its_own() -> None:
    rig = Rig()
    async with rig.leading():
        await within(rig.runtime.expelled())
        assert rig.journal.batches[1:] == [JournalBatch(daemon=rig.runtime.state.daemon)]
        rig.runtime.revoked()
        await within(rig.runtime.expelled())
        assert len(rig.journal.batches) == 2, "without the partition there is nothing to lose"


async def test_a_daemon_that_the_group_took_for_dead_does_not_join_again_when_another_leads() -> None:
    rig = Rig()
    async with rig.leading() as running:
        rig.journal.failures = [Fenced()]
        joining = asyncio.create_task(rig.runtime.expelled())
        with pytest.raises(Fenced):
            await within(running)
        assert not joining.done()
        joining.cancel()


async def test_a_daemon_that_does_not_lead_yet_joins_again_at_once() -> None:
    await within(Rig().runtime.expelled())


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


async def test_a_daemon_whose_machine_slept_asks_the_journal_before_it_goes_on() -> None:
    """Its monotonic clock stood still meanwhile, and what is due next asks the clusters again, which journals
    nothing.
    """
    rig = Rig()
    async with rig.leading() as running:
        await all_done(await rig.deliver(command("replay", offset=0)))
        for nth in range(1, 4):
            rig.clock.ms += 4_900
            rig.inbox.emit(Tick())
            await until(lambda nth=nth: rig.heard.count(Tick()) == nth)
        started = list(rig.effects.started)
        rig.journal.failures = [Fenced()]
        rig.clock.ms, rig.clock.jumped = rig.clock.ms + 1_000, True
        rig.inbox.emit(Tick())
        with pytest.raises(Fenced):
            await within(running)
        assert rig.journal.tried[-1] == JournalBatch(daemon=rig.runtime.state.daemon)
    assert rig.effects.started == started


async def test_a_jump_of_the_clock_costs_one_write_for_as_long_as_it_stands() -> None:
    rig = Rig()
    async with rig.leading():
        rig.clock.jumped = True
        for _ in range(3):
            rig.inbox.emit(Tick())
            await until(lambda: not len(rig.inbox))
        await all_done(await rig.deliver(command("replay", offset=0)))
        assert rig.journal.batches[1:-1] == [JournalBatch(daemon=rig.journal.batches[0].daemon)]


async def test_a_journal_that_does_not_open_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "BACKOFF_FIRST_S", 0.001)
    rig = Rig()
    rig.journal.open_failures = [ClusterProblem("no coordinator"), ClusterProblem("no coordinator")]
    async with rig.leading():
        assert rig.journal.opened == 3
        assert rig.runtime.vitals.is_loaded


async def test_a_daemon_that_lost_the_partition_stops_opening_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try would shut out whoever leads now."""
    monkeypatch.setattr(loop, "BACKOFF_FIRST_S", 0.001)
    rig = Rig()
    rig.journal.open_failures = [ClusterProblem("no coordinator")] * 1_000_000
    rig.runtime.assigned()
    running = asyncio.create_task(rig.runtime.run())
    await until(lambda: rig.journal.opened >= 2)
    rig.runtime.revoked()
    await until(lambda: rig.runtime.vitals.journal_failing_s is None)
    opened = rig.journal.opened
    await asyncio.sleep(0.05)
    assert (rig.journal.opened, rig.runtime.vitals.role, rig.runtime.vitals.is_loaded) == (opened, "standby", False)
    rig.journal.open_failures = []
    rig.runtime.assigned()
    await until(lambda: rig.runtime.vitals.role == "leader")
    rig.runtime.stop()
    await within(running)


async def test_a_daemon_that_lost_the_partition_while_it_opened_the_journal_begins_no_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig()
    open_journal, may_open = rig.journal.open, asyncio.Event()

    async def slowly() -> Folded:
        folded = await open_journal()
        await may_open.wait()
        return folded

    monkeypatch.setattr(rig.journal, "open", slowly)
    rig.runtime.assigned()
    running = asyncio.create_task(rig.runtime.run())
    await until(lambda: rig.journal.opened)
    rig.runtime.revoked()
    may_open.set()
    await until(lambda: rig.runtime.vitals.role == "standby")
    await asyncio.sleep(0.01)
    assert (rig.journal.batches, rig.runtime.vitals.is_loaded, rig.lanes.started) == ([], False, 0)
    rig.runtime.stop()
    await within(running)


async def test_a_standby_does_nothing() -> None:
    rig = Rig()
    running = asyncio.create_task(rig.runtime.run())
    rig.inbox.emit(command("replay", offset=0))
    await asyncio.sleep(0.02)
    assert (rig.journal.opened, rig.runtime.vitals.role, len(rig.inbox)) == (0, "standby", 1)
    assert rig.lanes.started == 0, "what a standby heard would look like life later"
    rig.runtime.stop()
    await within(running)
