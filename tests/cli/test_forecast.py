"""`recoveryctl forecast`: the forecast's test vectors as command lines, its output, and what it refuses. No broker, no
config.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.scripted import run

DAY_S = 86_400


def ask(*args: str) -> dict[str, Any]:
    result = run(None, "forecast", *args, "-o", "json")
    found: dict[str, Any] = json.loads(result.stdout)
    assert result.exit_code == (1 if any(name.startswith("impractical") for name in found["outlooks"]) else 0)
    return found


def days(window: str, replay: str, live: str = "10k/s", *more: str) -> dict[str, Any]:
    return ask("--window", window, "--replay-rate", replay, "--live-rate", live, *more)


@pytest.mark.scenario("S-CASTLE-7")
def test_four_days_at_two_million_against_ten_thousand_take_about_29_minutes() -> None:
    found = days("4d", "2M/s")
    assert (found["backlog_records"], found["speed_up"], found["outlook"]) == (3.456e9, 200.0, "ok")
    assert (found["bounded_seconds"], found["moving_seconds"]) == (1_728.0, 1_736.7)
    moving = days("4d", "2M/s", "10k/s", "--moving")
    assert (moving["eta_seconds"]["mid"], moving["extra_share"]) == (1_736.7, 0.005025)


@pytest.mark.parametrize(("window", "seconds"), [("1d", 432), ("4d", 1_728), ("7d", 3_024), ("30d", 12_960)])
def test_a_pinned_window_takes(window: str, seconds: float) -> None:
    assert days(window, "2M/s")["eta_seconds"] == {"lo": seconds, "mid": seconds, "hi": seconds}


@pytest.mark.parametrize(
    ("replay", "more", "rate"),
    [
        ("250MB/s", ("--record-bytes", "100", "--contended"), 2.0e6),
        ("2.6M/s", ("--contended",), 2.08e6),
        ("250MB/s", ("--record-bytes", "100"), 2.5e6),
    ],
)
def test_a_producer_beside_it_takes_a_fifth(replay: str, more: tuple[str, ...], rate: float) -> None:
    found = days("4d", replay, "10k/s", *more)
    assert found["replay_records_per_s"] == pytest.approx(rate)
    assert any("2.08 M/s" in note for note in found["notes"]) == ("--record-bytes" in more and "--contended" in more)


@pytest.mark.scenario("S-CASTLE-8")
@pytest.mark.parametrize(
    ("replay", "moving", "seconds", "outlook"),
    [
        ("20k/s", True, 345_600, "impractical_slow"),
        ("11k/s", True, 3_456_000, "impractical_slow"),
        ("10k/s", True, None, "impractical_never"),
        ("9k/s", True, None, "impractical_never"),
        ("10k/s", False, 345_600, "impractical_slow"),
        ("9k/s", False, 384_000, "impractical_slow"),
        ("40k/s", True, 115_200, "marginal"),
    ],
)
def test_slow_replays_of_four_days(replay: str, moving: bool, seconds: float | None, outlook: str) -> None:
    found = days("4d", replay, "10k/s", "--moving" if moving else "--pinned")
    assert (found["eta_seconds"]["mid"], found["outlook"]) == (seconds, outlook)
    assert found["suggestion"]


@pytest.mark.parametrize(("deadline", "rate"), [("1h", 970_000), ("24h", 50_000)])
def test_a_deadline_names_the_rate_it_needs(deadline: str, rate: float) -> None:
    found = days("4d", "40k/s", "10k/s", "--moving", "--deadline", deadline)
    assert found["required_records_per_s"] == rate
    assert "deadline_miss" in found["outlooks"]


@pytest.mark.scenario("S-CASTLE-9")
def test_eleven_and_a_half_days_need_a_terabyte_a_replica_and_three_replicas_for_one_a_broker() -> None:
    wide = ("--record-bytes", "100", "--replication", "3", "--brokers", "3")
    found = ask("--window", "11.6d", "--replay-rate", "2M/s", "--live-rate", "1MB/s", *wide)
    assert found["storage"] == {
        "replica_bytes": 1_002_240_000_000,
        "all_bytes": 3_006_720_000_000,
        "per_broker_bytes": 1_002_240_000_000,
    }
    exact = ask("--window", "11.574d", "--replay-rate", "2M/s", "--live-rate", "1MB/s", *wide)
    assert exact["storage"]["replica_bytes"] == pytest.approx(1e12, rel=1e-4)
    assert any("only because there are 3 replicas" in note for note in found["notes"])


def test_a_log_start_faster_than_the_replay_reaches_it() -> None:
    found = days("4d", "5k/s", "10k/s", "--margin", "1G")
    assert (found["outlook"], found["loss_in_seconds"]) == ("retention_loss", 200_000.0)


def test_a_slow_start_loses_thirty_seconds_of_data() -> None:
    found = days("95h59m", "2M/s", "10k/s", "--retention", "4d", "--startup", "90s")
    assert (found["outlook"], found["lost_data_seconds"], found["loss_in_seconds"]) == ("retention_loss", 30.0, 60.0)
    assert found["retention_slack_seconds"] == 60.0


def test_a_spread_makes_an_interval() -> None:
    assert days("4d", "2M/s", "10k/s", "--spread", "20")["eta_seconds"] == {
        "lo": 1_440.0,
        "mid": 1_728.0,
        "hi": 2_160.0,
    }


@pytest.mark.scenario("S-RUN-18")
def test_prices_of_a_config_become_a_cost(tmp_path: Path) -> None:
    config = tmp_path / "recoveryd.yaml"
    config.write_text(
        "prices: {currency: EUR, executor_per_hour: 1.0, network_per_gb: 0.01, storage_per_gb_month: 0.1, "
        "cross_share: 0.5, keep: 15d}\n"
    )
    more = ("--record-bytes", "100", "--lanes", "2", "--prices", str(config), "--replication", "3")
    assert days("1d", "2M/s", "10k/s", *more)["cost"] == {
        "currency": "EUR",
        "compute": 0.24,
        "network": 2.16,
        "storage": 12.96,
        "live_impact": 0.0,
        "total": 15.36,
    }
    refused = run(
        None, "forecast", "--window", "1d", "--replay-rate", "2M", "--live-rate", "1k", "--prices", str(config)
    )
    assert (refused.exit_code, "--record-bytes" in refused.stderr) == (2, True)


def test_the_table_says_it_in_words_and_names_what_rules_of_thumb_leave_out() -> None:
    result = run(None, "forecast", "--window", "4d", "--replay-rate", "2M/s", "--live-rate", "10k/s")
    shown = result.stdout
    assert "200 times real time: 28.8 min" in shown
    assert "28 min 48 s" in shown
    assert "what arrives meanwhile makes it 1,736.7 s behind the moving head (+0.503%)" in shown
    never = run(None, "forecast", "--window", "4d", "--replay-rate", "9k/s", "--live-rate", "10k/s", "--moving").stdout
    assert "IMPRACTICAL (never), IMPRACTICAL (slow)" in never
    assert "for ever" in never


def test_the_name_form_is_the_verdict_alone() -> None:
    line = ("forecast", "--window", "4d", "--replay-rate", "20k/s", "--live-rate", "10k/s", "-o", "name")
    assert run(None, *line).stdout == "impractical_slow\n"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (("--replay-rate", "fast"), "--replay-rate `fast` is no rate."),
        (("--replay-rate", "10MB/s"), "--replay-rate is in bytes and the size of a record is not known."),
        (("--live-rate", "-1"), "--live-rate `-1` is no rate."),
        (("--live-rate", "nan"), "--live-rate `nan` is no rate."),
        (("--window", "0s"), "--window must be more than 0."),
        (("--window", "4 days"), "--window `4 days`"),
        (("--margin", "many"), "--margin `many` is no number of records."),
        (("--prices", "none.yaml", "--record-bytes", "100"), "none.yaml"),
    ],
)
def test_what_cannot_be_read_is_exit_code_2_and_named(changed: tuple[str, ...], said: str) -> None:
    given = {"--window": "4d", "--replay-rate": "2M/s", "--live-rate": "10k/s"}
    given |= dict(zip(changed[::2], changed[1::2], strict=True))
    result = run(None, "forecast", *(f"{flag}={value}" for flag, value in given.items()))
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
