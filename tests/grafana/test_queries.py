"""What queries of panels answer to series that are given: promtool evaluates them as Prometheus would."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from grafana.generate.queries import RULES
from grafana.pictures.binaries import Binaries
from grafana.pictures.board_file import filled, load
from recoveryd.live.law.types import Rule

Samples = Sequence[tuple[str, float]]
_AT = "5m"


def expr_of(board: str, title: str, ref: str = "A") -> str:
    [panel] = [p for p in load(board).panels if p.title == title and p.kind != "row"]
    [target] = [t for t in panel.targets if t.ref == ref]
    return filled(target.expr, rate_s=60, range_s=3600)


def check(binaries: Binaries, folder: Path, series: Mapping[str, str], expr: str, answer: Samples) -> None:
    """The answer to `expr` after five minutes; `series` are in promtool's notation, a value each 15 s."""
    test = {
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": expr,
                        "eval_time": _AT,
                        "exp_samples": [{"labels": labels, "value": value} for labels, value in answer],
                    }
                ],
            }
        ],
    }
    file = folder / "test.yml"
    file.write_text(json.dumps(test), encoding="utf-8")
    done = subprocess.run(
        [str(binaries.promtool), "test", "rules", str(file)], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def decisions(**steady: Rule) -> dict[str, str]:
    """Counters of all rules in a domain: each that is named grows by one a look."""
    grow = set(steady.values())
    return {
        f'recoveryd_control_rule_total{{job="recoveryd", domain="main", rule="{rule.name.lower()}"}}': "0+1x40"
        if rule in grow
        else "7+0x40"
        for rule in Rule
    }


@pytest.mark.parametrize(
    ("decided", "told"),
    [
        ((Rule.TRACK,), Rule.TRACK),
        ((Rule.TRACK, Rule.GATE), Rule.TRACK),
        ((Rule.TRACK, Rule.GUARD), Rule.GUARD),
        ((Rule.GUARD, Rule.STALE), Rule.STALE),
        ((Rule.GATE,), Rule.GATE),
    ],
)
def test_the_row_of_rules_tells_the_most_severe_one_and_waiting_last(
    prometheus_binaries: Binaries, tmp_path: Path, decided: tuple[Rule, ...], told: Rule
) -> None:
    series = decisions(**{rule.name: rule for rule in decided})
    answer = [('{domain="main"}', RULES.index(told) + 1)]
    check(prometheus_binaries, tmp_path, series, expr_of("replay-and-live", "Rule that sets the rate"), answer)


def test_the_row_of_rules_is_empty_where_nothing_is_decided(prometheus_binaries: Binaries, tmp_path: Path) -> None:
    answer = [('{domain="main"}', 0)]
    check(prometheus_binaries, tmp_path, decisions(), expr_of("replay-and-live", "Rule that sets the rate"), answer)


def test_alerts_that_fire_are_shown_by_severity_also_those_about_what_is_absent(
    prometheus_binaries: Binaries, tmp_path: Path
) -> None:
    series = {
        'ALERTS{alertname="RecoverydDown", alertstate="firing", severity="warning", job="recoveryd"}': "1x40",
        'ALERTS{alertname="RecoverydNoLeader", alertstate="firing", severity="critical"}': "1x40",
        'ALERTS{alertname="RecoverydDataLost", alertstate="pending", severity="critical", job="recoveryd"}': "1x40",
        'ALERTS{alertname="SomebodyElses", alertstate="firing", severity="critical"}': "1x40",
    }
    answer = [('{alertname="RecoverydDown"}', 1.0), ('{alertname="RecoverydNoLeader"}', 2.0)]
    check(prometheus_binaries, tmp_path, series, expr_of("replay-and-live", "Alerts"), answer)


def test_an_age_is_shown_by_its_highest_and_what_is_gone_not_at_all(
    prometheus_binaries: Binaries, tmp_path: Path
) -> None:
    one = 'recoveryd_signal_age_seconds{job="recoveryd", domain="main", signal="'
    series = {f'{one}steady"}}': "0 3 6 9 0 3 6 9 0 3 6 9 0 3 6 9 0 3 6 9 1", f'{one}gone"}}': "4x18 stale _x10"}
    answer = [('{domain="main", signal="steady"}', 9.0)]
    check(prometheus_binaries, tmp_path, series, expr_of("replay-and-live", "Age of signals"), answer)


def test_what_brokers_say_is_found_under_the_names_of_the_jmx_exporter(
    prometheus_binaries: Binaries, tmp_path: Path
) -> None:
    request = 'kafka_network_requestmetrics_totaltimems{job="kafka", instance="b1", request="'
    series = {
        'kafka_server_replicamanager_underreplicatedpartitions{job="kafka", instance="b1"}': "3x40",
        f'{request}Produce", quantile="0.99"}}': "250x40",
        f'{request}Produce", quantile="0.5"}}': "1x40",
    }
    behind, slow = "Under-replicated partitions", "Request latency of brokers"
    check(prometheus_binaries, tmp_path, series, expr_of("replay-and-live", behind), [('{instance="b1"}', 3.0)])
    check(prometheus_binaries, tmp_path, series, expr_of("replay-and-live", slow), [('{instance="b1"}', 0.25)])


def test_headroom_is_what_the_worst_signal_leaves(prometheus_binaries: Binaries, tmp_path: Path) -> None:
    one = 'recoveryd_pressure{job="recoveryd", domain="main", signal="'
    series = {f'{one}produce_latency"}}': "0.75x40", f'{one}lag:billing@payments"}}': "0.5x40"}
    check(prometheus_binaries, tmp_path, series, expr_of("replay-and-live", "Least headroom"), [("{}", 0.25)])


LEADER = 'recoveryd_leader{job="recoveryd", instance="'
UP = 'up{job="recoveryd", instance="'


@pytest.mark.parametrize(
    ("series", "leaders", "up"),
    [
        ({f'{LEADER}a"}}': "1x40", f'{LEADER}b"}}': "0x40", f'{UP}a"}}': "1x40", f'{UP}b"}}': "1x40"}, 1.0, 2.0),
        ({f'{LEADER}a"}}': "1x10 stale", f'{UP}a"}}': "1x10 0x30"}, 0.0, 0.0),
        ({f'{LEADER}a"}}': "1x10 stale", f'{UP}a"}}': "1x10 stale"}, 0.0, 0.0),  # not scraped any more
    ],
)
def test_nobody_leads_where_all_daemons_are_gone(
    prometheus_binaries: Binaries, tmp_path: Path, series: Mapping[str, str], leaders: float, up: float
) -> None:
    for title, value in (("Leaders", leaders), ("Daemons up", up)):
        check(prometheus_binaries, tmp_path, series, expr_of("daemon-and-jobs", title), [("{}", value)])


def test_only_recoveries_count_as_recoveries(prometheus_binaries: Binaries, tmp_path: Path) -> None:
    of = 'recoveryd_recoveries{job="recoveryd", state="running", kind="'
    series = {f'{of}schedule"}}': "10x40", f'{of}replay"}}': "2x40", f'{of}verification"}}': "1x40"}
    answer = [('{state="running"}', 3.0)]
    check(prometheus_binaries, tmp_path, series, expr_of("daemon-and-jobs", "Recoveries by state"), answer)
    check(prometheus_binaries, tmp_path, series, expr_of("replay-and-live", "Recoveries at work"), [("{}", 3.0)])


def test_the_share_of_replays_is_not_told_where_nothing_is_written(
    prometheus_binaries: Binaries, tmp_path: Path
) -> None:
    of = 'recoveryd_records_total{job="recoveryd", topic="orders", traffic="'
    share = expr_of("replay-and-live", "Replay share now")
    check(prometheus_binaries, tmp_path, {f'{of}live"}}': "5x40", f'{of}replay"}}': "5x40"}, share, [])
    check(prometheus_binaries, tmp_path, {f'{of}live"}}': "0+3x40", f'{of}replay"}}': "0+1x40"}, share, [("{}", 0.25)])


@pytest.mark.parametrize(
    ("states", "marked"),
    [
        ({"running": "1x40"}, ()),
        ({"running": "_x19 1x10"}, ("running",)),  # it is new
        ({"running": "1x18 stale", "paused": "_x19 1x10"}, ("paused",)),
        # A daemon that was away, and is there again; by another instance too.
        ({"running": "1x10 stale _x7 1x10"}, ()),
        ({"running": "1x10 stale", 'running", instance="b': "_x19 1x10"}, ()),
        ({"running": "1x10 stale", "paused": "_x19 1x10"}, ("paused",)),
        # It was in this state some minutes ago, and then in another.
        ({"running": "1x3 stale _x14 1x10", "paused": "_x4 1x10 stale"}, ("running",)),
    ],
)
def test_a_change_of_state_is_marked_and_a_gap_is_none(
    prometheus_binaries: Binaries, tmp_path: Path, states: Mapping[str, str], marked: Sequence[str]
) -> None:
    series = {
        f'recoveryd_recovery_state{{job="recoveryd", recovery="r1", state="{state}"}}': values
        for state, values in states.items()
    }
    answer = [(f'{{recovery="r1", state="{state}"}}', 1.0) for state in marked]
    for board, name in (("replay-and-live", "Recovery changes state"), ("recovery", "State changes")):
        asked = filled(load(board).annotations[name], rate_s=60, range_s=3600, recovery="r1")
        check(prometheus_binaries, tmp_path, series, asked, answer)
