"""Control records reach the inbox once each, in order, whatever the group delivers."""

import asyncio

import pytest

from recoveryd.errors import ClusterProblem, RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import ControlRead, ControlUnreadable, Event, SignalRefused
from recoveryd.ports import ControlRecord
from recoveryd.runtime import intake as intake_module
from recoveryd.runtime.inbox import Inbox
from recoveryd.runtime.intake import ControlIntake
from tests.runtime.fakes import ListLog, SlowLog, record, until, within


def decode(taken: ControlRecord) -> Event:
    return SignalRefused(taken.offset, "", "", "")


def make(log: ListLog | None = None, inbox: Inbox | None = None) -> tuple[ControlIntake, Inbox, ListLog]:
    log = log or ListLog()
    inbox = inbox if inbox is not None else Inbox()
    return ControlIntake(inbox, log, decode), inbox, log


async def offsets(inbox: Inbox) -> list[int]:
    return [i.record.offset for i in await inbox.take(1_000, 0.01) if i.record is not None]


async def test_nothing_goes_in_before_this_daemon_leads() -> None:
    intake, inbox, _ = make()
    waiting = asyncio.create_task(intake.accept(record(0)))
    await asyncio.sleep(0)
    assert await offsets(inbox) == []
    intake.open_at(0)
    await within(waiting)
    assert await offsets(inbox) == [0]


async def test_taking_over_reads_from_the_journals_position_to_the_end() -> None:
    intake, inbox, log = make(ListLog([record(offset) for offset in (3, 4, 5, 6, 8)]))
    intake.open_at(4)
    await within(intake.catch_up())
    assert await offsets(inbox) == [4, 5, 6, 8]
    for offset in (8, 9):
        await within(intake.accept(record(offset)))
    assert await offsets(inbox) == [9]
    assert log.reads == [(4, None)]


async def test_that_the_topic_was_read_is_told_once_and_behind_what_lay_on_it() -> None:
    intake, inbox, _ = make(ListLog([record(offset) for offset in (3, 4)]))
    assert not intake.is_caught_up
    intake.open_at(3)
    await within(intake.catch_up())
    await within(intake.accept(record(5)))
    taken = await inbox.take(10, 0.01)
    assert [item.event for item in taken if item.record is None] == [ControlRead()]
    assert [None if item.record is None else item.record.offset for item in taken] == [3, 4, None, 5]
    assert not intake.is_caught_up
    for item in taken:
        if item.done is not None:
            item.done.set_result(None)
    await until(lambda: intake.is_caught_up)


async def test_records_that_the_group_left_out_are_read_directly() -> None:
    intake, inbox, log = make()
    intake.open_at(0)
    await within(intake.catch_up())
    await within(intake.accept(record(0)))
    log.records = [record(offset) for offset in range(6)]
    await within(intake.accept(record(5)))
    assert await offsets(inbox) == [0, 1, 2, 3, 4, 5]
    assert log.reads == [(0, None), (1, 5)]


async def test_a_gap_that_holds_nothing_is_passed_over_once() -> None:
    intake, inbox, log = make()
    intake.open_at(0)
    await within(intake.catch_up())
    await within(intake.accept(record(7)))
    await within(intake.accept(record(8)))
    assert await offsets(inbox) == [7, 8]
    assert log.reads == [(0, None), (0, 7)]


async def test_a_record_that_comes_again_while_it_waits_shares_the_first_ones_end() -> None:
    intake, inbox, _ = make()
    intake.open_at(0)
    first = await within(intake.accept(record(0)))
    again = await within(intake.accept(record(0)))
    _, item = await inbox.take(10, 0.01)
    assert not again.done()
    assert item.done is not None
    item.done.set_result(None)
    await within(asyncio.gather(first, again))
    handled = await within(intake.accept(record(0)))
    assert handled.done()
    assert await offsets(inbox) == []


async def test_a_control_topic_that_cannot_be_read_is_tried_again_where_it_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake_module, "RETRY_S", 0.001)
    log = ListLog([record(offset) for offset in range(5)])
    log.failures = [ClusterProblem("gone"), ClusterProblem("still gone")]
    intake, inbox, _ = make(log)
    intake.open_at(0)
    await within(intake.catch_up())
    assert await offsets(inbox) == [0, 1, 2, 3, 4]
    assert log.reads == [(0, None), (2, None), (4, None)]


async def leading(log: ListLog) -> tuple[ControlIntake, Inbox, asyncio.Task[None]]:
    """An intake that runs and has read what lay on the topic."""
    intake, inbox, _ = make(log)
    intake.open_at(0)
    running = asyncio.create_task(intake.run())
    await until(lambda: intake.has_read)
    await inbox.take(1_000, 0.01)
    return intake, inbox, running


async def test_as_long_as_it_looks_again_a_command_may_be_unread() -> None:
    log = SlowLog([])
    log.may.set()
    intake, _, running = await leading(log)
    log.may.clear()
    assert intake.is_caught_up
    intake.look_again()
    assert (intake.has_read, intake.is_caught_up) == (True, False)
    await asyncio.sleep(0.01)
    intake.look_again()
    assert (intake.has_read, intake.is_caught_up) == (True, False)
    log.may.set()
    await until(lambda: intake.is_caught_up)
    assert log.reads == [(0, None)] * 3
    running.cancel()


async def test_a_look_that_fails_holds_no_delivery_up_and_changes_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "RETRY_S", 0.001)
    log = SlowLog([])
    log.may.set()
    intake, inbox, running = await leading(log)
    log.may.clear()
    log.records = [record(offset) for offset in (0, 1, 2, 3, 5)]
    log.failures = [ClusterProblem("gone")]
    intake.look_again()
    await asyncio.sleep(0.01)
    for offset in (0, 1):
        await within(intake.accept(record(offset)))
    assert await offsets(inbox) == [0, 1]
    log.may.set()
    await until(lambda: len(log.reads) == 3)
    await within(intake.accept(record(5)))
    assert await offsets(inbox) == [2, 3, 5]
    running.cancel()


async def test_records_that_a_silent_group_left_are_taken_and_counted_until_it_delivers() -> None:
    log = ListLog()
    intake, inbox, running = await leading(log)
    log.records = [record(offset) for offset in (0, 1)]
    intake.look_for_missed(3)
    assert not intake.is_idle
    await until(lambda: intake.is_idle)
    assert (intake.missed, intake.position, await offsets(inbox)) == (2, 3, [0, 1])
    log.records += [record(2)]
    await within(intake.accept(record(2)))
    assert (intake.missed, await offsets(inbox)) == (0, [2]), "it was not on the topic when that was looked at"
    running.cancel()


async def test_what_is_no_record_is_looked_for_once_and_hides_none() -> None:
    intake, inbox, running = await leading(ListLog())
    intake.look_for_missed(7)
    await until(lambda: intake.is_idle)
    assert (intake.missed, intake.position) == (0, 7)
    for offset in (5, 8):
        await within(intake.accept(record(offset)))
    assert await offsets(inbox) == [5, 8]
    running.cancel()


async def test_what_lay_on_the_topic_while_the_partition_was_away_says_nothing_about_the_group() -> None:
    log = ListLog([record(0)])
    intake, inbox, running = await leading(log)
    log.records.append(record(1))
    intake.look_for_missed(2)
    intake.look_again()
    await until(lambda: intake.is_idle)
    assert (intake.missed, await offsets(inbox)) == (0, [1])
    running.cancel()


async def test_a_final_refusal_of_the_cluster_reaches_the_caller() -> None:
    log = ListLog()
    log.failures = [ClusterProblem("no", code=Code.NOT_AUTHORISED, retriable=False)]
    intake, _, _ = make(log)
    intake.open_at(0)
    with pytest.raises(RecoverydError) as raised:
        await within(intake.accept(record(0)))
    assert raised.value.code is Code.NOT_AUTHORISED


async def test_a_codec_that_breaks_makes_the_record_unreadable() -> None:
    def broken(_: ControlRecord) -> Event:
        raise RecursionError("deep")

    inbox = Inbox()
    intake = ControlIntake(inbox, ListLog(), broken)
    intake.open_at(0)
    await within(intake.accept(record(0, b"[[[")))
    read, item = await inbox.take(10, 0.01)
    assert read.event == ControlRead()
    assert item.event == ControlUnreadable(
        0, 0, Code.INVARIANT_BROKEN.value, "recoveryd could not read this record: RecursionError", None, b"[[[", ()
    )


async def test_what_cannot_be_unpacked_is_unreadable_and_says_why() -> None:
    damaged = ControlRecord(0, 7, 0, None, None, damage="it is too large")
    intake, inbox, _ = make(ListLog([damaged, record(9)]))
    intake.open_at(7)
    await within(intake.catch_up())
    item, after, _ = await inbox.take(10, 0.01)
    message = "the batch that begins with this record cannot be read: it is too large"
    assert item.event == ControlUnreadable(0, 7, Code.NOT_A_CLOUDEVENT.value, message, None, None, ())
    assert after.record == record(9)


async def test_a_full_inbox_holds_the_delivery_back() -> None:
    intake, inbox, _ = make(inbox=Inbox(capacity=2))
    intake.open_at(0)
    accepting = [asyncio.create_task(intake.accept(record(offset))) for offset in range(5)]
    await until(lambda: len(inbox) == 3)  # with the event that the topic was read
    await asyncio.sleep(0)
    assert [task.done() for task in accepting] == [True, True, False, False, False]
    taken = []
    while len(taken) < 5:
        taken += await offsets(inbox)
    assert taken == [0, 1, 2, 3, 4]
