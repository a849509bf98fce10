"""Status documents and answers in their real form, for recoveries in the states that the CLI distinguishes."""

import json
from dataclasses import replace
from typing import Any

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.decision import Answer, Notice
from recoveryd.kernel.states import CommandRef, State, Stop, StopReason
from recoveryd.recovery.model import (
    CompletenessRow,
    EtaSeconds,
    Finding,
    PartitionProgress,
    Plan,
    PlannedPartition,
    PlannedTopic,
    Progress,
    Recovery,
    Severity,
)
from recoveryd.recovery.spec import Earliest, Latest, Limits, SourceRef
from recoveryd.replay.spec import ReplaySpec, TargetRef
from recoveryd.wire.events import encode_answer, encode_notice
from recoveryd_jobs.contract import Difference, Verification
from tests.builders.core import to_document

NOW_MS = 1_800_000_000_000
PLAN_HASH = "sha256:4f2c"

PLAN = Plan(
    hash=PLAN_HASH,
    source=PlannedTopic("main", "flights", "c291cmNl", 2),
    target=PlannedTopic("main", "flights.v42", "", 2),
    partitions=(PlannedPartition(0, 0, 84_000), PlannedPartition(1, 1_000, 51_000, at_end=True)),
    lanes=((0,), (1,)),
    from_time_ms=None,
    to_time_ms=None,
    records_at_most=134_000,
    bytes_at_most=41_200_000,
    eta_seconds=EtaSeconds(2.0, 12.0, 200.0),
    create_target=True,
    create_configs={},
    findings=(Finding("target_retention", Severity.WARN, "Records older than 7 days vanish soon after they land."),),
    pinned_at_ms=NOW_MS,
)

RUNNING = Recovery(
    id="flights-rerun",
    kind="replay",
    state=State.RUNNING,
    why="2 lanes copy at 41 MB/s, 12 s left",
    version=7,
    created_ms=NOW_MS,
    updated_ms=NOW_MS + 5_000,
    command=CommandRef("c-1", "//ops/alice", "wrong delay unit"),
    spec=ReplaySpec(SourceRef("flights", Earliest(), Latest()), TargetRef("flights.v42", create=True)),
    plan=PLAN,
    progress=Progress(
        (
            PartitionProgress(0, 42_000, 84_000, "copying", 42_000),
            PartitionProgress(1, 26_000, 51_000, "copying", 25_000),
        ),
        records_per_s=120_000.0,
        bytes_per_s=41e6,
        lag_records=67_000,
        eta_seconds=12.0,
    ),
    limits=Limits(max_bytes_per_s=10e6),
    rule="limits.max_bytes_per_s",
    effective_bytes_per_s=10e6,
)

ROWS = (
    CompletenessRow(0, 0, 84_000, 83_990, 0, 10, 0),
    CompletenessRow(1, 1_000, 51_000, 50_000, 0, 0, 0),
)

COMPLETED = replace(
    RUNNING,
    state=State.COMPLETED,
    why="All 133,990 records arrived and match.",
    version=12,
    progress=Progress(
        (PartitionProgress(0, 84_000, 84_000, "done", 83_990), PartitionProgress(1, 51_000, 51_000, "done", 50_000))
    ),
    stop=Stop(StopReason.ZERO_LAG, "bounded", NOW_MS + 9_000, {"lag_records": 0}),
    completeness=ROWS,
    verification=Verification("match", 133_990, 133_990, "xor:00ff", scope="source"),
)

MISMATCHED = replace(
    COMPLETED,
    state=State.FAILED,
    why="The target does not hold exactly what was copied.",
    error_code=Code.VERIFICATION_MISMATCH.value,
    verification=Verification(
        "mismatch",
        133_990,
        133_989,
        "xor:00fe",
        (Difference("missing", 1, 1_200, message="1 record is missing."),),
        scope="source",
    ),
)


def in_state(state: State, why: str = "because", **changes: Any) -> dict[str, Any]:
    """The running recovery, but in another state."""
    changes = {"version": 8, **changes}
    return to_document(replace(RUNNING, state=state, why=why, **changes))


def make_answer(
    command: dict[str, Any], kind: str = "accepted", code: Code | None = None, message: str = "fine", hint: str = ""
) -> dict[str, Any]:
    """The answer to a command as it is on the events topic."""
    hint = hint or (code.next_step if code else "")
    verb = command["type"].split(".")[3]
    answer = Answer(kind, verb, command["id"], command["subject"], code.value if code else "", message, hint, 3)
    return parse(encode_answer(answer, "default", NOW_MS).value)


def make_notice(kind: str, data: dict[str, Any], subject: str = "flights-rerun") -> dict[str, Any]:
    return parse(encode_notice(Notice(kind, subject, data), "default", NOW_MS).value)


def parse(value: bytes | None) -> dict[str, Any]:
    assert value is not None
    parsed: dict[str, Any] = json.loads(value)
    return parsed
