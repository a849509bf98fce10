"""Places panels on a dashboard, row by row, with ids that change only when a panel before them is added or removed."""

from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.builders import dashboard


class Layout:
    """`row` adds a titled row of panels; panels flow from left to right over 24 columns. A `collapsed` row shows its
    title only, and asks nothing until somebody opens it.
    """

    def __init__(self, board: dashboard.Dashboard) -> None:
        self._board = board
        self._last_id = 0

    def row(self, title: str, panels: Sequence[Any], *, collapsed: bool = False) -> None:
        """`panels` are the SDK's panel builders, for which the SDK has no common type."""
        row = dashboard.Row(title).id(self._next_id()).collapsed(collapsed)
        placed = [panel.id(self._next_id()) for panel in panels]
        if collapsed:
            for panel in placed:
                row.with_panel(panel)
        self._board.with_row(row)
        if not collapsed:
            for panel in placed:
                self._board.with_panel(panel)

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id
