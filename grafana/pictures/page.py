"""One dashboard as one picture: the panels on Grafana's grid, drawn by matplotlib. No browser is needed."""

from collections.abc import Iterator, Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from grafana.pictures import blocks, lines, tables
from grafana.pictures.answers import Answered, Mark, Span, ask_marks, ask_panel
from grafana.pictures.board_file import BoardFile, load
from grafana.pictures.canvas import add_axes, in_pixels, make_figure, write
from grafana.pictures.looks import PAPER
from grafana.pictures.prometheus_server import PrometheusServer

WIDTH = 1400
_COLUMNS, _UNIT, _GAP, _HEAD, _ROW, _MARGIN, _TITLE = 24, 29.0, 8.0, 26.0, 22.0, 12.0, 31.0
_BACKGROUND, _EDGE, _FAINT = "#f4f5f7", "#dfe3e8", "#57606a"
_COLUMN = (WIDTH - 2 * _MARGIN - (_COLUMNS - 1) * _GAP) / _COLUMNS
_DRAWERS = {
    "table": tables.draw,
    "state-timeline": blocks.timeline,
    "heatmap": blocks.heatmap,
    "stat": blocks.stat,
    "bargauge": blocks.bars,
}


def draw_board(
    server: PrometheusServer,
    name: str,
    span: Span,
    variables: Mapping[str, str],
    only: Sequence[str] = (),
    *,
    unfolded: bool = True,
) -> Figure:
    """Ask everything, draw everything; not `unfolded`, without the panels of rows that Grafana shows closed at first.
    Raises `QueryFailed` for a query that Prometheus does not take.
    """
    board = load(name)
    shown = [panel for panel in board.panels if unfolded or not panel.is_folded]
    answers = [ask_panel(server, panel, span, variables) for panel in shown]
    return make(board, answers, ask_marks(server, board, span, variables), only)


def make(board: BoardFile, answers: Sequence[Answered], marks: Sequence[Mark], only: Sequence[str] = ()) -> Figure:
    """`only` names the panels to draw, without the headings of rows; none = all."""
    places = list(_places(answers, only))
    height = max(y + tall for _, _, y, _, tall in places) + _MARGIN
    figure = make_figure(WIDTH, height, _BACKGROUND)
    ground = add_axes(figure, 0, 0, WIDTH, height)
    in_pixels(ground)
    write(ground, _MARGIN + 2, _MARGIN + 10, board.title, 17, weight="bold")
    is_unfolded = any(answer.panel.is_folded for answer in answers)
    for answer, x, y, wide, tall in places:
        title = answer.panel.title
        if answer.panel.kind == "row":
            title += " (folded)" if answer.panel.raw.get("collapsed") and not is_unfolded else ""
            write(ground, x + 2, y + 12, title, 13, _FAINT, weight="bold")
            continue
        ground.add_patch(Rectangle((x, y), wide, tall, facecolor=PAPER, edgecolor=_EDGE, linewidth=0.8))
        write(ground, x + 10, y + 14, title, 12, weight="bold")
        axes = add_axes(figure, x + 1, y + _HEAD, wide - 2, tall - _HEAD - 2)
        axes.set_label(title)
        if answer.panel.kind == "timeseries":
            lines.draw(axes, answer, marks)
        else:
            _DRAWERS[answer.panel.kind](axes, answer)
    return figure


def _places(answers: Sequence[Answered], only: Sequence[str]) -> Iterator[tuple[Answered, float, float, float, float]]:
    """Where each panel goes: left, top, width and height in pixels; from left to right, then on below."""
    columns, top, deepest = 0, _MARGIN + _TITLE, 0.0
    for answer in answers:
        panel = answer.panel
        is_row = panel.kind == "row"
        if only and (is_row or panel.title not in only):
            continue
        span, tall = (_COLUMNS, _ROW) if is_row else (panel.place[2], panel.place[3] * _UNIT)
        if columns + span > _COLUMNS:
            columns, top, deepest = 0, top + deepest + _GAP, 0.0
        yield answer, _MARGIN + columns * (_COLUMN + _GAP), top, span * (_COLUMN + _GAP) - _GAP, tall
        columns, deepest = columns + span, max(deepest, tall)
