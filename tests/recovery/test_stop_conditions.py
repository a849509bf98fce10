"""The conditions on what is around a recovery: each fires for its reason, with numbers, and not earlier."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from recoveryd.forecast.completion import ForecastRates, Work, forecast
from recoveryd.forecast.retention import Retention
from recoveryd.forecast.track import ForecastTrack
from recoveryd.kernel.states import StopReason
from recoveryd.live.admission import refuse_start
from recoveryd.live.freshness import Track
from recoveryd.live.law.types import ControllerState
from recoveryd.recovery.stops.conditions import Condition, HeadState, event_time, idle, live_slo, retention_race
from tests.live.control_rig import FLOOR, GROUP, LATENCY, PARAMS, started

NOW_MS = 1_800_000_000_000
BOTH = frozenset({0, 1})


def test_live_slo_pauses_after_eleven_minutes_of_pressure_at_the_floor() -> None:
    rig = started(2.0)
    fired = []
    for _ in range(137):
        rig.tick(0.0, lag_s=90.0)
        fired.append(live_slo(rig.state, rig.now_ms))
    assert fired[131] is None
    condition = next(c for c in fired if c is not None)
    assert condition.reason == "live_slo"
    assert condition.evidence["pressed_s"] == 660.0
    rig.tick(0.0, lag_s=5.0)
    assert live_slo(rig.state, rig.now_ms) is None


def test_live_slo_waits_for_a_group_that_reads_off_what_came_up() -> None:
    """As after a redeploy of four minutes: it gains 0.3 s in each second, and is well again in less than a quarter of
    an hour.
    """
    rig, lag_s = started(2.0), 240.0
    while lag_s >= 30.0:
        rig.tick(0.0, lag_s=lag_s)
        assert live_slo(rig.state, rig.now_ms) is None, lag_s
        lag_s -= 1.5


@pytest.mark.parametrize("canary", [lambda n: n == 240, lambda n: n % 7 == 0, lambda n: n > 540])
def test_live_slo_waits_for_it_whoever_else_is_over_for_a_while(canary: Callable[[int], bool]) -> None:
    rig, lag_s, n = started(2.0), 900.0, 0
    while lag_s >= 30.0:
        rig.tick(1.2 if canary(n) else 0.0, lag_s=lag_s)
        assert live_slo(rig.state, rig.now_ms) is None, (n, lag_s)
        lag_s, n = lag_s - 1.5, n + 1


def test_live_slo_adds_up_signals_that_take_turns() -> None:
    rig, begun_ms, found = started(2.0), 0, None
    for n in range(200):
        rig.tick(1.2 if n // 10 % 2 else 0.0, lag_s=29.0 if n // 10 % 2 else 45.0)
        begun_ms = begun_ms or (rig.now_ms if rig.state.pressed else 0)
        found = live_slo(rig.state, rig.now_ms)
        if found is not None:
            break
    assert found is not None
    assert rig.now_ms - begun_ms == pytest.approx(660_000, abs=10_000)


@pytest.mark.parametrize("phase_ms", [0, 1_500, 3_000, 4_500])
def test_whether_it_is_us_is_tried_before_a_pause_whenever_samples_come(phase_ms: int) -> None:
    rig = started(2.0)
    at_floor = {"rate": FLOOR, "budget": FLOOR, "published": FLOOR, "publications": ((rig.now_ms, FLOOR),)}
    rig.state = replace(rig.state, **at_floor, causes={})
    for number in range(140):
        rig.tick(1.05 if number % 3 == 0 else None, lag_s=5.0, age_ms=phase_ms)
        assert live_slo(rig.state, rig.now_ms) is None
        if rig.state.rate > FLOOR:
            return
    pytest.fail("no rise was tried")


def test_pressure_above_the_floor_is_no_live_slo_condition() -> None:
    assert live_slo(ControllerState(rate=50.0, floor_since_ms=None), NOW_MS) is None


def test_a_retention_race_is_believed_in_the_second_forecast() -> None:
    lost = forecast(Work(1e6, 1_000, is_moving=False), ForecastRates(1e4), Retention(margin=1e5, advance=2e4))
    safe = forecast(Work(1e6, 1_000, is_moving=False), ForecastRates(1e4))
    track = ForecastTrack().with_outlook(safe.outlook, 0)
    track = track.with_outlook(lost.outlook, 60_000)
    assert retention_race(lost, track) is None
    track = track.with_outlook(lost.outlook, 120_000)
    assert retention_race(lost, track) == Condition(
        StopReason.RETENTION_RACE,
        "retention reaches the position in 10 s, the copy takes 100 s",
        {"loss_in_s": 10.0, "seconds": 100.0, "lost_data_s": 0.0, "partition": None},
    )
    assert retention_race(safe, track) is None


@pytest.mark.parametrize(
    ("heads", "why"),
    [
        (
            {0: HeadState(NOW_MS, None), 1: HeadState(NOW_MS + 1, None)},
            "all 2 partitions are past the wanted event time",
        ),
        (
            {0: HeadState(NOW_MS, None), 1: HeadState(None, NOW_MS - 60_000)},
            "all 2 partitions are past the wanted event time, or idle at their end (1)",
        ),
        ({0: HeadState(NOW_MS, None), 1: HeadState(NOW_MS - 1, NOW_MS - 59_999)}, None),
        ({0: HeadState(NOW_MS, None), 1: HeadState(NOW_MS - 1, None)}, None),
        ({0: HeadState(NOW_MS, None)}, None),
    ],
)
def test_event_time_needs_every_planned_partition_past_it_or_idle(heads: dict[int, HeadState], why: str | None) -> None:
    found = event_time(heads, BOTH, NOW_MS, NOW_MS)
    assert (found.why if found else None) == why
    assert event_time({}, frozenset(), NOW_MS, NOW_MS) is None


@pytest.mark.parametrize(
    ("heads", "progress_ago_ms", "fires"),
    [
        ({0: HeadState(None, NOW_MS - 60_000), 1: HeadState(1, NOW_MS - 90_000)}, 60_000, True),
        ({0: HeadState(None, NOW_MS - 60_000), 1: HeadState(1, NOW_MS - 90_000)}, 59_999, False),
        ({0: HeadState(None, NOW_MS - 59_999), 1: HeadState(1, NOW_MS - 90_000)}, 90_000, False),
        ({0: HeadState(None, NOW_MS - 90_000), 1: HeadState(1, None)}, 90_000, False),
        ({0: HeadState(None, NOW_MS - 90_000)}, 90_000, False),
    ],
)
def test_idle_needs_a_minute_without_progress_at_every_end(
    heads: dict[int, HeadState], progress_ago_ms: int, fires: bool
) -> None:
    found = idle(heads, BOTH, NOW_MS - progress_ago_ms, NOW_MS)
    assert (found is not None) is fires
    if found is not None:
        assert found == Condition(
            StopReason.IDLE,
            "nothing moved and every partition was at its end for 60 s",
            {"idle_s": 60.0, "partitions": 2},
        )


def test_a_start_is_refused_while_a_protected_group_is_over_its_slo() -> None:
    rig = started()
    over = replace(rig.state, tracks={**rig.state.tracks, GROUP: Track((rig.now_ms,), (31.0,), (0,))})
    assert refuse_start(rig.state, rig.now_ms, PARAMS) is None
    assert refuse_start(over, rig.now_ms, PARAMS) == "shop is at 31 s before the start, its SLO is 30 s"

    assert refuse_start(over, rig.now_ms + 25_001, PARAMS) is None, "an old sample proves nothing"
    assert refuse_start(ControllerState(), rig.now_ms, PARAMS) is None
    assert LATENCY in over.tracks


def test_a_start_is_refused_by_the_last_sample_of_a_slow_signal_as_long_as_the_controller_takes_it_for_fresh() -> None:
    rig = started()
    slow = Track((rig.now_ms - 60_000, rig.now_ms), (5.0, 31.0), (0, 0))
    over = replace(rig.state, tracks={**rig.state.tracks, GROUP: slow})
    fresh_ms = PARAMS.loop_delay_ms + 60_000
    assert refuse_start(over, rig.now_ms + fresh_ms, PARAMS) == "shop is at 31 s before the start, its SLO is 30 s"
    assert refuse_start(over, rig.now_ms + fresh_ms + 1, PARAMS) is None
