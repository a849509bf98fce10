"""Panels over time: lines, stacked areas, bars, bands, the red line of a threshold, and marks."""

import math
from collections.abc import Iterable, Mapping, Sequence

from matplotlib.axes import Axes

from grafana.pictures.answers import Answered, Mark, Named
from grafana.pictures.canvas import (
    DASHES,
    NAME_ROW,
    inset,
    name_all,
    rows_of,
    say_nothing,
    show_time,
    show_values,
    size_of,
)
from grafana.pictures.looks import Look, hexed, looks_of
from grafana.pictures.units import shown, ticks

Points = Sequence[tuple[float, float]]
_MARK = "#4b8bf5"
_LEFT, _RIGHT = 62.0, 10.0


def draw(axes: Axes, answer: Answered, marks: Sequence[Mark]) -> None:
    """Draw the panel, or a note that it has no data."""
    defaults, span = answer.panel.raw["fieldConfig"]["defaults"], answer.span
    looks = looks_of(answer.panel.raw, [n.name for n in answer.found])
    plain = [n for n in answer.found if not looks[n.name].band and looks[n.name].unit is None]
    names = list(dict.fromkeys((n.name, looks[n.name].color, looks[n.name].dashed) for n in plain))
    more_rows = len(rows_of(names, size_of(axes)[0] - _LEFT - _RIGHT)) - 1
    inset(axes, _LEFT, _RIGHT, 8, 38 + NAME_ROW * more_rows)
    custom = defaults.get("custom", {})
    is_stacked = custom.get("stacking", {}).get("mode") == "normal"
    limits = _limits(defaults) if custom.get("thresholdsStyle", {}).get("mode", "off") != "off" else {}
    show_time(axes, span)
    least, most = _bounds(defaults, plain, list(limits), is_stacked=is_stacked)
    values = ticks(least, most, answer.panel.unit)
    if custom.get("scaleDistribution", {}).get("type") == "log":
        axes.set_yscale("log")
        axes.minorticks_off()
        least, most, values = _powers_of_ten(plain, limits)
    axes.set_ylim(least, most)
    show_values(axes, values, [shown(value, answer.panel.unit) for value in values])
    _bands(axes, answer, looks)
    for mark in marks:
        axes.axvline(mark.at_s, color=_MARK, linewidth=0.7, linestyle=(0, (3, 3)))
    if not any(n.series.points for n in plain):
        say_nothing(axes, answer.panel.raw)
    elif custom.get("drawStyle") == "bars":
        _bars(axes, plain, looks, span.step_s)
    elif is_stacked:
        _areas(axes, plain, looks, span.step_s)
    else:
        for named in plain:
            look, drawn = looks[named.name], _with_gaps(named.series.points, span.step_s)
            axes.plot(*drawn, color=look.color, linewidth=1.1, linestyle=DASHES if look.dashed else "-")
    for limit, color in limits.items():
        axes.axhline(limit, color=color, linewidth=1.0, linestyle=(0, (6, 4)))
    name_all(axes, names)


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


def _with_gaps(points: Points, step_s: float) -> tuple[list[float], list[float]]:
    """Times and values, with one that is no number between runs; a lone value is drawn half a step long."""
    times: list[float] = []
    values: list[float] = []
    for run in runs(points, step_s):
        drawn = run if len(run) > 1 else [run[0], (run[0][0] + step_s / 2, run[0][1])]
        times += [*(at for at, _ in drawn), math.nan]
        values += [*(value for _, value in drawn), math.nan]
    return times, values


def _limits(defaults: Mapping[str, object]) -> dict[float, str]:
    """Colour by value of the steps that have one."""
    thresholds = defaults.get("thresholds", {})
    assert isinstance(thresholds, dict)
    return {s["value"]: hexed(s["color"]) for s in thresholds.get("steps", ()) if s.get("value") is not None}


def _bounds(
    defaults: Mapping[str, float], plain: Sequence[Named], limits: Sequence[float], *, is_stacked: bool
) -> tuple[float, float]:
    """Both ends of the vertical axis."""
    points = [(at, value) for n in plain for at, value in n.series.points if math.isfinite(value)]
    values = [value for _, value in points]
    if is_stacked:
        sums: dict[float, float] = {}
        for at, value in points:
            sums[at] = sums.get(at, 0.0) + value
        values = list(sums.values())
    values += limits
    is_far_from_zero = bool(values) and min(values) >= max(values) / 2
    least = defaults.get("min", min(values) if is_far_from_zero else min([0.0, *values]))
    most = defaults.get("max", max([least, *values]) * 1.05)
    return least, most if most > least else least + 1


def _powers_of_ten(plain: Sequence[Named], limits: Iterable[float]) -> tuple[float, float, Sequence[float]]:
    """Both ends of a logarithmic axis and its lines: whole powers around what is drawn, one at least."""
    values = [value for n in plain for _, value in n.series.points] + list(limits)
    drawn = [value for value in values if 0 < value < math.inf] or [1.0]
    first = math.floor(math.log10(min(drawn)))
    last = max(first + 1, math.ceil(math.log10(max(drawn))))
    return 10.0**first, 10.0**last, [10.0**power for power in range(first, last + 1)]


def _bands(axes: Axes, answer: Answered, looks: Mapping[str, Look]) -> None:
    span = answer.span
    for named in answer.found:
        if looks[named.name].band:
            for run in runs([(t, v) for t, v in named.series.points if v > 0], span.step_s):
                end_s = min(run[-1][0] + span.step_s, span.end_s)
                axes.axvspan(run[0][0], end_s, color=looks[named.name].color, alpha=0.1, linewidth=0)


def _areas(axes: Axes, plain: Sequence[Named], looks: Mapping[str, Look], step_s: float) -> None:
    base: dict[float, float] = {}
    for named in plain:
        color = looks[named.name].color
        for run in runs(named.series.points, step_s):
            times, lower = [at for at, _ in run], [base.get(at, 0.0) for at, _ in run]
            base |= {at: base.get(at, 0.0) + value for at, value in run}
            upper = [base[at] for at in times]
            axes.fill_between(times, lower, upper, color=color, alpha=0.35, linewidth=0)
            axes.plot(times, upper, color=color, linewidth=1.1)


def _bars(axes: Axes, plain: Sequence[Named], looks: Mapping[str, Look], step_s: float) -> None:
    base: dict[float, float] = {}
    for named in plain:
        times, values = zip(*named.series.points, strict=True) if named.series.points else ((), ())
        bottoms = [base.get(at, 0.0) for at in times]
        axes.bar(times, values, step_s * 0.9, bottoms, color=looks[named.name].color, alpha=0.75, linewidth=0)
        base |= {at: bottom + value for at, bottom, value in zip(times, bottoms, values, strict=True)}
