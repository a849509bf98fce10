"""What all drawings share: pixels on a matplotlib figure, texts that fit, the time axis, and the legend of a panel."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D

from grafana.pictures.answers import Span
from grafana.pictures.looks import FAINT, GRID, INK
from grafana.pictures.units import clock_ticks

_DPI = 100
_POINT = 72 / _DPI  # of one pixel
_WIDE, _MEAN, _NARROW = "MWmw@%", 6.9, "iljtf.,:' "
DASHES = (0, (4, 3))
NAME_ROW = 15.0  # height of a row of names, in pixels
_NAME_ROWS_MOST, _SIGN = 3, 32.0


def make_figure(width: float, height: float, background: str) -> Figure:
    figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI, facecolor=background)
    FigureCanvasAgg(figure)
    return figure


def add_axes(figure: Figure, x: float, y: float, width: float, height: float) -> Axes:
    """An empty place; `x` and `y` are pixels from the upper left corner of the figure."""
    wide, high = figure.bbox.width, figure.bbox.height
    axes = figure.add_axes((x / wide, 1 - (y + height) / high, width / wide, height / high))
    axes.set_axis_off()
    return axes


def inset(axes: Axes, left: float, right: float, top: float, bottom: float) -> None:
    """Leave room around what is drawn, in pixels."""
    box, whole = axes.get_position(), axes.get_figure(root=True)
    assert whole is not None
    wide, high = whole.bbox.width, whole.bbox.height
    axes.set_position(
        (
            box.x0 + left / wide,
            box.y0 + bottom / high,
            box.width - (left + right) / wide,
            box.height - (top + bottom) / high,
        )
    )


def size_of(axes: Axes) -> tuple[float, float]:
    """Width and height in pixels."""
    return axes.bbox.width, axes.bbox.height


def in_pixels(axes: Axes) -> tuple[float, float]:
    """From now on the coordinates of `axes` are pixels from its upper left corner; gives its size."""
    width, height = size_of(axes)
    axes.set(xlim=(0, width), ylim=(height, 0))
    return width, height


def write(axes: Axes, x: float, y: float, said: str, size: float = 11, color: str = INK, **more: Any) -> None:
    """One line of text around `y`, beginning at `x` unless `ha` says otherwise. A dollar is a dollar."""
    axes.text(x, y, said, fontsize=size * _POINT, color=color, va=more.pop("va", "center"), parse_math=False, **more)


def say_nothing(axes: Axes, raw: Mapping[str, Any]) -> None:
    """What the panel says where nothing was found."""
    write(axes, 0.5, 0.5, absent(raw), color=FAINT, ha="center", transform=axes.transAxes)


def absent(raw: Mapping[str, Any]) -> str:
    return str(raw["fieldConfig"]["defaults"].get("noValue", "No data"))


def show_time(axes: Axes, span: Span) -> None:
    """The horizontal axis is the span, in UTC."""
    axes.set_axis_on()
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelsize=10 * _POINT, labelcolor=FAINT, pad=4)
    axes.set_axisbelow(True)
    axes.set_xlim(span.start_s, span.end_s)
    ticks = clock_ticks(span.start_s, span.end_s)
    axes.set_xticks([at for at, _ in ticks], [said for _, said in ticks])


def show_values(axes: Axes, values: Sequence[float], said: Sequence[str]) -> None:
    axes.set_yticks(values, said, parse_math=False)
    axes.grid(axis="y", color=GRID, linewidth=0.8)


Entry = tuple[str, str, bool]  # name, colour, dashed


def rows_of(entries: Sequence[Entry], room: float) -> list[list[Entry]]:
    """The names below a panel in as many rows as they need, three at most; those that do not fit are counted."""
    rows: list[list[Entry]] = [[]]
    left = room
    for number, entry in enumerate(entries):
        wide = width_of(entry[0], 10) + _SIGN
        more = (f"+{len(entries) - number} more", "none", False)
        is_last = len(rows) == _NAME_ROWS_MOST
        if is_last and rows[-1] and number + 1 < len(entries) and wide + width_of(more[0], 10) + _SIGN > left:
            rows[-1].append(more)
            break
        if wide > left and rows[-1]:
            if is_last:
                rows[-1].append(more)
                break
            rows.append([])
            left = room
        rows[-1].append(entry)
        left -= wide
    return rows


def name_all(axes: Axes, entries: Sequence[Entry]) -> None:
    """Names one after the other below the panel; `rows_of` says in how many rows."""
    room, tall = size_of(axes)
    for number, row in enumerate(rows_of(entries, room)):
        handles = [
            Line2D([], [], color=color, linewidth=2, linestyle=(0, (2, 1)) if dashed else "-",
                label=cut(name, room - 40, 10))
            for name, color, dashed in row
        ]  # fmt: skip
        if handles:
            axes.add_artist(Legend(
                axes, handles, [str(handle.get_label()) for handle in handles], loc="upper left",
                bbox_to_anchor=(0, -(18 + NAME_ROW * number) / tall), ncols=len(handles), frameon=False,
                fontsize=10 * _POINT, handlelength=1.6, handletextpad=0.5, columnspacing=1.2, borderpad=0,
                borderaxespad=0,
            ))  # fmt: skip


def width_of(said: str, size: float = 11) -> float:
    """Approximate width of a text in pixels."""
    each = sum(1.5 if c in _WIDE else 0.55 if c in _NARROW else 1.0 for c in said)
    return each * _MEAN * size / 11


def cut(said: str, room: float, size: float = 11) -> str:
    """As much of the text as fits into `room`."""
    if width_of(said, size) <= room:
        return said
    kept = said
    while kept and width_of(kept + "…", size) > room:
        kept = kept[:-1]
    return kept + "…" if kept else ""
