"""One screen of `recoveryctl top`, made from what the daemon's HTTP API says: Rich renderables, no I/O and no clock.

What is not measured is shown as `-`, never as 0 and never as healthy. On a terminal the keys, the last answer and the
chosen row are always there: what does not fit gives way to a line that says how much more there is.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

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
ENDED_MOST: Final = 3
_TABLE_LEAST: Final = 4  # header, chosen row, and how many more there are on either side
_BAR: Final = 20
_KEPT_S: Final = 20.0
_WATCHED_LEAST_S: Final = 15.0
_STEPS_LEAST_S: Final = 8.0

Counters = Mapping[tuple[str, str], float]  # by (name, live or replay), summed over topics


@dataclass(frozen=True, slots=True)
class Frame:
    """What was read at one moment."""

    at_s: float
    recoveries: Sequence[Document]
    control: Document
    counters: Counters = field(default_factory=dict)


class CountersRead(NamedTuple):
    """What is kept of a frame, to tell rates by."""

    at_s: float
    counters: Counters


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
    """`counted` gives rates; `chosen` is the row that keys are for; `told` is the last thing that happened. It has
    `lines` at most, those of the terminal; None = all that there is.
    """

    now: Frame
    counted: Sequence[CountersRead]
    chosen: int
    told: str
    lines: int | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = Group(Text(_traffic(self.counted), style="bold"), *_domains(self.now.control), "")
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
    return going + ended[:ENDED_MOST]


def with_counted(counted: Sequence[CountersRead], frame: Frame) -> tuple[CountersRead, ...]:
    """With those of one more frame; what is older than the window goes, but for one, where it begins."""
    oldest_s = frame.at_s - _KEPT_S
    first = max((number for number, one in enumerate(counted) if one.at_s <= oldest_s), default=0)
    return (*counted[first:], CountersRead(frame.at_s, frame.counters))


def rates(counted: Sequence[CountersRead], traffic: str) -> tuple[float | None, float | None]:
    """Records/s and bytes/s of late; None where it is not known."""
    records, size = (_values(counted, (name, traffic)) for name in ("recoveryd_records_total", "recoveryd_bytes_total"))
    return _rate(records), _rate(size)


def _values(counted: Sequence[CountersRead], key: tuple[str, str]) -> list[tuple[float, float]]:
    """(time, value) of a counter since it began, or began anew."""
    found: list[tuple[float, float]] = []
    for at_s, counters in counted:
        value = counters.get(key)
        if value is None or (found and value < found[-1][1]):
            found.clear()
        if value is not None:
            found.append((at_s, value))
    return found


def _rate(values: Sequence[tuple[float, float]]) -> float | None:
    """Counters grow in steps: those of live traffic when the offsets are sampled, each 5 s by default, those of replays
    when a chunk is committed. So between two frames they show nothing, or several times too much. It is told from the
    first to the last step, as if the next one came in time; where there is none for longer, it falls.
    """
    steps = [after for before, after in pairwise(values) if after[1] > before[1]]
    if steps and steps[-1][0] - steps[0][0] >= _STEPS_LEAST_S:
        (first_s, first), (last_s, last) = steps[0], steps[-1]
        usual_s = (last_s - first_s) / (len(steps) - 1)
        return (last - first) / (last_s - first_s + max(0.0, values[-1][0] - last_s - usual_s))
    watched_s = values[-1][0] - values[0][0] if values else 0.0
    return (values[-1][1] - values[0][1]) / watched_s if watched_s >= _WATCHED_LEAST_S else None


def _traffic(counted: Sequence[CountersRead]) -> str:
    told = []
    for traffic in ("live", "replay"):
        records, size = rates(counted, traffic)
        told.append(f"{traffic} {figures.count(records)} records/s, {figures.rate(size)}")
    return "   ".join(told)


def _domains(control: Document) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for domain in control.get("domains") or []:
        decision = domain.get("decision") or {}
        rule = _rule(decision.get("rule"))
        parts += ["", Text(f"{domain['domain']}: {rule}: {decision.get('why') or 'nothing was decided yet'}")]
        if domain.get("protected"):
            parts.append(_headroom(domain["protected"], decision.get("loop_delay_ms")))
    return parts


def _rule(number: int | None) -> str:
    """By the name that `recoveryctl explain` knows; a daemon may have newer ones."""
    return Rule(number).name.lower() if number in set(Rule) else f"rule {number or figures.NONE}"


def _headroom(signals: Sequence[Mapping[str, Any]], loop_delay_ms: int | None) -> RenderableType:
    table = columns("  SIGNAL", ">NOW", ">SLO", ">USED", "")
    for signal in signals:
        value = signal.get("value_seconds") if _is_fresh(signal, loop_delay_ms) else None
        slo = signal.get("slo_seconds")
        used = value / slo if value is not None and slo else None
        style = "dim" if used is None else "red" if used >= 1 else "yellow" if used >= 0.8 else "green"
        bar = _unmeasured(signal) if used is None else "#" * min(_BAR, round(used * _BAR))
        table.add_row(f"  {signal['signal']}", _ms(value), _ms(slo), figures.percent(used), Text(bar, style=style))
    return table


def _is_fresh(signal: Mapping[str, Any], loop_delay_ms: int | None) -> bool:
    """As the daemon says. One of an earlier release does not; then what is older than the loop delay is not."""
    age_ms = signal.get("sample_age_ms")
    return bool(signal.get("is_fresh", age_ms is not None and age_ms <= (loop_delay_ms or 0)))


def _unmeasured(signal: Mapping[str, Any]) -> str:
    age_ms = signal.get("sample_age_ms")
    return "not measured" if age_ms is None else f"not measured for {figures.duration(age_ms / 1000)}"


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
