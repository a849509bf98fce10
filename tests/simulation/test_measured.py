"""The measured plant shows what was measured, and its file is read strictly."""

import dataclasses
import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from recoveryd.simulation.measured import UNLIMITED, MeasuredBroker, curves, measured_params
from recoveryd.simulation.response import BadResponse, parse_response, read_response, response_text
from recoveryd.simulation.run import rest, simulate
from recoveryd.simulation.scenarios import Scenario, make_world
from tests.simulation.response_example import TABLE, example_response

EXAMPLE = example_response()
PARAMS = measured_params(EXAMPLE)
DOCUMENT = json.loads(response_text(EXAMPLE))


def settled(replay: float, *, capacity: float = 100.0, live: float = 20.0, seconds: int = 400) -> MeasuredBroker:
    broker = MeasuredBroker(PARAMS, EXAMPLE, 1)
    seen = []
    for _ in range(seconds):
        broker.advance(capacity, live, 40.0, replay)
        seen.append(broker.latency_s)
    broker.latency_s = median(seen[50:])
    return broker


@pytest.mark.parametrize("share", list(TABLE))
def test_at_a_measured_rate_it_shows_what_was_measured(share: float) -> None:
    broker = settled(share * UNLIMITED)
    assert broker.latency_s == pytest.approx(TABLE[share][0] / 1000, rel=0.15)
    assert broker.replayed == pytest.approx(400 * share * UNLIMITED)
    assert broker.served_live == 20.0


def test_between_two_rates_it_lies_between() -> None:
    assert 0.010 < settled(70.0).latency_s < 0.028


def test_more_than_the_unlimited_rate_is_not_copied() -> None:
    assert settled(500.0).served_replay == pytest.approx(UNLIMITED)


def test_a_slower_machine_and_more_live_traffic_push_it_to_higher_shares() -> None:
    calm = settled(40.0)
    assert settled(40.0, capacity=70.0).latency_s > 1.5 * calm.latency_s
    assert settled(40.0, live=36.0).latency_s > 1.5 * calm.latency_s
    assert settled(100.0, live=36.0).served_replay < 60.0, "live traffic is served first"


def test_noise_belongs_to_the_world_so_a_second_is_never_better_with_a_replay() -> None:
    world = make_world(Scenario.STEADY, 3, PARAMS)
    run, alone = simulate(world, None, 3, PARAMS), rest(world, 3, PARAMS, 900)
    assert all(a >= b for a, b in zip(run.latency_s[:300], alone.latency_s, strict=False))
    assert len(set(alone.latency_s)) > 500


def test_the_oracle_takes_what_does_no_harm() -> None:
    safe = curves(EXAMPLE).safe_share
    assert 0.6 < safe < 0.8
    assert MeasuredBroker(PARAMS, EXAMPLE, 1).oracle_rate(100.0, 40.0) == pytest.approx(safe * UNLIMITED)
    harmless = example_response(slo_p99_ms=1_000.0)
    assert curves(harmless).safe_share == 1.0


def test_seconds_that_come_in_spells_are_remembered() -> None:
    spells = tuple(4.0 if at % 20 < 16 else 40.0 + at / 100 for at in range(60))
    steps = tuple(dataclasses.replace(step, second_p99_ms=spells) for step in EXAMPLE.steps)
    assert curves(EXAMPLE).memory < 0.2
    assert curves(dataclasses.replace(EXAMPLE, steps=steps)).memory > 0.5


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "response.json"
    file.write_text(response_text(EXAMPLE), encoding="utf-8")
    assert read_response(file) == EXAMPLE


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in DOCUMENT.items() if key != name}


def with_step(**changed: Any) -> dict[str, Any]:
    return {**DOCUMENT, "steps": [{**DOCUMENT["steps"][0], **changed}, *DOCUMENT["steps"][1:]]}


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ([], "it must be an object"),
        ({**DOCUMENT, "format": "recoveryd-response/1"}, "format is 'recoveryd-response/1'"),
        (without("seed"), "seed is missing"),
        ({**DOCUMENT, "sead": 1}, "sead is not known"),
        ({**DOCUMENT, "seed": 1.5}, "seed must be a whole number"),
        ({**DOCUMENT, "note": 7}, "note must be a text"),
        ({**DOCUMENT, "machine": {**DOCUMENT["machine"], "cores": True}}, "machine.cores must be a whole number"),
        ({**DOCUMENT, "slo_lag_s": 1}, "slo_lag_s must be above 1"),
        ({**DOCUMENT, "slo_p99_ms": 0}, "slo_p99_ms must be above 0"),
        ({**DOCUMENT, "steps": []}, "steps are 0"),
        ({**DOCUMENT, "steps": DOCUMENT["steps"][:2]}, "steps must have shares 0 and 1"),
        ({**DOCUMENT, "steps": {}}, "steps must be a list"),
        (with_step(share=1.5), "steps[0].share must be between 0 and 1"),
        (with_step(bytes_per_s=-1), "steps[0].bytes_per_s must be a finite number of 0 or more"),
        (with_step(lag_s=float("nan")), "steps[0].lag_s must be a finite number of 0 or more"),
        (with_step(canary_p50_ms=1e9), "steps[0]: its quantiles must not fall"),
        (with_step(second_p99_ms=[1.0]), "steps[0].second_p99_ms must have 2 to"),
        (with_step(second_p99_ms=[1.0, None]), "steps[0].second_p99_ms[1] must be a number"),
    ],
)
def test_what_is_no_response_is_refused_with_its_place(document: Any, why: str) -> None:
    with pytest.raises(BadResponse) as refusal:
        parse_response(json.dumps(document))
    assert str(refusal.value).startswith(why)


@pytest.mark.parametrize(
    ("raw", "why"), [(b"{", "is not JSON"), (b"\xff", "is not UTF-8"), (b" " * 5_000_000, "is larger than 4 MiB")]
)
def test_what_is_no_json_of_a_sane_size_is_refused(tmp_path: Path, raw: bytes, why: str) -> None:
    file = tmp_path / "response.json"
    file.write_bytes(raw)
    with pytest.raises(BadResponse, match=why):
        read_response(file)
