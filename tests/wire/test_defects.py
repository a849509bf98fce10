"""A check of ours that breaks on a record costs this record alone: it is answered, and its key is remembered."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from recoveryd.adapters.kafka.journal_fold import fold_seen
from recoveryd.capabilities import make_codec
from recoveryd.kernel.commands import RefusedCommand, idempotency_key
from recoveryd.kernel.events import Seen, SignalRefused
from recoveryd.ports import ControlRecord
from recoveryd.wire import codec as codec_module
from recoveryd.wire.codec import Codec, Unreadable
from tests.wire.records import NOW_MS
from tools.examples import COMMANDS, SIGNALS

PAUSE, LAG = json.dumps(COMMANDS["pause"]).encode(), json.dumps(SIGNALS["lag"]).encode()
KEY = (COMMANDS["pause"]["source"], COMMANDS["pause"]["id"])
DIGEST = idempotency_key(*KEY)


def break_down(*_: object) -> Any:
    raise TypeError("unhashable type: 'list'")


@pytest.fixture
def codec() -> Codec:
    """One that breaks on each `pause` and each `lag`."""
    made = make_codec()
    made.verbs = {**made.verbs, "pause": replace(made.verbs["pause"], make=break_down)}
    made.signals = {**made.signals, "lag": replace(made.signals["lag"], make=break_down)}
    return made


def record(offset: int, value: bytes) -> ControlRecord:
    return ControlRecord(0, offset, NOW_MS, None, value)


def test_a_command_is_refused_with_the_code_of_a_defect(codec: Codec) -> None:
    refused = codec.decode(None, PAUSE, (), NOW_MS, 7)
    assert isinstance(refused, RefusedCommand)
    assert (refused.source, refused.id, refused.subject, refused.code) == (*KEY, "flights-rerun", "RCV-5002")
    assert "TypeError" in refused.message


def test_a_signal_is_refused_with_the_code_of_a_defect(codec: Codec) -> None:
    refused = codec.decode(None, LAG, (), NOW_MS, 7)
    assert isinstance(refused, SignalRefused)
    assert (refused.offset, refused.code) == (7, "RCV-5002")


def test_what_breaks_before_it_is_known_who_sent_it_goes_to_the_dead_letters(
    codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec_module, "open_envelope", break_down)
    unreadable = codec.decode(None, PAUSE, (), NOW_MS, 7)
    assert isinstance(unreadable, Unreadable)
    assert unreadable.code == "RCV-5002"


def test_a_new_leader_remembers_the_key_of_a_record_on_which_the_codec_broke(codec: Codec) -> None:
    refused = codec.decode(None, PAUSE, (), NOW_MS, 7)
    assert isinstance(refused, RefusedCommand)
    assert fold_seen(codec, [record(7, PAUSE)]) == {DIGEST: Seen(7, refused.content_hash)}


def test_a_new_leader_passes_over_a_record_that_cannot_be_folded_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = make_codec()
    decode: Callable[..., object] = codec.decode
    monkeypatch.setattr(codec, "decode", lambda *args: break_down() if args[4] == 7 else decode(*args))
    good = {**COMMANDS["pause"], "id": "another"}
    found = fold_seen(codec, [record(7, PAUSE), record(8, json.dumps(good).encode())])
    assert {key: seen.offset for key, seen in found.items()} == {idempotency_key(KEY[0], "another"): 8}


def test_a_new_leader_remembers_a_command_in_binary_mode_that_quotes_a_signal() -> None:
    event = {**COMMANDS["pause"], "data": {**COMMANDS["pause"]["data"], "reason": "as io.recoveryd.signal.lag.v1 says"}}
    headers = {f"ce_{name}": str(value).encode() for name, value in event.items() if name != "data"}
    binary = ControlRecord(0, 7, NOW_MS, None, json.dumps(event["data"]).encode(), tuple(headers.items()))
    assert {key: seen.offset for key, seen in fold_seen(make_codec(), [binary, record(8, LAG)]).items()} == {DIGEST: 7}


@pytest.mark.parametrize("others", [[], {}, [[]], {"0": 1}])
@pytest.mark.parametrize("verb", ["replay", "verify", "schedule"])
def test_others_of_any_type_is_answered_and_keeps_no_leader_from_leading(verb: str, others: object) -> None:
    start = {"offsets": {"0": 1}, "others": others}
    copied = {"reason": "r", "source": {"topic": "a", "from": start, "to": "latest"}, "target": {"topic": "b"}}
    data = {"reason": "r", "cron": "0 2 * * *", "command": {"verb": "replay", "data": copied}}
    event = {
        **COMMANDS["replay"],
        "type": f"io.recoveryd.command.{verb}.v1",
        "data": data if verb == "schedule" else copied,
    }
    raw = json.dumps(event).encode()
    refused = make_codec().decode(None, raw, (), NOW_MS, 7)
    assert isinstance(refused, RefusedCommand)
    assert (refused.code, "others" in refused.message) == ("RCV-1005", True)
    assert list(fold_seen(make_codec(), [record(7, raw)])) == [idempotency_key(event["source"], event["id"])]
