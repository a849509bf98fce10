"""The commands `hold` and `release`: what their data may hold, the text of each refusal, and the status record."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from recoveryd.holds.model import Hold
from recoveryd.holds.signals import HeldPosition, HoldSignal, Told
from recoveryd.holds.spec import HoldSpec, Release, StartHold
from recoveryd.kernel.commands import RefusedCommand
from recoveryd.kernel.events import SignalRefused
from recoveryd.kernel.state import DaemonRecord
from recoveryd.kernel.states import CommandRef, State
from recoveryd.wire.status_topic import StatusFold, StatusUnreadable
from tests.builders.core import STATUS, to_document
from tests.wire.json_schema import is_valid, load
from tests.wire.records import NOW_MS, bent, decode
from tests.wire.strategies import holds
from tools import examples

EVENT = examples.COMMANDS["hold"]
SIGNAL = examples.SIGNALS["hold"]
RUNNING = Hold("h1", State.RUNNING, "held", 1, NOW_MS, NOW_MS, CommandRef("c", "s", "r"), "main", ("flights",))


def hold(**data: Any) -> dict[str, Any]:
    return EVENT | {"data": {"reason": "r", "topics": ["flights"]} | data}


def release(**data: Any) -> dict[str, Any]:
    return examples.COMMANDS["release"] | {"data": {"reason": "r"} | data}


def test_what_is_left_out_gets_its_documented_default() -> None:
    made = decode(hold())
    assert isinstance(made, StartHold)
    assert made.spec == HoldSpec("main", ("flights",), reads=False, expires_ms=None)
    let_go = decode(release())
    assert isinstance(let_go, Release)
    assert (let_go.cluster, let_go.topics) == ("main", None)


def test_each_field_has_its_meaning() -> None:
    made = decode(hold(cluster="other", topics=["a", "b"], reads=True, ttl="90m"))
    assert isinstance(made, StartHold)
    assert made.spec == HoldSpec("other", ("a", "b"), reads=True, expires_ms=NOW_MS + 5_400_000)
    let_go = decode(release(cluster="other", topics=["b"]))
    assert isinstance(let_go, Release)
    assert (let_go.cluster, let_go.topics) == ("other", ("b",))


WRONG = [
    ({"topics": ["a", "a"]}, "RCV-1005", "names a topic twice"),
    ({"topics": []}, "RCV-1005", "data.topics"),
    ({"topics": "flights"}, "RCV-1005", "data.topics"),
    ({"topics": ["_x"]}, "RCV-1018", "internal topic"),
    ({"topics": [f"t{i}" for i in range(101)]}, "RCV-1014", "at most 100"),
    ({"reason": ""}, "RCV-1005", "reason"),
    ({"cluster": ""}, "RCV-1005", "data.cluster"),
    ({"topic": "flights"}, "RCV-1004", "not a field of"),
]


@pytest.mark.parametrize("make", [hold, release])
@pytest.mark.parametrize(("data", "code", "says"), WRONG)
def test_what_is_wrong_is_refused_with_a_code_and_the_field(make: Any, data: Any, code: str, says: str) -> None:
    refusal = decode(make(**data))
    assert isinstance(refusal, RefusedCommand)
    assert refusal.code == code
    assert says in refusal.message
    assert refusal.hint


@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        ({"ttl": "yesterday"}, "RCV-1005", "not an RFC 3339 time"),
        ({"ttl": "2020-01-01T00:00:00Z"}, "RCV-1005", "has passed already"),
        ({"ttl": "2026-11-21T09:00:00"}, "RCV-1015", "time zone"),
        ({"reads": "yes"}, "RCV-1005", "data.reads"),
    ],
)
def test_so_is_what_only_a_hold_has(data: dict[str, Any], code: str, says: str) -> None:
    refusal = decode(hold(**data))
    assert isinstance(refusal, RefusedCommand)
    assert (refusal.code, says in refusal.message) == (code, True), refusal.message


def test_a_hold_without_topics_is_refused() -> None:
    refusal = decode(bent(hold(), "data.topics"))
    assert isinstance(refusal, RefusedCommand)
    assert refusal.code == "RCV-1006"


@pytest.mark.parametrize(
    ("path", "value"), [("data.topics", []), ("data.topics", ["_x"]), ("data.reads", "yes"), ("data.until", "2h")]
)
def test_the_schema_refuses_it_too(path: str, value: object) -> None:
    event = bent(EVENT, path, value)
    assert isinstance(decode(event), RefusedCommand)
    assert not is_valid(event, load("command.hold.v1.json"))


def test_an_acknowledgement_is_a_signal() -> None:
    assert decode(SIGNAL) == HoldSignal(
        "airports-correction",
        "flights-reports",
        SIGNAL["data"]["member"],
        Told.PAUSED,
        "reports-1",
        (HeldPosition("airports", 0, 3210), HeldPosition("airports", 1, None)),
    )


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        ("data.state", "gone", "RCV-1005"),
        ("data.state", "silent", "RCV-1005"),
        ("data.hold", "No Hold", "RCV-1005"),
        ("data.member", "", "RCV-1005"),
        ("data.member", "a\x1bb", "RCV-1005"),
        ("data.positions", [{"topic": "a", "partition": 0}], "RCV-1006"),
        ("data.positions", [{"topic": "a", "partition": -1, "offset": 0}], "RCV-1005"),
        ("data.positions", [{"topic": "a", "partition": 0, "offset": 0}] * 5_001, "RCV-1014"),
        ("data.reason", "r", "RCV-1004"),
    ],
)
def test_one_that_is_not_valid_is_refused_as_a_whole(path: str, value: object, code: str) -> None:
    event = bent(SIGNAL, path, value)
    refused = decode(event)
    assert isinstance(refused, SignalRefused)
    assert refused.code == code, refused.message


@settings(max_examples=200, deadline=None)
@given(holds)
def test_a_record_holds_all_of_a_hold(made: Hold) -> None:
    key, value = STATUS.encode(made)
    assert key == made.id.encode()
    assert STATUS.read(json.loads(value)) == made


@settings(max_examples=100, deadline=None)
@given(holds)
def test_a_record_is_what_the_contract_says(made: Hold) -> None:
    assert is_valid(json.loads(STATUS.encode(made)[1]), load("status.hold.v1.json"))


def test_a_fold_tells_holds_from_recoveries() -> None:
    newer = replace(RUNNING, version=2, state=State.COMPLETED)
    records = [STATUS.encode(RUNNING), STATUS.encode(replace(RUNNING, id="h2")), STATUS.encode(newer)]
    assert STATUS.fold([*records, (b"h2", None)]) == StatusFold({"h1": newer}, DaemonRecord())


@pytest.mark.parametrize("name", ["state", "created", "command", "hold", "internal"])
def test_a_broken_record_stops_the_fold_and_is_named(name: str) -> None:
    document = {key: value for key, value in to_document(RUNNING).items() if key != name}
    with pytest.raises(StatusUnreadable, match="h1"):
        STATUS.fold([(b"h1", json.dumps(document).encode())])
