"""The forecast while the controller climbs, judged by what the simulated cluster then does."""

from typing import NamedTuple

import pytest

from recoveryd.forecast.estimate import CountSample, estimate_rate
from recoveryd.forecast.ramp import GrantedSample, RampRate, has_moved, ramp_rate
from recoveryd.simulation.model import ModelParams
from recoveryd.simulation.policies import Controlled
from recoveryd.simulation.run import simulate
from recoveryd.simulation.scenarios import World

EVERY_S, KEPT, LATE_S = 10, 20, 3  # as the daemon samples: durable counts are late by a part of a chunk
LOOKS = {0.1: 3.5, 0.25: 2.5, 0.5: 1.5}  # part of the run that is over: the factor that the forecast may be off


class Look(NamedTuple):
    """The seconds that are really left, and those that were forecast; `old_s` by the mean pace of the samples."""

    true_s: float
    mid_s: float
    lo_s: float
    hi_s: float
    old_s: float


def looks(part: float, *, delay_s: float, noise: float, backlog: float, most: float) -> list[Look]:
    """The look after this part of the run; none when there are not three samples yet."""
    params = ModelParams(
        noise=noise, signal_drop=0.0, backlog=backlog, horizon_s=1_500, signal_delay_s=delay_s, replay_max=most
    )
    seconds = params.warm_up_s + params.horizon_s
    world = World((100.0,) * seconds, (20.0,) * seconds, (40.0,) * seconds, (True,) * seconds)
    trace = simulate(world, Controlled(params), 1, params)
    assert trace.finished_s is not None
    at_s = int(part * trace.finished_s) // EVERY_S * EVERY_S
    copied = [0.0]
    for rate in trace.rate:
        copied.append(min(backlog, copied[-1] + rate))
    times = range(0, at_s + 1, EVERY_S)
    samples = [GrantedSample(t, copied[max(0, t - LATE_S)], trace.rate[t]) for t in times][-KEPT:]
    pace = estimate_rate([CountSample(s.at_s, s.total) for s in samples])
    if pace is None:
        return []
    left = backlog - samples[-1].total
    found = ramp_rate(samples, left, None, most) if has_moved(samples) else RampRate(pace.per_s, pace.per_s, pace.per_s)
    assert found is not None
    true_s = trace.finished_s - at_s
    return [Look(true_s, left / found.per_s, left / found.fast, left / found.slow, left / pace.per_s)]


def all_looks(part: float) -> list[Look]:
    return [
        look
        for delay_s in (2.0, 10.0, 30.0)
        for noise in (0.0, 1.0)
        for backlog in (6_000.0, 20_000.0)
        for most in (40.0, 120.0)
        for look in looks(part, delay_s=delay_s, noise=noise, backlog=backlog, most=most)
    ]


@pytest.mark.parametrize("part", LOOKS)
def test_a_forecast_is_within_a_factor_of_the_time_that_the_copy_then_takes(part: float) -> None:
    found = all_looks(part)
    off = [look.mid_s / look.true_s for look in found]
    assert len(found) >= 12
    assert max(off) <= LOOKS[part]
    assert min(off) >= 1 / LOOKS[part]
    assert max(off) < 0.6 * max(look.old_s / look.true_s for look in found), "the mean pace does worse"


def test_the_interval_holds_the_time_that_the_copy_then_takes() -> None:
    found = [look for part in LOOKS for look in all_looks(part)]
    held = [look for look in found if 0.9 * look.lo_s <= look.true_s <= 1.1 * look.hi_s]
    assert len(held) >= 0.9 * len(found)
    assert all(look.lo_s <= look.mid_s <= look.hi_s for look in found)
