"""The generated schemas and docs: up to date, complete, and in agreement with the code that reads records."""

import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from recoveryd.kernel.commands import RefusedCommand
from recoveryd.kernel.decision import Answer, Notice
from recoveryd.kernel.events import SignalRefused
from recoveryd.wire.codec import Unreadable
from recoveryd.wire.event_kinds import EVENT_KINDS
from recoveryd.wire.events import encode_answer, encode_notice
from tests.builders.core import CODEC, STATUS
from tests.wire.json_schema import is_valid, load
from tests.wire.records import NOW_MS, bent, decode
from tests.wire.strategies import bent_events
from tests.wire.test_status import COMPLETED
from tools import asyncapi, examples, schemas

BY_TYPE = {
    **{kind: f"command.{verb}.v1.json" for kind, verb in CODEC.command_types.items()},
    **{kind: f"signal.{name}.v1.json" for kind, name in CODEC.signal_types.items()},
}
LOADED = {name: load(name) for name in BY_TYPE.values()}
EXAMPLES = [
    *examples.COMMANDS.values(),
    *examples.MORE_REPLAYS,
    *examples.MORE_VERIFICATIONS,
    *examples.MORE_WATCHES,
    *examples.MORE_HOLDS,
    *examples.MORE_RELEASES,
    *examples.SIGNALS.values(),
]


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: f"{event['type']}-{event['id'][-2:]}")
def test_each_example_is_taken_by_the_codec_and_fits_its_schema(event: dict[str, Any]) -> None:
    assert not isinstance(decode(event), RefusedCommand | SignalRefused | Unreadable)
    assert is_valid(event, LOADED[BY_TYPE[event["type"]]])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("subject", "Flights"),
        ("data.reason", ""),
        ("data.source.from", 5),
        ("data.source.from", {"ofset": 5}),
        ("data.source.from", {"offset": -1}),
        ("data.source.to", {"offsets": {}}),
        ("data.source.partitions", [1, 1]),
        ("data.target.topic", "_x"),
        ("data.target.creat", True),
        ("data.verify", "all"),
        ("data.limits", {"max_records": 0}),
        ("data.limits", {"max_bytes_per_s": 0}),
        ("data.source.to", ...),
        ("expiry_time", "2026-11-21T06:15:00Z"),
    ],
)
def test_what_the_codec_refuses_for_its_form_does_not_fit_the_schema(path: str, value: object) -> None:
    event = bent(examples.COMMANDS["replay"], path, value)
    assert isinstance(decode(event), RefusedCommand)
    assert not is_valid(event, LOADED["command.replay.v1.json"])


@settings(max_examples=300, deadline=None)
@given(bent_events())
def test_what_the_codec_takes_fits_the_schema(event: dict[str, Any]) -> None:
    if isinstance(decode(event), RefusedCommand | SignalRefused | Unreadable):
        return
    # Attributes of null count as absent, in CloudEvents and for the codec.
    present = {name: value for name, value in event.items() if value is not None}
    assert is_valid(present, LOADED[BY_TYPE[event["type"]]])


def test_what_the_daemon_writes_fits_its_schemas() -> None:
    answer = json.loads(
        encode_answer(Answer("expired", "pause", "c", "r", "RCV-1013", "m", "h", 5), "x", NOW_MS).value or b""
    )
    assert is_valid(answer, load("event.answer.v1.json"))
    assert is_valid(answer, load("event.v1.json"))
    for name, kind in EVENT_KINDS.items():
        notice = json.loads(encode_notice(Notice(name, "r", dict.fromkeys(kind.fields, 1)), "x", NOW_MS).value or b"")
        assert is_valid(notice, load("event.v1.json")), name
    assert is_valid(json.loads(STATUS.encode(COMPLETED)[1]), load("status.v1.json"))


@pytest.mark.parametrize("name", sorted(path.name for path in schemas.FOLDER.glob("*.json")))
def test_the_examples_inside_a_schema_fit_it(name: str) -> None:
    schema = load(name)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert all(is_valid(example, schema) for example in schema.get("examples", []))


def test_the_asyncapi_document_refers_only_to_what_exists() -> None:
    document = yaml.safe_load((schemas.FOLDER / "asyncapi.yaml").read_text())
    assert document == asyncapi.make_document()
    assert document["asyncapi"] == "3.1.0"
    for reference in re.findall(r"'\$ref': '([^']+)'", str(document)):
        if reference.startswith("./"):
            assert (schemas.FOLDER / reference).exists(), reference
        else:
            inner = document
            for part in reference.removeprefix("#/").split("/"):
                inner = inner[part]
    described = {message["payload"].get("$ref", "") for message in document["components"]["messages"].values()}
    assert {f"./{name}" for name in BY_TYPE.values()} <= described
