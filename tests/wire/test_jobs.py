"""The file an attempt starts from, made from an effect of the core."""

from dataclasses import replace

import pytest

from recoveryd.capabilities import make_job
from recoveryd.recovery.effects import LaunchAttempt
from recoveryd.recovery.job_specs import JobDefaults, make_lanes
from recoveryd.recovery.model import Allowance, Plan, PlannedPartition, PlannedTopic
from recoveryd.recovery.spec import Earliest, Latest, Limits, SourceRef
from recoveryd.replay.spec import ReplaySpec, TargetRef
from recoveryd_jobs import contract
from recoveryd_jobs.contract import (
    Directive,
    ReceiptsHome,
)

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
FIRST = Directive("r1", 2, 9, "run", 30_000, 5e6, None, 65_536.0, {0: 0.5, 1: 0.5}, "starts")
LAUNCH = LaunchAttempt("r1", 2, SPEC, PLAN, FIRST)
DEFAULTS = JobDefaults(
    scope="default",
    clients={"main": {"bootstrap.servers": "a:1"}, "dr": {"bootstrap.servers": "b:1"}},
    directives_topic="recovery.directives.v1",
    progress_topic="recovery.progress.v1",
    receipts_topic="recovery.receipts.v1",
)


def test_the_file_an_attempt_starts_from() -> None:
    assert make_job(DEFAULTS)(LAUNCH) == contract.JobSpec(
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
        directive=FIRST,
        verify="count",
        on_data_loss="continue",
    )


def test_the_file_survives_its_json() -> None:
    spec = make_job(DEFAULTS)(LAUNCH)
    assert contract.decode(contract.JobSpec, contract.encode(spec)) == spec


def test_the_pinned_place_of_the_receipts_and_what_is_copied_already_travel_with_the_spec() -> None:
    plan = replace(PLAN, receipts=ReceiptsHome("theirs.receipts.v1", "R", 3, 8, 70))
    spec = make_job(DEFAULTS)(replace(LAUNCH, plan=plan, positions={2: 40, 0: 10, 3: 11, 1: 10}))
    assert spec.receipts == contract.ReceiptsHome("theirs.receipts.v1", "R", 3, 8, 70)
    assert spec.receipts_topic == "theirs.receipts.v1"
    assert spec.lanes == (
        contract.LaneSpec(0, (contract.PartitionRange(2, 10, 310, 40),)),
        contract.LaneSpec(1, (contract.PartitionRange(0, 10, 110, 10), contract.PartitionRange(3, 10, 210, 11))),
    )


def test_the_proof_is_told_of_how_many_partitions_a_copy_of_all_and_of_what_is_added_has_to_have() -> None:
    following = replace(PLAN, partitions=tuple(replace(p, stop=None) for p in PLAN.partitions))
    chosen = replace(SPEC, source=replace(SPEC.source, partitions=(0,)))
    launches = LAUNCH, replace(LAUNCH, plan=following), replace(LAUNCH, plan=following, spec=chosen)
    assert [make_job(DEFAULTS)(launch).source.partitions for launch in launches] == [0, 4, 0]


def test_a_shared_target_is_not_exclusive() -> None:
    spec = replace(SPEC, target=replace(SPEC.target, on_existing="append"))
    assert not make_job(DEFAULTS)(replace(LAUNCH, spec=spec)).target.exclusive


def test_a_cluster_that_left_the_config_is_an_error() -> None:
    with pytest.raises(KeyError):
        make_job(replace(DEFAULTS, clients={"main": {}}))(LAUNCH)


def test_each_lane_gets_its_part_of_the_caps() -> None:
    lanes = make_lanes(replace(LAUNCH, allowances=(Allowance(51, 500), Allowance(50, None))))
    assert [(lane.max_records, lane.max_bytes) for lane in lanes] == [(51, 500), (50, None)]
    assert {(lane.max_records, lane.max_bytes) for lane in make_lanes(LAUNCH)} == {(None, None)}
