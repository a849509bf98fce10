"""One dashboard as one HTML page: the panels on Grafana's grid, each an SVG or a table. No script, and nothing loaded
from elsewhere.
"""

from collections.abc import Sequence
from html import escape

from grafana.pictures import blocks, lines, tables
from grafana.pictures.answers import Answered, Mark
from grafana.pictures.board_file import BoardFile

WIDTH, _COLUMNS, _UNIT, _GAP, _HEAD, _ROW = 1400, 24, 29, 8, 26, 22
_STYLE = """
* { box-sizing: border-box; margin: 0; }
body { width: %dpx; padding: 12px; background: #f4f5f7; color: #24292f;
  font: 12px "DejaVu Sans", "Liberation Sans", Arial, sans-serif; }
h1 { font-size: 17px; margin: 0 0 10px 2px; }
main { display: grid; grid-template-columns: repeat(24, 1fr); gap: 8px; }
h2 { grid-column: 1 / -1; font-size: 13px; height: 22px; padding: 4px 2px 0; color: #57606a; }
figure { background: #fff; border: 1px solid #dfe3e8; border-radius: 4px; overflow: hidden; }
figcaption { font-weight: 600; padding: 6px 10px 0; height: 26px; white-space: nowrap; overflow: hidden; }
svg { display: block; font-family: inherit; }
table { border-collapse: collapse; width: 100%%; }
th, td { text-align: left; padding: 3px 10px; border-bottom: 1px solid #eceff2; white-space: nowrap; }
th { color: #57606a; font-weight: 600; } .n { font-variant-numeric: tabular-nums; }
"""


def make(
    board: BoardFile, answers: Sequence[Answered], marks: Sequence[Mark], only: Sequence[str] = ()
) -> tuple[str, int]:
    """HTML and the height it needs in pixels. `only` names the panels to draw, without the headings of rows; none =
    all.
    """
    parts: list[str] = []
    height, columns, deepest = 24 + 31, 0, 0
    for answer in answers:
        panel = answer.panel
        is_row = panel.kind == "row"
        if only and (is_row or panel.title not in only):
            continue
        wide, tall = (_COLUMNS, _ROW) if is_row else (panel.place[2], panel.place[3] * _UNIT)
        if columns + wide > _COLUMNS:
            height, columns, deepest = height + deepest + _GAP, 0, 0
        columns, deepest = columns + wide, max(deepest, tall)
        parts.append(f"<h2>{escape(panel.title)}</h2>" if is_row else _figure(answer, marks, tall))
    body = f"<h1>{escape(board.title)}</h1><main>{''.join(parts)}</main>"
    head = f'<meta charset="utf-8"><title>{escape(board.title)}</title><style>{_STYLE % WIDTH}</style>'
    return f'<!doctype html><html lang="en">{head}<body>{body}</body></html>', height + deepest


def _figure(answer: Answered, marks: Sequence[Mark], tall: int) -> str:
    panel = answer.panel
    columns = panel.place[2]
    width = (WIDTH - 24 - (_COLUMNS - 1) * _GAP) / _COLUMNS * columns + (columns - 1) * _GAP - 2
    drawn = _draw(answer, marks, width, tall - _HEAD - 2)
    tip = escape(panel.description, quote=True)
    return (
        f'<figure style="grid-column: span {columns}; height: {tall}px" '
        f'title="{tip}"><figcaption>{escape(panel.title)}</figcaption>{drawn}</figure>'
    )


def _draw(answer: Answered, marks: Sequence[Mark], width: float, height: float) -> str:
    """Raises KeyError for a kind of panel that cannot be drawn yet."""
    kind = answer.panel.kind
    if kind == "timeseries":
        return lines.draw(answer, width, height, marks)
    if kind == "table":
        return tables.draw(answer)
    if kind in {"state-timeline", "heatmap"}:
        drawer = blocks.timeline if kind == "state-timeline" else blocks.heatmap
        return drawer(answer, width, height)
    return {"stat": blocks.stat, "bargauge": blocks.bars}[kind](answer, width, height)
