"""Finding a command in a record: structured and binary mode, attributes, keys, and what can only go to the dead-letter
topic.
"""

import json

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import RefusedCommand, StopCommand
from recoveryd.kernel.events import CommandReceived, ControlUnreadable, SignalReceived, SignalRefused
from recoveryd.recovery.commands import Approve, Pause, Reject, Resume, Throttle
from recoveryd.replay.spec import Replay
from recoveryd.wire.bounded_json import MAX_BYTES
from recoveryd.wire.codec import Unreadable
from tests.builders.core import CODEC
from tests.wire.records import GOOD_DATA, NOW_MS, bent, command_event, decode, decode_bytes, replay_event
from tools import examples

STRUCTURED = (("content-type", b"application/cloudevents+json; charset=UTF-8"),)
BINARY = (
    ("ce_specversion", b"1.0"),
    ("ce_id", b"a"),
    ("ce_source", b"//ops"),
    ("ce_type", b"io.recoveryd.command.replay.v1"),
    ("ce_subject", b"flights-rerun"),
    ("content-type", b"application/json"),
)


@pytest.mark.parametrize(
    ("verb", "data", "kind"),
    [
        ("pause", {"reason": "r"}, Pause),
        ("resume", {"reason": "r"}, Resume),
        ("stop", {"reason": "r"}, StopCommand),
        ("approve", {"reason": "r", "plan_hash": "h"}, Approve),
        ("reject", {"reason": "r", "plan_hash": "h"}, Reject),
        ("throttle", {"reason": "r", "limits": {"max_records_per_s": 5}}, Throttle),
    ],
)
def test_each_verb_becomes_its_command(verb: str, data: dict[str, object], kind: type) -> None:
    command = decode(command_event(verb, data))
    assert isinstance(command, kind)
    assert not isinstance(command, RefusedCommand | Unreadable)
    assert command.verb == verb


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"max_bytes_per_s": 5e6}, {"max_bytes_per_s": 5e6}),
        ({"max_bytes_per_s": None}, {"max_bytes_per_s": None}),
        ({"max_bytes_per_s": 1, "max_records_per_s": 2}, {"max_bytes_per_s": 1.0, "max_records_per_s": 2.0}),
        ({"weight": 2, "tier": None}, {"weight": 2.0, "tier": None}),
        ({"mode": "fixed"}, {"mode": "fixed"}),  # at a rate that may be set already
    ],
)
def test_throttle_names_only_what_it_changes_and_null_is_a_change(limits: object, expected: dict[str, object]) -> None:
    command = decode(command_event("throttle", {"reason": "r", "limits": limits}))
    assert isinstance(command, Throttle)
    assert command.changes == expected


@pytest.mark.parametrize(
    ("verb", "data", "code", "message"),
    [
        ("throttle", {"reason": "r"}, Code.MISSING_FIELD, "data.limits is required."),
        ("throttle", {"reason": "r", "limits": {}}, Code.MISSING_FIELD, "data.limits is empty."),
        ("throttle", {"reason": "r", "limits": None}, Code.INVALID_VALUE, "data.limits must be an object, not null."),
        ("throttle", {"reason": "r", "limits": {"max_bytes": 5}}, Code.UNKNOWN_FIELD, "data.limits.max_bytes is not a field of throttle."),
        ("approve", {"reason": "r"}, Code.MISSING_FIELD, "data.plan_hash is required."),
        ("pause", {"reason": "r", "plan_hash": "x"}, Code.UNKNOWN_FIELD, "data.plan_hash is not a field of pause."),
        ("pause", None, Code.MISSING_FIELD, "data is missing."),
        ("pause", {}, Code.MISSING_FIELD, "data.reason is required."),
    ],
)  # fmt: skip
def test_what_a_verb_does_not_take_is_refused(verb: str, data: object, code: Code, message: str) -> None:
    refusal = decode(command_event(verb, data))
    assert isinstance(refusal, RefusedCommand)
    assert (refusal.verb, refusal.code, refusal.message) == (verb, code.value, message)


@pytest.mark.parametrize(
    "headers", [(), STRUCTURED, (("content-type", b"application/json"),), (("x", None), ("y", b"\xff"))]
)
def test_a_structured_record_needs_no_header(headers: tuple[tuple[str, bytes | None], ...]) -> None:
    assert isinstance(decode(replay_event(), headers=headers), Replay)


@pytest.mark.parametrize("key", [None, b"", b"flights-rerun"])
def test_the_key_is_the_subject_or_none(key: bytes | None) -> None:
    assert isinstance(decode(replay_event(), key), Replay)


def test_another_key_is_refused() -> None:
    refusal = decode(replay_event(), b"flights-other")
    assert isinstance(refusal, RefusedCommand)
    assert (refusal.code, refusal.message) == (
        Code.INVALID_SUBJECT.value,
        'The record\'s key "flights-other" is not the subject "flights-rerun".',
    )


def test_binary_mode_means_the_same_as_structured_mode() -> None:
    binary = CODEC.decode(None, json.dumps(GOOD_DATA).encode(), BINARY, NOW_MS, 0)
    structured = decode(replay_event(id="a", source="//ops", time=None, expirytime=None))
    assert binary == structured
    assert isinstance(binary, Replay)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, Code.MISSING_FIELD),
        (b"{", Code.INVALID_VALUE),
        (b'{"reason":"a","reason":"b"}', Code.INVALID_VALUE),
        (b"[" * 40, Code.TOO_LARGE),
        (b" " * (MAX_BYTES + 1), Code.TOO_LARGE),
    ],
)
def test_binary_data_that_is_broken_is_answered_since_the_envelope_is_not(value: bytes | None, code: Code) -> None:
    refusal = CODEC.decode(None, value, BINARY, NOW_MS, 0)
    assert isinstance(refusal, RefusedCommand)
    assert (refusal.id, refusal.subject, refusal.code) == ("a", "flights-rerun", code.value)


@pytest.mark.parametrize(
    "headers",
    [
        BINARY[1:2] + BINARY[3:],
        (*BINARY, ("CE_ID", b"b")),
        (*BINARY[:1], ("ce_id", b"\xff"), *BINARY[2:]),
        BINARY + (("x", b""),) * 100,
    ],
)
def test_binary_headers_that_name_nobody_are_unreadable(headers: tuple[tuple[str, bytes | None], ...]) -> None:
    assert isinstance(CODEC.decode(None, b"{}", headers, NOW_MS, 0), Unreadable)


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        (None, Code.NOT_A_CLOUDEVENT, "The record has no value."),
        (b"", Code.NOT_A_CLOUDEVENT, "it is not JSON"),
        (b"hello", Code.NOT_A_CLOUDEVENT, "it is not JSON"),
        (b"{", Code.NOT_A_CLOUDEVENT, "it is not JSON"),
        (b"{} {}", Code.NOT_A_CLOUDEVENT, "it is not JSON"),
        (b"\xff\xfe", Code.NOT_A_CLOUDEVENT, "it is not UTF-8 at byte 0"),
        (b"\xef\xbb\xbf{}", Code.NOT_A_CLOUDEVENT, "byte order mark"),
        (b"[]", Code.NOT_A_CLOUDEVENT, "The record is a list, not one JSON object."),
        (b"null", Code.NOT_A_CLOUDEVENT, "The record is null"),
        (b"5", Code.NOT_A_CLOUDEVENT, "The record is a number"),
        (b'"x"', Code.NOT_A_CLOUDEVENT, "The record is a text"),
        (b'{"id":"a","id":"b"}', Code.NOT_A_CLOUDEVENT, "the key 'id' is given twice"),
        (b'{"a":{"b":1,"b":2}}', Code.NOT_A_CLOUDEVENT, "the key 'b' is given twice"),
        (b'{"data":NaN}', Code.NOT_A_CLOUDEVENT, "it holds NaN"),
        (b'{"data":-Infinity}', Code.NOT_A_CLOUDEVENT, "it holds -Infinity"),
        (b'{"id":"\\ud800"}', Code.NOT_A_CLOUDEVENT, "surrogate"),
        (b'{"data":' + b"9" * 5000 + b"}", Code.NOT_A_CLOUDEVENT, "it is not JSON"),
        (b'{"data":' + b"[" * 40 + b"]" * 40 + b"}", Code.TOO_LARGE, "nested deeper than 32 levels"),
        (b"[" * 500_000, Code.TOO_LARGE, "nested deeper than 32 levels"),
        (b'{"a":"' + b"x" * MAX_BYTES + b'"}', Code.TOO_LARGE, "at most 1048576 are taken"),
        (b"{}", Code.MISSING_ATTRIBUTE, "The attribute id is missing."),
        (b'{"id":"a"}', Code.MISSING_ATTRIBUTE, "The attribute source is missing."),
        (b'{"id":"a","source":"s"}', Code.MISSING_ATTRIBUTE, "The attribute type is missing."),
        (b'{"id":5,"source":"s","type":"t"}', Code.MISSING_ATTRIBUTE, "The attribute id is 5"),
        (b'{"id":"","source":"s","type":"t"}', Code.MISSING_ATTRIBUTE, 'The attribute id is ""'),
        (b'{"id":null,"source":"s","type":"t"}', Code.MISSING_ATTRIBUTE, "The attribute id is missing."),
        (b'{"id":"a\\u0007","source":"s","type":"t"}', Code.MISSING_ATTRIBUTE, "printable"),
    ],
)
def test_what_names_no_sender_is_unreadable(value: bytes | None, code: Code, message: str) -> None:
    unreadable = decode_bytes(value)
    assert isinstance(unreadable, Unreadable)
    assert unreadable.code == code.value
    assert message in unreadable.message
    assert unreadable.hint


@pytest.mark.parametrize("kind", [b"application/cloudevents-batch+json", b"application/cloudevents+avro"])
def test_batches_and_other_formats_are_unreadable(kind: bytes) -> None:
    unreadable = decode([replay_event()], headers=(("Content-Type", kind),))
    assert isinstance(unreadable, Unreadable)
    assert unreadable.hint == "Send application/cloudevents+json, one event a record."


def test_brackets_inside_texts_are_no_nesting() -> None:
    assert isinstance(decode(replay_event(bent(GOOD_DATA, "reason", "[{" * 200 + '\\"['))), Replay)


@pytest.mark.parametrize(
    ("attributes", "code", "message", "hint"),
    [
        ({"specversion": None}, Code.MISSING_ATTRIBUTE, "The attribute specversion is missing", ""),
        ({"specversion": "0.3"}, Code.MISSING_ATTRIBUTE, 'The attribute specversion is "0.3", but must be "1.0".', ""),
        ({"specversion": 1.0}, Code.MISSING_ATTRIBUTE, "The attribute specversion is 1.0", ""),
        ({"type": "io.recoveryd.command.reply.v1"}, Code.UNKNOWN_TYPE, "is not known.", "io.recoveryd.command.replay.v1."),
        ({"type": "io.recoveryd.command.replay.v2"}, Code.UNKNOWN_TYPE, "is not known.", "io.recoveryd.command.replay.v1."),
        ({"type": "com.example.order"}, Code.UNKNOWN_TYPE, '"com.example.order" is not known.', "Known types are"),
        ({"subject": None}, Code.INVALID_SUBJECT, "The attribute subject is missing", ""),
        ({"subject": 5}, Code.INVALID_SUBJECT, "The subject 5 is not a valid recovery id.", ""),
        ({"subject": ""}, Code.INVALID_SUBJECT, 'The subject "" is not', ""),
        ({"subject": "Flights"}, Code.INVALID_SUBJECT, 'The subject "Flights" is not', "Use 1 to 63 characters"),
        ({"subject": "_daemon"}, Code.INVALID_SUBJECT, "The subject", ""),
        ({"subject": "a" * 64}, Code.INVALID_SUBJECT, "The subject", ""),
        ({"subject": "a\n"}, Code.INVALID_SUBJECT, "The subject", ""),
        ({"subject": "a/b"}, Code.INVALID_SUBJECT, "The subject", ""),
        ({"time": "yesterday"}, Code.INVALID_VALUE, 'The attribute time is "yesterday"', ""),
        ({"time": 5}, Code.INVALID_VALUE, "The attribute time is 5, not a text.", ""),
        ({"expirytime": "2026-11-21T06:00:00"}, Code.ZONE_MISSING, "The attribute expirytime", "Write the time with Z"),
        ({"expiry_time": "x"}, Code.UNKNOWN_FIELD, "expiry_time is not an attribute", "The nearest valid attribute is expirytime."),
        ({"expiretime": "x"}, Code.UNKNOWN_FIELD, "expiretime is not an attribute", "The nearest valid attribute is expirytime."),
        ({"ExpiryTime": "x"}, Code.UNKNOWN_FIELD, "ExpiryTime is not an attribute", "The nearest valid attribute is expirytime."),
        ({"expires": "x"}, Code.UNKNOWN_FIELD, "expires is not an attribute", "The nearest valid attribute is expirytime."),
        ({"subjct": "x"}, Code.UNKNOWN_FIELD, "subjct is not an attribute", "The nearest valid attribute is subject."),
        ({"dry_run": True}, Code.UNKNOWN_FIELD, "dry_run is not an attribute", "Fields of the command go into data."),
        ({"limits": {"max_records": 1}}, Code.UNKNOWN_FIELD, "limits is not an attribute", "Fields of the command go into data."),
        ({"reason": "x"}, Code.UNKNOWN_FIELD, "reason is a field of replay", "Move it to data.reason."),
        ({"verify": "none"}, Code.UNKNOWN_FIELD, "verify is a field of replay", "Move it to data.verify."),
        ({"data_base64": "e30="}, Code.UNKNOWN_FIELD, "data_base64 is not taken", "Put the JSON object itself into data."),
        ({"datacontenttype": "text/plain"}, Code.INVALID_VALUE, "datacontenttype", "Leave it out or write application/json."),
    ],
)  # fmt: skip
def test_a_record_that_names_its_sender_is_answered_whatever_is_wrong(
    attributes: dict[str, object], code: Code, message: str, hint: str
) -> None:
    refusal = decode(replay_event(**attributes))
    assert isinstance(refusal, RefusedCommand)
    assert (refusal.id, refusal.source) == ("0199f0c2-6a1e-7c3d-9a55-000000000001", "//ops/alice")
    assert refusal.code == code.value
    assert message in refusal.message
    assert hint in refusal.hint
    assert "\n" not in refusal.message


@pytest.mark.parametrize(
    "attributes",
    [
        {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
        {"partitionkey": "a", "sampledrate": 5, "urgent": True},
        {"datacontenttype": "application/json; charset=utf-8"},
        {"datacontenttype": "application/vnd.x+json"},
        {"dataschema": "https://example.org/replay.json"},
    ],
)
def test_extensions_of_others_are_skipped(attributes: dict[str, object]) -> None:
    assert decode(replay_event(**attributes)) == decode(replay_event())


def test_more_attributes_than_any_event_has_are_unreadable() -> None:
    unreadable = decode(replay_event(**{f"x{i}": i for i in range(100)}))
    assert isinstance(unreadable, Unreadable)
    assert unreadable.code == Code.TOO_LARGE.value


def test_the_content_hash_covers_type_subject_and_data_and_nothing_else() -> None:
    def digest(**attributes: object) -> str:
        command = decode(replay_event(**attributes))
        assert isinstance(command, Replay)
        return command.meta.content_hash

    reordered = {"target": GOOD_DATA["target"], "source": GOOD_DATA["source"], "reason": GOOD_DATA["reason"]}
    same = {digest(), digest(id="b"), digest(time=None), digest(data=reordered), digest(expirytime=None)}
    others = {
        digest(subject="x"),
        digest(data=bent(GOOD_DATA, "reason", "other")),
        digest(data=bent(GOOD_DATA, "dry_run", False)),
    }
    assert len(same) == 1
    assert len(others) == 3
    assert not same & others


def test_a_refusal_has_a_content_hash_too_so_that_a_repetition_is_known() -> None:
    first, again = (decode(replay_event(bent(GOOD_DATA, "verify", "x"))) for _ in range(2))
    assert isinstance(first, RefusedCommand)
    assert first == again
    assert first.content_hash.startswith("sha256:")


def test_the_core_event_of_each_outcome() -> None:
    good = json.dumps(replay_event()).encode()
    lag = json.dumps(examples.SIGNALS["lag"]).encode()
    bad_lag = json.dumps(bent(examples.SIGNALS["lag"], "data.group")).encode()
    headers = (("h", b"1"),)
    received = CODEC.decode_event(0, 3, NOW_MS, None, good, ())
    assert isinstance(received, CommandReceived)
    assert (received.offset, received.broker_ms, received.previous) == (3, NOW_MS, None)
    assert isinstance(CODEC.decode_event(0, 4, NOW_MS, None, lag, ()), SignalReceived)
    assert isinstance(CODEC.decode_event(0, 5, NOW_MS, None, bad_lag, ()), SignalRefused)
    assert CODEC.decode_event(0, 6, NOW_MS, b"k", b"[]", headers) == ControlUnreadable(
        0, 6, "RCV-1001", "The record is a list, not one JSON object.", b"k", b"[]", headers
    )


def test_an_encoded_command_is_the_documented_record_and_reads_back() -> None:
    encoded = CODEC.encode(
        "replay",
        "flights-rerun",
        GOOD_DATA,
        id="0199f0c2-6a1e-7c3d-9a55-000000000001",
        source="//ops/alice",
        time_ms=NOW_MS,
        expiry_ms=NOW_MS + 15 * 60_000,
    )
    assert not isinstance(encoded, RefusedCommand)
    assert encoded.key == b"flights-rerun"
    assert encoded.headers == (("content-type", b"application/cloudevents+json; charset=utf-8"),)
    assert list(json.loads(encoded.value)) == [
        "specversion", "id", "source", "type", "subject", "time", "expirytime", "data",
    ]  # fmt: skip
    assert CODEC.decode(encoded.key, encoded.value, encoded.headers, NOW_MS, 7) == decode(replay_event())


@pytest.mark.parametrize(
    ("subject", "data", "code"),
    [
        ("flights-rerun", bent(GOOD_DATA, "source.to"), Code.MISSING_FIELD),
        ("Flights", GOOD_DATA, Code.INVALID_SUBJECT),
        ("flights-rerun", {"reason": object()}, Code.INVALID_VALUE),
        ("flights-rerun", {"reason": float("nan")}, Code.INVALID_VALUE),
        ("flights-rerun", {"reason": "\ud800"}, Code.INVALID_VALUE),
        ("flights-rerun", {"reason": "x" * 2_000_000}, Code.TOO_LARGE),
    ],
)
def test_a_command_that_would_be_refused_is_not_encoded(subject: str, data: dict[str, object], code: Code) -> None:
    refusal = CODEC.encode("replay", subject, data, id="a", source="s", time_ms=NOW_MS)
    assert isinstance(refusal, RefusedCommand)
    assert (refusal.verb, refusal.subject, refusal.code) == ("replay", subject, code.value)
