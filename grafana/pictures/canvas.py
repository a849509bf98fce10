"""What all drawings share: pixels on a matplotlib figure, texts that fit, the time axis, and the legend of a panel."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from grafana.pictures.answers import Span
from grafana.pictures.looks import FAINT, GRID, INK
from grafana.pictures.units import clock_ticks

_DPI = 100
_POINT = 72 / _DPI  # of one pixel
_WIDE, _MEAN, _NARROW = "MWmw@%", 6.9, "iljtf.,:' "
DASHES = (0, (4, 3))


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


def say_nothing(axes: Axes) -> None:
    write(axes, 0.5, 0.5, "No data", color=FAINT, ha="center", transform=axes.transAxes)


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


def name_all(axes: Axes, entries: Sequence[tuple[str, str, bool]]) -> None:
    """Names (name, colour, dashed) one after the other below the panel; those that do not fit are counted."""
    room, shown = size_of(axes)[0], list[tuple[str, str, bool]]()
    for name, color, dashed in entries:
        wide = width_of(name, 10) + 32
        if wide > room and shown:
            shown.append((f"+{len(entries) - len(shown)} more", "none", False))
            break
        room -= wide
        shown.append((cut(name, size_of(axes)[0] - 40, 10), color, dashed))
    handles = [
        Line2D([], [], color=color, linewidth=2, linestyle=(0, (2, 1)) if dashed else "-", label=name)
        for name, color, dashed in shown
    ]
    if handles:
        axes.legend(
            handles=handles, loc="upper left", bbox_to_anchor=(0, -18 / size_of(axes)[1]), ncols=len(handles), frameon=False,
            fontsize=10 * _POINT, handlelength=1.6, handletextpad=0.5, columnspacing=1.2, borderpad=0, borderaxespad=0,
        )  # fmt: skip


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
