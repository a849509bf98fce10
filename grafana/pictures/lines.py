"""Panels over time as SVG: lines, stacked areas, bars, bands, the red line of a threshold, and marks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grafana.pictures import svg
from grafana.pictures.answers import Answered, Mark, Named, Span
from grafana.pictures.looks import FAINT, GRID, Look, hexed, looks_of
from grafana.pictures.units import clock_ticks, shown, ticks

_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 10.0, 8.0, 38.0
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Frame:
    """Converts values to pixels."""

    width: float
    height: float
    span: Span
    least: float
    most: float

    def x(self, at_s: float) -> float:
        return _LEFT + (at_s - self.span.start_s) / (self.span.end_s - self.span.start_s) * (
            self.width - _LEFT - _RIGHT
        )

    def y(self, value: float) -> float:
        share = (min(max(value, self.least), self.most) - self.least) / (self.most - self.least)
        return self.height - _BOTTOM - share * (self.height - _TOP - _BOTTOM)


def draw(answer: Answered, width: float, height: float, marks: Sequence[Mark]) -> str:
    """An SVG of the panel, or a note that it has no data."""
    looks = looks_of(answer.panel.raw, [n.name for n in answer.found])
    plain = [n for n in answer.found if not looks[n.name].band and looks[n.name].unit is None]
    custom = answer.panel.raw["fieldConfig"]["defaults"].get("custom", {})
    is_stacked = custom.get("stacking", {}).get("mode") == "normal"
    frame = _frame(answer, plain, width, height, is_stacked=is_stacked)
    parts = [part for n in answer.found if looks[n.name].band for part in _bands(n.series.points, frame, looks[n.name])]
    parts += _axes(frame, answer.panel.unit)
    parts += [part for mark in marks for part in _mark(mark, frame)]
    if not any(n.series.points for n in plain):
        parts.append(svg.text(width / 2, height / 2, "No data", color=FAINT, anchor="middle"))
    elif custom.get("drawStyle") == "bars":
        parts += _bars(plain, looks, frame)
    elif is_stacked:
        parts += _areas(plain, looks, frame)
    else:
        parts += [part for n in plain for part in _line(n.series.points, frame, looks[n.name])]
    parts += _threshold(answer, frame)
    named = [(n.name, looks[n.name].color, "5 4" if looks[n.name].dashed else "") for n in plain]
    parts += svg.legend(_LEFT, height - 6, width - _LEFT - _RIGHT, list(dict.fromkeys(named)))
    return svg.document(width, height, parts)


def runs(points: Points, step_s: float) -> list[list[tuple[float, float]]]:
    """Cut where a value is missing, so that no line is drawn over unknown values."""
    found: list[list[tuple[float, float]]] = []
    last = -math.inf
    for at, value in points:
        if not math.isfinite(value):
            continue
        if at - last > 1.5 * step_s or not found:
            found.append([])
        found[-1].append((at, value))
        last = at
    return found


def _frame(answer: Answered, plain: Sequence[Named], width: float, height: float, *, is_stacked: bool) -> Frame:
    defaults = answer.panel.raw["fieldConfig"]["defaults"]
    if is_stacked:
        sums: dict[float, float] = {}
        for n in plain:
            for at, value in n.series.points:
                sums[at] = sums.get(at, 0.0) + (value if math.isfinite(value) else 0)
        values = list(sums.values())
    else:
        values = [v for n in plain for _, v in n.series.points if math.isfinite(v)]
    limits = [
        step["value"] for step in defaults.get("thresholds", {}).get("steps", ()) if step.get("value") is not None
    ]
    if _shows_threshold(answer):
        values += limits
    least = (
        defaults["min"]
        if "min" in defaults
        else min([0.0, *values])
        if not values or min(values) < max(values) / 2
        else min(values)
    )
    most = max([least, *values]) * 1.05 if "max" not in defaults else defaults["max"]
    return Frame(width, height, answer.span, least, most if most > least else least + 1)


def _axes(frame: Frame, unit: str) -> list[str]:
    parts: list[str] = []
    for value in ticks(frame.least, frame.most, unit):
        parts.append(svg.line(_LEFT, frame.y(value), frame.width - _RIGHT, frame.y(value), GRID))
        parts.append(svg.text(_LEFT - 6, frame.y(value) + 3.5, shown(value, unit), size=10, color=FAINT, anchor="end"))
    for at, said in clock_ticks(frame.span.start_s, frame.span.end_s):
        parts.append(svg.text(frame.x(at), frame.height - _BOTTOM + 14, said, size=10, color=FAINT, anchor="middle"))
    return parts


def _bands(points: Points, frame: Frame, look: Look) -> list[str]:
    parts: list[str] = []
    for run in runs([(t, v) for t, v in points if v > 0], frame.span.step_s):
        left, right = frame.x(run[0][0]), frame.x(min(run[-1][0] + frame.span.step_s, frame.span.end_s))
        parts.append(svg.rect(left, _TOP, right - left, frame.height - _TOP - _BOTTOM, look.color, opacity=0.1))
    return parts


def _mark(mark: Mark, frame: Frame) -> list[str]:
    x = frame.x(mark.at_s)
    return [svg.line(x, _TOP, x, frame.height - _BOTTOM, "#4b8bf5", width=0.8, dash="3 3")]


def _line(points: Points, frame: Frame, look: Look) -> list[str]:
    drawn: list[str] = []
    for run in runs(points, frame.span.step_s):
        placed = [(frame.x(t), frame.y(v)) for t, v in run]
        if len(placed) == 1:
            placed.append((placed[0][0] + 2, placed[0][1]))
        drawn.append(svg.polyline(placed, look.color, dash="5 4" if look.dashed else ""))
    return drawn


def _areas(plain: Sequence[Named], looks: Mapping[str, Look], frame: Frame) -> list[str]:
    base: dict[float, float] = {}
    parts: list[str] = []
    for n in plain:
        look = looks[n.name]
        for run in runs(n.series.points, frame.span.step_s):
            lower = [(frame.x(t), frame.y(base.get(t, 0.0))) for t, _ in run]
            for t, v in run:
                base[t] = base.get(t, 0.0) + v
            upper = [(frame.x(t), frame.y(base[t])) for t, _ in run]
            parts += [svg.polygon([*upper, *reversed(lower)], look.color, 0.35), svg.polyline(upper, look.color)]
    return parts


def _bars(plain: Sequence[Named], looks: Mapping[str, Look], frame: Frame) -> list[str]:
    wide = max(2.0, frame.x(frame.span.start_s + frame.span.step_s) - frame.x(frame.span.start_s) - 0.5)
    base: dict[float, float] = {}
    parts: list[str] = []
    for n in plain:
        for t, v in n.series.points:
            bottom, top = frame.y(base.get(t, 0.0)), frame.y(base.get(t, 0.0) + v)
            parts.append(svg.rect(frame.x(t) - wide / 2, top, wide, bottom - top, looks[n.name].color, opacity=0.75))
            base[t] = base.get(t, 0.0) + v
    return parts


def _shows_threshold(answer: Answered) -> bool:
    custom = answer.panel.raw["fieldConfig"]["defaults"].get("custom", {})
    return bool(custom.get("thresholdsStyle", {}).get("mode", "off") != "off")


def _threshold(answer: Answered, frame: Frame) -> list[str]:
    if not _shows_threshold(answer):
        return []
    steps = answer.panel.raw["fieldConfig"]["defaults"]["thresholds"]["steps"]
    return [
        svg.line(
            _LEFT,
            frame.y(s["value"]),
            frame.width - _RIGHT,
            frame.y(s["value"]),
            hexed(s["color"]),
            width=1.4,
            dash="6 4",
        )
        for s in steps
        if s.get("value") is not None
    ]
