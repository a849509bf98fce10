"""What goes to the events and dead-letter topics."""

import ast
import json
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

import recoveryd
from recoveryd.adapters.kafka.journal_stamps import COPY_HEADER, LANDED_HEADER, LEADER_HEADER, STAMP_HEADER
from recoveryd.kernel.decision import Answer, Notice
from recoveryd.kernel.events import ControlUnreadable
from recoveryd.kernel.states import State
from recoveryd.watches.model import DeliveryState
from recoveryd.wire.event_kinds import EVENT_KINDS, HOLD_ENDS, OTHERS, TRANSITIONS, WATCH_ENDS, WORKFLOWS
from recoveryd.wire.events import WireRecord, encode_answer, encode_dead_letter, encode_notice
from recoveryd.wire.topics import MAX_CONTROL_RECORD_BYTES, MAX_DEAD_LETTER_BYTES
from recoveryd.workflows.model.lifecycle import MOVES as WORKFLOW_MOVES
from tests.wire.records import NOW_MS

HEADERS = (("content-type", b"application/cloudevents+json; charset=utf-8"),)


def opened(record: WireRecord) -> dict[str, object]:
    """The event without its id, which is new for each."""
    assert record.value is not None
    event = json.loads(record.value)
    assert uuid.UUID(event.pop("id")).version == 7
    assert record.headers == HEADERS
    return dict(event)


def test_an_answer_is_a_cloudevent_that_names_its_cause() -> None:
    answer = Answer("rejected", "replay", "c1", "flights-rerun", "RCV-1004", "data.x is not known.", "Use y.", 17)
    record = encode_answer(answer, "default", NOW_MS)
    assert record.key == b"flights-rerun"
    assert opened(record) == {
        "specversion": "1.0",
        "source": "//recoveryd/default",
        "type": "io.recoveryd.event.command_rejected.v1",
        "subject": "flights-rerun",
        "time": "2026-11-21T06:00:00.000Z",
        "datacontenttype": "application/json",
        "causationid": "c1",
        "data": {
            "code": "RCV-1004",
            "message": "data.x is not known.",
            "hint": "Use y.",
            "verb": "replay",
            "control_offset": 17,
        },
    }


def test_a_notice_without_subject_and_cause_has_neither_and_no_key() -> None:
    record = encode_notice(Notice("leader_changed", "", {"epoch": 2}), "default", NOW_MS)
    assert record.key is None
    assert opened(record) == {
        "specversion": "1.0",
        "source": "//recoveryd/default",
        "type": "io.recoveryd.event.leader_changed.v1",
        "time": "2026-11-21T06:00:00.000Z",
        "datacontenttype": "application/json",
        "data": {"epoch": 2},
    }


def test_data_of_any_plain_kind_can_be_told() -> None:
    data = {"state": State.PAUSED, "lanes": ((0, 1), (2,)), "odd": {3, 1}, "rate": float("nan"), 5: "five"}
    event = opened(encode_notice(Notice("x", "r", data), "default", NOW_MS))  # type: ignore[arg-type]
    assert event["data"] == {"state": "paused", "lanes": [[0, 1], [2]], "odd": [1, 3], "rate": None, "5": "five"}


def test_two_events_of_one_moment_have_different_ids_in_order() -> None:
    records = [encode_notice(Notice("x", "r", {}), "default", NOW_MS) for _ in range(50)]
    ids = [json.loads(record.value or b"")["id"] for record in records]
    assert len(set(ids)) == 50
    assert ids == sorted(ids)


LETTER = ControlUnreadable(0, 17, "RCV-1001", "The record is a list, not one JSON object.", b"k", b"[]", (("h", b"1"),))


def test_a_dead_letter_is_the_record_itself_with_the_error_in_headers() -> None:
    assert encode_dead_letter(LETTER, NOW_MS) == WireRecord(
        b"k",
        b"[]",
        (
            ("h", b"1"),
            ("recoveryd-error-code", b"RCV-1001"),
            ("recoveryd-error-message", b"The record is a list, not one JSON object."),
            ("recoveryd-original-partition", b"0"),
            ("recoveryd-original-offset", b"17"),
            ("recoveryd-time", b"2026-11-21T06:00:00.000Z"),
        ),
    )


def test_headers_that_look_like_ours_have_another_name_in_a_dead_letter() -> None:
    ours = [STAMP_HEADER, COPY_HEADER, LANDED_HEADER, LEADER_HEADER, "recoveryd-original-offset"]
    headers = (*((name, b"1") for name in ours), ("Recoveryd-landed", None), ("recoveryd", b""))
    kept = encode_dead_letter(replace(LETTER, headers=headers), NOW_MS).headers
    assert kept[:7] == (
        ("recoveryd-original-header-transaction", b"1"),
        ("recoveryd-original-header-copy-of", b"1"),
        ("recoveryd-original-header-landed", b"1"),
        ("recoveryd-original-header-leader", b"1"),
        ("recoveryd-original-header-original-offset", b"1"),
        *headers[-2:],
    )
    assert kept[7:] == encode_dead_letter(LETTER, NOW_MS).headers[1:]


@pytest.mark.parametrize("value", [None, b""])
def test_a_tombstone_stays_one_and_an_empty_value_too(value: bytes | None) -> None:
    letter = ControlUnreadable(0, 17, "RCV-1001", "m", None, value, ())
    record = encode_dead_letter(letter, NOW_MS)
    assert (record.key, record.value) == (None, value)


def test_a_dead_letter_always_fits_its_topic() -> None:
    headers = (("h", b"x" * 5_000_000), ("n" * 5_000_000, None), ("n" * 5_000, b"x" * 5_000)) * 30
    huge = ControlUnreadable(0, 17, "RCV-1014", "m", b"k" * 9_000_000, b"x" * 10_000_000, headers)
    record = encode_dead_letter(huge, NOW_MS)
    assert record.value == b"x" * MAX_CONTROL_RECORD_BYTES
    assert record.key == b"k" * 65_536
    assert dict(record.headers)["recoveryd-original-bytes"] == b"10000000"
    assert dict(record.headers)["recoveryd-original-key-bytes"] == b"9000000"
    assert sum(len(name) + len(value or b"") for name, value in record.headers) < 1000


@pytest.mark.parametrize("name", ["ä" * 2_000, "recoveryd-" + "ä" * 1_987])
def test_a_dead_letter_with_as_many_large_headers_as_are_kept_fits_its_topic(name: str) -> None:
    headers = ((name, b"x" * 4_192),) * 200
    full = ControlUnreadable(0, 17, "RCV-1014", "m", b"k" * 9_000_000, b"x" * 10_000_000, headers)
    record = encode_dead_letter(full, NOW_MS)
    assert sum("ä" in name for name, _ in record.headers) == 100
    size = len(record.key or b"") + len(record.value or b"")
    size += sum(len(name.encode()) + len(value or b"") for name, value in record.headers)
    assert size < MAX_DEAD_LETTER_BYTES


OF_WORKFLOWS = {
    State.REQUESTED,
    State.WAITING,
    State.CLOSING,
    State.ROLLED_BACK,
}  # requested lasts no longer than a decision


def test_the_documented_kinds_are_those_the_core_tells() -> None:
    """By the core's source: each `notice("kind", ...)` is in the list, and the list has no other kinds."""
    told = set()
    for path in Path(recoveryd.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "notice" and node.args:
                first = node.args[0]
                told |= {first.value} if isinstance(first, ast.Constant) else set()
    moves = {f"workflow_{state.value}" for state in WORKFLOW_MOVES if state is not State.PLANNING}
    assert told == set(OTHERS) | (set(WORKFLOWS) - moves)
    assert moves <= set(WORKFLOWS)
    assert set(TRANSITIONS) == {f"recovery_{state.value}" for state in State if state not in OF_WORKFLOWS}
    ends = {f"watch_{state}" for state in ("completed", "stopped", "failed")}
    assert set(WATCH_ENDS) == ends | {
        f"webhook_{state}" for state in DeliveryState if state is not DeliveryState.PENDING
    }
    assert set(HOLD_ENDS) == {f"hold_{state}" for state in ("completed", "stopped", "expired")}
    assert len(EVENT_KINDS) == 4 + sum(map(len, (TRANSITIONS, OTHERS, WATCH_ENDS, HOLD_ENDS, WORKFLOWS)))
