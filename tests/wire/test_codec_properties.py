"""For any bytes: one of five outcomes, no exception, the same outcome each time, nothing accepted in part."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoveryd.holds.signals import HoldSignal
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import RefusedCommand
from recoveryd.kernel.events import SignalRefused
from recoveryd.live.signals import HealthSignal, LagSignal
from recoveryd.recovery.params import Params
from recoveryd.replay.spec import Replay, ReplaySpec
from recoveryd.wire.codec import Unreadable
from recoveryd.wire.nouns import NounForm
from tests.builders.core import CODEC
from tests.builders.deciding import make_decider
from tests.patience import lines_of
from tests.wire.records import GOOD_DATA, NOW_MS, Outcome, bare, bent, replay_event
from tests.wire.strategies import GOOD_EVENTS, bent_events, damaged_bytes, good_events, headers, json_values, text
from tools.examples import SIGNALS

CODES = {code.value for code in Code}
KINDS = (
    *make_decider(Params()).commands,
    LagSignal,
    HealthSignal,
    HoldSignal,
    RefusedCommand,
    SignalRefused,
    Unreadable,
)


def judge(outcome: Outcome) -> None:
    """Check what must hold for every outcome: its kind, and for a refusal a known code, a message and a hint that fit
    on a line.
    """
    assert isinstance(outcome, KINDS)
    if isinstance(outcome, RefusedCommand | SignalRefused | Unreadable):
        assert outcome.code in CODES
        assert outcome.code != Code.INVARIANT_BROKEN.value, outcome.message  # a check of ours broke
        assert outcome.message
        assert outcome.hint
        shown = outcome.message + outcome.hint
        assert shown.isprintable()
        assert len(shown) < 4000
        shown.encode()


@settings(max_examples=300, deadline=None)
@given(st.none() | st.binary(max_size=30), st.none() | st.binary(max_size=200), headers)
def test_any_bytes_at_all(key: bytes | None, value: bytes | None, given_headers: Any) -> None:
    judge(bare(CODEC.decode(key, value, given_headers, NOW_MS, 1)))


@settings(max_examples=300, deadline=None)
@given(json_values)
def test_any_json_value(value: Any) -> None:
    judge(bare(CODEC.decode(None, json.dumps(value).encode(), (), NOW_MS, 1)))


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["specversion", "id", "source", "type", "subject", "time", "data"]), json_values),
    good_events,
)
def test_good_attributes_replaced_by_anything(attributes: dict[str, Any], event: dict[str, Any]) -> None:
    judge(bare(CODEC.decode(None, json.dumps(event | attributes).encode(), (), NOW_MS, 1)))


@settings(max_examples=500, deadline=None)
@given(bent_events())
def test_a_good_record_bent_anywhere(event: Any) -> None:
    raw = json.dumps(event).encode()
    outcome = bare(CODEC.decode(None, raw, (), NOW_MS, 1))
    judge(outcome)
    assert outcome == bare(CODEC.decode(None, raw, (), NOW_MS, 1))


@settings(max_examples=300, deadline=None)
@given(damaged_bytes(), headers)
def test_a_good_record_with_damaged_bytes(value: bytes, given_headers: Any) -> None:
    judge(bare(CODEC.decode(None, value, given_headers, NOW_MS, 1)))


@settings(max_examples=200, deadline=None)
@given(bent_events())
def test_what_is_accepted_says_everything_that_was_sent(event: Any) -> None:
    """No field is dropped: an accepted replay, written again, has each value that was sent (except durations and
    times).
    """
    outcome = bare(CODEC.decode(None, json.dumps(event).encode(), (), NOW_MS, 1))
    if not isinstance(outcome, Replay):
        return
    written = as_data(outcome.spec)
    for path, value in leaves({name: part for name, part in event["data"].items() if name != "reason"}):
        found = dict(leaves(written)).get(path, ...)
        # Times come back in UTC, durations as times or in another unit, null limits not at all.
        assert found == value or isinstance(value, str) or value is None, path


def as_data(spec: ReplaySpec) -> dict[str, Any]:
    """The stored specification, with its fields where the command's data has them."""
    stored = NounForm(ReplaySpec).write(spec)
    target = stored["target"]
    target["headers"] = {"add": dict(target.pop("headers_add")), "drop": target.pop("headers_drop")}
    return stored | {"job": {"profile": stored.pop("profile")}}


def leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [leaf for name, inner in value.items() for leaf in leaves(inner, f"{path}.{name}")]
    return [(path, sorted(value) if isinstance(value, list) and path.endswith("partitions") else value)]


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["replay", "pause", "throttle", "watch", "nonsense"]),
    text,
    st.dictionaries(text, json_values, max_size=4),
    text,
    text,
)
def test_encoding_refuses_what_decoding_would(
    verb: str, subject: str, data: dict[str, Any], id_: str, source: str
) -> None:
    encoded = CODEC.encode(verb, subject, data, id=id_, source=source, time_ms=NOW_MS)
    if isinstance(encoded, RefusedCommand):
        assert encoded.code in CODES
    else:
        judge(bare(CODEC.decode(encoded.key, encoded.value, encoded.headers, NOW_MS, 1)))


# Of each type, also those that no set and no dictionary takes as a key.
_ONE_OF_EACH: tuple[Any, ...] = (
    None,
    True,
    7,
    -1,
    2**70,
    0.5,
    "",
    "a",
    [],
    {},
    [[]],
    [{}],
    {"a": []},
    {"a": {}},
    {"0": 1},
)
_FORMS: tuple[Any, ...] = (
    {"offset": 1},
    {"offsets": {"0": 1}},
    {"offsets": {"0": 1}, "others": "earliest", "topic_id": "AA"},
    {"offsets": {"0": 1}, "others": "earliest", "topic_id": "AA", "since": "2026-11-20T18:00:00Z"},
    {"offsets": {"a": {"0": 1}}},
    {"schedule": "last_end", "first": "earliest"},
    {"snapshot": "a"},
    {"deadline": "2h"},
    {"webhook": "a"},
    {"new": "a"},
    {"0": [1, 2]},
)


def replaced(value: Any) -> Iterator[Any]:
    """`value` with what stands in each of its places replaced by a value of each type and form, one at a time."""
    for name in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        for new in (*_ONE_OF_EACH, *(new for form in _FORMS for new in (form, *replaced_leaves(form)))):
            changed = copy.copy(value)
            changed[name] = new
            yield changed
        for inner in replaced(value[name]):
            changed = copy.copy(value)
            changed[name] = inner
            yield changed


def replaced_leaves(form: dict[str, Any]) -> Iterator[Any]:
    for name in form:
        for new in _ONE_OF_EACH:
            yield {**form, name: new}


@pytest.mark.parametrize("event", GOOD_EVENTS, ids=lambda event: event["type"].removeprefix("io.recoveryd."))
def test_a_value_of_any_type_in_any_place_of_a_good_record(event: dict[str, Any]) -> None:
    for data in replaced(event["data"]):
        judge(bare(CODEC.decode(None, json.dumps(event | {"data": data}).encode(), (), NOW_MS, 1)))


# With `times` = 1,000, each of these is about a megabyte.
TROUBLE: dict[str, Callable[[int], Any]] = {
    "samples that are none": lambda times: bent(SIGNALS["lag"], "data.partitions", [{"a": 1}] * (90 * times)),
    "a header list far too long": lambda times: replay_event(
        bent(GOOD_DATA, "target.headers", {"drop": [5] * (300 * times)})
    ),
    "headers that are no texts": lambda times: replay_event(
        bent(GOOD_DATA, "target.headers", {"add": dict.fromkeys(map(str, range(60 * times)), 5)})
    ),
    "fields nobody knows": lambda times: replay_event(dict.fromkeys(map(str, range(60 * times)), 1)),
    "attributes nobody knows": lambda times: dict.fromkeys(map(str, range(60 * times)), 1),
    "a duration without end": lambda times: replay_event(bent(GOOD_DATA, "source.from", "1h" * (450 * times))),
    "a name without end": lambda times: replay_event({"x" * (1_000 * times): 1}),
    "a very long type": lambda times: replay_event(type="io.recoveryd." * (70 * times)),
}
SLOW_BYTES: dict[str, Callable[[int], bytes]] = {
    "quotes": lambda times: b'"' + b'\\"' * (500 * times),
    "backslashes": lambda times: b'["' + b"[\\\\" * (300 * times),
    "objects": lambda times: b'{"a":' * (170 * times),
    "lists": lambda times: b"[1," * (300 * times),
}


def decoded(raw: bytes) -> Outcome:
    return bare(CODEC.decode(None, raw, (), NOW_MS, 1))


def assert_no_dearer_than_its_length(make: Callable[[int], bytes]) -> None:
    """Twice the bytes must run at most about twice as many lines of Python."""
    few, many = make(50), make(100)
    assert lines_of(lambda: decoded(many)) <= 2.1 * lines_of(lambda: decoded(few)) + 200


@pytest.mark.parametrize("name", TROUBLE)
def test_a_megabyte_of_trouble_is_refused_at_a_cost_that_grows_with_its_length_only(name: str) -> None:
    make = TROUBLE[name]
    outcome = decoded(json.dumps(make(1_000)).encode())
    assert isinstance(outcome, RefusedCommand | SignalRefused | Unreadable)
    judge(outcome)
    assert_no_dearer_than_its_length(lambda times: json.dumps(make(times)).encode())


@pytest.mark.parametrize("name", SLOW_BYTES)
def test_bytes_made_to_be_slow_are_not(name: str) -> None:
    assert isinstance(decoded(SLOW_BYTES[name](1_000)), Unreadable)
    assert_no_dearer_than_its_length(SLOW_BYTES[name])
