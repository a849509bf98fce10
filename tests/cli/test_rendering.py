"""How numbers, times and live progress are shown."""

import io
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from rich.console import Console

from recoveryd.cli.render import figures
from recoveryd.cli.render.following import following
from recoveryd.cli.render.proof import result_parts
from recoveryd.kernel.states import Stop, StopReason
from recoveryd.recovery.model import PlannedPartition
from recoveryd_jobs.contract import Verification
from tests.builders.core import to_document
from tests.cli.recoveries import COMPLETED, NOW_MS, PLAN, RUNNING


def printed(*parts: object) -> str:
    console = Console(file=io.StringIO(), width=120)
    for part in parts:
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"), (0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (41_200_000, "41.2 MB"), (123_456_789, "123 MB"),
        (5e12, "5.0 TB"), (5e15, "5000 TB"),
    ],
)  # fmt: skip
def test_sizes(number: float | None, text: str) -> None:
    assert figures.size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"), (0, "0 s"), (0.42, "0.4 s"), (12.4, "12 s"), (59.6, "1 min"), (200, "3 min 20 s"), (7_500, "2 h 5 min"),
        (86_400 * 3 + 14_400, "3 d 4 h"),
    ],
)  # fmt: skip
def test_durations(seconds: float | None, text: str) -> None:
    assert figures.duration(seconds) == text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("max_bytes_per_s", 10e6, "10.0 MB/s"), ("max_bytes", 5e9, "5.0 GB"), ("max_records", 1e6, "1,000,000"),
        ("max_runtime", "2h", "2h"),
    ],
)  # fmt: skip
def test_limits_are_read_by_the_unit_in_their_name(name: str, value: object, text: str) -> None:
    assert figures.limit(name, value) == text


def test_all_but_everything_is_not_100_percent() -> None:
    assert [figures.percent(ratio) for ratio in (None, 0.0, 0.9999, 1.0)] == ["-", "0%", "99%", "100%"]


def test_the_age_of_a_time_is_counted_from_now() -> None:
    now = datetime(2026, 11, 21, 6, 1, tzinfo=UTC)

    assert figures.age("2026-11-21T06:00:30.000Z", now) == "30 s"
    assert figures.age("2026-11-21T06:02:00.000Z", now) == "0 s"
    assert figures.age("soon", now) == "-"


def test_the_share_done_counts_offsets_of_the_plan() -> None:
    following_plan = replace(PLAN, partitions=(PlannedPartition(0, 0, None),))
    empty_plan = replace(PLAN, partitions=(PlannedPartition(0, 7, 7),))

    ratios = [
        figures.progress_ratio(to_document(recovery))
        for recovery in (
            RUNNING,
            COMPLETED,
            replace(RUNNING, plan=None),
            replace(RUNNING, plan=following_plan),
            replace(RUNNING, plan=empty_plan),
        )
    ]
    assert ratios == [0.5, 1.0, None, None, 1.0]


def test_on_a_terminal_progress_is_drawn_over_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    console = Console(file=io.StringIO(), force_terminal=True, width=100)

    with following(console) as on_change:
        on_change(to_document(RUNNING))
        on_change(to_document(COMPLETED))

    assert isinstance(console.file, io.StringIO)
    drawn = console.file.getvalue()
    assert "\x1b[" in drawn
    assert drawn.index("2 lanes copy") < drawn.index("133,990 records arrived")


def test_elsewhere_the_same_line_is_not_printed_twice() -> None:
    console = Console(file=io.StringIO())

    with following(console) as on_change:
        on_change(to_document(RUNNING))
        on_change(to_document(replace(RUNNING, version=8, updated_ms=NOW_MS + 60_000)))

    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().count("\n") == 1


def test_evidence_of_a_stop_is_a_sentence_and_its_rows_a_table() -> None:
    evidence = {"rule": "caught_up", "partitions": [{"partition": 0, "lag": 0}, {"partition": 1, "lag": 12_000}]}
    stopped = replace(
        COMPLETED, stop=Stop(StopReason.ZERO_LAG, "caught_up", NOW_MS, evidence), completeness=(), verification=None
    )

    lines = printed(*result_parts(to_document(stopped))).split("\n")

    assert [line.split() for line in lines if line.strip()] == [
        ["Stopped", "at", "2027-01-15", "08:00:00.000:", "zero_lag", "(caught_up);", "rule", "caught_up."],
        ["EVIDENCE:", "PARTITIONS", "PARTITION", "LAG"],
        ["0", "0"],
        ["1", "12,000"],
    ]


@pytest.mark.parametrize(
    ("evidence", "told"),
    [
        (
            {"records": 2_864, "bytes": 300_164, "max_records": None, "max_bytes": 300_000},
            "records 2,864, bytes 300,164, max_bytes 300,000",
        ),
        ({"message": "Offsets [5, 8) were deleted."}, "Offsets [5, 8) were deleted"),
        ({"since_ms": 1_800_000_000_000, "is_new": True}, "since_ms 1800000000000, is_new True"),
    ],
)
def test_what_a_rule_saw_is_told_as_people_say_it(evidence: dict[str, object], told: str) -> None:
    stopped = replace(
        COMPLETED, stop=Stop(StopReason.MAX_BYTES, None, NOW_MS, evidence), completeness=(), verification=None
    )
    assert (
        printed(*result_parts(to_document(stopped))).strip()
        == f"Stopped at 2027-01-15 08:00:00.000: max_bytes; {told}."
    )


def test_a_skipped_verification_gives_its_reason_and_no_numbers() -> None:
    ended = replace(
        COMPLETED, stop=None, completeness=(), verification=Verification("skipped", 5, 0, "", (), "verify is none")
    )

    assert printed(*result_parts(to_document(ended))).strip() == "Verification: skipped: verify is none."


@pytest.mark.parametrize(
    ("by_receipts", "told"),
    [
        (40, "except for 40 records that it no longer holds: receipts prove these."),
        (0, "except for offsets that it lacks: receipts say that nothing of them was copied."),
    ],
)
def test_what_the_source_does_not_prove_is_named(by_receipts: int, told: str) -> None:
    found = Verification("match", 90, 90, "", scope="mixed", records_by_receipts=by_receipts)
    ended = replace(COMPLETED, stop=None, completeness=(), verification=found)

    assert f"Proved by reading the source again, {told}" in printed(*result_parts(to_document(ended)))
