"""The drawings show what Prometheus answered: positions, gaps, names, units. No Prometheus is needed."""

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from grafana.pictures import blocks, lines, tables
from grafana.pictures.__main__ import PANELS, panels_drawn
from grafana.pictures.answers import Answered, Mark, Named, Span, legend_name
from grafana.pictures.board_file import PanelFile, filled, load
from grafana.pictures.canvas import absent, add_axes, cut, make_figure
from grafana.pictures.lines import runs
from grafana.pictures.looks import level_color, looks_of, mappings_of
from grafana.pictures.page import WIDTH, make
from grafana.pictures.prometheus_server import Series
from grafana.pictures.units import clock_ticks, shown, ticks

SPAN = Span(1_000.0, 1_060.0, 1.0)


def panel(board: str, title: str) -> PanelFile:
    [found] = [p for p in load(board).panels if p.title == title and p.kind != "row"]
    return found


def answered(of: PanelFile, rows: Sequence[tuple[int, Mapping[str, str], Sequence[tuple[float, float]]]]) -> Answered:
    """`rows`: number of the target, labels, points."""
    found = []
    for number, labels, points in rows:
        target = of.targets[number]
        series = Series("", labels, tuple(points))
        found.append(Named(legend_name(target.legend, series), target, series))
    return Answered(of, tuple(found), SPAN)


def drawn(draw: Callable[..., None], answer: Answered, width: float, height: float, *marks: Sequence[Mark]) -> Axes:
    """The panel alone on a figure of its size."""
    figure = make_figure(width, height, "#ffffff")
    axes = add_axes(figure, 0, 0, width, height)
    draw(axes, answer, *marks)
    figure.draw_without_rendering()
    return axes


def rectangles(axes: Axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def texts(of: Axes | Figure) -> list[str]:
    return [t.get_text() for t in of.findobj(Text) if t.get_text()]


def curves(axes: Axes) -> list[Any]:
    """Lines with more than two points: no marks, limits or rules of a table."""
    return [line for line in axes.get_lines() if len(line.get_xdata()) > 2]


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (0.0, "s", "0 s"), (0.0042, "s", "4.2 ms"), (0.000_012, "s", "12 µs"), (90.0, "s", "1.5 min"), (200_000.0, "s", "2.31 d"),
        (math.inf, "s", "never"), (math.nan, "s", ""), (0.483, "percentunit", "48.3 %"), (1.0, "percentunit", "100 %"),
        (12_500_000.0, "Bps", "12.5 MB/s"), (999.0, "Bps", "999 B/s"), (1_234.0, "cps", "1.23k/s"), (0.5, "ops", "0.5/s"),
        (1_234_567.0, "none", "1.23M"), (12_345.0, "none", "12,345"), (3.0, "none", "3"), (150.0, "short", "150"),
        (1_700_000_000_000.0, "dateTimeAsIso", "2023-11-14 22:13:20"),
    ],
)  # fmt: skip
def test_numbers_are_shown_in_the_unit_of_the_panel(value: float, unit: str, said: str) -> None:
    assert shown(value, unit) == said


def test_axes_have_round_numbers_inside_their_range() -> None:
    assert ticks(0.0, 10.0) == [0, 5, 10]
    assert [round(t, 6) for t in ticks(0.0, 0.07)] == [0, 0.02, 0.04, 0.06]
    assert ticks(3.0, 3.0) == (3.0,)
    assert ticks(0.0, 400.0, "s") == [0, 120, 240, 360]
    assert [said for _, said in clock_ticks(0.0, 60.0)] == [
        "00:00:00",
        "00:00:10",
        "00:00:20",
        "00:00:30",
        "00:00:40",
        "00:00:50",
        "00:01:00",
    ]


def test_variables_are_filled_in_and_forgotten_ones_are_noticed() -> None:
    asked = 'rate(x{job=~"$job", recovery="$recovery"}[$__rate_interval]) + label_replace(y, "a", "$1", "b", "(.*)")'
    done = filled(asked, rate_s=4, range_s=60, recovery="r1")
    assert done == 'rate(x{job=~".*", recovery="r1"}[4s]) + label_replace(y, "a", "$1", "b", "(.*)")'
    with pytest.raises(ValueError, match="__interval"):
        filled("rate(x[$__interval])", rate_s=4, range_s=60)


def test_a_legend_names_series_by_their_labels() -> None:
    assert legend_name("{{group}} on {{ topic }}", Series("", {"group": "g", "topic": "t"}, ())) == "g on t"
    assert legend_name("{{missing}}", Series("", {}, ())) == ""
    assert legend_name("__auto", Series("", {"b": "2", "a": "1"}, ())) == "a=1, b=2"


def test_a_line_is_cut_where_nothing_is_known() -> None:
    points = [(0.0, 1.0), (1.0, 2.0), (5.0, 3.0), (6.0, math.nan), (7.0, 4.0)]
    assert runs(points, 1.0) == [[(0.0, 1.0), (1.0, 2.0)], [(5.0, 3.0)], [(7.0, 4.0)]]


def test_a_scale_of_powers_of_ten_has_whole_powers_and_draws_each_factor_equally_high() -> None:
    of = panel("recovery", "Times faster than live")
    points = [(SPAN.start_s + i, 2.0 * 10 ** (i // 20)) for i in range(60)]
    axes = drawn(lines.draw, answered(of, [(0, {"recovery": "r1"}, points)]), 600, 240, ())
    assert axes.get_ylim() == (1.0, 1000.0)
    assert [t.get_text() for t in axes.get_yticklabels()] == ["1", "10", "100", "1,000"]
    [line] = curves(axes)
    heights = sorted({y for _, y in axes.transData.transform(line.get_xydata()[:60]).tolist()})
    assert heights[1] - heights[0] == pytest.approx(heights[2] - heights[1])


def test_higher_values_are_drawn_higher_and_later_ones_further_right() -> None:
    rising = [(SPAN.start_s + i, float(i)) for i in range(60)]
    of = panel("replay-and-live", "Records written")
    level = [(t, 5.0) for t, _ in rising]
    answer = answered(of, [(0, {"traffic": "replay"}, rising), (0, {"traffic": "live"}, level)])
    axes = drawn(lines.draw, answer, 600, 240, ())
    replay, live = (axes.transData.transform(line.get_xydata()[:60]).tolist() for line in curves(axes))
    assert [x for x, _ in replay] == sorted({x for x, _ in replay})
    assert [y for _, y in replay] == sorted({y for _, y in replay})
    assert len({y for _, y in live}) == 1
    assert {"replay", "live"} <= set(texts(axes))
    assert [to_hex(line.get_color()) for line in curves(axes)] == ["#e8730c", "#2f6fde"]


def test_the_time_in_which_a_replay_runs_is_a_band_and_marks_are_lines() -> None:
    of = panel("replay-and-live", "Live lag")
    band = [(SPAN.start_s + i, 1.0 if 20 <= i < 40 else 0.0) for i in range(60)]
    lag = [(SPAN.start_s + i, 2.0) for i in range(60)]
    slo = [(t, 30.0) for t, _ in lag]
    answer = answered(
        of,
        [
            (0, {"group": "billing", "topic": "payments"}, lag),
            (1, {"signal": "lag:billing@payments"}, slo),
            (2, {}, band),
        ],
    )
    axes = drawn(lines.draw, answer, 672, 240, [Mark(SPAN.start_s + 20, "running")])
    assert (axes.bbox.x0, axes.bbox.width) == (pytest.approx(62), pytest.approx(600)), "ten pixels a second"
    [shaded] = axes.patches
    assert shaded.get_window_extent().x0 == pytest.approx(62 + 200)
    assert shaded.get_window_extent().width == pytest.approx(200)
    assert [line.is_dashed() for line in curves(axes)] == [False, True]
    assert "a replay runs" not in texts(axes)
    [mark] = [line for line in axes.get_lines() if line not in curves(axes)]
    assert list(mark.get_xdata()) == [SPAN.start_s + 20] * 2


def test_stacked_areas_end_at_the_sum() -> None:
    of = panel("recovery", "Where the offsets went")
    points = [(SPAN.start_s + i, 50.0) for i in range(60)]
    answer = answered(of, [(0, {"outcome": "copied"}, points), (0, {"outcome": "left"}, points)])
    axes = drawn(lines.draw, answer, 600, 246, ())
    assert [set(line.get_ydata()) for line in curves(axes)] == [{50.0}, {100.0}]
    areas = [area.get_paths()[0].get_extents() for area in axes.collections]
    assert [(area.y0, area.y1) for area in areas] == [(0.0, 50.0), (50.0, 100.0)]
    least, most = axes.get_ylim()
    assert (least, most > 100) == (0, True)


def test_a_line_that_is_cut_is_drawn_with_its_gap_and_a_lone_value_can_be_seen() -> None:
    of = panel("replay-and-live", "Records written")
    points = [(SPAN.start_s + i, 5.0) for i in (0, 1, 2, 10)]
    [line] = curves(drawn(lines.draw, answered(of, [(0, {"traffic": "live"}, points)]), 600, 240, ()))
    assert [x - SPAN.start_s for x in line.get_xdata() if not math.isnan(x)] == [0, 1, 2, 10, 10.5]
    assert math.isnan(line.get_xdata()[3])


def test_a_panel_without_answers_says_so() -> None:
    of = panel("replay-and-live", "Live lag")
    assert "No data" in texts(drawn(lines.draw, answered(of, []), 600, 240, ()))
    verdicts = answered(panel("replay-and-live", "Lag verdicts"), [])
    assert texts(drawn(blocks.timeline, verdicts, 600, 200)) == ["No data"]
    assert "No recovery" in texts(drawn(tables.draw, answered(panel("replay-and-live", "Recoveries"), []), 600, 200))
    alerts = answered(panel("replay-and-live", "Alerts"), [])
    assert texts(drawn(blocks.timeline, alerts, 600, 200)) == ["No alert fires"]


def test_states_become_spans_with_their_names_and_colours() -> None:
    of = panel("recovery", "State over time")
    codes = {text: value for value, (text, _) in mappings_of(of.raw).items()}
    points = [(SPAN.start_s + i, codes["running"] if i < 30 else codes["completed"]) for i in range(60)]
    axes = drawn(blocks.timeline, answered(of, [(0, {"recovery": "r1"}, points)]), 1_000, 110)
    first, second = rectangles(axes)
    assert (first.get_x(), second.get_x()) == (SPAN.start_s, first.get_x() + first.get_width())
    assert [to_hex(first.get_facecolor()), to_hex(second.get_facecolor())] == ["#2f6fde", "#2f9e44"]
    assert {"r1", "running", "completed"} <= set(texts(axes))


def test_cumulative_buckets_become_cells() -> None:
    of = panel("daemon-and-jobs", "Decision time, all")
    at = SPAN.start_s + 10
    rows = [
        (0, {"le": le}, [(at, count)]) for le, count in (("0.001", 0.0), ("0.005", 4.0), ("0.01", 5.0), ("+Inf", 5.0))
    ]
    axes = drawn(blocks.heatmap, answered(of, rows), 600, 200)
    lower, upper = rectangles(axes)
    assert (lower.get_y(), upper.get_y()) == (1, 2)
    assert lower.get_alpha() > upper.get_alpha()
    assert [t.get_text() for t in axes.get_yticklabels()] == ["1 ms", "5 ms", "10 ms"]
    assert list(axes.get_yticks()) == [1, 2, 3], "a bound stands at the upper end of its bucket"


def test_big_values_take_colour_and_words_from_the_panel() -> None:
    leaders = panel("daemon-and-jobs", "Leaders")
    assert [level_color(leaders.raw, n) for n in (0, 1, 2)] == ["#d6293e", "#2f9e44", "#d6293e"]
    state = panel("recovery", "State")
    codes = {text: value for value, (text, _) in mappings_of(state.raw).items()}
    paused = answered(state, [(0, {}, [(SPAN.end_s, codes["paused"])])])
    assert texts(drawn(blocks.stat, paused, 200, 80)) == ["paused"]
    share = panel("replay-and-live", "Replay share now")
    assert texts(drawn(blocks.stat, answered(share, [(0, {}, [(SPAN.end_s, 0.25)])]), 200, 80)) == ["25 %"]


def test_bars_are_as_long_as_their_values_and_in_the_order_of_partitions() -> None:
    of = panel("recovery", "Offsets left")
    answer = answered(of, [(0, {"partition": p}, [(SPAN.end_s, v)]) for p, v in (("10", 50.0), ("2", 100.0))])
    axes = drawn(blocks.bars, answer, 500, 200)
    widths = [patch.get_width() for patch in rectangles(axes)][1::2]
    assert widths[1] == pytest.approx(widths[0] / 2)
    assert texts(axes) == ["2", "100", "10", "50"]


def test_a_table_joins_rows_by_their_key_and_names_columns_as_the_panel_does() -> None:
    of = panel("replay-and-live", "Recoveries")
    titles = [
        "Recovery",
        "State",
        "Progress",
        "Requested",
        "Granted",
        "Achieved",
        "Records left",
        "Left at this rate",
        "Forecast",
        "Forecast, best",
        "Forecast, worst",
        "Times live",
        "Retention slack",
    ]
    end = SPAN.end_s
    answer = answered(of, [(0, {"recovery": "r$1$", "state": "awaiting_approval"}, [(end, 1.0)]), (1, {"recovery": "r$1$"}, [(end, 0.5)]), (9, {"recovery": "r$1$"}, [(end, math.inf)])])  # fmt: skip
    told, [row] = tables.cells(answer)
    assert told == titles
    assert dict(zip(titles, row, strict=True)) == dict.fromkeys(titles, "") | {
        "Recovery": "r$1$", "State": "awaiting approval", "Progress": "50 %", "Forecast, worst": "never",
    }  # fmt: skip
    axes = drawn(tables.draw, answer, 1_376, 200)
    assert texts(axes) == [*titles, "r$1$", "awaiting approval", "50 %", "never"]
    columns = {t.get_text(): t.get_position()[0] for t in axes.texts}
    assert columns["State"] == columns["awaiting approval"]
    assert columns["State"] < columns["Progress"] == columns["50 %"]


def test_overrides_of_a_panel_are_kept_and_the_rest_takes_turns() -> None:
    raw: dict[str, Any] = dict(panel("replay-and-live", "Requested, granted and achieved rate").raw)
    found = looks_of(raw, ["requested", "granted", "other", "another"])
    assert (found["requested"].dashed, found["granted"].color) == (True, "#2f6fde")
    assert found["other"].color != found["another"].color


def test_long_names_are_cut_to_their_room() -> None:
    assert cut("short", 200) == "short"
    assert re.fullmatch(r"a very.*…", cut("a very long name of a consumer group", 80))


def test_names_below_a_panel_that_do_not_fit_are_counted() -> None:
    of = panel("replay-and-live", "Records written")
    points = [(SPAN.start_s + i, 5.0) for i in range(60)]
    for count, rows_taken in ((2, 1), (5, 2), (19, 3)):
        rows = [(0, {"traffic": f"a long name of number {n}"}, points) for n in range(count)]
        axes = drawn(lines.draw, answered(of, rows), 600, 240, ())
        legends = axes.findobj(Legend)
        assert len(legends) == rows_taken
        names = [t.get_text() for legend in legends for t in legend.get_texts()]
        if count == 19:
            more = names.pop()
            assert more == f"+{19 - len(names)} more"
        assert names == [f"a long name of number {n}" for n in range(len(names))]
        assert len(names) == count or count == 19
        boxes = [legend.get_window_extent() for legend in legends]
        assert all(box.x1 <= 600 and box.y0 >= 0 for box in boxes)
        assert all(lower.y1 <= upper.y0 for upper, lower in itertools.pairwise(boxes))


def test_a_folded_row_is_a_heading_alone() -> None:
    board = load("replay-and-live")
    folded = [panel.title for panel in board.panels if panel.is_folded]
    assert "Age of signals" in folded
    assert "Live lag" not in folded
    whole = make(board, [Answered(p, (), SPAN) for p in board.panels if not p.is_folded], ())
    assert [axes.get_label() for axes in whole.axes[1:]] == [
        p.title for p in board.panels if p.kind != "row" and not p.is_folded
    ]
    assert "Internals: how fresh and how whole the signals are (folded)" in texts(whole)


@pytest.mark.parametrize("name", ["daemon-and-jobs", "recovery", "replay-and-live"])
def test_every_kind_of_panel_can_be_drawn_also_without_data(name: str, tmp_path: Path) -> None:
    board = load(name)
    whole = make(board, [Answered(p, (), SPAN) for p in board.panels], ())
    drawn_panels = [p.title for p in board.panels if p.kind != "row"]
    said = [absent(p.raw) for p in board.panels if p.kind != "row"]
    assert Counter(texts(whole)) >= Counter(said)
    assert [axes.get_label() for axes in whole.axes[1:]] == drawn_panels
    assert (whole.bbox.width, whole.bbox.height > 600) == (WIDTH, True)
    chosen = [board.panels[1].title, board.panels[2].title]
    some = make(board, [Answered(p, (), SPAN) for p in board.panels], (), chosen)
    assert [axes.get_label() for axes in some.axes[1:]] == chosen
    assert some.bbox.height < whole.bbox.height / 4
    whole.savefig(tmp_path / "page.png")
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")


def test_the_pictures_of_the_docs_show_the_dashboards_as_they_are() -> None:
    folder = Path(__file__).resolve().parents[2] / "docs" / "img"
    drawn_once = json.loads((folder / PANELS).read_text())
    now = panels_drawn()
    assert {name: (folder / f"{name}.png").exists() for name in now} == dict.fromkeys(now, True)
    changed = {
        name: sorted(title for title, digest in now[name].items() ^ drawn_once.get(name, {}).items()) for name in now
    }
    assert changed == {name: [] for name in now}, "these panels have changed since: `make pictures`"


def test_no_panel_covers_another_and_all_lie_inside_the_picture() -> None:
    for name in ("daemon-and-jobs", "recovery", "replay-and-live"):
        board = load(name)
        whole = make(board, [Answered(p, (), SPAN) for p in board.panels], ())
        cards = [patch.get_window_extent() for patch in whole.axes[0].patches]
        assert all(0 < c.x0 < c.x1 < WIDTH and 0 < c.y0 < c.y1 < whole.bbox.height for c in cards)
        apart = [
            (a.x1 < b.x0 or b.x1 < a.x0 or a.y1 < b.y0 or b.y1 < a.y0) for i, a in enumerate(cards) for b in cards[:i]
        ]
        assert all(apart)
