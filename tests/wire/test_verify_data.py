"""The data of `verify`: every field of the contract, with its default, its forms and its refusals."""

from dataclasses import replace
from typing import Any

import pytest

from recoveryd.kernel.commands import RefusedCommand
from recoveryd.recovery.spec import AtOffset, AtOffsets, AtTime, Earliest, Latest, Limits, SourceRef
from recoveryd.verification.spec import ComparedRef, VerificationSpec, Verify
from tests.wire.records import NOW_MS, bent, command_event, decode

SHORTEST: dict[str, Any] = {"reason": "is it whole?", "source": {"topic": "a"}, "target": {"topic": "b"}}
PLAIN = VerificationSpec(SourceRef("a", Earliest(), Latest()), ComparedRef("b"))


def spec_of(data: dict[str, Any]) -> VerificationSpec:
    command = decode(command_event("verify", data))
    assert isinstance(command, Verify), command
    return command.spec


def refusal_of(data: dict[str, Any]) -> RefusedCommand:
    refusal = decode(command_event("verify", data))
    assert isinstance(refusal, RefusedCommand), refusal
    return refusal


def test_two_topics_are_enough() -> None:
    assert spec_of(SHORTEST) == PLAIN
    assert (PLAIN.kind, PLAIN.copies, PLAIN.compare, PLAIN.target_bounds) == (
        "verification",
        False,
        "records",
        (Earliest(), Latest()),
    )


def test_every_field_reaches_the_core() -> None:
    data = {
        "reason": "all of it",
        "dry_run": True,
        "plan_hash": "sha256:1",
        "source": {"cluster": "east", "topic": "_schemas", "partitions": [2, 0], "from": {"offset": 5}, "to": {"offsets": {"0": 9}}},
        "target": {"cluster": "west", "topic": "__x", "from": "-2h"},
        "mapping": "key_hash",
        "headers": {"add": {"a": "1"}, "drop": ["b"]},
        "compare": "latest",
        "limits": {"max_bytes_per_s": 5, "max_records_per_s": 6, "max_runtime": "90s", "mode": "fixed", "weight": 2.0, "tier": 3, "override_live_slo": True},
        "job": {"profile": "big"},
    }  # fmt: skip
    assert spec_of(data) == VerificationSpec(
        source=SourceRef("_schemas", AtOffset(5), AtOffsets({0: 9}), "east", (0, 2)),
        target=ComparedRef("__x", "west", AtTime(NOW_MS - 7_200_000), "key_hash", (("a", "1"),), ("b",)),
        limits=Limits(max_bytes_per_s=5.0, max_records_per_s=6.0, max_runtime_ms=90_000, mode="fixed", weight=2.0, tier=3, override_live_slo=True),
        dry_run=True,
        plan_hash="sha256:1",
        compare="latest",
        profile="big",
    )  # fmt: skip


def test_mapping_and_headers_are_taken_where_replay_has_them_as_well() -> None:
    inside = bent(bent(SHORTEST, "target.mapping", "key_hash"), "target.headers", {"drop": ["x"]})
    beside = bent(bent(SHORTEST, "mapping", "key_hash"), "headers", {"drop": ["x"]})
    assert (
        spec_of(inside)
        == spec_of(beside)
        == replace(PLAIN, target=ComparedRef("b", mapping="key_hash", headers_drop=("x",)))
    )


def test_a_time_that_ends_the_source_does_not_end_what_is_read_of_the_target() -> None:
    spec = spec_of(bent(SHORTEST, "source.to", "2026-11-21T05:00:00Z"))
    assert (spec.source.stop, spec.target_bounds) == (AtTime(NOW_MS - 3_600_000), (Earliest(), Latest()))


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        ("source.to", "caught_up", "RCV-1005"),
        ("source.to", "never", "RCV-1005"),
        ("source.from", "latest", "RCV-1005"),
        (
            "source.from",
            "1969-12-31T23:59:59Z",
            "RCV-1005",
        ),  # no record has such a time: records without a time have -1
        ("source.from", "-36500d", "RCV-1005"),
        ("target.to", "latest", "RCV-1004"),
        ("target.create", True, "RCV-1004"),
        ("target.topic", "a", "RCV-1019"),
        ("target.topic", "no spaces", "RCV-1005"),
        ("on_data_loss", "fail", "RCV-1004"),
        ("limits.max_records", 5, "RCV-1004"),
        ("compare", "everything", "RCV-1005"),
        ("reason", ..., "RCV-1006"),
        ("source", ..., "RCV-1006"),
    ],
)
def test_what_makes_no_sense_is_refused(path: str, value: object, code: str) -> None:
    assert refusal_of(bent(SHORTEST, path, value)).code == code


def test_saying_a_rule_twice_and_differently_is_refused() -> None:
    refusal = refusal_of(bent(bent(SHORTEST, "mapping", "same"), "target.mapping", "key_hash"))
    assert (refusal.code, "target.mapping" in refusal.message) == ("RCV-1005", True)
