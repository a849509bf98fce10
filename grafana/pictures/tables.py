"""Tables: rows joined by a label and columns chosen and named as the panel's transformations say."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from grafana.pictures.answers import Answered
from grafana.pictures.blocks import last
from grafana.pictures.canvas import absent, cut, in_pixels, width_of, write
from grafana.pictures.looks import GRID, INK
from grafana.pictures.units import shown

_ROWS_MOST = 20
_HEAD, _ROW, _MARGIN = "#57606a", 22.0, 10.0


def draw(axes: Axes, answer: Answered) -> None:
    """Each column as wide as its texts ask for, in proportion; what does not fit is cut."""
    titles, rows = cells(answer)
    width, _ = in_pixels(axes)
    wanted = [max(width_of(said) for said in column) + 2 * _MARGIN for column in zip(titles, *rows, strict=True)]
    scale = width / sum(wanted)
    for number, row in enumerate([titles, *(rows or [[absent(answer.panel.raw), *[""] * (len(titles) - 1)]])]):
        y, x = _ROW * (number + 0.5), 0.0
        for said, wide in zip(row, wanted, strict=True):
            room = width if not rows and number else wide * scale - _MARGIN
            color, weight = (INK, "normal") if number else (_HEAD, "bold")
            write(axes, x + _MARGIN, y, cut(said, room), color=color, weight=weight)
            x += wide * scale
        axes.plot((0, width), (y + _ROW / 2, y + _ROW / 2), color=GRID, linewidth=0.8)


def cells(answer: Answered) -> tuple[list[str], list[list[str]]]:
    """The titles, and the texts of each row."""
    steps = {t["id"]: t["options"] for t in answer.panel.raw["transformations"]}
    key = steps["joinByField"]["byField"]
    organized = steps["organize"]
    names = sorted(organized["indexByName"], key=lambda name: organized["indexByName"][name])
    rows: dict[str, dict[str, Any]] = {}
    several = len(answer.panel.targets) > 1
    for named in answer.found:
        labels = named.series.labels
        row = rows.setdefault(labels.get(key, ""), {key: labels.get(key, "")})
        row[f"Value #{named.target.ref}" if several else "Value"] = last(named)
        row |= {name: value for name, value in labels.items() if name != key}
    units = _units(answer.panel.raw)
    titles = [organized["renameByName"].get(name, name) for name in names]
    ordered: Sequence[Mapping[str, Any]] = sorted(rows.values(), key=lambda row: (len(str(row[key])), str(row[key])))
    texts = [
        [_text(row.get(name), units.get(title, "none")) for name, title in zip(names, titles, strict=True)]
        for row in ordered[:_ROWS_MOST]
    ]
    return titles, texts


def _units(raw: Mapping[str, Any]) -> Mapping[str, str]:
    return {
        o["matcher"]["options"]: p["value"]
        for o in raw["fieldConfig"]["overrides"]
        if o["matcher"]["id"] == "byName"
        for p in o["properties"]
        if p["id"] == "unit"
    }


def _text(value: object, unit: str) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else shown(value, unit)
    return str(value or "").replace("_", " ")
