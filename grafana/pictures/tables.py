"""Tables as HTML: rows joined by a label and columns chosen and named as the panel's transformations say."""

import math
from collections.abc import Mapping
from html import escape
from typing import Any

from grafana.pictures.answers import Answered
from grafana.pictures.blocks import last
from grafana.pictures.units import shown

_ROWS_MOST = 20


def draw(answer: Answered) -> str:
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
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    ordered = sorted(rows.values(), key=lambda row: (len(str(row[key])), str(row[key])))[:_ROWS_MOST]
    body = "".join(
        "<tr>"
        + "".join(_cell(row.get(name), units.get(title, "none")) for name, title in zip(names, titles, strict=True))
        + "</tr>"
        for row in ordered
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body or '<tr><td>No data</td></tr>'}</tbody></table>"


def _units(raw: Mapping[str, Any]) -> Mapping[str, str]:
    return {
        o["matcher"]["options"]: p["value"]
        for o in raw["fieldConfig"]["overrides"]
        if o["matcher"]["id"] == "byName"
        for p in o["properties"]
        if p["id"] == "unit"
    }


def _cell(value: object, unit: str) -> str:
    if isinstance(value, float):
        return f'<td class="n">{"" if math.isnan(value) else escape(shown(value, unit))}</td>'
    return f"<td>{escape(str(value or '').replace('_', ' '))}</td>"
