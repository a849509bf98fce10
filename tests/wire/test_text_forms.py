"""Times, durations and sizes as text: read, written, read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoveryd.kernel.times import (
    MAX_DURATION_MS,
    MAX_TIME_MS,
    TimeProblem,
    ZoneMissing,
    format_duration_ms,
    format_time_ms,
    parse_duration_ms,
    parse_time_ms,
)
from recoveryd.wire.quantities import SizeProblem, format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:00:00-01:00", 0),
        ("2026-11-21t06:00:00z", 1_795_240_800_000),
        ("2026-11-21 06:00:00-00:00", 1_795_240_800_000),
        ("2026-11-21T06:00:00.123Z", 1_795_240_800_123),
        ("2026-11-21T06:00:00.1230Z", 1_795_240_800_123),
        ("2026-11-21T06:00:00.1230001Z", 1_795_240_800_124),
        ("2026-11-21T06:00:00.999999Z", 1_795_240_801_000),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000),
        ("9999-12-31T23:59:59.999Z", MAX_TIME_MS),
    ],
)
def test_an_rfc_3339_time(text: str, time_ms: int) -> None:
    assert parse_time_ms(text) == time_ms


@pytest.mark.parametrize(
    "text",
    [
        "", "now", "2026-11-21T06:00Z", "2026-11-21T06:00:00 Z", " 2026-11-21T06:00:00Z", "2026-11-21T06:00:00Z\n",
        "2026-02-29T00:00:00Z", "2026-11-21T24:00:00Z", "2026-11-21T06:00:60Z", "2026-11-21T06:00:00+0100",
        "2026-11-21T06:00:00+01:60", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59.9999Z", "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+23:00", "\u0662026-11-21T06:00:00Z", "2026-11-21T06:00:00.Z", "20261121T060000Z",
    ],
)  # fmt: skip
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(TimeProblem) as caught:
        parse_time_ms(text)
    assert not isinstance(caught.value, ZoneMissing)


@pytest.mark.parametrize("text", ["2026-11-21T06:00:00", "2026-11-21 06:00:00.5", "2026-11-21"])
def test_a_time_without_zone_is_told_apart(text: str) -> None:
    with pytest.raises(ZoneMissing):
        parse_time_ms(text)


@given(st.integers(0, MAX_TIME_MS))
def test_a_written_time_reads_back(time_ms: int) -> None:
    assert parse_time_ms(format_time_ms(time_ms)) == time_ms


@pytest.mark.parametrize(("time_ms", "text"), [(-1, "1970-01-01T00:00:00.000Z"), (10**18, "9999-12-31T23:59:59.999Z")])
def test_times_outside_the_calendar_are_shown_as_its_edge(time_ms: int, text: str) -> None:
    assert format_time_ms(time_ms) == text


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("90s", 90_000), ("1h30m", 5_400_000), ("500ms", 500), ("2d", 172_800_000), ("1w", 604_800_000), ("0s", 0),
        ("1.5h", 5_400_000), ("0.0015s", 1), ("1h1m1s1ms", 3_661_001), ("5ms", 5),
        ("PT90S", 90_000), ("PT1H30M", 5_400_000), ("P1DT2H", 93_600_000), ("P2W", 1_209_600_000), ("PT0.5S", 500),
    ],
)  # fmt: skip
def test_a_duration(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize(
    "text",
    [
        "", "5", "s", "-5s", "+5s", "5 s", "5x", "5S", "1h1h", "P", "PT", "P1DT", "P1Y", "P1M", "PT1H2H", "pt5s", "5s\n",
        "1e3s", ".5s", "5.s", "36601d", "999999999999999999w", "\u0665s",
    ],
)  # fmt: skip
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(TimeProblem):
        parse_duration_ms(text)


@given(st.integers(0, MAX_DURATION_MS))
def test_a_written_duration_reads_back(duration_ms: int) -> None:
    assert parse_duration_ms(format_duration_ms(duration_ms)) == duration_ms


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0), ("4096", 4096), ("1B", 1), ("64KiB", 65_536), ("30MB", 30_000_000), ("1.5GiB", 1_610_612_736),
        ("32 mib", 33_554_432), ("2tb", 2_000_000_000_000),
    ],
)  # fmt: skip
def test_a_size(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-5", "5 apples", "5M", "1e6", "0x10", "5MiB/s"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(SizeProblem):
        parse_bytes(text)


@given(st.integers(0, 2**62))
def test_a_written_size_reads_back(size: int) -> None:
    assert parse_bytes(format_bytes(size)) == size


@pytest.mark.parametrize(
    ("size", "text"), [(33_554_432, "32MiB"), (30_000_000, "30MB"), (10**12, "1TB"), (1001, "1001")]
)
def test_a_size_is_written_in_the_unit_that_makes_it_short(size: int, text: str) -> None:
    assert format_bytes(size) == text
