"""One screen of `recoveryctl top`, made from what the daemon's HTTP API says: Rich renderables, no I/O and no clock.

What is not measured is shown as `-`, never as 0 and never as healthy. On a terminal the keys, the last answer and the
chosen row are always there: what does not fit gives way to a line that says how much more there is.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from recoveryd.cli.render import figures
from recoveryd.cli.render.recoveries import state_text
from recoveryd.cli.render.tables import columns
from recoveryd.cli.status import Document, has_ended, told_why
from recoveryd.live.law.types import Rule

KEYS: Final = "j/k choose   p pause   r resume   t throttle   q quit"
_SAMPLE: Final = re.compile(r"^(recoveryd_(?:records|bytes)_total)\{([^}]*)\} ([0-9.eE+]+)", flags=re.MULTILINE)
_TRAFFIC: Final = re.compile(r'traffic="(live|replay)"')
_ENDED_MOST: Final = 3
_TABLE_LEAST: Final = 4  # header, chosen row, and how many more there are on either side
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


@dataclass(frozen=True, slots=True)
class Screen:
    """`before` gives rates; `chosen` is the row that keys are for; `told` is the last thing that happened. It has
    `lines` at most, those of the terminal; None = all that there is.
    """

    now: Frame
    before: Frame | None
    chosen: int
    told: str
    lines: int | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = Group(Text(_traffic(self.now, self.before), style="bold"), *_domains(self.now.control), "")
        told = [Text(self.told, style="yellow")] if self.told else []
        foot = Group("", Text(KEYS, style="dim"), *told)
        rows = shown_recoveries(self.now)
        if self.lines is None:
            yield Group(head, _recoveries(rows, self.chosen, range(len(rows))), foot)
            return
        free = options.reset_height()
        last = console.render_lines(foot, free, pad=False)[: self.lines]
        least = min(_TABLE_LEAST, len(rows) + 1)
        first = _cut(console.render_lines(head, free, pad=False), self.lines - len(last) - least)
        shown = window(len(rows), self.chosen, self.lines - len(last) - len(first) - 1)
        middle = console.render_lines(_recoveries(rows, self.chosen, shown), free, pad=False)
        room = self.lines - len(last) - len(first)
        if rows and len(middle) > room:  # how many more there are goes first
            middle = console.render_lines(_table(rows, self.chosen, shown), free, pad=False)[: max(0, room)]
        for line in (*first, *middle, *last):
            yield from line
            yield Segment.line()


def window(count: int, chosen: int, lines: int) -> range:
    """Which of `count` rows are shown in so many lines, two of which may be needed to say how many more there are."""
    if count <= lines:
        return range(count)
    size = max(1, lines - 2)
    first = max(0, min(chosen - size // 2, count - size))
    return range(first, first + size)


def _cut(lines: list[list[Segment]], most: int) -> list[list[Segment]]:
    if len(lines) <= most:
        return lines
    if most <= 0:
        return []
    kept = lines[: most - 1]
    return [*kept, [Segment(f"  {len(lines) - len(kept)} more lines")]]


def shown_recoveries(frame: Frame) -> list[Document]:
    """Those that go on, then the few that ended last."""
    going = [document for document in frame.recoveries if not has_ended(document)]
    ended = [document for document in frame.recoveries if has_ended(document)]
    ended.sort(key=lambda document: str(document.get("updated") or ""), reverse=True)
    return going + ended[:_ENDED_MOST]


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


def _recoveries(rows: Sequence[Document], chosen: int, shown: range) -> RenderableType:
    if not rows:
        return Text("There is no recovery.", style="dim")
    parts: list[RenderableType] = [_table(rows, chosen, shown)]
    if shown.start > 0:
        parts.insert(0, Text(f"  {shown.start} more above", style="dim"))
    if shown.stop < len(rows):
        parts.append(Text(f"  {len(rows) - shown.stop} more below", style="dim"))
    return Group(*parts)


def _table(rows: Sequence[Document], chosen: int, shown: range) -> RenderableType:
    table = columns("", "RECOVERY", "STATE", ">DONE", ">RATE", ">GRANTED", ">LAG", ">ETA", "WHY")
    table.columns[-1].no_wrap, table.columns[-1].overflow = True, "ellipsis"
    for number in shown:
        document = rows[number]
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
            Text(told_why(document)),
        )
    return table


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return figures.NONE
    return f"{seconds * 1000:,.0f} ms" if seconds < 10 else figures.duration(seconds)
