"""Curves to a PNG: a few panels one above the other over one time axis. The only place that knows matplotlib.

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

from recoveryd.cli.failure import usage

# Okabe and Ito: told apart with any colour vision; the style repeats the difference in grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES = ("-", "--", "-.", ":")
_WIDTH_IN, _PANEL_IN = 11.0, 2.6
_DPI = 110


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: a value per time. A value that is None or not finite leaves a gap."""

    label: str
    times_s: Sequence[float]
    values: Sequence[float | None]


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


def plot(path: Path, panels: Sequence[Panel], title: str = "", x_label: str = "seconds") -> None:
    """Write `panels` as a PNG. Raises `Failure` when matplotlib is absent, there is nothing to draw, or the file cannot
    be written.
    """
    if not panels:
        raise usage("There is nothing to draw.")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise usage(
            "Pictures need matplotlib, which is not installed.", "Install the extra: pip install 'recoveryd[plots]'."
        ) from None
    figure = Figure(figsize=(_WIDTH_IN, _PANEL_IN * len(panels) + 0.6), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)
    for (axes,), panel in zip(rows, panels, strict=True):
        _draw(axes, panel)
    rows[-1][0].set_xlabel(x_label)
    if title:
        figure.suptitle(title, fontsize=12)
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise usage(f"{path} cannot be written: {error}.") from None


def _draw(axes: "Axes", panel: Panel) -> None:
    for band in panel.bands:
        axes.axvspan(band.start_s, band.stop_s, color="#999999", alpha=0.25, label=band.label or None, linewidth=0)
    for at, line in enumerate(panel.lines):
        shown = [value if value is not None and math.isfinite(value) else math.nan for value in line.values]
        style = _STYLES[at % len(_STYLES)]
        axes.plot(line.times_s, shown, style, color=_COLOURS[at % len(_COLOURS)], label=line.label, linewidth=1.2)
    if panel.slo is not None:
        axes.axhline(panel.slo, color="#B00020", linewidth=1.0, linestyle=(0, (6, 3)), label="SLO")
    if panel.is_log:
        axes.set_yscale("log")
    if panel.top is not None:
        axes.set_ylim(top=panel.top)
    axes.set_title(panel.title, loc="left", fontsize=10)
    axes.set_ylabel(panel.unit)
    axes.margins(x=0)
    axes.grid(visible=True, alpha=0.3)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)
