"""Records between daemon and jobs survive encoding, and nothing else is accepted as one."""

import json
from dataclasses import replace
from typing import Any

import pytest

from recoveryd_jobs.contract import (
    ChunkLimits,
    ContractError,
    ControlSpec,
    Difference,
    Directive,
    DriverHeartbeat,
    JobSpec,
    LaneHeartbeat,
    LanePosition,
    LaneSpec,
    PartitionRange,
    Receipt,
    SourceSpec,
    TargetRun,
    TargetSpec,
    Verification,
    decode,
    decode_progress,
    encode,
    progress_key,
    receipts_partition,
    transactional_id,
)

DIRECTIVE = Directive("r", 2, 7, "pause", 30_000, 1e6, None, 65_536.0, {0: 0.25, 1: 0.75}, "operator")
SPEC = JobSpec(
    kind="replay", scope="s", recovery="r", attempt=2,
    lanes=(LaneSpec(0, (PartitionRange(0, 5, 10), PartitionRange(2, 0, None)), 100, None), LaneSpec(1, ())),
    source=SourceSpec("main", "in", "id1", {"bootstrap.servers": "h:1"}, 5, None),
    target=TargetSpec("dr", "out", "id2", 4, {"bootstrap.servers": "h:2"}, "key_hash", (("a", "b"),), ("c",), False, "lz4", ((0, 7),), ((0, 9),)),
    control=ControlSpec({"bootstrap.servers": "h:1"}, "d", "p"),
    receipts_topic="rc", directive=DIRECTIVE, verify="count", on_data_loss="continue", chunk=ChunkLimits(1, 2, 3),
)  # fmt: skip
RECEIPT = Receipt(
    "s", "r", 0, 2, 3, 1, 10, 20, 5, 1, 3, 1, 999, (TargetRun(0, 5, ((7, 2), (12, 3)), "ab"),), "x", "y", 9
)
BEAT = LaneHeartbeat("r", 2, 1, 7, "copying", True, 10.5, 1e6, (LanePosition(0, 5, None, "copying", 5),), "why", 123)
REPORT = DriverHeartbeat(
    "r",
    2,
    "verified",
    7,
    Verification(
        "mismatch",
        5,
        4,
        "d",
        (Difference("missing", 0, 1, None, 2, 3, "m"),),
        "w",
        "mixed",
        1,
        2,
        target_ends={0: 9, 2: 0},
        uncopied={3: 4},
    ),
)


@pytest.mark.parametrize("value", [SPEC, DIRECTIVE, RECEIPT, BEAT, REPORT], ids=lambda v: type(v).__name__)
def test_what_is_encoded_is_decoded_as_it_was(value: Any) -> None:
    assert value == decode(type(value), encode(value))


def test_progress_records_are_told_apart() -> None:
    verifying = replace(BEAT, phase="verify", positions=(), verified_records=5, offsets_to_verify=10)
    told_apart = [BEAT, verifying, REPORT]
    assert [decode_progress(encode(record)) for record in told_apart] == told_apart
    assert [progress_key("r", 3), progress_key("r", None)] == ["r/lane/3", "r/driver"]


def test_fields_of_a_newer_writer_are_ignored() -> None:
    raw = {**json.loads(encode(RECEIPT)), "colour": "blue"}
    assert decode(Receipt, json.dumps(raw)) == RECEIPT


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        (b"{", "not JSON"),
        (b"[]", "Receipt"),
        (b"{}", "Receipt: field scope"),
        (encode(RECEIPT).replace(b'"start":10', b'"start":"10"'), "Receipt.start"),
        (encode(RECEIPT).replace(b'"start":10', b'"start":true'), "Receipt.start"),
        (encode(RECEIPT).replace(b"[7,2]", b"[7,2,1]"), "Receipt.targets.runs"),
        (encode(RECEIPT).replace(b"[7,2]", b"[7,%d]" % 2**63), "Receipt.targets.runs: a number of 19 digits"),
        (encode(RECEIPT).replace(b'"version":1', b'"version":2'), "version 2"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_anything_else_is_refused_with_its_name(raw: bytes, names: str) -> None:
    with pytest.raises(ContractError, match=names.replace(".", r"\.")):
        decode(Receipt, raw)


def test_ids_are_stable_over_attempts() -> None:
    assert transactional_id("prod", "r", 3) == "recoveryd.prod.r.3"
    assert RECEIPT.key == "s/r/1/10"
    assert [receipts_partition("flights-rerun", 8), receipts_partition("flights-rerun", 1)] == [0, 0]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"{}",
        b'{"recovery":5}',
        *(encode(DIRECTIVE).replace(b'"0"', key) for key in (b'"x"', b'"1%b"' % (b"0" * 400))),
    ],
)
def test_a_directive_that_is_none_is_an_error_of_the_contract(value: bytes) -> None:
    with pytest.raises(ContractError):
        decode(Directive, value)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"null",
        b"{}",
        b'{"phase":1}',
        b'{"lane":"x"}',
        *(
            encode(BEAT).replace(b'"%b":' % field, b'"%b":%b,"x":' % (field, number))
            for field in (b"records_per_s", b"directive_sequence", b"position", b"event_time_ms")
            for number in (b"1" + b"0" * 308, b"-1" + b"0" * 400, b"9223372036854775808")
        ),
        *(
            encode(BEAT).replace(b'"%b":' % field, b'"%b":-1,"x":' % field)
            for field in (b"lane", b"attempt", b"directive_sequence", b"failed_chunks", b"ledger_from", b"partition")
        ),
        *(encode(BEAT).replace(b'"%b":5' % field, b'"%b":-5' % field) for field in (b"position", b"copied")),
        *(encode(BEAT).replace(b"10.5", number) for number in (b"NaN", b"Infinity", b"1e999")),
        *(
            encode(REPORT).replace(b'"%b":' % field, b'"%b":-1,"x":' % field)
            for field in (b"attempt", b"directive_sequence")
        ),
    ],
)
def test_progress_that_is_none_is_an_error_of_the_contract(value: bytes) -> None:
    with pytest.raises(ContractError):
        decode_progress(value)
