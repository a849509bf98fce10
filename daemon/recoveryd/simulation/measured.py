"""The measured plant: the same model of queues and consumers as the formula's, with latency and lag as `make response`
measured them on a real broker, interpolated between rates, with the noise of its machine.

The noise of a second is a rank: how bad this second is among those that were measured at one rate. Ranks belong to the
world and not to the policy, so a second that is bad without a replay is bad with one too, and is not charged to it. A
replay never makes live traffic better: of what two rates show, noise that says so is levelled out.
"""

import math
import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist, fmean

from recoveryd.simulation.model import Broker, ModelParams
from recoveryd.simulation.response import Response, ResponseStep

UNLIMITED = 100.0  # the unlimited rate in units of the model
HARMLESS_SHARE = 0.02  # bad seconds beyond no replay up to which a rate counts as safe, as in the game day
_RANKS = 101
_GRID = 201
_MEMORY_MOST = 0.95
_SAFE_LEAST = 0.01  # where nothing is safe there is something to copy all the same


@dataclass(frozen=True, slots=True)
class Curves:
    """`latency_s[i][k]`: the p99 of a second at `shares[i]` and rank k/100; `lag_s` likewise. `memory`: how much of a
    second's rank the next one keeps. `safe_share`: the highest share that does no harm, at rest.
    """

    shares: tuple[float, ...]
    latency_s: tuple[tuple[float, ...], ...]
    lag_s: tuple[tuple[float, ...], ...]
    memory: float
    safe_share: float


def measured_params(response: Response, scale: float = 1.0) -> ModelParams:
    """The measured plant, with the SLOs it was measured for. Its noise is its own, so telemetry adds none. At rest the
    oracle takes as long for the backlog as on the formula.
    """
    formula = ModelParams()
    rest_work = formula.live * (formula.produce_work + formula.fetch_work)
    best = Broker(formula).oracle_rate(formula.capacity, rest_work)
    safe = max(_SAFE_LEAST, curves(response).safe_share) * UNLIMITED
    return ModelParams(
        scale=scale,
        response=response,
        backlog=formula.backlog * safe / best,
        slo_latency_s=response.slo_p99_ms / 1000,
        slo_lag_s=response.slo_lag_s,
        commit_every_s=1,
        noise=0.0,
    )


def make_broker(params: ModelParams, seed: int) -> Broker:
    """The plant that `params` ask for: the formula, or the measured one, whose noise `seed` makes."""
    return Broker(params) if params.response is None else MeasuredBroker(params, params.response, seed)


class MeasuredBroker(Broker):
    """Live traffic is served first, as it was when it was measured; a slower machine or more of it counts as a higher
    share. How much higher cannot be told from one rate of live traffic, so what that takes at rest, in unlimited
    replays, is taken from the formula: then a burst is as large a part of what is free on both plants.
    """

    def __init__(self, params: ModelParams, response: Response, seed: int) -> None:
        super().__init__(params)
        self._curves = curves(response)
        self._rng = random.Random(f"ranks/{seed}")  # noqa: S311 - a simulation, not a secret
        self._normal = self._rng.gauss(0.0, 1.0)
        self._live_rng = random.Random(f"live ranks/{seed}")  # noqa: S311 - a simulation, not a secret
        self._live_normal = 0.0
        self._rest_work = params.scaled(params.live) * (params.produce_work + params.fetch_work)
        self._live_work = self._rest_work / (params.scaled(params.capacity) - self._rest_work)
        self._share = 0.0
        self._rank = 0.5

    def advance(self, capacity: float, live: float, consumer_max: float, replay: float) -> None:
        """What the live application measures has the noise of the same machine, but not in the same seconds as the
        canary.
        """
        super().advance(capacity, live, consumer_max, replay)
        if self.params.has_live_signal:
            self._live_normal, rank = self._next(self._live_normal, self._live_rng)
            served_s = _between(self._curves.shares, self._curves.latency_s, self._share, self._rank)
            told_s = _between(self._curves.shares, self._curves.latency_s, self._share, rank)
            self.live_latency_s = self.latency_s - served_s + told_s

    def lag_s(self) -> float:
        return max(super().lag_s(), _between(self._curves.shares, self._curves.lag_s, self._share, self._rank))

    def oracle_rate(self, capacity: float, live_work: float) -> float:
        found, factor = self._curves, self._factor(capacity)
        spare = (found.safe_share + self._live_work) * factor - self._live(live_work)
        return max(0.0, spare * self.params.scaled(UNLIMITED))

    def serve(self, capacity: float, live_work: float, replay: float) -> tuple[float, float, float]:
        found, factor = self._curves, self._factor(capacity)
        most = (1 + self._live_work) * factor
        live, wanted = self._live(live_work), replay / self.params.scaled(UNLIMITED)
        served = min(wanted, max(0.0, most - live))
        used = min(most, live + served) / factor
        self._share = min(1.0, max(0.0, used - self._live_work))
        self._normal, self._rank = self._next(self._normal, self._rng)
        latency_s = _between(found.shares, found.latency_s, self._share, self._rank)
        return min(1.0, most / live) if live > 0 else 1.0, served / wanted if wanted > 0 else 1.0, latency_s

    def _factor(self, capacity: float) -> float:
        return capacity / self.params.scaled(self.params.capacity)

    def _live(self, live_work: float) -> float:
        return live_work / self._rest_work * self._live_work

    def _next(self, normal: float, rng: random.Random) -> tuple[float, float]:
        """The next second's rank, and the normal deviate that it is made of."""
        kept = self._curves.memory
        after = kept * normal + math.sqrt(1 - kept**2) * rng.gauss(0.0, 1.0)
        return after, 0.5 * (1 + math.erf(after / math.sqrt(2)))


@lru_cache(maxsize=8)
def curves(response: Response) -> Curves:
    """What the steps of a measurement say together."""
    shares = response.shares
    seconds = [[ms / 1000 for step in response.at(share) for ms in step.second_p99_ms] for share in shares]
    lags = [[lag_s for step in response.at(share) for lag_s in step.second_lag_s] for share in shares]
    latency_s, lag_s = _rising(seconds), _rising(lags)
    found = Curves(shares, latency_s, lag_s, _memory(response.steps), 0.0)
    return replace(found, safe_share=_safe_share(found, response.slo_p99_ms / 1000, response.slo_lag_s))


def _rising(samples: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    """The quantiles of each share's samples, at each rank not falling with the share."""
    quantiles = [_quantiles(sorted(values)) for values in samples]
    weights = [len(values) for values in samples]
    levelled = [_levelled([row[k] for row in quantiles], weights) for k in range(_RANKS)]
    return tuple(tuple(column[at] for column in levelled) for at in range(len(samples)))


def _quantiles(ordered: Sequence[float]) -> list[float]:
    last = len(ordered) - 1
    found = []
    for k in range(_RANKS):
        place = k / (_RANKS - 1) * last
        below = min(last - 1, int(place)) if last else 0
        above = min(last, below + 1)
        found.append(ordered[below] + (ordered[above] - ordered[below]) * (place - below))
    return found


def _levelled(values: Sequence[float], weights: Sequence[int]) -> list[float]:
    """The nearest sequence that does not fall (isotonic regression, by pooling neighbours)."""
    pools: list[tuple[float, int, int]] = []  # mean, weight, how many values
    for value, weight in zip(values, weights, strict=True):
        pool = (value, weight, 1)
        while pools and pools[-1][0] > pool[0]:
            mean, heavy, many = pools.pop()
            pool = ((mean * heavy + pool[0] * pool[1]) / (heavy + pool[1]), heavy + pool[1], many + pool[2])
        pools.append(pool)
    return [mean for mean, _, many in pools for _ in range(many)]


def _between(shares: Sequence[float], table: Sequence[Sequence[float]], share: float, rank: float) -> float:
    """The value at this share and rank, linear between those that were measured."""
    at = min(len(shares) - 2, max(0, bisect_right(shares, share) - 1))
    part = (share - shares[at]) / (shares[at + 1] - shares[at])
    place = rank * (_RANKS - 1)
    k = min(_RANKS - 2, int(place))
    low, high = table[at], table[at + 1]
    below, above = low[k] + (high[k] - low[k]) * part, low[k + 1] + (high[k + 1] - low[k + 1]) * part
    return below + (above - below) * (place - k)


def _memory(steps: Sequence[ResponseStep]) -> float:
    """How alike neighbouring seconds are: the correlation of their normal ranks, over all steps."""
    found = []
    for step in steps:
        values, count = step.second_p99_ms, len(step.second_p99_ms)
        order = sorted(range(count), key=values.__getitem__)
        normal = [0.0] * count
        for rank, at in enumerate(order):
            normal[at] = NormalDist().inv_cdf((rank + 0.5) / count)
        square = fmean(value**2 for value in normal)
        found.append(fmean(a * b for a, b in pairwise(normal)) / square if square > 0 else 0.0)
    return min(_MEMORY_MOST, max(0.0, fmean(found)))


def _safe_share(found: Curves, slo_p99_s: float, slo_lag_s: float) -> float:
    """The highest share up to which the part of bad seconds is at most `HARMLESS_SHARE` above that without a replay."""

    def bad(share: float) -> float:
        ranks = [(k + 0.5) / (10 * _RANKS) for k in range(10 * _RANKS)]
        return fmean(
            _between(found.shares, found.latency_s, share, rank) > slo_p99_s
            or _between(found.shares, found.lag_s, share, rank) > slo_lag_s
            for rank in ranks
        )

    most = bad(0.0) + HARMLESS_SHARE
    safe = 0.0
    for step in range(1, _GRID):
        share = step / (_GRID - 1)
        if bad(share) > most:
            break
        safe = share
    return safe
