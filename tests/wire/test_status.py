"""Status records: the contract's fields, nothing lost on the way out and back, and a start that folds many quickly."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoveryd.forecast.wire import FORECAST as FORECAST_FORM
from recoveryd.kernel.state import DaemonRecord
from recoveryd.kernel.states import CommandRef, State, Stop, StopReason
from recoveryd.recovery.model import (
    Attempt,
    CompletenessRow,
    EtaSeconds,
    Finding,
    PartitionProgress,
    Plan,
    PlannedBudget,
    PlannedPartition,
    PlannedTopic,
    PlannedTraffic,
    Progress,
    Recovery,
    Severity,
)
from recoveryd.recovery.spec import Earliest, Latest, Limits, SourceRef
from recoveryd.replay.spec import ReplaySpec, TargetRef
from recoveryd.wire.plain_json import to_json
from recoveryd.wire.status_topic import (
    StatusFold,
    StatusUnreadable,
    daemon_from_document,
    daemon_to_document,
    encode_daemon,
)
from recoveryd_jobs.contract import ReceiptsHome, Verification
from tests.builders.core import STATUS, to_document
from tests.patience import lines_of
from tests.wire.json_schema import is_valid, load
from tests.wire.records import NOW_MS
from tests.wire.strategies import counts, recoveries, text, times_ms
from tools.examples import FORECAST
from tools.examples import STATUS as EXAMPLE

COMPLETED = Recovery(
    id="flights-rerun",
    kind="replay",
    state=State.COMPLETED,
    why="every partition reached its pinned end: zero lag",
    version=17,
    created_ms=NOW_MS,
    updated_ms=NOW_MS + 31_000,
    command=CommandRef("0199f0c2-6a1e-7c3d-9a55-000000000001", "//ops/alice", "wrong delay unit in v41"),
    spec=ReplaySpec(SourceRef("flights", Earliest(), Latest()), TargetRef("flights.v42", create=True)),
    plan=Plan(
        hash="sha256:" + "5f" * 32,
        source=PlannedTopic("main", "flights", "mA9tq3mWQ0mVw1Yb0g6z7A", 1),
        target=PlannedTopic("main", "flights.v42", "k1Xb2m7bTZe0m9o2o9c2sw", 1),
        partitions=(PlannedPartition(0, 0, 84000, False, 84000, 0, 30_000_000),),
        lanes=((0,),),
        from_time_ms=None,
        to_time_ms=None,
        records_at_most=84000,
        bytes_at_most=30_000_000,
        eta_seconds=EtaSeconds(4.0, 6.0, 12.0),
        create_target=True,
        create_configs={"retention.ms": "-1"},
        findings=(),
        pinned_at_ms=NOW_MS,
        budget=PlannedBudget("unlimited", None, None, None, why="no limit is asked for"),
        traffic=PlannedTraffic("replay", "flights.v42"),
        forecast=FORECAST_FORM.read(FORECAST),
        receipts=ReceiptsHome("recovery.receipts.v1", "Zr4uQ0mWQ0mVw1Yb0g6z7A", 3, 8, 1200),
    ),
    attempt=Attempt(number=1),
    progress=Progress(
        (PartitionProgress(0, 84000, 84000, "done", 83990, 0, 10, 0, 29_400_000),),
        lag_records=0,
        eta_seconds=0.0,
        verified_records=167_980,
        verified_bytes=58_800_000,
        verified_offsets=168_000,
        offsets_to_verify=168_000,
    ),
    rule="no limit was asked for",
    stop=Stop(StopReason.ZERO_LAG, "bounded", NOW_MS + 28_000, {"lag_records": 0}),
    completeness=(CompletenessRow(0, 0, 84000, 83990, 0, 10, 0, NOW_MS - 108_000_000, NOW_MS - 24_001_000),),
    verification=Verification("match", 83990, 83990, "c0ffee", scope="source", target_ends={0: 83994}),
)


def test_a_finished_recovery_is_the_contracts_status_record() -> None:
    document = to_document(COMPLETED)
    assert document | {"internal": {}} == EXAMPLE


def test_limits_are_told_by_their_names_in_the_contract() -> None:
    limits = Limits(5e6, None, 1, 2, 90_000, NOW_MS)
    document = to_document(replace(COMPLETED, limits=limits, effective_bytes_per_s=5e6, rule="as asked"))
    assert document["limits"] == {
        "requested": {
            "max_bytes_per_s": 5e6,
            "max_bytes": 1,
            "max_records": 2,
            "max_runtime": "90s",
            "deadline": "2026-11-21T06:00:00.000Z",
        },
        "effective_bytes_per_s": 5e6,
        "rule": "as asked",
    }


def test_findings_and_evidence_are_public() -> None:
    plan = COMPLETED.plan
    assert plan is not None
    found = replace(COMPLETED, plan=replace(plan, findings=(Finding("target_retention", Severity.WARN, "short"),)))
    assert to_document(found)["plan"]["findings"] == [
        {"code": "target_retention", "severity": "warn", "message": "short"}
    ]


@settings(max_examples=100, deadline=None)
@given(recoveries)
def test_every_recovery_reads_back_as_it_was(recovery: Recovery) -> None:
    key, value = STATUS.encode(recovery)
    assert key == recovery.id.encode()
    assert STATUS.read(json.loads(value)) == recovery


@settings(max_examples=50, deadline=None)
@given(recoveries)
def test_every_status_record_fits_the_documented_model(recovery: Recovery) -> None:
    assert is_valid(json.loads(STATUS.encode(recovery)[1]), load("status.v1.json"))


@given(st.builds(DaemonRecord, st.integers(-1, 2**62), counts, text, times_ms))
def test_the_daemons_own_record_reads_back(record: DaemonRecord) -> None:
    key, value = encode_daemon(record)
    assert key == b"_daemon"
    assert is_valid(json.loads(value), load("status.daemon.v1.json"))
    assert daemon_from_document(json.loads(value)) == record


def test_a_fold_keeps_the_newest_of_each_key() -> None:
    first, second = replace(COMPLETED, version=1), replace(COMPLETED, version=2)
    other = replace(COMPLETED, id="other")
    daemon = DaemonRecord(7, 3, "topic", NOW_MS)
    records = [
        STATUS.encode(first),
        STATUS.encode(other),
        encode_daemon(DaemonRecord(1, 1)),
        STATUS.encode(second),
        (b"other", None),
        (None, b"nobody"),
        encode_daemon(daemon),
    ]
    assert STATUS.fold(records) == StatusFold({"flights-rerun": second}, daemon)


def test_a_fold_of_nothing_is_a_new_daemon() -> None:
    assert STATUS.fold([]) == StatusFold({}, DaemonRecord())


def test_what_an_earlier_record_of_a_key_says_does_not_matter() -> None:
    assert STATUS.fold([(b"flights-rerun", b"broken"), STATUS.encode(COMPLETED)]).nouns == {"flights-rerun": COMPLETED}


def _without(document: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != name}


GOOD = to_document(COMPLETED)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"null",
        b'{"recovery":"x"}',
        *(to_json(_without(GOOD, name)) for name in GOOD if name not in {"recovery", "attempt"}),
        to_json(GOOD | {"state": "dancing"}),
        to_json(GOOD | {"created": "yesterday"}),
        to_json(GOOD | {"plan": 5}),
        to_json(GOOD | {"internal": GOOD["internal"] | {"format": 99}}),
    ],
)
def test_a_record_that_is_not_ours_stops_the_fold_and_is_named(value: bytes) -> None:
    with pytest.raises(StatusUnreadable) as caught:
        STATUS.fold([(b"flights-rerun", value)])
    assert str(caught.value)


@pytest.mark.parametrize(
    "document", [{}, {"internal": {"format": 3}}, daemon_to_document(DaemonRecord()) | {"epoch": None, "internal": {}}]
)
def test_a_daemon_record_that_is_not_ours_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(StatusUnreadable):
        daemon_from_document(document)


@pytest.mark.parametrize("kept", [None, "much", ["live"], {"live": 3}, {"live": {"main": {"safe": {"3": "fast"}}}}])
def test_what_is_kept_in_another_form_is_forgotten_and_never_keeps_a_daemon_from_starting(kept: object) -> None:
    record = DaemonRecord(7, 3, "topic", NOW_MS)
    document = daemon_to_document(record)
    document["internal"]["kept"] = kept
    assert daemon_from_document(document) == record


def test_fields_of_another_release_are_ignored_or_get_their_default() -> None:
    newer = GOOD | {"colour": "blue", "internal": GOOD["internal"] | {"mood": 1}}
    newer["internal"]["attempt"] = newer["internal"]["attempt"] | {"shoe_size": 43}
    newer["progress"] = newer["progress"] | {"shoe_size": 43}
    assert STATUS.read(newer) == COMPLETED
    for name in set(GOOD["internal"]) - {"format", "spec", "attempt", "plan"}:
        assert STATUS.read(GOOD | {"internal": _without(GOOD["internal"], name)}) == COMPLETED
    plan = GOOD["internal"]["plan"]
    columns = _without(plan["partitions"], "first_ms")
    assert STATUS.read(GOOD | {"internal": GOOD["internal"] | {"plan": plan | {"partitions": columns}}}) == COMPLETED


def test_no_number_that_json_cannot_hold_stops_the_journal() -> None:
    nan = float("nan")
    odd = replace(
        COMPLETED,
        progress=replace(COMPLETED.progress, records_per_s=nan, eta_seconds=float("inf")),
        stop=Stop(StopReason.STALLED, None, NOW_MS, {"rate": nan, "all": (1, float("-inf"))}),
    )
    document = json.loads(STATUS.encode(odd)[1])
    assert (document["progress"]["records_per_s"], document["progress"]["eta_seconds"]) == (0.0, None)
    assert document["stop"]["evidence"] == {"rate": None, "all": [1, None]}


def test_half_a_character_is_written_as_one_that_can_be_read() -> None:
    odd = replace(COMPLETED, why="half \ud83d of one", stop=Stop(StopReason.STALLED, None, NOW_MS, {"name": "\udc00"}))
    key, value = STATUS.encode(odd)
    value.decode()
    read = STATUS.fold([(key, value)]).nouns[odd.id]
    assert read == replace(odd, why="half ? of one", stop=Stop(StopReason.STALLED, None, NOW_MS, {"name": "?"}))


def test_folding_costs_as_much_for_the_last_recovery_as_for_the_first() -> None:
    records = [STATUS.encode(replace(COMPLETED, id=f"r{i}")) for i in range(200)]
    assert len(STATUS.fold(records).nouns) == 200
    assert lines_of(lambda: STATUS.fold(records)) <= 2.1 * lines_of(lambda: STATUS.fold(records[:100]))
