"""The committed dashboards are legible and query only what the daemon exports."""

import json
import re
from pathlib import Path

import pytest
import yaml

from grafana.generate.boards import make_files
from grafana.pictures.board_file import BOARDS, BoardFile, PanelFile, load
from grafana.pictures.looks import mappings_of
from recoveryd.kernel.metrics import MetricKind
from recoveryd.live.law.types import Rule
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
CLOSED_LABELS = {"kind", "reason",
    "traffic", "state", "verdict", "result", "rule", "attributable", "bound", "outcome", "side", "le",
    "alertname", "alertstate", "severity",  # of Prometheus, about the rules of this repository
    "request", "quantile",  # of Kafka's JMX exporter
}  # fmt: skip
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
        is_job_of_the_rules = label == "job" and value in {"recoveryd", "recoveryd.*"}
        assert label in CLOSED_LABELS or is_variable or is_job_of_the_rules, (label, value)


@pytest.mark.parametrize("board", LOADED, ids=lambda b: b.name)
def test_every_query_of_a_dashboard_is_about_the_chosen_daemons(board: BoardFile) -> None:
    asked = [t.expr for panel in board.panels for t in panel.targets] + list(board.annotations.values())
    selectors = [s for expr in asked for s in re.findall(r"\b(?:recoveryd_\w+|up|scrape_\w+)(\{[^}]*\})?", expr)]
    assert selectors
    assert [s for s in selectors if 'job=~"$job"' not in s] == []


@pytest.mark.parametrize("board", LOADED, ids=lambda b: b.name)
def test_the_daemons_of_one_scope_are_chosen_and_what_else_there_is_to_choose_is_theirs(board: BoardFile) -> None:
    """Ids of recoveries and names of clusters are unique in a scope; with All, `up` would be that of everything."""
    by_name = {variable["name"]: variable for variable in board.variables if variable["type"] == "query"}
    assert [by_name["job"].get(option, False) for option in ("multi", "includeAll")] == [False, False]
    others = {name: variable["query"]["query"] for name, variable in by_name.items() if name not in {"job", "brokers"}}
    assert {name: query for name, query in others.items() if 'job=~"$job"' not in query} == {}


@pytest.mark.parametrize("pair", PANELS, ids=named)
def test_a_single_value_is_that_of_now_and_says_when_it_is_not_known(pair: tuple[BoardFile, PanelFile]) -> None:
    """The last value of a range stays for as long as the range is, whatever became of what it is about."""
    _, panel = pair
    if panel.kind in {"stat", "bargauge", "table"}:
        assert {target.is_instant for target in panel.targets} == {True}
        assert panel.kind == "table" or panel.raw["fieldConfig"]["defaults"]["noValue"]


def test_where_there_may_be_no_series_on_purpose_a_panel_says_so_besides() -> None:
    said = {
        panel["title"]: panel["fieldConfig"]["defaults"].get("noValue", "not known")
        for made in make_files().values()
        for row in json.loads(made)["panels"]
        for panel in (row, *row.get("panels", ()))
        if panel["type"] in {"stat", "bargauge", "table"}
    }
    assert {title: text for title, text in said.items() if text not in {"not known", "No recovery"}} == {
        "Budget": "no replay, or not known",
        "Replay share now": "nothing is written, or not known",
        "Verified": "not verified, or not known",
        "Verification": "not verified, or not known",
        "Position against stop": "Not known, or it does not run",
        "Offsets left": "Not known, or it does not run",
    }


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
    with pytest.raises(AssertionError, match="billing"):
        test_no_name_of_somebodys_things_stands_in_a_query('recoveryd_lag_records{group="billing"}')
    test_no_name_of_somebodys_things_stands_in_a_query('recoveryd_lag_records{traffic="live", group=~"$group"}')


def board_named(name: str) -> BoardFile:
    [found] = [board for board in LOADED if board.name == name]
    return found


def panel_of(name: str, title: str) -> PanelFile:
    [found] = [panel for panel in board_named(name).panels if panel.title == title and panel.kind != "row"]
    return found


def test_what_is_left_of_the_slo_comes_first_and_then_the_rule_as_one_row_for_each_domain() -> None:
    first = [panel.title for panel in board_named("replay-and-live").panels[:4]]
    assert first == ["Headroom", "Share of SLO used now", "Share of SLO used", "Rule that sets the rate"]
    rule = panel_of("replay-and-live", "Rule that sets the rate")
    assert [target.expr.startswith("max by (domain) (") for target in rule.targets] == [True]


def test_each_rule_of_the_controller_has_a_number_a_name_and_a_colour_of_its_own() -> None:
    rule = panel_of("replay-and-live", "Rule that sets the rate")
    terms = dict(re.findall(r'(\d+) \* \(increase\(\w+\{[^}]*rule="(\w+)"', rule.targets[0].expr))
    said = {value: shown for value, (shown, _) in mappings_of(rule.raw).items() if value}
    assert {float(number): name.replace("_", " ") for number, name in terms.items()} == said
    assert set(terms.values()) == {each.name.lower() for each in Rule}
    colors = [color for value, (_, color) in mappings_of(rule.raw).items() if value]
    assert len(colors) == len(set(colors))


def test_forecasts_are_called_forecasts_and_nothing_else_is() -> None:
    table = panel_of("replay-and-live", "Recoveries")
    [organized] = [t["options"] for t in table.raw["transformations"] if t["id"] == "organize"]
    titles = {name: title for name, title in organized["renameByName"].items() if name.startswith("Value #")}
    forecasts = {f"Value #{t.ref}" for t in table.targets if "eta_bound" in t.expr}
    assert {name for name, title in titles.items() if "Forecast" in title} == forecasts
    drawn = panel_of("recovery", "Forecast of the time left")
    assert {("eta_bound" in t.expr) == t.legend.startswith("forecast") for t in drawn.targets} == {True}


def test_how_much_faster_than_live_is_drawn_on_a_scale_of_powers_of_ten() -> None:
    scale = panel_of("recovery", "Times faster than live").raw["fieldConfig"]["defaults"]["custom"]["scaleDistribution"]
    assert scale == {"type": "log", "log": 10}


@pytest.mark.parametrize("pair", PANELS, ids=named)
def test_what_grows_from_sample_to_sample_is_shown_by_its_highest(pair: tuple[BoardFile, PanelFile]) -> None:
    _, panel = pair
    if panel.kind != "timeseries":
        return
    for target in panel.targets:
        for name in ("recoveryd_signal_age_seconds", "recoveryd_lag_seconds", "recoveryd_loop_age_seconds"):
            assert (name not in target.expr) or f"max_over_time({name}" in target.expr, target.expr


def test_a_row_and_a_span_of_a_recovery_lead_to_its_dashboard() -> None:
    uid = board_named("recovery").raw["uid"]
    [by_name] = [
        p["value"]
        for o in panel_of("replay-and-live", "Recoveries").raw["fieldConfig"]["overrides"]
        if o["matcher"] == {"id": "byName", "options": "Recovery"}
        for p in o["properties"]
        if p["id"] == "links"
    ]
    spans = panel_of("replay-and-live", "States").raw["fieldConfig"]["defaults"]["links"]
    for link, value in ((by_name[0], "${__value.text}"), (spans[0], "${__field.labels.recovery}")):
        address, _, query = link["url"].partition("?")
        assert address == f"/d/{uid}"
        assert query.split("&") == [
            "${datasource:queryparam}", "${job:queryparam}", f"var-recovery={value}", "${__url_time_range}",
        ]  # fmt: skip


@pytest.mark.parametrize("name", ["daemon-and-jobs", "replay-and-live"])
def test_internals_and_brokers_are_folded_and_hold_their_panels(name: str) -> None:
    rows = [row for row in board_named(name).raw["panels"] if row["type"] == "row"]
    folded = {row["title"].split(":")[0].split(",")[0] for row in rows if row["collapsed"]}
    assert folded == {"daemon-and-jobs": {"Internals"}, "replay-and-live": {"Brokers", "Internals"}}[name]
    assert {bool(row["panels"]) == row["collapsed"] for row in rows} == {True}


def test_panels_of_brokers_say_when_their_exporter_is_not_there() -> None:
    of_kafka = [panel for _, panel in PANELS if "kafka_" in "".join(t.expr for t in panel.targets)]
    assert len(of_kafka) == 2
    for panel in of_kafka:
        assert panel.raw["fieldConfig"]["defaults"]["noValue"] == "Kafka's JMX exporter is not scraped"
        assert {'job=~"$brokers"' in target.expr for target in panel.targets} == {True}
