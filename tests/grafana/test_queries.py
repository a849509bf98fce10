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
