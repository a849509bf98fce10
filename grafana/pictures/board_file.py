"""Reads a committed dashboard: its panels, their queries with the variables filled in, its annotations. It uses only
what Grafana reads too.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "dashboards"
BOARDS = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


@dataclass(frozen=True, slots=True)
class Target:
    expr: str
    legend: str
    ref: str
    is_instant: bool


@dataclass(frozen=True, slots=True)
class PanelFile:
    """`place` is (x, y, width, height) on Grafana's grid of 24 columns; `raw` is the JSON for what only a drawing
    needs. `is_folded`: it is in a row that Grafana shows closed at first; the row itself is not.
    """

    title: str
    kind: str
    description: str
    unit: str
    place: tuple[int, int, int, int]
    targets: tuple[Target, ...]
    raw: Mapping[str, Any]
    is_folded: bool = False

    @property
    def drawn(self) -> str:
        """Digest of all that a picture of the panel depends on: its queries, looks and place."""
        kept = {name: value for name, value in self.raw.items() if name not in {"id", "description", "links", "panels"}}
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class BoardFile:
    name: str
    title: str
    panels: tuple[PanelFile, ...]
    annotations: Mapping[str, str]  # expression by name
    raw: Mapping[str, Any]

    @property
    def variables(self) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self.raw["templating"]["list"]
        return found


def load(name: str) -> BoardFile:
    raw = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    annotations = {a["name"]: a["expr"] for a in raw["annotations"]["list"]}
    return BoardFile(name, raw["title"], tuple(_panels(raw["panels"])), annotations, raw)


def filled(expr: str, *, rate_s: float, range_s: float, **variables: str) -> str:
    """`expr` as Grafana would send it; variables that are not given match everything. Raises ValueError when an unknown
    variable is left.
    """
    known = {"__rate_interval": f"{rate_s:.0f}s", "__range": f"{range_s:.0f}s", **variables}
    done = re.sub(r"\$([a-z_]\w*)", lambda found: known.get(found[1], _otherwise(found)), expr)
    left = re.findall(r"\$__\w+", done)
    if left:
        raise ValueError(f"{left} is not filled in")
    return done


def _otherwise(found: re.Match[str]) -> str:
    return found[0] if found[1].startswith("__") else ".*"


def _panels(raw: Sequence[Mapping[str, Any]]) -> Iterator[PanelFile]:
    # A collapsed row holds its panels; the others stand after theirs.
    for panel, is_folded in ((one, one is not row) for row in raw for one in (row, *row.get("panels", ()))):
        place = panel["gridPos"]
        yield PanelFile(
            panel.get("title", ""),
            panel["type"],
            panel.get("description", ""),
            panel.get("fieldConfig", {}).get("defaults", {}).get("unit", ""),
            (place.get("x", 0), place.get("y", 0), place["w"], place["h"]),
            tuple(_target(t) for t in panel.get("targets", ())),
            panel,
            is_folded,
        )


def _target(raw: Mapping[str, Any]) -> Target:
    return Target(raw["expr"], raw.get("legendFormat", ""), raw["refId"], bool(raw.get("instant")))
