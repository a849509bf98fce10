"""The data of `replay`: every field of the contract, with its default, its forms and its refusals."""

from dataclasses import replace
from typing import Any

import pytest

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import Meta, RefusedCommand
from recoveryd.recovery.spec import AtOffset, AtOffsets, AtTime, CaughtUp, Earliest, Latest, Limits, Never, SourceRef
from recoveryd.replay.spec import Replay, ReplaySpec, TargetRef
from tests.wire.records import GOOD_DATA, NOW_MS, bent, decode, replay_event

PLAIN = ReplaySpec(
    source=SourceRef("flights", Earliest(), Latest(), "main", None),
    target=TargetRef("flights.v42", "main", create=True, on_existing="refuse", mapping="same"),
    limits=Limits(),
    dry_run=False,
    plan_hash=None,
    on_data_loss="fail",
    verify="source",
    profile="default",
)


def spec_of(data: dict[str, Any]) -> ReplaySpec:
    command = decode(replay_event(data))
    assert isinstance(command, Replay), command
    return command.spec


def refusal_of(data: object) -> RefusedCommand:
    refusal = decode(replay_event(data))
    assert isinstance(refusal, RefusedCommand), refusal
    return refusal


def test_the_contracts_example_becomes_a_whole_command() -> None:
    command = decode(replay_event())
    assert isinstance(command, Replay)
    meta = Meta(
        id="0199f0c2-6a1e-7c3d-9a55-000000000001",
        source="//ops/alice",
        subject="flights-rerun",
        reason="wrong delay unit in v41",
        content_hash=command.meta.content_hash,
        time_ms=NOW_MS,
        expiry_ms=NOW_MS + 15 * 60_000,
    )
    assert command == Replay(meta, PLAIN)
    assert command.meta.content_hash.startswith("sha256:")


START, STOP = "source.from", "source.to"


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (START, "earliest", Earliest()),
        (START, {"offset": 0}, AtOffset(0)),
        (START, {"offset": 2**63 - 1}, AtOffset(2**63 - 1)),
        (START, {"offsets": {"0": 5, "11": 6}}, AtOffsets({0: 5, 11: 6})),
        (START, {"offsets": {"0": 5}, "others": "earliest"}, AtOffsets({0: 5}, others_earliest=True)),
        (START, {"offsets": {"0": 5}, "since": "1970-01-01T00:00:07Z"}, AtOffsets({0: 5}, since_ms=7_000)),
        (START, {"offsets": {"0": 5}, "topic_id": "NX/Pct+TfS96"}, AtOffsets({0: 5}, topic_id="NX/Pct+TfS96")),
        (START, "2026-11-21T06:00:00Z", AtTime(NOW_MS)),
        (START, "2026-11-21T07:00:00.5+01:00", AtTime(NOW_MS + 500)),
        (START, "-2h", AtTime(NOW_MS - 7_200_000)),
        (START, "-PT2H", AtTime(NOW_MS - 7_200_000)),
        (START, "-P1DT12H", AtTime(NOW_MS - 36 * 3_600_000)),
        (STOP, "latest", Latest()),
        (STOP, "caught_up", CaughtUp()),
        (STOP, "never", Never()),
        (STOP, {"offset": 12}, AtOffset(12)),
        (STOP, {"offsets": {"3": 4}}, AtOffsets({3: 4})),
        (START, "offset:12", AtOffset(12)),
        (STOP, "offsets:3=4,0=1", AtOffsets({0: 1, 3: 4})),
        (STOP, "-30m", AtTime(NOW_MS - 1_800_000)),
        (
            STOP,
            "2026-11-21T05:59:59.9999Z",
            AtTime(NOW_MS),
        ),  # finer than ms rounds up: still after every earlier record
    ],
)
def test_a_bound_in_each_of_its_forms(path: str, value: object, expected: object) -> None:
    name = "start" if path == START else "stop"
    assert spec_of(bent(GOOD_DATA, path, value)) == replace(PLAIN, source=replace(PLAIN.source, **{name: expected}))


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("dry_run", True, replace(PLAIN, dry_run=True)),
        ("plan_hash", "sha256:00", replace(PLAIN, plan_hash="sha256:00")),
        ("verify", "none", replace(PLAIN, verify="none")),
        ("on_data_loss", "continue", replace(PLAIN, on_data_loss="continue")),
        ("job.profile", "big", replace(PLAIN, profile="big")),
        ("source.cluster", "dr", replace(PLAIN, source=replace(PLAIN.source, cluster="dr"))),
        ("source.partitions", [3, 0], replace(PLAIN, source=replace(PLAIN.source, partitions=(0, 3)))),
        ("target.cluster", "dr", replace(PLAIN, target=replace(PLAIN.target, cluster="dr"))),
        ("target.create", False, replace(PLAIN, target=replace(PLAIN.target, create=False))),
        ("target.on_existing", "append", replace(PLAIN, target=replace(PLAIN.target, on_existing="append"))),
        ("target.mapping", "key_hash", replace(PLAIN, target=replace(PLAIN.target, mapping="key_hash"))),
        (
            "target.headers",
            {"add": {"b": "1", "a": ""}, "drop": ["x", "y"]},
            replace(PLAIN, target=replace(PLAIN.target, headers_add=(("b", "1"), ("a", "")), headers_drop=("x", "y"))),
        ),
        ("limits.max_bytes_per_s", 5_000_000, replace(PLAIN, limits=Limits(max_bytes_per_s=5e6))),
        ("limits.max_bytes_per_s", None, PLAIN),
        ("limits.max_bytes_per_s", "5MB", replace(PLAIN, limits=Limits(max_bytes_per_s=5e6))),
        ("limits.max_bytes_per_s", "5MiB/s", replace(PLAIN, limits=Limits(max_bytes_per_s=5 * 2**20))),
        ("limits.max_bytes", "1.5GB", replace(PLAIN, limits=Limits(max_bytes=1_500_000_000))),
        ("limits.max_records_per_s", 0.5, replace(PLAIN, limits=Limits(max_records_per_s=0.5))),
        ("limits.max_lanes", 2, replace(PLAIN, limits=Limits(max_lanes=2))),
        ("limits.max_bytes", 1, replace(PLAIN, limits=Limits(max_bytes=1))),
        ("limits.max_records", 10**12, replace(PLAIN, limits=Limits(max_records=10**12))),
        ("limits.max_runtime", "90s", replace(PLAIN, limits=Limits(max_runtime_ms=90_000))),
        ("limits.max_runtime", "PT90S", replace(PLAIN, limits=Limits(max_runtime_ms=90_000))),
        ("limits.deadline", "2026-11-21T07:00:00Z", replace(PLAIN, limits=Limits(deadline_ms=NOW_MS + 3_600_000))),
        ("limits.mode", "controller", replace(PLAIN, limits=Limits(mode="controller"))),
        ("limits.mode", "unlimited", replace(PLAIN, limits=Limits(mode="unlimited"))),
        ("limits.weight", 2.5, replace(PLAIN, limits=Limits(weight=2.5))),
        ("limits.tier", 3, replace(PLAIN, limits=Limits(tier=3))),
        ("limits.override_live_slo", True, replace(PLAIN, limits=Limits(override_live_slo=True))),
        ("limits.deadline", "PT1H", replace(PLAIN, limits=Limits(deadline_ms=NOW_MS + 3_600_000))),
    ],
)
def test_a_field_that_is_not_the_default(path: str, value: object, expected: ReplaySpec) -> None:
    assert spec_of(bent(GOOD_DATA, path, value)) == expected


def test_the_same_topic_name_on_another_cluster_is_another_topic() -> None:
    data = bent(bent(GOOD_DATA, "target.cluster", "dr"), "target.topic", "flights")
    assert spec_of(data).target == TargetRef("flights", "dr", create=True)


@pytest.mark.parametrize(
    ("path", "value", "code", "message", "hint"),
    [
        ("reason", ..., Code.MISSING_FIELD, "data.reason is required.", "Add the field named in the message."),
        ("reason", "", Code.INVALID_VALUE, "data.reason", ""),
        ("reason", "x" * 501, Code.INVALID_VALUE, "data.reason", "500"),
        ("reason", "\x1b[2J", Code.INVALID_VALUE, "data.reason holds control characters.", ""),
        ("reason", 5, Code.INVALID_VALUE, "data.reason", ""),
        ("target.headers", {"drop": ["a\0b"]}, Code.INVALID_VALUE, 'is "a\\u0000b", and the Kafka client ends', "without NUL"),
        ("target.headers", {"add": {"a\0b": "x"}}, Code.INVALID_VALUE, 'is "a\\u0000b", and the Kafka client ends', "without NUL"),
        ("reasn", "x", Code.UNKNOWN_FIELD, "data.reasn is not a field of replay.", "The nearest valid field is data.reason."),
        ("source.form", "earliest", Code.UNKNOWN_FIELD, "data.source.form", "The nearest valid field is data.source.from."),
        ("create", True, Code.UNKNOWN_FIELD, "data.create", "The nearest valid field is data.target.create."),
        ("from", "earliest", Code.UNKNOWN_FIELD, "data.from", "The nearest valid field is data.source.from."),
        ("limits.max_byte_per_s", 5, Code.UNKNOWN_FIELD, "data.limits.max_byte_per_s", "data.limits.max_bytes_per_s."),
        ("dryRun", True, Code.UNKNOWN_FIELD, "data.dryRun", "The nearest valid field is data.dry_run."),
        ("zzz", True, Code.UNKNOWN_FIELD, "data.zzz", "Valid here are: reason, dry_run, plan_hash, source"),
        ("a\nb", True, Code.UNKNOWN_FIELD, 'data."a\\nb"', ""),
        ("source", ..., Code.MISSING_FIELD, "data.source is required.", ""),
        ("source.from", ..., Code.MISSING_FIELD, "data.source.from is required.", ""),
        ("source.to", ..., Code.MISSING_FIELD, "data.source.to is required.", ""),
        ("target.topic", ..., Code.MISSING_FIELD, "data.target.topic is required.", ""),
        ("source", 5, Code.INVALID_VALUE, "data.source must be an object, not 5.", ""),
        (START, "earlist", Code.INVALID_VALUE, 'data.source.from is "earlist"', "Did you mean earliest?"),
        (START, "never", Code.INVALID_VALUE, 'data.source.from cannot be "never".', "A range starts at earliest"),
        (START, "latest", Code.INVALID_VALUE, 'data.source.from is "latest"', "Did you mean -1s?"),
        (START, "LATEST", Code.INVALID_VALUE, 'data.source.from is "LATEST"', "Did you mean -1s?"),
        (STOP, "earliest", Code.INVALID_VALUE, 'is "earliest", the beginning, where no range can end', "Write latest,"),
        (STOP, "EARLIEST", Code.INVALID_VALUE, 'is "EARLIEST", the beginning, where no range can end', "Write latest,"),
        (STOP, "beginning", Code.INVALID_VALUE, "the beginning, where no range can end", "Write latest, caught_up"),
        (START, 17, Code.INVALID_VALUE, "data.source.from is the bare number 17.", 'Did you mean {"offset": 17}?'),
        (START, "2h", Code.INVALID_VALUE, "data.source.from", "Write -2h for a duration back from now."),
        (START, "-2x", Code.INVALID_VALUE, "data.source.from", ""),
        (START, "-100y", Code.INVALID_VALUE, "data.source.from", ""),
        (START, "-90w90d99999999h", Code.INVALID_VALUE, "data.source.from", ""),
        (START, "-36500d", Code.INVALID_VALUE, "reaches before 1970", "Use earliest for all there is."),
        (START, "1969-12-31T23:59:59Z", Code.INVALID_VALUE, "before 1970", ""),
        (START, "2026-11-21T06:00:00", Code.ZONE_MISSING, "it has no time zone.", "Write the time with Z"),
        (START, "2026-11-21 06:00:00", Code.ZONE_MISSING, "it has no time zone.", ""),
        (START, "2026-11-21", Code.ZONE_MISSING, "data.source.from", ""),
        (START, "2026-13-21T06:00:00Z", Code.INVALID_VALUE, "is not a valid time", ""),
        (START, "2026-11-21T25:00:00Z", Code.INVALID_VALUE, "is not a valid time", ""),
        (START, "2026-11-21T06:00:00+24:00", Code.INVALID_VALUE, "is not a valid time", ""),
        (START, {"offset": -1}, Code.INVALID_VALUE, "offset -1", "Offsets are whole numbers from 0 on"),
        (START, {"offset": True}, Code.INVALID_VALUE, "offset true", ""),
        (START, {"offset": 1.0}, Code.INVALID_VALUE, "offset 1.0", ""),
        (START, {"offset": 2**63}, Code.INVALID_VALUE, "offset 9223372036854775808", ""),
        (START, {"offset": "5"}, Code.INVALID_VALUE, 'offset "5"', ""),
        (START, {"ofset": 5}, Code.UNKNOWN_FIELD, 'unknown field "ofset"', 'Write {"offset": ...}.'),
        (START, {"offset": 5, "offsets": {}}, Code.INVALID_VALUE, "data.source.from", ""),
        (START, {"offsets": {}}, Code.INVALID_VALUE, "has no offsets", ""),
        (START, {"offsets": {"0": 5}, "others": "latest"}, Code.INVALID_VALUE, "others", ""),
        (START, {"offsets": {"0": 5}, "others": []}, Code.INVALID_VALUE, "others", ""),
        (START, {"offsets": {"0": 5}, "topic_id": 5}, Code.INVALID_VALUE, "topic_id", ""),
        (START, {"offsets": {"0": 5}, "topic": "x"}, Code.UNKNOWN_FIELD, '"topic"', '"others", "topic_id" and "since"'),
        (START, {"offsets": {"0": 5}, "since": 5}, Code.INVALID_VALUE, "has since 5", "a time with zone"),
        (START, {"offsets": {"0": 5}, "since": "2026-11-21T06:00:00"}, Code.ZONE_MISSING, "it has no time zone.", ""),
        (START, {"offsets": {"0": 5}, "since": "-2h"}, Code.INVALID_VALUE, "-2h", ""),
        (STOP, {"offsets": {"0": 5}, "others": "earliest"}, Code.INVALID_VALUE, "data.source.to", ""),
        (START, {"offsets": {"01": 5}}, Code.INVALID_VALUE, '"01"', ""),
        (START, {"offsets": {"-1": 5}}, Code.INVALID_VALUE, '"-1"', ""),
        (START, {"offsets": {"0": None}}, Code.INVALID_VALUE, "offsets.0", ""),
        (START, [], Code.INVALID_VALUE, "data.source.from is []", ""),
        (START, None, Code.INVALID_VALUE, "data.source.from is null", ""),
        (START, True, Code.INVALID_VALUE, "data.source.from is true", ""),
        (STOP, "caughtup", Code.INVALID_VALUE, "data.source.to", "Did you mean caught_up?"),
        (STOP, "earliest", Code.INVALID_VALUE, "data.source.to", ""),
        ("source.partitions", [], Code.INVALID_VALUE, "data.source.partitions", "Leave the field out"),
        ("source.partitions", [0, 0], Code.INVALID_VALUE, "data.source.partitions names a partition twice.", ""),
        ("source.partitions", [True], Code.INVALID_VALUE, "data.source.partitions holds true", ""),
        ("source.partitions", [-1], Code.INVALID_VALUE, "data.source.partitions holds -1", ""),
        ("source.partitions", list(range(100_001)), Code.TOO_LARGE, "names 100001 partitions", ""),
        ("source.topic", "a b", Code.INVALID_VALUE, "data.source.topic", "Use 1 to 249 characters"),
        ("source.topic", "x" * 250, Code.INVALID_VALUE, "data.source.topic", ""),
        ("source.topic", "..", Code.INVALID_VALUE, "data.source.topic", ""),
        ("source.topic", "", Code.INVALID_VALUE, "data.source.topic", ""),
        ("source.topic", "__consumer_offsets", Code.INTERNAL_TOPIC, "data.source.topic", ""),
        ("target.topic", "_x", Code.INTERNAL_TOPIC, 'data.target.topic is "_x", an internal topic.', ""),
        ("target.topic", "flights", Code.SAME_TOPIC, "flights", "Choose another target topic"),
        ("target.create", 1, Code.INVALID_VALUE, "data.target.create", ""),
        ("target.create", "true", Code.INVALID_VALUE, "data.target.create", ""),
        ("target.mapping", "keyhash", Code.INVALID_VALUE, "data.target.mapping", 'Write "key_hash".'),
        ("target.on_existing", "refused", Code.INVALID_VALUE, "data.target.on_existing", 'Write "refuse".'),
        ("target.headers", {"ad": {}}, Code.UNKNOWN_FIELD, "data.target.headers.ad", "data.target.headers.add."),
        ("target.headers", {"add": {"a": 5}}, Code.INVALID_VALUE, "data.target.headers.add.a", ""),
        ("target.headers", {"drop": "x"}, Code.INVALID_VALUE, "data.target.headers.drop", ""),
        ("target.headers", {"drop": [""] * 3}, Code.INVALID_VALUE, "data.target.headers.drop[0]", ""),
        ("target.headers", {"drop": ["x"] * 101}, Code.TOO_LARGE, "data.target.headers.drop has 101 entries", ""),
        ("verify", "digst", Code.INVALID_VALUE, "is not one of source, digest, count, none.", 'Write "digest".'),
        ("verify", None, Code.INVALID_VALUE, "data.verify is null", ""),
        ("on_data_loss", True, Code.INVALID_VALUE, "data.on_data_loss is true", ""),
        ("job.profile", "", Code.INVALID_VALUE, "data.job.profile", ""),
        ("job.profile", "../x", Code.INVALID_VALUE, "data.job.profile", ""),
        ("job.master", "local[9]", Code.UNKNOWN_FIELD, "data.job.master", ""),
        ("source.client", {"bootstrap.servers": "evil:1"}, Code.UNKNOWN_FIELD, "data.source.client", ""),
        ("limits.max_bytes_per_s", 0, Code.INVALID_VALUE, "must be more than 0", "Use pause"),
        ("limits.max_bytes_per_s", -1, Code.INVALID_VALUE, "must be more than 0", ""),
        ("limits.max_bytes_per_s", True, Code.INVALID_VALUE, "is true", ""),
        ("limits.max_bytes_per_s", "5 apples", Code.INVALID_VALUE, "is not a size such as", "Write it like 10MB"),
        ("limits.max_bytes_per_s", "0MB", Code.INVALID_VALUE, "must be more than 0", "Use pause"),
        ("limits.max_bytes", "0", Code.INVALID_VALUE, "not a number of bytes above 0", "Write it like 10MB"),
        ("limits.max_bytes", True, Code.INVALID_VALUE, "not a number of bytes above 0", "Write it like 10MB"),
        ("limits.max_bytes", "99999999TB", Code.INVALID_VALUE, "not a number of bytes above 0", ""),
        (START, "beginning", Code.INVALID_VALUE, 'is "beginning"', "Did you mean earliest?"),
        (START, "100", Code.INVALID_VALUE, 'is "100"', "Did you mean offset:100?"),
        (STOP, "now", Code.INVALID_VALUE, 'is "now"', "Did you mean latest?"),
        (STOP, "end", Code.INVALID_VALUE, 'is "end"', "Did you mean latest?"),
        (START, "offset:ten", Code.INVALID_VALUE, "no whole number", "Write offset:10"),
        (START, "offsets:0=1,0=2", Code.INVALID_VALUE, "each partition once", "Write offset:10"),
        ("limits.max_bytes_per_s", 10**400, Code.INVALID_VALUE, "must be more than 0", ""),
        ("limits.mode", "fixed", Code.MISSING_FIELD, "has mode fixed, but no rate", "Name max_bytes_per_s"),
        ("limits", {"mode": "unlimited", "max_bytes_per_s": 5}, Code.INVALID_VALUE, "has mode unlimited and a rate", "choose mode"),
        ("limits.mode", "fast", Code.INVALID_VALUE, "data.limits.mode", ""),
        ("limits.weight", 0, Code.INVALID_VALUE, "data.limits.weight", ""),
        ("limits.tier", 10, Code.INVALID_VALUE, "data.limits.tier", ""),
        ("limits.override_live_slo", "yes", Code.INVALID_VALUE, "data.limits.override_live_slo", ""),
        ("limits.max_records", 0, Code.INVALID_VALUE, "data.limits.max_records", ""),
        ("limits.max_records", 1.5, Code.INVALID_VALUE, "data.limits.max_records", ""),
        ("limits.max_runtime", 90, Code.INVALID_VALUE, "data.limits.max_runtime", "Write 90s"),
        ("limits.max_runtime", "0s", Code.INVALID_VALUE, "must be longer than zero", ""),
        ("limits.max_runtime", "-5s", Code.INVALID_VALUE, "data.limits.max_runtime", ""),
        ("limits.max_runtime", "P1Y", Code.INVALID_VALUE, "data.limits.max_runtime", ""),
        ("limits.deadline", "2026-11-21T06:00:00Z", Code.INVALID_VALUE, "has passed already", ""),
        ("limits.deadline", "2026-11-21T06:00:00", Code.ZONE_MISSING, "data.limits.deadline", ""),
        ("limits", None, Code.INVALID_VALUE, "data.limits must be an object, not null.", ""),
        ("plan_hash", "", Code.INVALID_VALUE, "data.plan_hash", ""),
    ],
)  # fmt: skip
def test_a_refusal_names_the_field_and_the_nearest_right_thing(
    path: str, value: object, code: Code, message: str, hint: str
) -> None:
    refusal = refusal_of(bent(GOOD_DATA, path, value))
    assert (refusal.verb, refusal.id, refusal.source) == (
        "replay",
        "0199f0c2-6a1e-7c3d-9a55-000000000001",
        "//ops/alice",
    )
    assert refusal.code == code.value
    assert message in refusal.message
    assert hint in refusal.hint or hint in refusal.message
    assert refusal.hint
    assert "\n" not in refusal.message + refusal.hint


@pytest.mark.parametrize("data", [[], "x", 5, True])
def test_data_that_is_no_object_is_refused(data: object) -> None:
    assert refusal_of(data).code == Code.INVALID_VALUE.value


def test_several_problems_are_told_at_once_the_unknown_field_first() -> None:
    data = bent(bent(bent(GOOD_DATA, "verify", "all"), "source.to"), "target.topics", "x")
    refusal = refusal_of(data)
    assert (refusal.code, refusal.message) == (
        Code.UNKNOWN_FIELD.value,
        "data.target.topics is not a field of replay. Also wrong: data.source.to, data.verify.",
    )


def test_an_object_with_too_many_fields_is_refused_as_a_whole() -> None:
    refusal = refusal_of(GOOD_DATA | {f"x{i}": i for i in range(1000)})
    assert (refusal.code, refusal.message) == (
        Code.TOO_LARGE.value,
        "data has 1003 fields, more than any record of recoveryd.",
    )
