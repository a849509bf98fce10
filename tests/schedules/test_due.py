"""When a cron expression is due, also where the clocks of a zone change."""

from datetime import UTC, datetime

import pytest

from recoveryd.schedules.due import NeverDue, check_cron, check_zone, last_due_ms, next_due_ms
from tests.schedules.world import at

BERLIN = "Europe/Berlin"  # clocks go from 02:00 to 03:00 on 2026-03-29, and from 03:00 back to 02:00 on 2026-10-25
HOUR_MS = 3_600_000


def due(cron: str, zone: str, start: str, count: int) -> list[str]:
    """The next due times after `start`, all in UTC."""
    found, now = [], at(start)
    for _ in range(count):
        following = next_due_ms(cron, zone, now)
        assert following is not None
        now = following
        found.append(datetime.fromtimestamp(now // 1000, UTC).strftime("%d %H:%M"))
    return found


@pytest.mark.scenario("S-WIKI-5")
def test_the_fields_are_wall_clock_time_of_the_zone() -> None:
    assert due("0 2 * * *", "UTC", "2026-11-22T01:59:59", 2) == ["22 02:00", "23 02:00"]
    assert due("0 2 * * *", BERLIN, "2026-11-22T00:00:00", 1) == ["22 01:00"]
    assert due("30 9 * * 1-5", "America/New_York", "2026-11-20T20:00:00", 1) == ["23 14:30"]


def test_a_time_is_due_once_it_is_reached_and_not_again() -> None:
    first = next_due_ms("0 2 * * *", "UTC", at("2026-11-22T01:00"))
    assert first == at("2026-11-22T02:00")
    assert next_due_ms("0 2 * * *", "UTC", first - 1) == first
    assert next_due_ms("0 2 * * *", "UTC", first) == at("2026-11-23T02:00")


def test_a_time_that_does_not_exist_is_due_at_the_first_moment_after_the_gap() -> None:
    assert due("30 2 * * *", BERLIN, "2026-03-28T00:00", 3) == ["28 01:30", "29 01:00", "30 00:30"]


def test_a_time_that_exists_twice_is_due_the_first_time_only() -> None:
    assert due("30 2 * * *", BERLIN, "2026-10-24T00:00", 3) == ["24 00:30", "25 00:30", "26 01:30"]


def test_with_an_asterisk_each_real_moment_counts() -> None:
    assert due("*/30 * * * *", BERLIN, "2026-03-29T00:15", 4) == ["29 00:30", "29 01:00", "29 01:30", "29 02:00"]
    assert due("*/30 * * * *", BERLIN, "2026-10-25T00:15", 5) == [
        "25 00:30", "25 01:00", "25 01:30", "25 02:00", "25 02:30",
    ]  # fmt: skip


@pytest.mark.parametrize("cron", ["30 2 * * *", "*/20 * * * *", "5 * * * *", "0 3 * * *"])
@pytest.mark.parametrize("zone", [BERLIN, "Australia/Lord_Howe", "America/Havana", "UTC"])
@pytest.mark.parametrize("day", ["2026-03-28", "2026-10-24", "2026-04-04", "2026-10-03", "2026-03-07", "2026-10-31"])
def test_due_times_only_go_forward_and_looking_back_finds_the_same(cron: str, zone: str, day: str) -> None:
    start = at(f"{day}T00:00")
    times, now = [], start
    while now < start + 60 * HOUR_MS:
        following = next_due_ms(cron, zone, now)
        assert following is not None
        assert following > now
        times.append(following)
        now = following
    for number, time in enumerate(times[:-1]):
        assert last_due_ms(cron, zone, times[0], time) == time
        assert last_due_ms(cron, zone, times[0], times[number + 1] - 1) == time


def test_the_last_due_time_of_a_long_absence_is_found() -> None:
    first = at("2016-02-29T12:00")
    assert last_due_ms("0 12 29 2 *", "UTC", first, at("2026-11-22T00:00")) == at("2024-02-29T12:00")
    assert last_due_ms("* * * * *", "UTC", first, at("2026-11-22T00:00:30")) == at("2026-11-22T00:00")


@pytest.mark.parametrize(
    "text",
    [
        "", "* * * *", "* * * * * *", "@daily", "60 * * * *", "* 24 * * *", "0 0 32 1 *", "x * * * *", "*/0 * * * *",
        "5-1 * * * *", "0 2 * * * ;rm", "\x00 * * * *", "* * * * *" + " " * 300, "1e3 * * * *", "-1 * * * *",
    ],
)  # fmt: skip
def test_nonsense_is_no_cron_expression(text: str) -> None:
    with pytest.raises(NeverDue):
        check_cron(text)


def test_a_day_that_never_comes_is_never_due() -> None:
    with pytest.raises(NeverDue):
        check_cron("0 0 31 2 *")


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "Europe/berlin ", "../etc/passwd", "/etc/localtime", "UTC+25"])
def test_nonsense_is_no_zone(name: str) -> None:
    with pytest.raises(NeverDue):
        check_zone(name)
