"""Numbers in readable units, as the panels use them, and where to put the lines of an axis."""

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence

_SHORT = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_TICKS_WANTED = 4
_TIME_STEPS = (15, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400)
_PERIODS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def shown(value: float, unit: str) -> str:
    """`12.5 MB/s`, `3.2 min`, `48 %`; `never` for infinity, which only forecasts have."""
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "never"
    return _FORMS.get(unit, _plain)(value)


def ticks(least: float, most: float, unit: str = "none") -> Sequence[float]:
    """Round numbers from `least` to `most`, three to six of them; minutes and hours for seconds."""
    span = most - least
    if span <= 0 or not math.isfinite(span):
        return (least,)
    raw = span / _TICKS_WANTED
    power = 10 ** math.floor(math.log10(raw))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= raw * 0.999)
    if unit == "s" and raw > 10:
        step = next((s for s in _TIME_STEPS if s >= raw), step)
    first = math.ceil(least / step - 1e-9)
    return [i * step for i in range(first, math.floor(most / step + 1e-9) + 1)]


def clock_ticks(start_s: float, end_s: float) -> Sequence[tuple[float, str]]:
    """Times and their labels, UTC."""
    span = end_s - start_s
    step = next((s for s in (5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200) if span / s <= 7), 86_400)
    pattern = "%H:%M:%S" if step < 60 else "%H:%M"
    first = math.ceil(start_s / step)
    times = [i * step for i in range(first, math.floor(end_s / step) + 1)]
    return [(float(t), dt.datetime.fromtimestamp(t, tz=dt.UTC).strftime(pattern)) for t in times]


def _seconds(value: float) -> str:
    if value == 0:
        return "0 s"
    size, name = next(((s, n) for s, n in _PERIODS if abs(value) >= s), _PERIODS[-1])
    return f"{_digits(value / size)} {name}"


def _short(value: float, gap: str = "") -> str:
    size, name = next(((s, n) for s, n in _SHORT if abs(value) >= s), (1.0, ""))
    return f"{_digits(value / size)}{gap}{name}"


def _digits(value: float) -> str:
    """Three significant digits, without trailing zeros."""
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value)))) if abs(value) < 100 else 0
    text = f"{value:,.{min(decimals, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _plain(value: float) -> str:
    return _short(value) if abs(value) >= 1e6 else _digits(value)


def _moment(value_ms: float) -> str:
    return dt.datetime.fromtimestamp(value_ms / 1000, tz=dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


_FORMS: Mapping[str, Callable[[float], str]] = {
    "s": _seconds,
    "percentunit": lambda value: f"{_digits(value * 100)} %",
    "Bps": lambda value: f"{_short(value, ' ')}B/s",
    "cps": lambda value: f"{_short(value)}/s",
    "ops": lambda value: f"{_short(value)}/s",
    "short": _short,
    "dateTimeAsIso": _moment,
}
