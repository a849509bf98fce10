"""Curves to a PNG: a few panels one above the other over one time axis, or several such columns with the same axes. The
only place in what is installed that knows matplotlib. It serves the command line and the sandbox, and so knows neither.

matplotlib is the optional extra `plots` and is imported when a picture is wanted, never before. What the curves mean is
told by whoever draws them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

from recoveryd.errors import RecoverydError
from recoveryd.kernel.catalogue import Code

# Okabe and Ito: told apart with any colour vision; the style repeats the difference in grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES = ("-", "--", "-.", ":")
_WIDTH_IN, _PANEL_IN, _COLUMN_IN = 11.0, 2.6, 3.4
_HARM = "#B00020"
_DPI = 110


class PlotProblem(RecoverydError):  # noqa: N818  (named for what happened)
    """A picture cannot be drawn as it is wanted, and nothing else was done."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(Code.USAGE, message, hint)


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: a value per time, or per whatever the horizontal axis shows. A value that is None or not finite leaves
    a gap. `is_dots`: only its points, in the colour of the line before it.
    """

    label: str
    times_s: Sequence[float]
    values: Sequence[float | None]
    is_dots: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of time in which something was the case, such as a slow broker; drawn as a shade."""

    start_s: float
    stop_s: float
    label: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """`unit` names the vertical axis. `slo` is a line across, `is_log` a logarithmic vertical axis, `top` its upper
    end.
    """

    title: str
    unit: str
    lines: Sequence[Line]
    slo: float | None = None
    bands: Sequence[Band] = ()
    is_log: bool = False
    top: float | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of a whole, with what it says."""

    part: float
    whole: float
    label: str


@dataclass(frozen=True, slots=True)
class Column:
    """One of several things that are compared: its panels from above, and a bar below them."""

    title: str
    panels: Sequence[Panel]
    bar: Bar


def plot(path: Path, panels: Sequence[Panel], title: str = "", x_label: str = "seconds") -> None:
    """Write `panels` as a PNG. Raises `PlotProblem` when matplotlib is absent, there is nothing to draw, or the file
    cannot be written.
    """
    if not panels:
        raise PlotProblem("There is nothing to draw.")
    figure = _figure(_WIDTH_IN, _PANEL_IN * len(panels) + 0.6)
    rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)
    for (axes,), panel in zip(rows, panels, strict=True):
        _draw(axes, panel)
        _explain(axes)
    rows[-1][0].set_xlabel(x_label)
    _save(figure, path, title)


def plot_columns(path: Path, columns: Sequence[Column], title: str = "", x_label: str = "seconds") -> None:
    """Write `columns` side by side as a PNG, each row with the same axes, and the bars below. Raises as `plot` does."""
    if not columns or not columns[0].panels:
        raise PlotProblem("There is nothing to draw.")
    many = len(columns[0].panels)
    figure = _figure(_COLUMN_IN * len(columns) + 1.0, _PANEL_IN * many + 1.4)
    grid = figure.add_gridspec(many + 1, len(columns), height_ratios=[*[1.0] * many, 0.22])
    first: list[Axes | None] = [None] * many
    longest = max(column.bar.whole for column in columns)
    for at, column in enumerate(columns):
        for row, panel in enumerate(column.panels):
            axes = figure.add_subplot(grid[row, at], sharex=first[0], sharey=first[row])
            first[row] = first[row] or axes
            _draw(axes, panel)
            axes.set_title(f"{column.title}\n{panel.title}" if row == 0 else panel.title, loc="left", fontsize=9)
            axes.tick_params(labelleft=at == 0, labelbottom=row == many - 1)
            if at:
                axes.set_ylabel("")
            if at == len(columns) - 1:
                _explain(axes)
            if row == many - 1:
                axes.set_xlabel(x_label)
        _draw_bar(figure.add_subplot(grid[many, at]), column.bar, longest)
    _save(figure, path, title)


def _figure(width_in: float, height_in: float) -> "Figure":
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise PlotProblem(
            "Pictures need matplotlib, which is not installed.", "Install the extra: pip install 'recoveryd[plots]'."
        ) from None
    figure = Figure(figsize=(width_in, height_in), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: "Figure", path: Path, title: str) -> None:
    if title:
        figure.suptitle(title, fontsize=12)
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise PlotProblem(f"{path} cannot be written: {error}.") from None


def _draw(axes: "Axes", panel: Panel) -> None:
    for band in panel.bands:
        axes.axvspan(band.start_s, band.stop_s, color="#999999", alpha=0.25, label=band.label or None, linewidth=0)
    at = -1
    for line in panel.lines:
        shown = [value if value is not None and math.isfinite(value) else math.nan for value in line.values]
        at += not line.is_dots
        colour, style = _COLOURS[at % len(_COLOURS)], _STYLES[at % len(_STYLES)]
        label = line.label or None
        if line.is_dots:
            axes.plot(line.times_s, shown, "o", color=colour, label=label, markersize=3.5, alpha=0.6, clip_on=False)
        else:
            axes.plot(line.times_s, shown, style, color=colour, label=label, linewidth=1.2)
    if panel.slo is not None:
        axes.axhline(panel.slo, color=_HARM, linewidth=1.0, linestyle=(0, (6, 3)), label="SLO")
    if panel.is_log:
        axes.set_yscale("log")
    if panel.top is not None:
        axes.set_ylim(top=panel.top)
    axes.set_title(panel.title, loc="left", fontsize=10)
    axes.set_ylabel(panel.unit)
    axes.margins(x=0)
    axes.grid(visible=True, alpha=0.3)


def _draw_bar(axes: "Axes", bar: Bar, longest: float) -> None:
    axes.barh([0.0], [bar.whole], color="#DDDDDD", height=0.6)
    axes.barh([0.0], [bar.part], color=_HARM, height=0.6)
    axes.set_xlim(0.0, longest)
    axes.set_axis_off()
    axes.set_title(bar.label, loc="left", fontsize=9)


def _explain(axes: "Axes") -> None:
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)
