"""Pictures: a PNG is written, also with gaps and shades, and without the extra package the error names it."""

import math
import struct
import sys
from pathlib import Path

import pytest

from recoveryd.cli.failure import ExitCode, exit_code_of
from recoveryd.plots import Band, Line, Panel, PlotProblem, plot

PANEL = Panel(
    "p99", "seconds", [Line("budget", [0, 1, 2], [0.1, None, math.inf])], slo=0.2, bands=[Band(0.5, 1.5, "slow")]
)


def png_size(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:24])
    return width, height


def test_a_png_grows_by_a_row_per_panel(tmp_path: Path) -> None:
    one, three = tmp_path / "one.png", tmp_path / "three.png"
    plot(one, [PANEL])
    plot(three, [PANEL, Panel("rate", "MB/s", [], is_log=True), PANEL], title="three", x_label="minutes")
    assert png_size(one)[0] == png_size(three)[0] == 1_210
    assert png_size(three)[1] - png_size(one)[1] == round(2 * 2.6 * 110)


def test_without_matplotlib_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(PlotProblem) as caught:
        plot(tmp_path / "x.png", [PANEL])
    exit_code = exit_code_of(caught.value.code.value, ExitCode.FAILED)
    assert (exit_code, caught.value.hint) == (2, "Install the extra: pip install 'recoveryd[plots]'.")


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(PlotProblem, match="cannot be written"):
        plot(tmp_path / "none" / "x.png", [PANEL])


def test_an_empty_picture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlotProblem, match="nothing to draw"):
        plot(tmp_path / "x.png", [])
