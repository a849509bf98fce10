"""Panels made of blocks as SVG: state timelines, heatmaps, big values, bars with a value."""

import math
from collections.abc import Sequence

from grafana.pictures import svg
from grafana.pictures.answers import Answered, Named, Span
from grafana.pictures.lines import runs
from grafana.pictures.looks import FAINT, GRID, INK, level_color, looks_of, mappings_of
from grafana.pictures.units import clock_ticks, shown

_BOTTOM, _TOP = 38.0, 6.0
_ROWS_MOST = 24
_ROW_MOST = 44.0


def last(named: Named) -> float:
    """Newest value, NaN for none."""
    return named.series.points[-1][1] if named.series.points else math.nan


def nothing(width: float, height: float) -> str:
    return svg.document(width, height, [svg.text(width / 2, height / 2, "No data", color=FAINT, anchor="middle")])


def timeline(answer: Answered, width: float, height: float) -> str:
    if not answer.found:
        return nothing(width, height)
    span = answer.span
    rows = sorted(answer.found, key=lambda n: n.name)[:_ROWS_MOST]
    known = mappings_of(answer.panel.raw)
    left = max(80.0, min(width * 0.3, max(svg.width_of(n.name, 10) for n in rows) + 14))
    deep = min(_ROW_MOST, (height - _BOTTOM - _TOP) / len(rows))
    scale = (width - left - 10) / (span.end_s - span.start_s)
    parts: list[str] = []
    used: dict[str, str] = {}
    for number, row in enumerate(rows):
        y = _TOP + number * deep
        parts.append(svg.text(left - 8, y + deep / 2 + 3.5, svg.cut(row.name, left - 12, 10), size=10, anchor="end"))
        for begin, end, value in _spells(row, span):
            said, color = known.get(value, (shown(value, "none"), FAINT))
            if color == "none":
                continue
            used[said] = color
            x, wide = left + (begin - span.start_s) * scale, (end - begin) * scale
            parts.append(svg.rect(x, y + deep * 0.12, wide, deep * 0.76, color, opacity=0.85, title=said))
            if svg.width_of(said, 10) < wide - 6 and deep > 14:
                parts.append(
                    svg.text(x + wide / 2, y + deep / 2 + 3.5, said, size=10, color="#ffffff", anchor="middle")
                )
    parts += _clock(span, left, width, height)
    parts += svg.legend(left, height - 6, width - left - 10, [(said, color, "") for said, color in used.items()])
    return svg.document(width, height, parts)


def heatmap(answer: Answered, width: float, height: float) -> str:
    """Cumulative buckets become cells, darker with more observations. Empty buckets above and below are left out."""
    (bounds, cells), span = _cells(answer), answer.span
    if not cells:
        return nothing(width, height)
    first, final = max(0, min(row for row, _, _ in cells) - 1), max(row for row, _, _ in cells)
    left, deep = 62.0, (height - _BOTTOM - _TOP) / (final - first + 1)
    scale, most = (width - left - 10) / (span.end_s - span.start_s), max(count for _, _, count in cells)
    wide = span.step_s * scale
    parts: list[str] = []
    for row, at, count in cells:
        x, y = left + (at - span.start_s) * scale - wide, height - _BOTTOM - (row - first + 1) * deep
        parts.append(svg.rect(x, y, wide + 0.4, deep, "#c2410c", opacity=0.12 + 0.88 * math.sqrt(count / most)))
    for row in range(first, final + 1):
        y = height - _BOTTOM - (row - first + 1) * deep
        said = shown(bounds[row], answer.panel.unit).replace("never", "more")
        parts += [
            svg.line(left, y, width - 10, y, GRID, width=0.5),
            svg.text(left - 6, y + 3.5, said, size=10, color=FAINT, anchor="end"),
        ]
    return svg.document(width, height, [*parts, *_clock(span, left, width, height)])


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


def _clock(span: Span, left: float, width: float, height: float) -> list[str]:
    scale = (width - left - 10) / (span.end_s - span.start_s)
    return [
        svg.text(left + (at - span.start_s) * scale, height - _BOTTOM + 14, said, size=10, color=FAINT, anchor="middle")
        for at, said in clock_ticks(span.start_s, span.end_s)
    ]


def stat(answer: Answered, width: float, height: float) -> str:
    values = [n for n in answer.found if not math.isnan(last(n))]
    if not values:
        return nothing(width, height)
    known = mappings_of(answer.panel.raw)
    is_name = answer.panel.raw["options"].get("textMode") == "name"
    each = width / len(values)
    parts: list[str] = []
    for number, named in enumerate(values):
        said, color = known.get(
            last(named),
            (shown(_rounded(answer, last(named)), answer.panel.unit), level_color(answer.panel.raw, last(named))),
        )
        said = named.name if is_name else said
        size = int(min(34.0, 11 * (each - 12) / max(svg.width_of(said), 1.0)))
        middle = each * (number + 0.5)
        parts.append(
            svg.text(
                middle,
                height / 2 + size / 3,
                said,
                size=size,
                color=color if color != "none" else INK,
                anchor="middle",
                bold=True,
            )
        )
    return svg.document(width, height, parts)


def bars(answer: Answered, width: float, height: float) -> str:
    values = sorted((n for n in answer.found if math.isfinite(last(n))), key=lambda n: _natural(n.name))[:_ROWS_MOST]
    if not values:
        return nothing(width, height)
    most = max([last(n) for n in values] + [1e-12])
    deep = min(34.0, (height - 2 * _TOP) / len(values))
    left = max(70.0, min(width * 0.45, max(svg.width_of(n.name) for n in values) + 16))
    room = width - left - 84
    looks = looks_of(answer.panel.raw, [n.name for n in values])
    parts: list[str] = []
    for number, named in enumerate(values):
        y = _TOP + number * deep
        color = level_color(answer.panel.raw, last(named)) or looks[named.name].color
        parts.append(svg.text(left - 8, y + deep / 2 + 4, svg.cut(named.name, left - 12), anchor="end"))
        parts.append(svg.rect(left, y + deep * 0.15, room, deep * 0.7, GRID, opacity=0.6))
        parts.append(svg.rect(left, y + deep * 0.15, room * last(named) / most, deep * 0.7, color, opacity=0.85))
        parts.append(svg.text(left + room + 8, y + deep / 2 + 4, shown(last(named), answer.panel.unit), bold=True))
    return svg.document(width, height, parts)


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
