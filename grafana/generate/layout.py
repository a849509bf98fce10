"""Places panels on a dashboard, row by row, with ids that change only when a panel before them is added or removed."""

from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.builders import dashboard


class Layout:
    """`row` adds a titled row of panels; panels flow from left to right over 24 columns."""

    def __init__(self, board: dashboard.Dashboard) -> None:
        self._board = board
        self._last_id = 0

    def row(self, title: str, panels: Sequence[Any]) -> None:
        """`panels` are the SDK's panel builders, for which the SDK has no common type."""
        self._board.with_row(dashboard.Row(title).id(self._next_id()))
        for panel in panels:
            self._board.with_panel(panel.id(self._next_id()))

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id
