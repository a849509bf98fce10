"""A machine on which a replay runs may show more than at rest, at any rate. What it shows at other rates too holds
none.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from recoveryd.live.freshness import Reading
from recoveryd.live.law.assessment import Assessment
from recoveryd.live.law.noise import step_of
from recoveryd.live.law.types import AtRate, ControllerState
from recoveryd.live.law.usual import LEVEL_STEP, OF_WAY, step_with_room
from recoveryd.live.pressure import Pressure, SignalKind, latency_strain
from tests.live.control_rig import LATENCY, PARAMS, PERIOD_MS, SLO_S, START_MS, Rig

REST = (0.06 * SLO_S,) * 10
LEVEL = (0.2,) * 12
AIM = latency_strain(0.6, 0.06)  # at the target


def signal(
    level: float = 0.2, *, newest: float | None = None, kind: SignalKind = SignalKind.LATENCY, is_far: bool = False
) -> Pressure:
    """`level`: the share of its SLO by the median of the last few samples."""
    share, room = level if newest is None else newest, AIM - latency_strain(level, 0.06)
    return Pressure(LATENCY, kind, share, 0.9, 0.0, share * SLO_S, 0, room, is_far=is_far, slo_s=SLO_S)


def share_at(strain: float) -> float:
    """The share of its SLO at which a latency is strained so, with a rest of 0.06."""
    return 0.06 / max(0.05, 1 - strain * (1 - math.sqrt(0.06))) ** 2


def step(
    known: Mapping[float, tuple[float, ...]],
    *signals: Pressure,
    rate: float = 16.0,
    safe: float | None = None,
    rest: tuple[float, ...] = REST,
    age_ms: int = 0,
    granted: float | None = None,
) -> float:
    """The step that there is room for. `known`: shares of its SLO by rate. `granted`: the least rate of the last loop
    delay.
    """
    newest = {at: tuple((START_MS - age_ms, share) for share in shares) for at, shares in known.items()}
    counted = {step_of(at): AtRate(len(shares), 0.0, shares) for at, shares in newest.items()}
    state = ControllerState(
        rate=rate,
        published=rate,
        publications=((START_MS, rate if granted is None else granted),),
        comfortable=safe,
        baselines={LATENCY: rest},
        counted={LATENCY: counted},
    )
    seen = Assessment(signals or (signal(),), (), (), (), (), 10_000, None, frozenset(), {})
    return step_with_room(state, seen, START_MS, PARAMS)


def is_usual(known: Mapping[float, tuple[float, ...]], *signals: Pressure, **more: Any) -> bool:
    """Whether there is room for a whole step."""
    return step(known, *signals, **more) == LEVEL_STEP


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        (LEVEL, LEVEL, True),
        ((0.2, 0.9, 0.2), LEVEL, True),  # the median counts
        ((0.1,) * 3, LEVEL, True),
        ((0.4,) * 3, LEVEL, False),
        (LEVEL, (0.06,) * 12, False),
        ((0.2, 0.2), LEVEL, False),
        (LEVEL, (0.2,) * 2, False),
    ],
)
def test_the_medians_at_this_rate_and_at_a_much_lower_one_are_compared(
    here: tuple[float, ...], there: tuple[float, ...], *, expected: bool
) -> None:
    assert is_usual({16.0: here, 8.0: there}) is expected


@pytest.mark.parametrize(
    ("other", "safe", "expected"),
    [
        (8.0, None, True),
        (14.0, 10.0, False),
        (0.5, 10.0, False),
        (32.0, 10.0, False),
        (32.0, 32.0, True),
        (32.0, 20.0, False),
        (20.0, 20.0, True),
    ],
)
def test_other_rates_are_much_lower_ones_and_all_up_to_one_that_was_safe(
    other: float, safe: float | None, *, expected: bool
) -> None:
    """Below 1 byte/s is rest."""
    assert is_usual({16.0: LEVEL, other: LEVEL}, safe=safe) is expected


def test_the_least_median_of_lower_rates_counts_and_on_the_way_back_the_one_of_all_up_to_the_safe_one() -> None:
    high = (0.4,) * 3
    assert is_usual({16.0: high, 8.0: high}, signal(0.4))
    assert not is_usual({16.0: high, 8.0: high, 4.0: (0.1,) * 3}, signal(0.4))
    assert is_usual({16.0: high, 8.0: (0.1,) * 3, 32.0: high}, signal(0.4), safe=32.0)
    assert not is_usual({16.0: high, 8.0: high, 32.0: (0.1,) * 3}, signal(0.4), safe=32.0)


def test_while_the_rate_grows_quickly_what_was_shown_just_before_counts_as_well() -> None:
    assert is_usual({16.0: (0.2,), 12.0: (0.2,) * 2, 4.0: LEVEL})
    assert not is_usual({16.0: (0.2,), 9.0: (0.2,) * 2, 4.0: LEVEL})
    assert not is_usual({16.0: (0.5,), 12.0: (0.2,) * 2, 4.0: LEVEL}), "what this rate shows already counts first"


def moved(
    here: float,
    lower: Mapping[float, float],
    newest: float | None = None,
    safe: float | None = None,
    samples: int = 3,
) -> float:
    """The step that there is room for at 16 bytes/s with this strain, and those at lower rates."""
    known = {16.0: share_at(here), **{rate: share_at(strain) for rate, strain in lower.items()}}
    shown = signal(share_at(here), newest=None if newest is None else share_at(newest))
    return step({rate: (share,) * samples for rate, share in known.items()}, shown, safe=safe)


WAY = 1 - 2**2.25 / 16  # from 4, whose step ends at 4.76, to 16, as a part of 16
LEFT = AIM - PARAMS.dead_band


def test_a_latency_that_the_rate_moves_leaves_room_for_half_of_the_way_to_the_target() -> None:
    assert moved(0.4, {4.0: 0.1}) == LEVEL_STEP
    assert moved(0.6, {4.0: 0.1}) == pytest.approx((LEFT - 0.6) / 2 / (0.5 / WAY))
    assert moved(0.6, {4.0: 0.3, 2.0: 0.0}) == pytest.approx((LEFT - 0.6) / 2 / (0.6 / (1 - 2**1.25 / 16)))
    assert moved(0.6, {4.0: 0.1, 2.0: 0.95}) == moved(0.6, {4.0: 0.1}), "what is high for another reason hides nothing"
    assert moved(0.6, {4.0: 0.9, 8.0: 0.3}) == pytest.approx((LEFT - 0.6) / 2 / 0.6), "rest is always compared with"
    assert moved(0.6, {4.0: 0.1}, newest=0.65) == pytest.approx((LEFT - 0.65) / 2 / (0.55 / WAY)), (
        "the newest counts here"
    )
    assert moved(0.6, {4.0: 0.1}, newest=0.75) == 0.0, "less than a step is worth"
    assert moved(0.6, {8.0: 0.3}, safe=16.0) == 0.0, "three samples so near tell little"
    assert moved(0.6, {8.0: 0.3}, safe=16.0, samples=6) == pytest.approx((LEFT - 0.6) / 2 / (0.3 / (1 - 2**3.25 / 16)))
    assert moved(0.65, {10.0: 0.45}, safe=16.0) == 0.0, "too near to tell where a line through both goes"
    assert moved(0.65, {4.0: 0.49}, safe=20.0) == 0.0, "the way back is no small step"


def test_samples_may_tell_of_the_lowest_rate_of_the_last_loop_delay() -> None:
    """So the way to the target begins there: a rate that has grown since was gone a part of it already."""
    shares = {16.0: (share_at(0.3),) * 3, 4.0: (share_at(0.1),) * 3}
    to_go = OF_WAY * (LEFT - 0.3)
    for granted in (16.0, 14.0, 12.0):
        reach = granted * (1 + to_go / max(0.3, 0.2 / (1 - 2**2.25 / granted)))
        assert step(shares, signal(share_at(0.3)), granted=granted) == pytest.approx(min(LEVEL_STEP, reach / 16.0 - 1))
    assert step(shares, signal(share_at(0.3)), granted=8.0) == 0.0
    assert step(shares, signal(share_at(0.3)), granted=0.0) == 0.0


def test_a_latency_that_the_rate_hardly_moves_needs_room_as_well() -> None:
    assert moved(0.80, {4.0: 0.75}) == LEVEL_STEP
    assert moved(0.80, {4.0: 0.66}) == pytest.approx((AIM - 0.80) / 2 / (0.14 / WAY))
    assert moved(0.85, {4.0: 0.95}) == LEVEL_STEP, "what it was under other load tells of none"
    assert moved(0.84, {10.0: 0.70}) == 0.0
    assert moved(0.80, {4.0: 0.66}, safe=20.0) == 0.0, "the way back is no small step"
    assert moved(0.80, {4.0: 0.75}, safe=20.0) == LEVEL_STEP


def test_where_no_much_lower_rate_is_known_it_is_compared_with_rest() -> None:
    for strain, expected in ((0.4, LEVEL_STEP), (0.55, (LEFT - 0.55) / 2 / 0.55)):
        shares = {16.0: (share_at(strain),) * 3, 10.0: (0.1,)}
        assert step(shares, signal(share_at(strain))) == pytest.approx(expected)
        assert step(shares, signal(share_at(strain)), safe=10.0) == 0.0, (
            "some rate is known to be safe, so there is more to know"
        )


def test_harm_that_a_little_higher_rate_showed_of_late_holds() -> None:
    level = {16.0: LEVEL, 4.0: LEVEL}
    for higher, shown in ((20.0, 1.1), (27.0, 0.61)):
        assert not is_usual({**level, higher: (shown,)}, safe=10.0)
    for higher, shown in ((20.0, 0.59), (32.0, 1.1)):
        assert is_usual({**level, higher: (shown,)}, safe=10.0)
    assert is_usual({**level, 20.0: (1.1, 0.2, 0.3)}, safe=10.0), "the median counts"
    assert not is_usual({**level, 20.0: (0.3, 0.3, 0.35, 0.4, 1.1, 1.2)}, safe=10.0), "and how it ended"


def test_a_first_recovery_that_was_not_cut_needs_nothing_to_compare_with_but_room() -> None:
    first = {16.0: LEVEL, 14.0: LEVEL}
    room = signal(share_at(AIM - 0.21))
    assert is_usual(first, room)
    assert not is_usual(first, signal(share_at(AIM - 0.19)))
    assert not is_usual(first, room, safe=10.0)
    assert not is_usual({16.0: LEVEL, 8.0: (0.06,) * 3}, room)


def test_a_level_that_is_higher_now_holds_and_a_single_sample_and_what_is_long_ago_tell_nothing() -> None:
    level = {16.0: LEVEL, 8.0: LEVEL}
    assert is_usual(level, signal(newest=0.9))
    assert not is_usual(level, signal(0.35))
    assert is_usual(level, age_ms=899_999)
    assert not is_usual(level, age_ms=900_000)


def test_every_signal_needs_room_and_one_that_is_far_below_its_target_nothing_else() -> None:
    level = {16.0: LEVEL, 8.0: LEVEL}
    assert not is_usual(level, signal(share_at(AIM)))
    assert not is_usual(level, signal(), signal(share_at(AIM)))
    assert is_usual({}, signal(is_far=True))
    assert is_usual({}, signal(kind=SignalKind.LAG, is_far=True))
    assert not is_usual(level, signal(kind=SignalKind.LAG)), "what it is now tells nothing of what a rate makes of it"
    assert not is_usual(level, rest=())


def climb(shown: Callable[[float], float], steps: int) -> list[float]:
    """The rates of a start. `shown`: what a latency takes of its SLO, by the rate; 0.06 at rest."""
    rig, rates = Rig(), []
    for step in range(15 + steps):
        share = shown(rig.state.published) if step >= 15 else 0.06
        reading = Reading(LATENCY, share * SLO_S, rig.now_ms + PERIOD_MS)
        rig.tick(None, active=step >= 15, more=(reading,))
        rates.append(rig.state.rate)
    return rates[15:]


def test_a_machine_that_shows_more_at_any_rate_is_used_in_a_few_minutes() -> None:
    level = climb(lambda rate: 0.2 + 0.8 * (rate / 90) ** 4, 70)
    assert level[-1] > 55.0
    assert max(level) < 80.0


def test_harm_is_not_gone_back_to_again_and_again() -> None:
    """Strained by 0.6 at any rate, and a knee at 50 that is narrower than a step."""
    knee = climb(lambda rate: share_at(0.6 + 0.4 * (rate / 50) ** 20), 300)
    assert sum(rate > 50 for rate in knee[100:]) < 0.04 * 200


def test_what_grows_with_the_rate_is_no_level() -> None:
    """The same share where the other machine goes on quickly."""
    growing = climb(lambda rate: 0.1 + 0.1 * rate / 12, 200)
    assert max(growing) < 60.0 * 1.05
