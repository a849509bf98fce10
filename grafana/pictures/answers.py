"""Asks a Prometheus every query of a dashboard, as Grafana would, and names the answers by the panels' legends."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from grafana.pictures.board_file import BoardFile, PanelFile, Target, filled
from grafana.pictures.prometheus_server import PrometheusServer, Series

_POINTS = 240


@dataclass(frozen=True, slots=True)
class Span:
    """What is asked for: from, to, and the scrape interval, all in seconds."""

    start_s: float
    end_s: float
    scrape_s: float
    step_least_s: float = 0.0

    @property
    def step_s(self) -> float:
        return max(self.scrape_s, self.step_least_s, (self.end_s - self.start_s) / _POINTS)

    def widened(self) -> "Span":
        """The span of panels with a least step of their own: a minute with the usual 15 s between scrapes."""
        return replace(self, step_least_s=4 * self.scrape_s)

    @property
    def rate_s(self) -> float:
        """Grafana's own rule for `$__rate_interval`."""
        return max(self.step_s + self.scrape_s, 4 * self.scrape_s)


@dataclass(frozen=True, slots=True)
class Named:
    """A series with the name that its legend gives it."""

    name: str
    target: Target
    series: Series


@dataclass(frozen=True, slots=True)
class Answered:
    panel: PanelFile
    found: tuple[Named, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Mark:
    """An annotation: from the first to the last moment at which its expression had a value without a gap."""

    at_s: float
    text: str


def ask_panel(server: PrometheusServer, panel: PanelFile, span: Span, variables: Mapping[str, str]) -> Answered:
    """Raises `QueryFailed` for a query that Prometheus does not take."""
    found: list[Named] = []
    span = span.widened() if panel.raw.get("interval") else span
    for target in panel.targets:
        expr = filled(target.expr, rate_s=span.rate_s, range_s=span.end_s - span.start_s, **variables)
        if target.is_instant:
            answer = server.query(expr, span.end_s)
        else:
            answer = server.query_range(expr, span.start_s, span.end_s, span.step_s)
        found += [Named(legend_name(target.legend, one), target, one) for one in answer]
    return Answered(panel, tuple(found), span)


def ask_marks(server: PrometheusServer, board: BoardFile, span: Span, variables: Mapping[str, str]) -> Sequence[Mark]:
    marks: list[Mark] = []
    for name, expr in board.annotations.items():
        asked = filled(expr, rate_s=span.rate_s, range_s=span.end_s - span.start_s, **variables)
        for series in server.query_range(asked, span.start_s, span.end_s, span.step_s):
            text = series.labels.get("state") or series.labels.get("reason") or name
            times = [t for t, _ in series.points]
            begins = [t for i, t in enumerate(times) if i == 0 or t - times[i - 1] > 1.5 * span.step_s]
            marks += [Mark(t, text.replace("_", " ")) for t in begins]
    return sorted(marks, key=lambda mark: mark.at_s)


def legend_name(legend: str, series: Series) -> str:
    """`{{topic}}` becomes the value of that label; without a legend the name lists all labels."""
    if legend in {"", "__auto"}:
        return ", ".join(f"{k}={v}" for k, v in sorted(series.labels.items())) or series.name or "value"
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda found: series.labels.get(found[1], ""), legend)
