"""Panels made of blocks: state timelines, heatmaps, big values, bars with a value."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from grafana.pictures.answers import Answered, Named, Span
from grafana.pictures.canvas import (
    cut,
    in_pixels,
    inset,
    name_all,
    say_nothing,
    show_time,
    show_values,
    size_of,
    width_of,
    write,
)
from grafana.pictures.lines import runs
from grafana.pictures.looks import FAINT, GRID, INK, level_color, looks_of, mappings_of
from grafana.pictures.units import shown

_BELOW, _ABOVE = 38.0, 6.0
_ROWS_MOST = 24
_ROW_MOST = 120.0
_HEAT = "#c2410c"


def last(named: Named) -> float:
    """Newest value, NaN for none."""
    return named.series.points[-1][1] if named.series.points else math.nan


def timeline(axes: Axes, answer: Answered) -> None:
    if not answer.found:
        say_nothing(axes, answer.panel.raw)
        return
    rows = sorted(answer.found, key=lambda n: n.name)[:_ROWS_MOST]
    known = mappings_of(answer.panel.raw)
    left = max(80.0, min(size_of(axes)[0] * 0.3, max(width_of(n.name, 10) for n in rows) + 14))
    unused = size_of(axes)[1] - _BELOW - _ABOVE - _ROW_MOST * len(rows)
    inset(axes, left, 10, _ABOVE, _BELOW + max(0.0, unused))
    show_time(axes, answer.span)
    axes.set_ylim(len(rows), 0)
    show_values(axes, [i + 0.5 for i in range(len(rows))], [cut(n.name, left - 12, 10) for n in rows])
    axes.grid(visible=False)
    axes.tick_params(axis="y", labelcolor=INK)
    pixels_per_s = size_of(axes)[0] / (answer.span.end_s - answer.span.start_s)
    used: dict[str, str] = {}
    for number, row in enumerate(rows):
        for begin, end, value in _spells(row, answer.span):
            said, color = known.get(value, (shown(value, "none"), FAINT))
            if color == "none":
                continue
            used[said] = color
            axes.add_patch(Rectangle((begin, number + 0.12), end - begin, 0.76, color=color, alpha=0.85, linewidth=0))
            if width_of(said, 10) < (end - begin) * pixels_per_s - 6:
                write(axes, (begin + end) / 2, number + 0.5, said, 10, "#ffffff", ha="center")
    name_all(axes, [(said, color, False) for said, color in used.items()])


def heatmap(axes: Axes, answer: Answered) -> None:
    """Cumulative buckets become cells, darker with more observations. Empty buckets above and below are left out."""
    bounds, cells = _cells(answer)
    if not cells:
        say_nothing(axes, answer.panel.raw)
        return
    first, final = max(0, min(row for row, _, _ in cells) - 1), max(row for row, _, _ in cells)
    inset(axes, 62, 10, _ABOVE, _BELOW)
    show_time(axes, answer.span)
    axes.set_ylim(first, final + 1)
    said = [shown(bounds[row], answer.panel.unit).replace("never", "more") for row in range(first, final + 1)]
    show_values(axes, range(first + 1, final + 2), said)
    most, wide = max(count for _, _, count in cells), answer.span.step_s
    for row, at, count in cells:
        alpha = 0.12 + 0.88 * math.sqrt(count / most)
        axes.add_patch(Rectangle((at - wide, row), wide, 1, color=_HEAT, alpha=alpha, linewidth=0))


def _cells(answer: Answered) -> tuple[list[float], list[tuple[int, float, float]]]:
    """Upper bounds of the buckets, and (row, time, count) of each cell that is not empty."""
    buckets = sorted(((float(n.series.labels["le"]), n) for n in answer.found), key=lambda bucket: bucket[0])
    cells: list[tuple[int, float, float]] = []
    below: dict[float, float] = {}
    for row, (_, named) in enumerate(buckets):
        for at, value in named.series.points:
            if value > below.get(at, 0.0):
                cells.append((row, at, value - below.get(at, 0.0)))
            below[at] = value
    return [bound for bound, _ in buckets], cells


def stat(axes: Axes, answer: Answered) -> None:
    values = [n for n in answer.found if not math.isnan(last(n))]
    if not values:
        say_nothing(axes, answer.panel.raw)
        return
    known, raw = mappings_of(answer.panel.raw), answer.panel.raw
    width, height = in_pixels(axes)
    each = width / len(values)
    for number, named in enumerate(values):
        value = last(named)
        said, color = known.get(value, (shown(_rounded(answer, value), answer.panel.unit), level_color(raw, value)))
        said = named.name if raw["options"].get("textMode") == "name" else said
        size = min(34.0, 11 * (each - 12) / max(width_of(said), 1.0))
        color = color if color != "none" else INK
        write(axes, each * (number + 0.5), height / 2, said, size, color, ha="center", weight="bold")


def bars(axes: Axes, answer: Answered) -> None:
    values = sorted((n for n in answer.found if math.isfinite(last(n))), key=lambda n: _natural(n.name))[:_ROWS_MOST]
    if not values:
        say_nothing(axes, answer.panel.raw)
        return
    width, height = in_pixels(axes)
    most = max([last(n) for n in values] + [1e-12])
    deep = min(34.0, (height - 2 * _ABOVE) / len(values))
    left = max(70.0, min(width * 0.45, max(width_of(n.name) for n in values) + 16))
    room = width - left - 84
    looks = looks_of(answer.panel.raw, [n.name for n in values])
    for number, named in enumerate(values):
        y = _ABOVE + number * deep
        color = level_color(answer.panel.raw, last(named)) or looks[named.name].color
        write(axes, left - 8, y + deep / 2, cut(named.name, left - 12), ha="right")
        for long, paint, alpha in ((room, GRID, 0.6), (room * last(named) / most, color, 0.85)):
            axes.add_patch(Rectangle((left, y + deep * 0.15), long, deep * 0.7, color=paint, alpha=alpha, linewidth=0))
        write(axes, left + room + 8, y + deep / 2, shown(last(named), answer.panel.unit), weight="bold")


def _rounded(answer: Answered, value: float) -> float:
    decimals = answer.panel.raw["fieldConfig"]["defaults"].get("decimals")
    return value if decimals is None else round(value, decimals)


def _spells(row: Named, span: Span) -> Sequence[tuple[float, float, float]]:
    """(begin, end, value) of each stretch of equal values."""
    found: list[tuple[float, float, float]] = []
    for run in runs(row.series.points, span.step_s):
        for at, value in run:
            end = min(at + span.step_s, span.end_s)
            if found and found[-1][2] == value and at <= found[-1][1] + span.step_s * 0.5:
                found[-1] = (found[-1][0], end, value)
            else:
                found.append((at, end, value))
    return found


def _natural(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdigit() else (1 << 60, name)
