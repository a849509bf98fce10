"""Times and durations as text. Inside, a time is milliseconds since the epoch (UTC) and a duration is milliseconds.

Times are RFC 3339 and must say their zone: a wall-clock time without one means another instant on every machine.
Durations are written `90s`, `1h30m` or ISO 8601 (`PT90S`, `P1DT2H`), without years and months, whose length is not
fixed. Nothing here reads a clock.
"""

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

MAX_TIME_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z
MAX_DURATION_MS = 100 * 366 * 86_400_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,12}))?([Zz]|[+-]\d\d:\d\d)?", flags=re.ASCII
)
_LOOKS_LIKE_A_TIME = re.compile(r"\d{4}-\d{1,2}-\d{1,2}", flags=re.ASCII)
_SHORT = re.compile(r"(?:\d{1,18}(?:\.\d{1,6})?(?:ms|w|d|h|m|s))+", flags=re.ASCII)
_SHORT_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|w|d|h|m|s)", flags=re.ASCII)
_NUMBER = r"(\d{1,18}(?:\.\d{1,6})?)"
_ISO = re.compile(
    rf"P(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?", flags=re.ASCII
)
_UNIT_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_ISO_UNITS = ("w", "d", "h", "m", "s")


class TimeProblem(ValueError):  # noqa: N818  (named for what happened)
    """The text is no time or duration; the message says why."""


class ZoneMissing(TimeProblem):
    """The text is a time but does not say its zone."""


@lru_cache(maxsize=64)  # a report about many partitions tells the same time for each; what is no time is not kept
def parse_time_ms(text: str) -> int:
    """RFC 3339 with zone to milliseconds since the epoch. Finer fractions round up, so that `>= time` and `< time` keep
    their meaning for records.

    Raises `ZoneMissing`, or `TimeProblem` for anything else that is not a time between 1970 and 9999.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        if _LOOKS_LIKE_A_TIME.fullmatch(text):
            raise ZoneMissing("is a date without time of day and zone")
        raise TimeProblem("is not an RFC 3339 time such as 2026-11-21T06:00:00Z")
    fraction, zone = match[7], match[8]
    if zone is None:
        raise ZoneMissing("has no time zone")
    try:
        year, month, day, hour, minute, second = (int(match[i]) for i in range(1, 7))
        delta = datetime(year, month, day, hour, minute, second, tzinfo=_zone(zone)) - _EPOCH
    except (ValueError, OverflowError) as error:
        raise TimeProblem(f"is not a valid time ({error})") from None
    whole_ms = (delta.days * 86_400 + delta.seconds) * 1_000
    time_ms = whole_ms + _fraction_ms(fraction)
    if not 0 <= time_ms <= MAX_TIME_MS:
        raise TimeProblem("lies before 1970 or after 9999")
    return time_ms


def format_time_ms(time_ms: int) -> str:
    """RFC 3339 in UTC with milliseconds, `2026-11-21T06:00:00.000Z`; what lies before 1970 or after 9999 is shown as
    that edge.
    """
    seconds, ms = divmod(min(max(time_ms, 0), MAX_TIME_MS), 1_000)
    moment = _EPOCH + timedelta(seconds=seconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms:03d}Z"


def parse_duration_ms(text: str) -> int:
    """`90s`, `1h30m`, `500ms`, `2d`, `PT90S`, `P1DT2H` to milliseconds, rounded down; no sign. Raises `TimeProblem`."""
    if _SHORT.fullmatch(text):
        parts = [(number, unit) for number, unit in _SHORT_PART.findall(text)]
    else:
        match = _ISO.fullmatch(text)
        if match is None or not any(match.groups()) or text.endswith("T"):
            raise TimeProblem("is not a duration such as 90s, 1h30m or PT90S")
        parts = [(number, unit) for number, unit in zip(match.groups(), _ISO_UNITS, strict=True) if number]
    if len({unit for _, unit in parts}) != len(parts):
        raise TimeProblem("names a unit twice")
    total_us = sum(_micro(number) * _UNIT_MS[unit] for number, unit in parts)
    duration_ms = total_us // 1_000_000
    if duration_ms > MAX_DURATION_MS:
        raise TimeProblem("is longer than 100 years")
    return duration_ms


def format_duration_ms(duration_ms: int) -> str:
    """In the largest unit that divides it, so that `parse_duration_ms` reads the same back: `90s`, `2h`, `1500ms`."""
    for unit in ("d", "h", "m", "s"):
        if duration_ms and duration_ms % _UNIT_MS[unit] == 0:
            return f"{duration_ms // _UNIT_MS[unit]}{unit}"
    return f"{duration_ms}ms"


def _zone(text: str) -> timezone:
    if text in "Zz":
        return UTC
    hours, minutes = int(text[1:3]), int(text[4:6])
    if minutes > 59:
        raise ValueError("zone minutes must be in 0..59")
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if text[0] == "-" else offset)


def _fraction_ms(fraction: str | None) -> int:
    if not fraction:
        return 0
    return -(-int(fraction.ljust(12, "0")) // 10**9)


def _micro(number: str) -> int:
    """A decimal number as whole millionths, without the rounding of floats."""
    whole, _, part = number.partition(".")
    return int(whole) * 1_000_000 + int(part.ljust(6, "0") or 0)
