"""Colours and line styles: Grafana's names as hex values, and what a panel's overrides say about a series."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PALETTE = ("#3274d9", "#e0752d", "#3f9142", "#8f3bb8", "#c4162a", "#0a7c8c", "#b8860b", "#6b6b7b", "#d0488c", "#4b6cb7")
INK, FAINT, GRID, PAPER = "#24292f", "#6e7781", "#e3e6ea", "#ffffff"
_NAMED = {
    "orange": "#e8730c", "blue": "#2f6fde", "green": "#2f9e44", "red": "#d6293e", "gray": "#8b929a",
    "purple": "#8f3bb8", "yellow": "#d9a400", "transparent": "none", "light-blue": "#6ea8ff",
    "super-light-blue": "#bcd6ff", "light-orange": "#ffb266", "light-purple": "#c08ae0", "light-green": "#8fd19e",
    "semi-dark-yellow": "#b8860b", "dark-red": "#8f0f20", "dark-orange": "#b85000",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Look:
    color: str
    dashed: bool = False
    band: bool = False
    unit: str | None = None


def hexed(name: str) -> str:
    """Raises KeyError for a colour that the dashboards do not use."""
    return name if name.startswith("#") else _NAMED[name]


def looks_of(raw: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Look]:
    """A look per name, from the overrides of the panel's JSON, else by turns from the palette."""
    rules = [
        (re.compile(o["matcher"]["options"]), {p["id"]: p.get("value") for p in o["properties"]})
        for o in raw["fieldConfig"]["overrides"]
        if o["matcher"]["id"] == "byRegexp"
    ]
    found: dict[str, Look] = {}
    turn = 0
    for name in names:
        if name in found:
            continue
        said: dict[str, Any] = {}
        for pattern, properties in rules:
            if pattern.search(name):
                said |= properties
        color = said.get("color", {}).get("fixedColor")
        found[name] = Look(
            hexed(color) if color else PALETTE[turn % len(PALETTE)],
            dashed="custom.lineStyle" in said,
            band=said.get("custom.axisPlacement") == "hidden",
            unit=said.get("unit"),
        )
        turn += 0 if color else 1
    return found


def mappings_of(raw: Mapping[str, Any]) -> Mapping[float, tuple[str, str]]:
    """Text and colour by value."""
    return {
        float(value): (result.get("text", ""), hexed(result.get("color", "gray")))
        for entry in raw["fieldConfig"]["defaults"].get("mappings", ())
        for value, result in entry["options"].items()
    }


def level_color(raw: Mapping[str, Any], value: float) -> str:
    """Colour by the panel's thresholds."""
    color = "gray"
    for step in raw["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", ()):
        if step.get("value") is None or value >= step["value"]:
            color = step["color"]
    return hexed(color)
