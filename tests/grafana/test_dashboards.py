"""The committed dashboards are legible and query only what the daemon exports."""

import json
import re
from pathlib import Path

import pytest
import yaml

from grafana.pictures.board_file import BOARDS, BoardFile, PanelFile, load
from recoveryd.kernel.metrics import MetricKind
from tests.builders.core import BOOK

ROOT = Path(__file__).resolve().parents[2]
RULES = yaml.safe_load((ROOT / "grafana/prometheus/recoveryd.rules.yml").read_text())["groups"][0]["rules"]
LOADED = [load(name) for name in BOARDS]
PANELS = [(board, panel) for board in LOADED for panel in board.panels if panel.kind != "row"]
EXPRESSIONS = [
    *(target.expr for _, panel in PANELS for target in panel.targets),
    *(expr for board in LOADED for expr in board.annotations.values()),
    *(rule["expr"] for rule in RULES),
]
OF_PROMETHEUS = {"up", "scrape_duration_seconds", "scrape_samples_scraped"}
# Queries may have literals only for labels whose values the code fixes; other labels hold names of users' things.
CLOSED_LABELS = {"traffic", "state", "verdict", "result", "rule", "attributable", "bound", "outcome", "side", "le"}
UNITS = {"none", "short", "cps", "ops", "Bps", "s", "percentunit", "dateTimeAsIso"}


def named(pair: tuple[BoardFile, PanelFile]) -> str:
    return f"{pair[0].name}/{pair[1].title}"


def metrics_in(expr: str) -> set[str]:
    """Names of series, histograms by their own name."""
    found = set(re.findall(r"\b(recoveryd_\w+|up|scrape_\w+)\b", expr))
    return {re.sub(r"_(bucket|sum|count)$", "", name) if name not in OF_PROMETHEUS else name for name in found}


def test_there_are_the_three_dashboards_with_stable_addresses() -> None:
    assert {board.name: (board.raw["uid"], board.title) for board in LOADED} == {
        "daemon-and-jobs": ("recoveryd-daemon-and-jobs", "recoveryd / Daemon and jobs"),
        "recovery": ("recoveryd-recovery", "recoveryd / Recovery"),
        "replay-and-live": ("recoveryd-replay-and-live", "recoveryd / Replay and live"),
    }


@pytest.mark.parametrize("pair", PANELS, ids=named)
def test_each_panel_has_a_title_a_sentence_a_unit_a_query_and_a_place(pair: tuple[BoardFile, PanelFile]) -> None:
    _, panel = pair
    x, _, width, height = panel.place
    assert panel.title
    assert re.fullmatch(r"[A-Z].{9,}\.", panel.description), panel.description
    assert panel.unit in UNITS
    assert panel.targets
    assert 0 <= x <= 24 - width
    assert min(width, height) >= 4
    assert {t.ref for t in panel.targets} == {chr(ord("A") + i) for i in range(len(panel.targets))}


@pytest.mark.parametrize("pair", PANELS, ids=named)
def test_lines_and_bars_have_a_name_where_there_are_several(pair: tuple[BoardFile, PanelFile]) -> None:
    _, panel = pair
    if panel.kind in {"timeseries", "bargauge", "state-timeline"}:
        assert [t.expr for t in panel.targets if t.legend in {"", "__auto"}] == []


def overlaps(board: BoardFile) -> list[tuple[str, str]]:
    places = [(p.title, *p.place) for p in board.panels]
    return [
        (a[0], b[0])
        for i, a in enumerate(places)
        for b in places[i + 1 :]
        if a[1] < b[1] + b[3] and b[1] < a[1] + a[3] and a[2] < b[2] + b[4] and b[2] < a[2] + a[4]
    ]


@pytest.mark.parametrize("board", LOADED, ids=lambda b: b.name)
def test_panels_do_not_lie_on_each_other_and_have_titles_and_ids_of_their_own(board: BoardFile) -> None:
    titles = [p.title for p in board.panels if p.kind != "row"]
    assert sorted(titles) == sorted(set(titles))
    assert overlaps(board) == []
    assert [p.raw["id"] for p in board.panels] == list(range(1, len(board.panels) + 1))


@pytest.mark.parametrize("board", LOADED, ids=lambda b: b.name)
def test_the_data_source_is_a_variable_everywhere(board: BoardFile) -> None:
    found = re.findall(r'"uid": "([^"]*)"', json.dumps(board.raw))
    assert set(found) == {"${datasource}", board.raw["uid"]}
    assert found.count(board.raw["uid"]) == 1
    assert board.variables[0]["type"] == "datasource"
    assert [v["name"] for v in board.variables if not (v.get("label") and v.get("description"))] == []


@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_no_name_of_somebodys_things_stands_in_a_query(expr: str) -> None:
    for label, value in re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"', expr):
        is_variable = value.startswith("$") or value == "lag:.*"  # the prefix of a kind of signal, fixed by the code
        is_job_of_the_rules = (label, value) == ("job", "recoveryd")
        assert label in CLOSED_LABELS or is_variable or is_job_of_the_rules, (label, value)


@pytest.mark.parametrize("board", LOADED, ids=lambda b: b.name)
def test_every_query_of_a_dashboard_is_about_the_chosen_daemons(board: BoardFile) -> None:
    asked = [t.expr for panel in board.panels for t in panel.targets] + list(board.annotations.values())
    selectors = [s for expr in asked for s in re.findall(r"\b(?:recoveryd_\w+|up|scrape_\w+)(\{[^}]*\})?", expr)]
    assert selectors
    assert [s for s in selectors if 'job=~"$job"' not in s] == []


@pytest.mark.parametrize("board", LOADED, ids=lambda b: b.name)
def test_each_variable_is_used_and_each_used_one_is_there(board: BoardFile) -> None:
    names = {v["name"] for v in board.variables}
    text = json.dumps(board.raw)
    used = {name for name in re.findall(r"\$\{?([a-z]\w*)", text) if not name.startswith("__")}
    assert used == names


def test_every_metric_that_is_asked_for_is_in_the_catalogue() -> None:
    known = {metric.name for metric in BOOK.metrics} | OF_PROMETHEUS
    assert {name for expr in EXPRESSIONS for name in metrics_in(expr)} - known == set()


def test_every_metric_of_the_catalogue_is_shown_somewhere() -> None:
    shown = {name for expr in EXPRESSIONS for name in metrics_in(expr)}
    assert {metric.name for metric in BOOK.metrics} - shown == set()


def test_counters_are_asked_for_as_rates_and_gauges_are_not() -> None:
    kinds = {metric.name: metric.kind for metric in BOOK.metrics}
    for expr in EXPRESSIONS:
        for name in metrics_in(expr) - OF_PROMETHEUS:
            as_rate = re.findall(rf"(?:rate|increase)\({name}(?:_bucket|_count|_sum)?(?:\{{[^}}]*\}})?\[", expr)
            uses = re.findall(rf"\b{name}(?:_bucket|_count|_sum)?\b", expr)
            assert len(as_rate) == (0 if kinds[name] is MetricKind.GAUGE else len(uses)), expr


def test_the_linter_sees_what_it_looks_for() -> None:
    assert metrics_in("sum(rate(recoveryd_decision_seconds_bucket[1m])) / up") == {"recoveryd_decision_seconds", "up"}
    with pytest.raises(AssertionError):
        test_no_name_of_somebodys_things_stands_in_a_query('recoveryd_lag_records{group="billing"}')
    test_no_name_of_somebodys_things_stands_in_a_query('recoveryd_lag_records{traffic="live", group=~"$group"}')
