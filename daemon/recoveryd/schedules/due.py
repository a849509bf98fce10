"""When a cron expression is due, in the wall-clock time of a zone. The only module that knows the cron library.

Pure arithmetic: the zone database is read like a table of constants. Where the clocks of a zone change, the rules are
those of Debian's cron. Of an expression with a fixed minute and hour, a time that does not exist is due at the first
moment after the gap, and a time that exists twice is due the first time only. Of one whose minute or hour begins with
an asterisk, the real moments count: those of the gap do not come, those of the repeated hour come twice.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

MAX_CRON_CHARS: Final = 200
FIELDS: Final = 5
_HOUR_MS: Final = 3_600_000
# A long time off is not walked through minute by minute: the last due time is looked for in ever longer spans.
_LOOKS_BACK_MS: Final = (_HOUR_MS, 24 * _HOUR_MS, 40 * 24 * _HOUR_MS, 366 * 24 * _HOUR_MS, 9 * 366 * 24 * _HOUR_MS)


class NeverDue(ValueError):  # noqa: N818  (named for what happened)
    """The text is no cron expression, or no zone; the message says why."""


def check_cron(text: str) -> None:
    """Raises `NeverDue` for what is not a cron expression of five fields."""
    count = len(text.split())
    if len(text) > MAX_CRON_CHARS:
        raise NeverDue(f"has {len(text)} characters, at most {MAX_CRON_CHARS} are taken")
    if count != FIELDS:
        raise NeverDue(f"has {count} fields, not {FIELDS}: minute, hour, day of month, month, day of week")
    try:
        CronSim(text, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise NeverDue(f"is not a cron expression ({_lowered(error)})") from None


def check_zone(name: str) -> None:
    """Raises `NeverDue` for a name that the zone database does not have."""
    if not is_zone(name):
        raise NeverDue("is not a time zone of the IANA database")


def is_zone(name: str) -> bool:
    """Whether this machine knows it now."""
    return _zone(name) is not None


def next_due_ms(cron: str, time_zone: str, after_ms: int) -> int | None:
    """The first due time after `after_ms`. None = never again, or the zone or expression is not known here."""
    return next(_due_after(cron, time_zone, after_ms), None)


def last_due_ms(cron: str, time_zone: str, due_ms: int, now_ms: int) -> int:
    """The last due time up to `now_ms`, at least `due_ms`, which is one."""
    for back_ms in _LOOKS_BACK_MS:
        start_ms = max(due_ms, now_ms - back_ms)
        last_ms = None
        for found_ms in _due_after(cron, time_zone, start_ms - 1):
            if found_ms > now_ms:
                break
            last_ms = found_ms
        if last_ms is not None:
            return max(due_ms, last_ms)
        if start_ms == due_ms:
            break
    return due_ms


def _due_after(cron: str, time_zone: str, after_ms: int) -> Iterator[int]:
    """Due times in order, all after `after_ms`; ends where the library ends, after some decades without one."""
    zone = _zone(time_zone)
    if zone is None:
        return
    try:
        for found in CronSim(cron, datetime.fromtimestamp(after_ms // 1000, UTC).astimezone(zone)):
            due_ms = int(found.timestamp()) * 1000
            # Inside the repeated hour the library counts wall-clock time from its beginning once more.
            if due_ms > after_ms:
                yield due_ms
    except (CronSimError, ValueError, OverflowError):
        return


def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # ZoneInfoNotFoundError is a KeyError
        return None


def _lowered(error: CronSimError) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]
