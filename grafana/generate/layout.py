"""Puts panels on a dashboard, row by row, with ids that only change when a panel is added or taken away before them."""

from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.builders import dashboard


class Layout:
    """`row` adds a titled row of panels; panels flow from left to right over 24 columns."""

    def __init__(self, board: dashboard.Dashboard) -> None:
        self._board = board
        self._last_id = 0

    def row(self, title: str, panels: Sequence[Any]) -> None:
        """`panels` are the SDK's panel builders; the SDK has no common type for them that says so."""
        self._board.with_row(dashboard.Row(title).id(self._next_id()))
        for panel in panels:
            self._board.with_panel(panel.id(self._next_id()))

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id
