"""One dashboard as one HTML page: the panels on Grafana's grid, each an SVG or a table. No script and nothing from elsewhere."""

from collections.abc import Sequence
from html import escape

from grafana.pictures import blocks, lines, tables
from grafana.pictures.answers import Answered, Mark
from grafana.pictures.board_file import BoardFile

WIDTH, _COLUMNS, _UNIT, _GAP, _HEAD = 1400, 24, 29, 8, 26
_STYLE = """
* { box-sizing: border-box; margin: 0; }
body { width: %dpx; padding: 12px; background: #f4f5f7; color: #24292f; font: 12px "DejaVu Sans", "Liberation Sans", Arial, sans-serif; }
h1 { font-size: 17px; margin: 0 0 10px 2px; }
main { display: grid; grid-template-columns: repeat(24, 1fr); gap: 8px; }
h2 { grid-column: 1 / -1; font-size: 13px; padding: 4px 2px 0; color: #57606a; }
figure { background: #fff; border: 1px solid #dfe3e8; border-radius: 4px; overflow: hidden; }
figcaption { font-weight: 600; padding: 6px 10px 0; height: 26px; white-space: nowrap; overflow: hidden; }
svg { display: block; font-family: inherit; }
table { border-collapse: collapse; width: 100%%; } th, td { text-align: left; padding: 3px 10px; border-bottom: 1px solid #eceff2; white-space: nowrap; }
th { color: #57606a; font-weight: 600; } .n { font-variant-numeric: tabular-nums; }
"""


def make(
    board: BoardFile, answers: Sequence[Answered], marks: Sequence[Mark], rows: Sequence[str] = ()
) -> tuple[str, int]:
    """HTML and the height it needs in pixels. `rows` names the rows to draw, none = all."""
    parts: list[str] = []
    height, deepest, wanted = 24 + 30, 0, True
    at_y = -1
    for answer in answers:
        panel = answer.panel
        if panel.kind == "row":
            wanted = not rows or panel.title in rows
            if wanted:
                parts.append(f"<h2>{escape(panel.title)}</h2>")
                height += deepest + 21 + _GAP
                deepest = 0
            continue
        if not wanted:
            continue
        if panel.place[1] != at_y:
            height += deepest and deepest + _GAP
            at_y, deepest = panel.place[1], 0
        tall = panel.place[3] * _UNIT
        deepest = max(deepest, tall)
        parts.append(_figure(answer, marks, tall))
    body = f"<h1>{escape(board.title)}</h1><main>{''.join(parts)}</main>"
    style = _STYLE % WIDTH
    page = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(board.title)}</title><style>{style}</style><body>{body}</body></html>'
    return page, height + deepest + 24


def _figure(answer: Answered, marks: Sequence[Mark], tall: int) -> str:
    panel = answer.panel
    columns = panel.place[2]
    width = (WIDTH - 24 - (_COLUMNS - 1) * _GAP) / _COLUMNS * columns + (columns - 1) * _GAP - 2
    drawn = _draw(answer, marks, width, tall - _HEAD - 2)
    tip = escape(panel.description, quote=True)
    return f'<figure style="grid-column: span {columns}; height: {tall}px" title="{tip}"><figcaption>{escape(panel.title)}</figcaption>{drawn}</figure>'


def _draw(answer: Answered, marks: Sequence[Mark], width: float, height: float) -> str:
    """Raises KeyError for a kind of panel that nobody draws yet."""
    kind = answer.panel.kind
    if kind == "timeseries":
        return lines.draw(answer, width, height, marks)
    if kind == "table":
        return tables.draw(answer)
    if kind in {"state-timeline", "heatmap"}:
        drawer = blocks.timeline if kind == "state-timeline" else blocks.heatmap
        return drawer(answer, width, height)
    return {"stat": blocks.stat, "bargauge": blocks.bars}[kind](answer, width, height)
