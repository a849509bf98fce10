"""Makes a page from a dashboard and a Prometheus: asks every query, draws every panel."""

from collections.abc import Mapping, Sequence

from grafana.pictures import page
from grafana.pictures.answers import Answered, Span, ask_marks, ask_panel
from grafana.pictures.board_file import load
from grafana.pictures.prometheus_server import PrometheusServer


def draw_board(
    server: PrometheusServer, name: str, span: Span, variables: Mapping[str, str], only: Sequence[str] = ()
) -> tuple[str, int]:
    """HTML and its height in pixels. Raises `QueryFailed` for a query that Prometheus does not take."""
    board = load(name)
    answers: list[Answered] = [ask_panel(server, panel, span, variables) for panel in board.panels]
    return page.make(board, answers, ask_marks(server, board, span, variables), only)
