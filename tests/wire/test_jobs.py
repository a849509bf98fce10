"""Between the core's words and the jobs': directives, heartbeats and the file an attempt starts from."""

from dataclasses import replace

import pytest

from daemon.core.commands import Earliest, Latest, Limits, ReplaySpec, SourceRef, TargetRef
from daemon.core.directive import Directive
from daemon.core.effects import LaunchAttempt
from daemon.core.events import DriverHeartbeat, LaneHeartbeat, LanePosition
from daemon.core.model import Allowance, Difference, Plan, PlannedPartition, PlannedTopic, ReceiptsHome, Verification
from daemon.wire.jobs import (
    JobDefaults,
    decode_directive,
    decode_progress,
    encode_directive,
    make_job_spec,
    make_lanes,
)
from spark_jobs import contract

PLAN = Plan(
    hash="h",
    source=PlannedTopic("main", "flights", "S", 4),
    target=PlannedTopic("dr", "flights.v42", "T", 4),
    partitions=tuple(PlannedPartition(p, 10, stop) for p, stop in ((0, 110), (1, 10), (2, 310), (3, 210))),
    lanes=((2,), (0, 3)),
    from_time_ms=5,
    to_time_ms=None,
    records_at_most=600,
    bytes_at_most=1,
    eta_seconds=None,
    create_target=False,
    create_configs={},
    findings=(),
    pinned_at_ms=0,
)
SPEC = ReplaySpec(
    SourceRef("flights", Earliest(), Latest()),
    TargetRef("flights.v42", "dr", mapping="key_hash", headers_add=(("a", "b"),), headers_drop=("c",)),
    Limits(max_bytes_per_s=5e6),
    verify="count",
    on_data_loss="continue",
)
FIRST = Directive("r1", 2, 9, "run", 5e6, None, 65_536.0, 30_000, {0: 0.5, 1: 0.5}, "starts")
LAUNCH = LaunchAttempt("r1", 2, SPEC, PLAN, FIRST)
DEFAULTS = JobDefaults(
    scope="default",
    clients={"main": {"bootstrap.servers": "a:1"}, "dr": {"bootstrap.servers": "b:1"}},
    directives_topic="recovery.directives.v1",
    progress_topic="recovery.progress.v1",
    receipts_topic="recovery.receipts.v1",
)


def test_the_file_an_attempt_starts_from() -> None:
    assert make_job_spec(LAUNCH, DEFAULTS) == contract.JobSpec(
        kind="replay",
        scope="default",
        recovery="r1",
        attempt=2,
        lanes=(
            contract.LaneSpec(0, (contract.PartitionRange(2, 10, 310),)),
            contract.LaneSpec(1, (contract.PartitionRange(0, 10, 110), contract.PartitionRange(3, 10, 210))),
        ),
        source=contract.SourceSpec("main", "flights", "S", {"bootstrap.servers": "a:1"}, 5, None),
        target=contract.TargetSpec(
            cluster="dr",
            topic="flights.v42",
            topic_id="T",
            partitions=4,
            client={"bootstrap.servers": "b:1"},
            mapping="key_hash",
            headers_add=(("a", "b"),),
            headers_drop=("c",),
            exclusive=True,
        ),
        control=contract.ControlSpec({"bootstrap.servers": "a:1"}, "recovery.directives.v1", "recovery.progress.v1"),
        receipts_topic="recovery.receipts.v1",
        directive=contract.Directive("r1", 2, 9, "run", 30_000, 5e6, None, 65_536.0, {"0": 0.5, "1": 0.5}, "starts"),
        verify="count",
        on_data_loss="continue",
    )


def test_the_file_survives_its_json() -> None:
    spec = make_job_spec(LAUNCH, DEFAULTS)
    assert contract.decode(contract.JobSpec, contract.encode(spec)) == spec


def test_the_pinned_place_of_the_receipts_and_what_is_copied_already_travel_with_the_spec() -> None:
    plan = replace(PLAN, receipts=ReceiptsHome("theirs.receipts.v1", "R", 3, 8, 70))
    spec = make_job_spec(replace(LAUNCH, plan=plan, positions={2: 40, 0: 10, 3: 11, 1: 10}), DEFAULTS)
    assert spec.receipts == contract.ReceiptsHome("theirs.receipts.v1", "R", 3, 8, 70)
    assert spec.receipts_topic == "theirs.receipts.v1"
    assert spec.lanes == (
        contract.LaneSpec(0, (contract.PartitionRange(2, 10, 310, 40),)),
        contract.LaneSpec(1, (contract.PartitionRange(0, 10, 110, 10), contract.PartitionRange(3, 10, 210, 11))),
    )


def test_a_shared_target_is_not_exclusive() -> None:
    spec = replace(SPEC, target=replace(SPEC.target, on_existing="append"))
    assert not make_job_spec(replace(LAUNCH, spec=spec), DEFAULTS).target.exclusive


def test_a_cluster_that_left_the_config_is_an_error() -> None:
    with pytest.raises(KeyError):
        make_job_spec(LAUNCH, replace(DEFAULTS, clients={"main": {}}))


def test_each_lane_gets_its_part_of_the_caps() -> None:
    lanes = make_lanes(replace(LAUNCH, allowances=(Allowance(51, 500), Allowance(50, None))))
    assert [(lane.max_records, lane.max_bytes) for lane in lanes] == [(51, 500), (50, None)]
    assert {(lane.max_records, lane.max_bytes) for lane in make_lanes(LAUNCH)} == {(None, None)}


DIRECTIVE = Directive("r1", 2, 9, "pause", 5e6, None, 65_536.0, 30_000, {0: 0.25, 1: 0.75}, "because")


def test_a_directive_reads_back() -> None:
    key, value = encode_directive(DIRECTIVE)
    assert key == b"r1"
    assert decode_directive(value) == DIRECTIVE


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"{}", b'{"recovery":5}', encode_directive(DIRECTIVE)[1].replace(b'"0"', b'"x"')]
)
def test_a_directive_that_is_none_is_an_error_of_the_contract(value: bytes) -> None:
    with pytest.raises(contract.ContractError):
        decode_directive(value)


def test_a_lanes_heartbeat() -> None:
    heartbeat = contract.Heartbeat(
        recovery="r1",
        attempt=2,
        lane=1,
        directive_sequence=9,
        state="copying",
        chunk_open=True,
        records_per_s=1.5,
        bytes_per_s=2.5,
        positions=(contract.Position(3, 20, None, "copying", 1, 2, 3, 4, 5),),
        why="w",
        sent_ms=6,
    )
    assert decode_progress(contract.encode(heartbeat)) == LaneHeartbeat(
        "r1", 2, 1, 9, "copying", True, 1.5, 2.5, (LanePosition(3, 20, None, "copying", 1, 2, 3, 4, 5),), "w"
    )


def test_a_drivers_report() -> None:
    report = contract.DriverReport(
        recovery="r1",
        attempt=2,
        phase="verified",
        directive_sequence=9,
        verification=contract.VerificationReport(
            "mismatch", 5, 4, "d", (contract.Difference("missing", 1, 2, None, 3, 4, "m"),), "w", "mixed", 1, 2
        ),
        error_code="internal",
        error_message="e",
    )
    assert decode_progress(contract.encode(report)) == DriverHeartbeat(
        "r1",
        2,
        "verified",
        9,
        Verification("mismatch", 5, 4, "d", (Difference("missing", 1, 2, None, 3, 4, "m"),), "w", "mixed", 1, 2),
        "internal",
        "e",
    )


@pytest.mark.parametrize("value", [b"", b"null", b"{}", b'{"phase":1}', b'{"lane":"x"}'])
def test_progress_that_is_none_is_an_error_of_the_contract(value: bytes) -> None:
    with pytest.raises(contract.ContractError):
        decode_progress(value)
