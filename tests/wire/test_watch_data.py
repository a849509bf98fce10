"""The command `watch`: what its data may hold, the text of each refusal, and the status record."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from recoveryd.kernel.commands import RefusedCommand
from recoveryd.kernel.state import DaemonRecord
from recoveryd.kernel.states import CommandRef, State
from recoveryd.watches.model import Watch
from recoveryd.watches.spec import CallHook, StartWatch, StopUnit, UntilCaughtUp, UntilOffsets, UntilTime, WatchSpec
from recoveryd.wire.status_topic import StatusFold, StatusUnreadable
from tests.builders.core import STATUS, to_document
from tests.wire.json_schema import is_valid, load
from tests.wire.records import NOW_MS, bent, decode
from tests.wire.strategies import watches
from tools import examples

EVENT = examples.COMMANDS["watch"]
SCHEMA = load("command.watch.v1.json")


def watch(**data: Any) -> dict[str, Any]:
    return EVENT | {"data": {"reason": "r", "group": "g", "topic": "t", "until": "caught_up"} | data}


def spec_of(event: dict[str, Any]) -> WatchSpec:
    made = decode({name: value for name, value in event.items() if value is not None})
    assert isinstance(made, StartWatch), made
    return made.spec


def test_what_is_left_out_gets_its_documented_default() -> None:
    assert spec_of(watch()) == WatchSpec("main", "g", ("t",), UntilCaughtUp(), None, None, 0)


@pytest.mark.parametrize(
    ("data", "until"),
    [
        ({"until": "caught_up"}, UntilCaughtUp()),
        ({"until": {"offsets": {"1": 7, "0": 5}}}, UntilOffsets({"t": {0: 5, 1: 7}})),
        ({"until": {"offsets": {"t": {"0": 5}}}}, UntilOffsets({"t": {0: 5}})),
        ({"until": {"deadline": "2h"}}, UntilTime(NOW_MS + 7_200_000)),
        ({"until": {"deadline": "2026-11-21T07:00:00+01:00"}}, None),
        ({"until": {"deadline": "2026-11-21T07:00:01+01:00"}}, UntilTime(NOW_MS + 1_000)),
    ],
)
def test_each_form_of_until(data: dict[str, Any], until: object) -> None:
    if until is None:
        assert isinstance(decode(watch(**data)), RefusedCommand)
    else:
        assert spec_of(watch(**data)).until == until


def test_several_topics_a_webhook_a_deadline_and_a_tolerance() -> None:
    event = watch(
        topics=["a", "b"],
        until={"offsets": {"a": {"0": 1}, "b": {"0": 2}}},
        then={"webhook": "stop-it"},
        deadline="1m",
        tolerance_records=1,
    )
    del event["data"]["topic"]
    until = UntilOffsets({"a": {0: 1}, "b": {0: 2}})
    assert spec_of(event) == WatchSpec("main", "g", ("a", "b"), until, CallHook("stop-it"), NOW_MS + 60_000, 1)


def test_an_application_can_be_stopped() -> None:
    assert spec_of(watch(then={"stop": "shop"})).then == StopUnit("shop")


@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        ({"topic": None}, "RCV-1005", "data needs topic or topics"),
        ({"topics": ["u"]}, "RCV-1005", "data needs topic or topics"),
        ({"topic": None, "topics": ["a", "a"]}, "RCV-1005", "names a topic twice"),
        ({"topic": None, "topics": []}, "RCV-1005", "data.topics"),
        ({"topic": "_x"}, "RCV-1018", "internal topic"),
        ({"topic": None, "topics": [f"t{i}" for i in range(21)]}, "RCV-1014", "at most 20"),
        ({"group": ""}, "RCV-1005", "data.group"),
        ({"group": "a\x1bb"}, "RCV-1005", "control characters"),
        ({"until": "caughtup"}, "RCV-1005", "not one of caught_up"),
        ({"until": "latest"}, "RCV-1005", "not one of caught_up"),
        ({"until": 5}, "RCV-1005", "data.until is 5"),
        ({"until": {"offset": {"0": 1}}}, "RCV-1004", "unknown field"),
        ({"until": {"offsets": {}}}, "RCV-1005", "has no offsets"),
        ({"until": {"offsets": {"t": {}}}}, "RCV-1005", "has no offsets"),
        ({"until": {"offsets": {"0": -1}}}, "RCV-1005", "not an offset"),
        ({"until": {"offsets": {"0": 1, "t": {"0": 1}}}}, "RCV-1005", "has no offsets"),
        ({"until": {"offsets": {"": {"0": 1}}}}, "RCV-1005", "without a name"),
        ({"until": {"offsets": {"u": {"0": 1}}}}, "RCV-1005", "offsets of u, which is not among its topics"),
        ({"until": {"offsets": {str(i): 1 for i in range(10_001)}}}, "RCV-1014", "at most 10000"),
        ({"until": {"deadline": "yesterday"}}, "RCV-1005", "not an RFC 3339 time"),
        ({"until": {"deadline": "2020-01-01T00:00:00Z"}}, "RCV-1005", "has passed already"),
        ({"until": {"deadline": "2h"}, "deadline": "3h"}, "RCV-1005", "another one"),
        ({"deadline": "2026-11-21T09:00:00"}, "RCV-1015", "time zone"),
        ({"then": "tell"}, "RCV-1005", 'is "tell"'),
        ({"then": {"url": "https://x"}}, "RCV-1004", "unknown field"),
        ({"then": {"webhook": "https://evil.example.org/"}}, "RCV-1005", "names a URL"),
        ({"then": {"webhook": ""}}, "RCV-1005", "not a name"),
        ({"tolerance_records": -1}, "RCV-1005", "tolerance_records"),
        ({"untill": "caught_up"}, "RCV-1004", "not a field of watch"),
    ],
)
def test_what_is_wrong_is_refused_with_a_code_and_the_field(data: dict[str, Any], code: str, says: str) -> None:
    event = watch(**data)
    event["data"] = {name: value for name, value in event["data"].items() if value is not None}
    refusal = decode(event)
    assert isinstance(refusal, RefusedCommand)
    assert refusal.code == code
    assert says in refusal.message
    assert refusal.hint


def test_offsets_of_several_topics_must_name_each() -> None:
    event = bent(watch(topics=["a", "b"], until={"offsets": {"a": {"0": 1}}}), "data.topic")
    refusal = decode(event)
    assert isinstance(refusal, RefusedCommand)
    assert (refusal.code, "no offsets of b" in refusal.message) == ("RCV-1006", True)
    bare = decode(bent(watch(topics=["a", "b"], until={"offsets": {"0": 1}}), "data.topic"))
    assert isinstance(bare, RefusedCommand)
    assert "several topics" in bare.message


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("data.until", "latest"),
        ("data.until", {"offsets": {}}),
        ("data.until", {"offsets": {"t": {"x": 1}}}),
        ("data.until", {"offsets": {"0": 1}, "deadline": "2h"}),
        ("data.then", {"webhook": 5}),
        ("data.then", "call"),
        ("data.url", "https://x"),
    ],
)
def test_the_schema_refuses_it_too(path: str, value: object) -> None:
    event = bent(EVENT, path, value)
    assert isinstance(decode(event), RefusedCommand)
    assert not is_valid(event, SCHEMA)


@settings(max_examples=200, deadline=None)
@given(watches)
def test_a_record_holds_all_of_a_watch(made: Watch) -> None:
    key, value = STATUS.encode(made)
    assert key == made.id.encode()
    assert STATUS.read(json.loads(value)) == made


@settings(max_examples=100, deadline=None)
@given(watches)
def test_a_record_is_what_the_contract_says(made: Watch) -> None:
    document = json.loads(STATUS.encode(made)[1])
    assert is_valid(document, load("status.watch.v1.json"))


RUNNING = Watch(
    "w1", State.RUNNING, "looks", 1, NOW_MS, NOW_MS, CommandRef("c", "s", "r"), spec=spec_of(watch()), reached={}
)


def test_a_fold_tells_watches_from_recoveries() -> None:
    newer = replace(RUNNING, version=2, state=State.COMPLETED)
    records = [STATUS.encode(RUNNING), STATUS.encode(replace(RUNNING, id="w2")), STATUS.encode(newer)]
    assert STATUS.fold([*records, (b"w2", None)]) == StatusFold({"w1": newer}, DaemonRecord())


@pytest.mark.parametrize("name", ["state", "created", "command", "watch", "internal"])
def test_a_broken_record_stops_the_fold_and_is_named(name: str) -> None:
    document = {key: value for key, value in to_document(RUNNING).items() if key != name}
    with pytest.raises(StatusUnreadable, match="w1"):
        STATUS.fold([(b"w1", json.dumps(document).encode())])
