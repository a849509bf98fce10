"""The drawings say what the answers say: positions, gaps, names, units. No Prometheus is needed."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from grafana.pictures import blocks, lines, tables
from grafana.pictures.answers import Answered, Mark, Named, Span, legend_name
from grafana.pictures.binaries import Unavailable, find_chromium
from grafana.pictures.board_file import PanelFile, filled, load
from grafana.pictures.chromium import make_png
from grafana.pictures.lines import runs
from grafana.pictures.looks import level_color, looks_of, mappings_of
from grafana.pictures.page import make
from grafana.pictures.prometheus_server import Series
from grafana.pictures.svg import cut
from grafana.pictures.units import clock_ticks, shown, ticks

SPAN = Span(1_000.0, 1_060.0, 1.0)
SVG = "{http://www.w3.org/2000/svg}"


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


def shapes(svg: str, name: str) -> list[dict[str, str]]:
    return [dict(e.attrib) for e in ET.fromstring(svg).iter(f"{SVG}{name}")]


def texts(svg: str) -> list[str]:
    return [e.text or "" for e in ET.fromstring(svg).iter(f"{SVG}text")]


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


def test_higher_values_are_drawn_higher_and_later_ones_further_right() -> None:
    rising = [(SPAN.start_s + i, float(i)) for i in range(60)]
    of = panel("replay-and-live", "Records written")
    svg = lines.draw(
        answered(of, [(0, {"traffic": "replay"}, rising), (0, {"traffic": "live"}, [(t, 5.0) for t, _ in rising])]),
        600,
        240,
        (),
    )
    replay, live = (shape["points"].split() for shape in shapes(svg, "polyline"))
    xy = [tuple(map(float, p.split(","))) for p in replay]
    assert [x for x, _ in xy] == sorted(x for x, _ in xy)
    assert [y for _, y in xy] == sorted((y for _, y in xy), reverse=True)
    assert len({p.split(",")[1] for p in live}) == 1
    assert {"replay", "live"} <= set(texts(svg))
    assert [shape["stroke"] for shape in shapes(svg, "polyline")] == ["#e8730c", "#2f6fde"]


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
    svg = lines.draw(answer, 672, 240, [Mark(SPAN.start_s + 20, "running")])
    [shaded] = shapes(svg, "rect")
    assert (float(shaded["x"]), float(shaded["width"])) == (62 + 200, 200)
    assert [s.get("stroke-dasharray") for s in shapes(svg, "polyline")] == [None, "5 4"]
    assert "a replay runs" not in texts(svg)
    assert [float(s["x1"]) for s in shapes(svg, "line") if s.get("stroke-dasharray") == "3 3"] == [262.0]


def test_stacked_areas_end_at_the_sum() -> None:
    of = panel("recovery", "Where the offsets went")
    points = [(SPAN.start_s + i, 50.0) for i in range(60)]
    svg = lines.draw(answered(of, [(0, {"outcome": "copied"}, points), (0, {"outcome": "left"}, points)]), 600, 246, ())
    lower, upper = (float(s["points"].split(",")[1].split(" ")[0]) for s in shapes(svg, "polyline"))
    frame_bottom, frame_top = 246 - 38, 8
    assert (frame_bottom - upper) == pytest.approx(2 * (frame_bottom - lower), abs=0.2)
    assert upper > frame_top


def test_a_panel_without_answers_says_so() -> None:
    of = panel("replay-and-live", "Live lag")
    assert "No data" in texts(lines.draw(answered(of, []), 600, 240, ()))
    assert texts(blocks.timeline(answered(panel("replay-and-live", "Lag verdicts"), []), 600, 200)) == ["No data"]
    assert "No data" in tables.draw(answered(panel("replay-and-live", "Recoveries"), []))


def test_states_become_spans_with_their_names_and_colours() -> None:
    of = panel("recovery", "State over time")
    codes = {text: value for value, (text, _) in mappings_of(of.raw).items()}
    points = [(SPAN.start_s + i, codes["running"] if i < 30 else codes["completed"]) for i in range(60)]
    svg = blocks.timeline(answered(of, [(0, {"recovery": "r1"}, points)]), 1_000, 110)
    first, second = shapes(svg, "rect")
    assert float(second["x"]) == pytest.approx(float(first["x"]) + float(first["width"]), abs=0.2)
    assert [first["fill"], second["fill"]] == ["#2f6fde", "#2f9e44"]
    assert {"r1", "running", "completed"} <= set(texts(svg))


def test_cumulative_buckets_become_cells() -> None:
    of = panel("daemon-and-jobs", "Decision time, all")
    at = SPAN.start_s + 10
    rows = [
        (0, {"le": le}, [(at, count)]) for le, count in (("0.001", 0.0), ("0.005", 4.0), ("0.01", 5.0), ("+Inf", 5.0))
    ]
    cells = shapes(blocks.heatmap(answered(of, rows), 600, 200), "rect")
    assert len(cells) == 2
    assert float(cells[0]["fill-opacity"]) > float(cells[1]["fill-opacity"])


def test_big_values_take_colour_and_words_from_the_panel() -> None:
    leaders = panel("daemon-and-jobs", "Leaders")
    assert [level_color(leaders.raw, n) for n in (0, 1, 2)] == ["#d6293e", "#2f9e44", "#d6293e"]
    state = panel("recovery", "State")
    codes = {text: value for value, (text, _) in mappings_of(state.raw).items()}
    svg = blocks.stat(answered(state, [(0, {}, [(SPAN.end_s, codes["paused"])])]), 200, 80)
    assert texts(svg) == ["paused"]
    share = panel("replay-and-live", "Replay share now")
    assert texts(blocks.stat(answered(share, [(0, {}, [(SPAN.end_s, 0.25)])]), 200, 80)) == ["25 %"]


def test_bars_are_as_long_as_their_values_and_in_the_order_of_partitions() -> None:
    of = panel("recovery", "Offsets left")
    svg = blocks.bars(
        answered(of, [(0, {"partition": p}, [(SPAN.end_s, v)]) for p, v in (("10", 50.0), ("2", 100.0))]), 500, 200
    )
    widths = [float(s["width"]) for s in shapes(svg, "rect")][1::2]
    assert widths[1] == pytest.approx(widths[0] / 2, abs=0.2)
    assert texts(svg) == ["2", "100", "10", "50"]


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
        "Time left",
        "From",
        "To",
        "Times live",
        "Retention slack",
    ]
    end = SPAN.end_s
    html = tables.draw(
        answered(of, [(0, {"recovery": "r<1>", "state": "awaiting_approval"}, [(end, 1.0)]), (1, {"recovery": "r<1>"}, [(end, 0.5)]), (8, {"recovery": "r<1>"}, [(end, math.inf)])])
    )  # fmt: skip
    assert re.findall(r"<th>(.*?)</th>", html) == titles
    cells = re.findall(r"<td[^>]*>(.*?)</td>", html)
    assert dict(zip(titles, cells, strict=True)) == dict.fromkeys(titles, "") | {
        "Recovery": "r&lt;1&gt;", "State": "awaiting approval", "Progress": "50 %", "To": "never",
    }  # fmt: skip


def test_overrides_of_a_panel_are_kept_and_the_rest_takes_turns() -> None:
    raw: dict[str, Any] = dict(panel("replay-and-live", "Requested, granted and achieved rate").raw)
    found = looks_of(raw, ["requested", "granted", "other", "another"])
    assert (found["requested"].dashed, found["granted"].color) == (True, "#2f6fde")
    assert found["other"].color != found["another"].color


def test_long_names_are_cut_to_their_room() -> None:
    assert cut("short", 200) == "short"
    assert re.fullmatch(r"a very.*…", cut("a very long name of a consumer group", 80))


@pytest.mark.parametrize("name", ["daemon-and-jobs", "recovery", "replay-and-live"])
def test_every_kind_of_panel_can_be_drawn_also_without_data(name: str, tmp_path: Path) -> None:
    board = load(name)
    html, height = make(board, [Answered(p, (), SPAN) for p in board.panels], ())
    assert html.count("No data") == len([p for p in board.panels if p.kind != "row"])
    assert height > 600
    some, less = make(
        board, [Answered(p, (), SPAN) for p in board.panels], (), [board.panels[1].title, board.panels[2].title]
    )
    assert (some.count("<h2>"), some.count("<figure")) == (0, 2)
    assert less < height / 4
    try:
        chromium = find_chromium()
    except Unavailable as reason:
        pytest.skip(f"the page is right; no picture: {reason}")
    page = tmp_path / "page.html"
    page.write_text(html, encoding="utf-8")
    make_png(chromium, page, tmp_path / "page.png", 1400, height)
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
