"""A machine on which a replay runs may show more than at rest, at any rate. What it shows at other rates too holds none."""

import math
from collections.abc import Callable, Mapping

import pytest

from recoveryd.live.freshness import Reading
from recoveryd.live.law.assessment import Assessment
from recoveryd.live.law.noise import step_of
from recoveryd.live.law.types import AtRate, ControllerState
from recoveryd.live.law.usual import is_as_elsewhere
from recoveryd.live.pressure import Pressure, SignalKind, latency_strain
from tests.core.policies.control_rig import LATENCY, PARAMS, PERIOD_MS, SLO_S, START_MS, Rig

REST = (0.06 * SLO_S,) * 10
LEVEL = (0.2,) * 12
AIM = latency_strain(0.6, 0.06)  # at the target


def signal(level: float = 0.2, *, kind: SignalKind = SignalKind.LATENCY, is_far: bool = False) -> Pressure:
    """`level`: the share of its SLO by the median of the last few samples."""
    room = AIM - latency_strain(level, 0.06)
    return Pressure(LATENCY, kind, 0.9, 0.9, 0.0, 0.9 * SLO_S, 0, room, is_far=is_far, slo_s=SLO_S)


def share_at(strain: float) -> float:
    """The share of its SLO at which a latency is strained so, with a rest of 0.06."""
    return 0.06 / max(0.05, 1 - strain * (1 - math.sqrt(0.06))) ** 2


def is_usual(
    known: Mapping[float, tuple[float, ...]],
    *signals: Pressure,
    rate: float = 16.0,
    safe: float | None = None,
    rest: tuple[float, ...] = REST,
    age_ms: int = 0,
) -> bool:
    """`known`: shares of its SLO by rate."""
    newest = {at: tuple((START_MS - age_ms, share) for share in shares) for at, shares in known.items()}
    counted = {step_of(at): AtRate(len(shares), 0.0, shares) for at, shares in newest.items()}
    state = ControllerState(rate=rate, comfortable=safe, baselines={LATENCY: rest}, counted={LATENCY: counted})
    seen = Assessment(signals or (signal(),), (), (), (), (), 10_000, None, frozenset())
    return is_as_elsewhere(state, seen, START_MS, PARAMS)


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        (LEVEL, LEVEL, True),
        ((0.2, 0.9, 0.2), LEVEL, True),  # the median counts
        ((0.1,) * 3, LEVEL, True),
        ((0.4,) * 3, LEVEL, False),
        (LEVEL, (0.06,) * 12, False),
        (
            (share_at(AIM - 0.25),) * 3,
            (share_at(AIM - 0.25 - 0.19),) * 3,
            True,
        ),  # twice the rate would be near the target
        ((share_at(AIM - 0.25),) * 3, (share_at(AIM - 0.25 - 0.21),) * 3, False),
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


def test_where_no_much_lower_rate_is_known_it_is_compared_with_rest() -> None:
    """Half as much again of what it moved since rest has to stay below the target."""
    assert is_usual({16.0: (share_at(0.55),) * 3}, signal(share_at(0.55)), safe=10.0)
    assert not is_usual({16.0: (share_at(0.58),) * 3}, signal(share_at(0.58)), safe=10.0)
    assert not is_usual({16.0: (share_at(0.55),) * 3}, signal(share_at(0.55)), safe=20.0), "the way back is one step"


def test_a_first_recovery_that_was_not_cut_needs_nothing_to_compare_with_but_room() -> None:
    first = {16.0: LEVEL, 14.0: LEVEL}
    room = signal(share_at(AIM - 0.21))
    assert is_usual(first, room)
    assert not is_usual(first, signal(share_at(AIM - 0.19)))
    assert not is_usual(first, room, safe=10.0)
    assert not is_usual({16.0: LEVEL, 8.0: (0.06,) * 3}, room)


def test_a_level_that_is_higher_now_holds_and_a_single_sample_and_what_is_long_ago_tell_nothing() -> None:
    level = {16.0: LEVEL, 8.0: LEVEL}
    assert signal().share > 0.8
    assert is_usual(level)
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
