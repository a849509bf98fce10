"""One screen of `recoveryctl top`, made from what the daemon's HTTP API says: Rich renderables, no I/O and no clock.

What is not measured is shown as `-`, never as 0 and never as healthy.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from recoveryd.cli.render import figures
from recoveryd.cli.render.recoveries import state_text
from recoveryd.cli.render.tables import columns
from recoveryd.cli.status import Document, has_ended
from recoveryd.live.law.types import Rule

KEYS: Final = "j/k choose   p pause   r resume   t throttle   q quit"
_SAMPLE: Final = re.compile(r"^(recoveryd_(?:records|bytes)_total)\{([^}]*)\} ([0-9.eE+]+)", flags=re.MULTILINE)
_TRAFFIC: Final = re.compile(r'traffic="(live|replay)"')
_ENDED_MOST: Final = 3
_BAR: Final = 20


@dataclass(frozen=True, slots=True)
class Frame:
    """What was read at one moment. `counters` by (name, live or replay), summed over topics."""

    at_s: float
    recoveries: Sequence[Document]
    control: Document
    counters: Mapping[tuple[str, str], float] = field(default_factory=dict)


def read_counters(metrics: str) -> dict[tuple[str, str], float]:
    """From the text of `/metrics`."""
    found: dict[tuple[str, str], float] = {}
    for name, labels, value in _SAMPLE.findall(metrics):
        traffic = _TRAFFIC.search(labels)
        if traffic is not None:
            key = (name, traffic[1])
            found[key] = found.get(key, 0.0) + float(value)
    return found


def screen(now: Frame, before: Frame | None, chosen: int, told: str) -> RenderableType:
    """`before` gives rates; `chosen` is the row that keys are for; `told` is the last thing that happened."""
    rows = shown_recoveries(now)
    parts: list[RenderableType] = [Text(_traffic(now, before), style="bold"), *_domains(now.control), ""]
    parts.append(_recoveries(rows, chosen) if rows else Text("There is no recovery.", style="dim"))
    parts += ["", Text(KEYS, style="dim"), *([Text(told, style="yellow")] if told else [])]
    return Group(*parts)


def shown_recoveries(frame: Frame) -> list[Document]:
    """Those that go on, then the few that ended last."""
    going = [document for document in frame.recoveries if not has_ended(document)]
    return going + [document for document in frame.recoveries if has_ended(document)][:_ENDED_MOST]


def rates(now: Frame, before: Frame | None, traffic: str) -> tuple[float | None, float | None]:
    """Records/s and bytes/s since the frame before; None where it is not known."""
    found = []
    for name in ("recoveryd_records_total", "recoveryd_bytes_total"):
        new, old = now.counters.get((name, traffic)), (before.counters if before else {}).get((name, traffic))
        is_known = before is not None and new is not None and old is not None and new >= old
        took_s = now.at_s - before.at_s if before is not None else 0.0
        found.append((new - old) / took_s if is_known and took_s > 0 else None)  # type: ignore[operator]
    return found[0], found[1]


def _traffic(now: Frame, before: Frame | None) -> str:
    told = []
    for traffic in ("live", "replay"):
        records, size = rates(now, before, traffic)
        told.append(f"{traffic} {figures.count(records)} records/s, {figures.rate(size)}")
    return "   ".join(told)


def _domains(control: Document) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for domain in control.get("domains") or []:
        decision = domain.get("decision") or {}
        rule = _rule(decision.get("rule"))
        parts += ["", Text(f"{domain['domain']}: {rule}: {decision.get('why') or 'nothing was decided yet'}")]
        if domain.get("protected"):
            parts.append(_headroom(domain["protected"]))
    return parts


def _rule(number: int | None) -> str:
    """By the name that `recoveryctl explain` knows; a daemon may have newer ones."""
    return Rule(number).name.lower() if number in set(Rule) else f"rule {number or figures.NONE}"


def _headroom(signals: Sequence[Mapping[str, Any]]) -> RenderableType:
    table = columns("  SIGNAL", ">NOW", ">SLO", ">USED", "")
    for signal in signals:
        value, slo = signal.get("value_seconds"), signal.get("slo_seconds")
        used = value / slo if value is not None and slo else None
        style = "dim" if used is None else "red" if used >= 1 else "yellow" if used >= 0.8 else "green"
        bar = "not measured" if used is None else "#" * min(_BAR, round(used * _BAR))
        table.add_row(f"  {signal['signal']}", _ms(value), _ms(slo), figures.percent(used), Text(bar, style=style))
    return table


def _recoveries(rows: Sequence[Document], chosen: int) -> RenderableType:
    table = columns("", "RECOVERY", "STATE", ">DONE", ">RATE", ">GRANTED", ">LAG", ">ETA", "WHY")
    table.columns[-1].no_wrap, table.columns[-1].overflow = True, "ellipsis"
    for number, document in enumerate(rows):
        progress, limits = document.get("progress") or {}, document.get("limits") or {}
        moving = {} if has_ended(document) else progress
        table.add_row(
            ">" if number == chosen else "",
            document["recovery"],
            state_text(document["state"]),
            figures.percent(figures.progress_ratio(document)),
            figures.rate(moving.get("bytes_per_s") or None),
            figures.rate(limits.get("effective_bytes_per_s") if moving else None),
            figures.count(moving.get("lag_records")),
            figures.duration(moving.get("eta_seconds")),
            Text(document.get("why") or ""),
        )
    return table


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return figures.NONE
    return f"{seconds * 1000:,.0f} ms" if seconds < 10 else figures.duration(seconds)
