"""What the canary costs: processor time of a leading daemon and of its broker with the canary on and off, in pairs one
after the other, nothing else running.

One protected signal comes with the canary, so what the controller does with it is part of the cost.
"""

import time
from dataclasses import dataclass
from typing import Any

from bench.bed import Bed
from bench.daemon_process import DaemonProcess, Home, leading
from bench.result import Report, Row, Sample, Series, rotated
from recoveryd_sandbox.process import process_cpu_s

NAME = "canary"
_ON, _OFF = "on", "off"
_PART_PERCENT = 1.0
_RECORDS_PER_S = 9.95  # ten, and one more or less at either end of a window
_SETTLE_S = 10.0
_WINDOW_S, _QUICK_WINDOW_S = 30.0, 5.0
_COUNT = "recoveryd_canary_produce_seconds_count"


@dataclass(frozen=True, slots=True)
class _Window:
    """Processor time in % of a core, and records that were acknowledged."""

    daemon: float
    broker: float
    records_per_s: float


def measure(bed: Bed, repeat: int, *, quick: bool) -> list[Report]:
    window_s = _QUICK_WINDOW_S if quick else _WINDOW_S
    daemon, broker = Series("% of a core"), Series("% of a core")
    parts: list[float] = []
    rates: list[float] = []
    for turn in range(repeat):
        found = {name: _window(bed, name, window_s) for name in rotated((_OFF, _ON), turn)}
        for name, window in found.items():
            daemon.add(name, window.daemon)
            broker.add(name, window.broker)
        parts.append(found[_ON].daemon - found[_OFF].daemon)
        rates.append(found[_ON].records_per_s)
    rows = (
        Row("the daemon, canary on", daemon.sample(_ON), "off", daemon.sample(_OFF)),
        Row("the canary's part of the daemon, pair by pair", Sample(tuple(parts), "% of a core"),
            at_most=_PART_PERCENT),
        Row("the broker, canary on", broker.sample(_ON), "off", broker.sample(_OFF)),
        Row("canary records acknowledged", Sample(tuple(rates), "/s"), at_least=_RECORDS_PER_S),
    )  # fmt: skip
    note = f"processor time of the whole process over {window_s:.0f} s, {_SETTLE_S:.0f} s after a daemon began to lead"
    return [Report("The canary", rows, (note,))]


def _window(bed: Bed, name: str, window_s: float) -> _Window:
    with leading(Home(bed, f"canary-{name}"), _settings(is_on=name == _ON)) as daemon:
        time.sleep(_SETTLE_S)
        before, began_s = _counters(bed, daemon), time.monotonic()
        time.sleep(window_s)
        after, took_s = _counters(bed, daemon), time.monotonic() - began_s
    daemon_s, broker_s, records = (late - early for early, late in zip(before, after, strict=True))
    return _Window(daemon_s / took_s * 100, broker_s / took_s * 100, records / took_s)


def _settings(*, is_on: bool) -> dict[str, Any]:
    return {"monitor": {"canary": {"enabled": is_on}}}


def _counters(bed: Bed, daemon: DaemonProcess) -> tuple[float, float, float]:
    """Seconds of the daemon, seconds of the broker, canary records; the page of metrics is read last at the beginning
    and at the end alike, so one reading of it is counted.
    """
    seconds = process_cpu_s(daemon.pid), process_cpu_s(bed.broker_pid)
    return *seconds, sum(daemon.metrics(_COUNT).values())
