"""How a game day is judged: what counts as harm, what is subtracted for the machine itself, and what passes."""

from collections import deque

import pytest

from recoveryd_sandbox.gameday.judge import Quiet, Second, Tally, judge_cut, judge_quiet, judge_run, verdicts
from recoveryd_sandbox.gameday.observer import _behind_s, _quantile
from recoveryd_sandbox.gameday.scenario import Scenario, Slos, calibrated

SLOS = Slos(p99_s=0.1, lag_s=5.0)


def seconds(start: int, count: int, p99_s: float | None = 0.01, lag_s: float | None = 1.0) -> list[Second]:
    return [Second(float(start + i), p99_s, lag_s) for i in range(count)]


@pytest.mark.parametrize(
    ("p99_s", "lag_s", "bad"),
    [(0.05, 1.0, 0), (0.1, 1.0, 10), (0.05, 5.0, 10), (None, 1.0, 10), (0.05, None, 10)],
)
def test_a_second_over_an_slo_or_without_an_answer_is_violated(
    p99_s: float | None, lag_s: float | None, bad: int
) -> None:
    tally = judge_run(seconds(0, 10, p99_s, lag_s), 10.0, None, SLOS, Quiet(0.0, 0.0))
    assert (tally.violated_s, tally.attributable_s) == (bad, bad)


def test_the_machines_own_bad_seconds_and_a_slow_broker_are_not_charged_to_a_run() -> None:
    alone = [*seconds(0, 38), *seconds(38, 2, 0.2), *seconds(40, 12, 0.2), *seconds(52, 5)]
    quiet = judge_quiet(alone, (40.0, 52.0), SLOS)
    assert quiet == Quiet(share=0.05, slow_violated_s=12.0)
    run = [*seconds(100, 80), *seconds(180, 12, 0.2), *seconds(192, 8, 0.2), *seconds(200, 17)]
    tally = judge_run(run, 117.0, (180.0, 192.0), SLOS, quiet)
    assert tally.violated_s == 20.0
    assert tally.attributable_s == pytest.approx(20.0 - 12.0 - 0.05 * 100.0)


def test_a_run_better_than_no_replay_is_charged_nothing() -> None:
    tally = judge_run(seconds(0, 50), 50.0, None, SLOS, Quiet(0.5, 12.0))
    assert tally.attributable_s == 0.0


@pytest.mark.scenario("S-RUN-30")
@pytest.mark.parametrize(
    ("unlimited_s", "controller_s", "passed"),
    [
        (30.0, 5.0, [True, True, True]),
        (30.0, 10.0, [True, True, True]),
        (30.0, 10.1, [True, False, False]),
        (12.0, 5.0, [True, True, False]),
        (2.0, 0.0, [False, True, True]),
    ],
)
def test_the_promises_are_five_per_cent_a_third_and_that_there_was_harm_at_all(
    unlimited_s: float, controller_s: float, passed: list[bool]
) -> None:
    found = verdicts(Tally(50.0, unlimited_s, unlimited_s), Tally(200.0, controller_s, controller_s))
    assert [v.passed for v in found] == passed


@pytest.mark.parametrize(("during", "after", "passed"), [(1.0e6, 8e6, True), (4.0e6, 8e6, False), (1.0e6, 2e6, False)])
def test_blind_the_rate_must_reach_its_floor_and_come_back(during: float, after: float, passed: bool) -> None:
    rates = [(0.0, 10e6), (10.0, 5e6), (59.0, during), (70.0, after)]
    assert judge_cut(rates, (5.0, 65.0), 1e6).passed is passed


def test_a_run_that_ends_before_telemetry_is_cut_proves_nothing() -> None:
    assert not judge_cut([(0.0, 1e6)], None, 1e6).passed


def test_slos_follow_the_machine_within_bounds() -> None:
    scenario = Scenario()
    assert calibrated(scenario, 0.002, 0.5) == Slos(0.02, 5.0)
    assert calibrated(scenario, 0.015, 3.0) == Slos(0.045, 9.0)
    assert calibrated(scenario, 1.0, 3.0).p99_s == scenario.latency_most_s


@pytest.mark.parametrize(
    ("stand", "behind_s"),
    [(400, 0.0), (500, 0.0), (300, 1.0), (250, 1.5), (100, 3.0), (50, 3.0)],
)
def test_the_observers_time_lag_is_when_the_log_ended_where_the_group_stands(stand: int, behind_s: float) -> None:
    history = deque([(1000.0, 100), (1001.0, 200), (1002.0, 300), (1003.0, 400)])
    assert _behind_s(history, stand) == pytest.approx(behind_s)


def test_nothing_acknowledged_is_no_number() -> None:
    assert _quantile([], 0.99) is None
    assert _quantile([0.1 * i for i in range(100)], 0.99) == pytest.approx(9.9)
