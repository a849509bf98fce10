"""Folding the journal pauses the garbage collector, which runs again afterwards in every case, and keeps little."""

import gc
import json
import sys
import time
import weakref
from typing import Any

import pytest

from recoveryd.adapters.kafka import journal_fold
from recoveryd.adapters.kafka.journal_fold import TopicReader, fold_seen, fold_status, kept_for_good, let_go
from recoveryd.capabilities import make_codec
from recoveryd.errors import RecoverydError
from recoveryd.kernel.commands import idempotency_key
from recoveryd.kernel.events import CommandReceived
from recoveryd.ports import ControlRecord
from recoveryd.recovery.commands import Pause
from recoveryd.runtime.seen import SeenLedger
from recoveryd.wire.cloudevents import MAX_ATTRIBUTE_CHARS
from tests.builders.core import STATUS
from tools.examples import COMMANDS


def test_what_is_folded_is_out_of_the_collectors_sight() -> None:
    let_go()  # of what a run of tests keeps itself
    before = gc.get_freeze_count()
    gc.enable()
    try:
        with kept_for_good():
            assert not gc.isenabled()
            kept = [[number] for number in range(1_000)]
        assert gc.isenabled()
        assert gc.get_freeze_count() >= before + len(kept)
    finally:
        gc.disable()  # as it is in every test: see conftest
        let_go()


class Held:
    """Held by nothing but itself."""

    def __init__(self) -> None:
        self.me = self


def test_what_was_garbage_before_is_not_kept() -> None:
    seen = weakref.ref(Held())
    try:
        with kept_for_good():
            assert seen() is None
            seen = weakref.ref(Held())
        with kept_for_good():
            assert seen() is None, "also of what was kept the time before"
    finally:
        let_go()


def test_what_others_froze_is_not_walked_again() -> None:
    let_go()
    frozen = Held()
    seen = weakref.ref(frozen)
    gc.freeze()  # as the daemon does with all that it imported
    del frozen
    try:
        with kept_for_good():
            assert seen() is not None
    finally:
        let_go()
        gc.collect()
    assert seen() is None


def test_what_was_kept_can_be_collected_once_it_was_let_go() -> None:
    with kept_for_good():
        held = Held()
    seen = weakref.ref(held)
    del held
    gc.collect()
    assert seen() is not None
    let_go()
    gc.collect()
    assert seen() is None


def test_the_collector_works_on_after_a_broken_record() -> None:
    gc.enable()
    try:
        with pytest.raises(RecoverydError), kept_for_good():
            fold_status(STATUS, [ControlRecord(0, 0, 0, b"r1", b"not JSON", ())])
        assert gc.isenabled()
    finally:
        gc.disable()
        let_go()


def test_what_is_remembered_of_commands_is_small_however_long_their_ids_are() -> None:
    codec, most = make_codec(), MAX_ATTRIBUTE_CHARS

    def sent(number: int, source: str = "//" + "ü" * (most - 2)) -> bytes:
        return json.dumps({**COMMANDS["pause"], "source": source, "id": f"{number:0{most}}"}).encode()

    def heard(offset: int, value: bytes) -> CommandReceived:
        event = codec.decode_event(0, offset, 0, None, value, ())
        assert isinstance(event, CommandReceived)
        assert isinstance(event.command, Pause)
        return event

    folded = fold_seen(codec, [ControlRecord(0, i, 0, None, sent(i)) for i in range(1_000)])
    ledger = SeenLedger(folded)
    assert len(folded) == len(ledger) == 1_000
    assert max(map(sys.getsizeof, folded)) < 100
    previous = ledger.annotate(heard(1_000, sent(7))).previous
    assert previous == folded[idempotency_key("//" + "ü" * (most - 2), f"{7:0{most}}")]
    assert previous.offset == 7
    assert ledger.annotate(heard(1_001, sent(7, "//others"))).previous is None
    assert ledger.annotate(heard(1_002, sent(7, "//others"))).previous.offset == 1_001
    assert max(map(sys.getsizeof, ledger._seen)) < 100


def test_a_source_and_an_id_that_are_cut_elsewhere_are_another_key() -> None:
    pairs = [("ab", "c"), ("a", "bc"), ("1:ab", "c"), ("1", ":abc"), ("\ud800", "c")]
    assert len({idempotency_key(*pair) for pair in pairs}) == len(pairs)


def test_the_time_that_one_topic_took_to_read_is_not_taken_from_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    patience: list[float] = []

    def read_to(_consumer: Any, _topic: str, _partition: int, _start: int, _stop: int, patience_s: float) -> list[Any]:
        patience.append(patience_s)
        now_s[0] += 500.0
        return []

    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(journal_fold, "log_range", lambda *_: (0, 1))
    monkeypatch.setattr(journal_fold, "read_to", read_to)
    reader: Any = TopicReader(None, None, 120.0)
    assert [list(reader.records(topic)) for topic in ("status", "control", "directives")] == [[], [], []]
    assert patience == [120.0] * 3
