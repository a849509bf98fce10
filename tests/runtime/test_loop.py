"""The writer: decide, journal, adopt, act. In this order, whatever fails."""

import asyncio
from dataclasses import replace

import pytest

from recoveryd.errors import ClusterProblem, Fenced
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import ControlUnread, SignalReceived, Tick
from recoveryd.kernel.states import State
from recoveryd.live.events import OffsetsSampled
from recoveryd.live.signals import LagSignal, SignalledPartition
from recoveryd.ports import JournalBatch
from recoveryd.recovery.effects import GatherFacts
from recoveryd.recovery.slice import RECOVERY
from recoveryd.runtime import loop
from tests.builders.core import NOW_MS, command
from tests.runtime.fakes import (
    until,
    within,
)
from tests.runtime.rig import SIGNAL, Rig, all_done


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
        assert rig.runtime.state.of(RECOVERY).recoveries == {}
        assert not done.done()
        assert rig.effects.started == []
        rig.journal.gate.set()
        await all_done([done])
        await until(lambda: rig.effects.started)
        assert rig.runtime.state.of(RECOVERY).recoveries["r1"].state is State.PLANNING
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
    assert rig.runtime.state.of(RECOVERY).recoveries == {}, "stopping while it waits adopts nothing"
    assert not done.done()


async def test_a_write_without_an_answer_counts_as_failing_from_its_beginning_before_its_first_try_has_an_end() -> None:
    rig = Rig()

    def failing_s() -> float | None:
        return rig.runtime.vitals.journal_failing_for_s(rig.clock.monotonic_s())

    async with rig.leading():
        rig.journal.gate.clear()
        [done] = await rig.deliver(command("replay", offset=0))
        await until(lambda: len(rig.journal.tried) == 2)
        rig.pass_s(5)
        assert failing_s() is None, "a slow answer is one"
        rig.pass_s(3)
        assert (failing_s(), rig.runtime.vitals.try_for_s(rig.clock.monotonic_s())) == (8.0, 8.0)
        rig.journal.gate.set()
        await all_done([done])
        assert (failing_s(), rig.runtime.vitals.try_began_s) == (None, None)


@pytest.mark.parametrize("is_taken_away", [False, True])
@pytest.mark.parametrize(("for_s", "epoch"), [(14, 1), (25, 2)])
async def test_a_leader_that_stood_still_for_long_takes_nothing_for_late(
    for_s: int, epoch: int, *, is_taken_away: bool
) -> None:
    rig = Rig()
    async with rig.leading():
        await all_done(await rig.deliver(command("replay", offset=0)))
        asked_ms = rig.clock.ms
        if is_taken_away:
            rig.runtime.revoked()
            await asyncio.sleep(0.01)
        rig.clock.ms += for_s * 1_000
        rig.inbox.emit(Tick())  # of the daemon itself, before it hears what others said meanwhile
        if is_taken_away:
            rig.runtime.assigned()
        await until(lambda: rig.runtime.state.daemon.epoch == epoch and rig.runtime.vitals.role == "leader")
        await all_done(await rig.deliver(command("throttle", offset=1, max_bytes_per_s=1e6)))
        waits_since_ms = rig.runtime.state.of(RECOVERY).observed["r1"].facts_since_ms
        whys = [n.data["why"] for b in rig.batches_after_leadership() for n in b.notices if n.type == "leader_changed"]
    is_anew = epoch == 2
    assert waits_since_ms == asked_ms + (for_s * 1_000 if is_anew else 0)
    assert whys == (["it could decide nothing for 25 s"] if is_anew else [])
    ticks = [event for event in rig.heard if isinstance(event, Tick)]
    assert bool(ticks) != is_anew, "the time that passed is of before"


@pytest.mark.parametrize("times", [{"deaf_s": 0.75}, {"freeze_s": 0.75}])
async def test_a_leader_that_had_nothing_to_do_for_a_turn_was_not_frozen_whatever_the_config_says(
    times: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `attempts.heartbeat_timeout` or `faust.session_timeout` of a second."""
    rig = Rig(**times)
    monkeypatch.setattr(loop, "IDLE_S", 0.001)
    async with rig.leading():
        for offset in range(3):
            rig.clock.ms += 1_000
            await all_done(await rig.deliver(SignalReceived(offset, NOW_MS, SIGNAL)))
        assert (rig.runtime.state.daemon.epoch, rig.intake.is_caught_up) == (1, True)
        assert ControlUnread() not in rig.heard
        rig.clock.ms += 6_000
        await until(lambda: ControlUnread() in rig.heard or rig.runtime.state.daemon.epoch == 2)


async def test_a_standby_that_waited_for_long_begins_once() -> None:
    rig = Rig()
    rig.clock.ms += 3_600_000
    async with rig.leading():
        await all_done(await rig.deliver(command("replay", offset=0)))
        assert rig.runtime.state.daemon.epoch == 1


@pytest.mark.parametrize(("took_s", "epoch"), [(14, 1), (25, 2)])
async def test_a_leader_that_could_not_write_for_long_begins_anew_as_after_a_restart(took_s: int, epoch: int) -> None:
    rig = Rig()
    async with rig.leading():
        rig.journal.gate.clear()
        [done] = await rig.deliver(command("replay", offset=0))
        await until(lambda: len(rig.journal.tried) == 2)
        rig.inbox.emit(OffsetsSampled(()))
        asked_ms = rig.clock.ms
        rig.pass_s(took_s)
        rig.journal.gate.set()
        await all_done([done])
        await until(lambda: rig.runtime.state.daemon.epoch == epoch and rig.runtime.vitals.role == "leader")
        await all_done(await rig.deliver(command("throttle", offset=1, max_bytes_per_s=1e6)))
        waits_since_ms = rig.runtime.state.of(RECOVERY).observed["r1"].facts_since_ms
        whys = [n.data["why"] for b in rig.batches_after_leadership() for n in b.notices if n.type == "leader_changed"]
    is_anew = epoch == 2
    assert waits_since_ms == asked_ms + (took_s * 1_000 if is_anew else 0)
    assert whys == (["the journal could not be written for 25 s"] if is_anew else [])
    assert any(isinstance(event, OffsetsSampled) for event in rig.heard) != is_anew, "what waited meanwhile is dropped"
    assert rig.runtime.state.daemon.epoch == epoch


@pytest.mark.parametrize("is_frozen", [False, True])
async def test_where_every_write_takes_long_commands_are_answered_all_the_same(
    monkeypatch: pytest.MonkeyPatch, *, is_frozen: bool
) -> None:
    rig = Rig()
    async with rig.leading():
        commit = rig.journal.commit

        async def slowly(batch: JournalBatch) -> None:
            if is_frozen:
                rig.clock.ms += 25_000
            else:
                rig.pass_s(25)
            await commit(batch)

        monkeypatch.setattr(rig.journal, "commit", slowly)
        for offset, verb in enumerate(("replay", "throttle", "throttle")):
            rates = {} if verb == "replay" else {"max_bytes_per_s": 1e6 * offset}
            await all_done(await rig.deliver(command(verb, offset=offset, **rates)))
        await until(lambda: any(isinstance(effect, GatherFacts) for effect in rig.effects.started))


async def test_a_fenced_daemon_leaves_at_once_without_acting() -> None:
    rig = Rig()
    async with rig.leading() as running:
        rig.journal.failures = [Fenced()]
        [done] = await rig.deliver(command("replay", offset=0))
        with pytest.raises(Fenced):
            await within(running)
    assert rig.effects.started == []
    assert rig.runtime.state.of(RECOVERY).recoveries == {}
    assert not done.done()


async def test_a_final_error_of_the_journal_ends_the_loop() -> None:
    rig = Rig()
    async with rig.leading() as running:
        rig.journal.failures = [ClusterProblem("no", code=Code.NOT_AUTHORISED, retriable=False)]
        await rig.deliver(command("replay", offset=0))
        with pytest.raises(ClusterProblem):
            await within(running)
    assert rig.effects.started == []


async def test_a_lag_signal_about_a_group_that_nobody_configured_is_counted_and_nothing_else() -> None:
    rig = Rig()
    rows = (SignalledPartition(0, 2001, 2001, NOW_MS),)  # one partition of two, read to its end
    signal = LagSignal("main", "foreign", "flights", rows)
    async with rig.leading():
        await all_done(await rig.deliver(SignalReceived(0, NOW_MS, signal)))
        shown = rig.metrics.render().decode()
    assert 'recoveryd_signals_rejected_total{reason="unknown_name"} 1.0' in shown
    assert "foreign" not in shown


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
        assert list(rig.runtime.state.of(RECOVERY).recoveries) == ["r0"]
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
