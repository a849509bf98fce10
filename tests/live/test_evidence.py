"""Events hold only numbers that JSON has and bounded lists, and only decisions that matter get one."""

import json
from dataclasses import replace

from recoveryd.forecast.completion import ForecastRates, Work, forecast
from recoveryd.forecast.evidence import forecast_evidence
from recoveryd.live.evidence import decision_evidence, is_worth_telling, lag_evidence
from recoveryd.live.lag.evaluate import evaluate_group
from recoveryd.live.lag.window import LagParams, LagSample, Window, with_sample
from recoveryd.live.law.types import ControlVerdict, Rule
from tests.live.control_rig import GROUP, LATENCY, started

NOW_MS = 1_800_000_000_000


def test_a_decision_tells_everything_it_was_made_from() -> None:
    rig = started(40.0)
    rig.tick(1.0, ingress=7.0)
    decision = rig.tick(1.0, ingress=7.0)
    told = decision_evidence(decision)
    assert json.loads(json.dumps(told, allow_nan=False)) == {
        "rule": 3,
        "rule_name": "guard",
        "verdict": "protected",
        "pressure": 1.0,
        "pressures": [
            {"signal": LATENCY, "pressure": 1.0, "strain": 1.0, "value_s": 0.2, "age_ms": 0},
            {"signal": GROUP, "pressure": 0.167, "strain": 0.0, "value_s": 5.0, "age_ms": 0},
        ],
        "signals": 2,
        "rate_bytes_per_s": 28.0,
        "wanted_bytes_per_s": 28.0,
        "budget_bytes_per_s": 38.5,
        "ingress_bytes_per_s": 7.0,
        "achieved_bytes_per_s": 40.0,
        "loop_delay_ms": 25_000,
        "oldest_age_ms": 0,
        "pause": False,
        "why": "produce_latency is at 1.00 of its SLO: cut to 70%",
    }


def test_only_published_rates_and_changes_of_rule_verdict_or_pause_are_told() -> None:
    rig = started(40.0)
    held = rig.tick(0.9)
    assert held.publish is False
    assert is_worth_telling(None, held)
    assert not is_worth_telling(held, replace(held, why="other words", pressure=0.5))
    assert is_worth_telling(held, replace(held, publish=True))
    assert is_worth_telling(held, replace(held, rule=Rule.GATE))
    assert is_worth_telling(held, replace(held, verdict=ControlVerdict.BLIND))
    assert is_worth_telling(held, replace(held, pause=True))


def test_a_lag_verdict_lists_the_worst_partitions_only() -> None:
    windows = {}
    for partition in range(100):
        window = Window()
        for i in range(6):
            at_ms = NOW_MS + i * 5_000
            window = with_sample(window, LagSample(10, at_ms, 1_000 + partition, at_ms), at_ms, LagParams())
        windows[partition] = window
    told = lag_evidence(evaluate_group(windows, range(101), NOW_MS + 25_000, LagParams()))
    json.dumps(told, allow_nan=False)
    listed = told["partitions"]
    assert isinstance(listed, list)
    assert (told["verdict"], told["verdicts"], told["lag_seconds"]) == ("stalled", {"stalled": 100, "unknown": 1}, None)
    assert [row["partition"] for row in listed] == list(range(99, 79, -1))
    assert told["why"] == "partition 99: the position does not move, 1,089 records wait"


def test_never_is_null() -> None:
    told = forecast_evidence(forecast(Work(1_000, 100, is_moving=True), ForecastRates(5, 10)))
    assert json.loads(json.dumps(told, allow_nan=False))["eta_seconds"] == {"lo": None, "mid": None, "hi": None}
    assert told["outlook"] == "impractical_never"
