"""A round folds decisions in order and merges their records for the journal."""

from dataclasses import replace

import pytest

from recoveryd.errors import RecoverydError
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import RefusedCommand, idempotency_key
from recoveryd.kernel.decision import Decision
from recoveryd.kernel.events import (
    CommandReceived,
    ControlCutBack,
    ControlUnreadable,
    Event,
    Seen,
    SignalReceived,
    Tick,
)
from recoveryd.kernel.state import CoreState, DaemonRecord
from recoveryd.live.signals import HealthSignal
from recoveryd.ports import JournalBatch
from recoveryd.recovery.effects import GatherFacts
from recoveryd.recovery.params import Params
from recoveryd.recovery.slice import RECOVERY
from recoveryd.runtime.inbox import Inbox, Item
from recoveryd.runtime.rounds import Round, Rounds, merge
from recoveryd.runtime.seen import SeenLedger
from tests.builders.core import NOW_MS, command, noun_state
from tests.builders.deciding import make_decider
from tests.runtime.fakes import record

SIGNAL = HealthSignal("main", "produce_latency_p99", 0.02, "s", "ok", NOW_MS)


def item(event: Event, offset: int | None = None) -> Item:
    return Item(event, record(offset) if offset is not None else None)


def take(items: list[Item], state: CoreState | None = None, *, covered: int = -1, must_cover: bool = False) -> Round:
    rounds = Rounds(make_decider(Params()).decide, lambda: 0.0)
    return rounds.take(state or CoreState(), items, SeenLedger(), covered, NOW_MS, must_cover=must_cover)


def test_commands_that_wait_together_become_one_batch() -> None:
    taken = take([item(command("replay", f"r{i}", offset=i), i) for i in range(3)])
    assert taken.batch is not None
    assert [r.id for r in taken.batch.changed] == ["r0", "r1", "r2"]
    assert taken.batch.daemon == replace(taken.state.daemon, applied_control_offset=2)
    assert [e.recovery for e in taken.effects if isinstance(e, GatherFacts)] == ["r0", "r1", "r2"]


def test_the_last_status_of_a_recovery_wins_and_every_answer_stays() -> None:
    taken = take([item(command("replay", offset=0), 0), item(command("stop", offset=1), 1)])
    assert taken.batch is not None
    assert [(r.id, noun_state(r).value) for r in taken.batch.changed] == [("r1", "stopped")]
    assert {(a.command_id, a.kind) for a in taken.batch.answers} == {("stop-r1", "accepted"), ("replay-r1", "accepted")}


def test_the_same_command_twice_in_one_round_is_a_duplicate() -> None:
    once = command("replay", offset=4)
    taken = take([item(once, 4), item(replace(once, offset=5), 5)], covered=3)
    assert taken.batch is not None
    assert [(a.kind, a.control_offset) for a in taken.batch.answers] == [("duplicate", 5)]
    assert len(taken.batch.changed) == 1


def test_records_at_or_below_the_covered_offset_are_passed_over() -> None:
    taken = take([item(command("replay", "old", offset=6), 6), item(command("replay", "new", offset=7), 7)], covered=6)
    assert list(taken.state.of(RECOVERY).recoveries) == ["new"]
    assert taken.covered == 7


def test_a_signal_costs_no_transaction_but_moves_the_covered_offset() -> None:
    taken = take([item(SignalReceived(9, NOW_MS, SIGNAL), 9)], covered=8)
    assert taken.batch is None
    assert taken.covered == 9


def test_covered_signals_are_journaled_with_the_next_batch_or_when_they_must() -> None:
    signal = item(SignalReceived(9, NOW_MS, SIGNAL), 9)
    mixed = take([item(command("replay", offset=8), 8), signal], covered=7)
    assert mixed.batch is not None
    assert mixed.batch.daemon is not None
    assert mixed.batch.daemon.applied_control_offset == mixed.state.daemon.applied_control_offset == 9

    forced = take([signal], covered=8, must_cover=True)
    assert forced.batch == JournalBatch(daemon=DaemonRecord(applied_control_offset=9, updated_ms=NOW_MS))


def test_a_topic_that_was_cut_back_is_covered_up_to_its_new_end_only() -> None:
    taken = take([item(ControlCutBack(5, 10)), item(command("replay", "r2", offset=5), 5)], covered=9)
    assert (taken.covered, list(taken.state.of(RECOVERY).recoveries)) == (5, ["r2"])
    alone = take([item(ControlCutBack(5, 10))], CoreState(DaemonRecord(9, 1, "c")), covered=9)
    assert alone.batch is not None
    assert alone.batch.daemon == DaemonRecord(4, 1, "c", NOW_MS)


def test_nothing_to_journal_is_no_batch() -> None:
    assert merge([Decision(CoreState()), Decision(CoreState(), effects=(GatherFacts("r1", None),))]) is None  # type: ignore[arg-type]
    assert take([item(Tick())]).batch is None


async def test_a_round_of_large_records_that_cannot_be_read_is_a_small_transaction() -> None:
    inbox, value = Inbox(), b"x" * (2 * 1024 * 1024)
    for offset in range(30):
        large = replace(record(offset), value=value)
        await inbox.put_control(large, ControlUnreadable(0, offset, "RCV-1014", "too large", None, value, ()))
    found: list[int] = []
    while len(found) < 30:
        batch = take(await inbox.take(512, 0.01), covered=len(found) - 1).batch
        assert batch is not None
        assert sum(len(letter.value or b"") for letter in batch.dead_letters) <= 16 * 1024 * 1024
        found += [letter.offset for letter in batch.dead_letters]
    assert found == list(range(30))


def _breaks_on(kind: type[Event], *more: type[Event]) -> Rounds:
    real = make_decider(Params()).decide

    def decide(state: CoreState, event: Event, now_ms: int) -> Decision:
        if isinstance(event, (kind, *more)):
            raise ZeroDivisionError("a rule with a bug")
        return real(state, event, now_ms)

    return Rounds(decide, lambda: 0.0)


def test_a_control_record_that_breaks_a_rule_is_put_aside_with_its_bytes() -> None:
    bad = Item(command("replay", offset=3), replace(record(3), key=b"k", value=b"v", headers=(("h", None),)))
    taken = _breaks_on(CommandReceived).take(CoreState(), [bad], SeenLedger(), 2, NOW_MS)
    assert taken.batch is not None
    assert taken.batch.dead_letters == (
        ControlUnreadable(
            0,
            3,
            Code.INVARIANT_BROKEN.value,
            "recoveryd could not decide on this record: ZeroDivisionError",
            b"k",
            b"v",
            (("h", None),),
        ),
    )
    assert [n.type for n in taken.batch.notices] == ["control_unreadable"]
    assert taken.state.daemon.applied_control_offset == 3
    assert isinstance(taken.steps[0].error, ZeroDivisionError)


def test_another_event_that_breaks_a_rule_leaves_state_and_the_rest_of_the_round_alone() -> None:
    items = [item(Tick()), item(command("replay", offset=0), 0)]
    taken = _breaks_on(Tick).take(CoreState(), items, SeenLedger(), -1, NOW_MS)
    assert list(taken.state.of(RECOVERY).recoveries) == ["r1"]
    assert [type(s.error) for s in taken.steps] == [ZeroDivisionError, type(None)]


def test_a_record_that_cannot_even_be_put_aside_ends_the_daemon() -> None:
    rounds = _breaks_on(CommandReceived, ControlUnreadable)
    with pytest.raises(RecoverydError) as raised:
        rounds.take(CoreState(), [item(command("replay", offset=0), 0)], SeenLedger(), -1, NOW_MS)
    assert raised.value.code is Code.INVARIANT_BROKEN
    assert not raised.value.retriable


def test_the_ledger_of_seen_commands_is_bounded_and_never_calls_a_record_its_own_duplicate() -> None:
    seen = SeenLedger({idempotency_key("s", "kept"): Seen(10, "h")}, capacity=2)
    first = command("replay", command_id="a", offset=11)
    assert seen.annotate(first).previous is None
    again = replace(first, offset=12)
    assert seen.annotate(again).previous == Seen(11, "h")
    assert seen.annotate(first).previous is None, "the same record, delivered again"
    seen.annotate(command("replay", command_id="b", offset=13))
    assert len(seen) == 2


def test_a_refusal_counts_as_seen_and_one_without_identity_does_not() -> None:
    seen = SeenLedger()
    refused = CommandReceived(1, NOW_MS, RefusedCommand("replay", "c9", "//ops", "r1", "h9", "RCV-1004", "m", "hint"))
    assert seen.annotate(refused).previous is None
    assert seen.annotate(replace(refused, offset=2)).previous == Seen(1, "h9")
    nameless = CommandReceived(3, NOW_MS, RefusedCommand("", "", "", "", "h", "RCV-1002", "m", "hint"))
    seen.annotate(nameless)
    assert seen.annotate(replace(nameless, offset=4)).previous is None
