"""What the controller sees of the modelled broker: samples every few seconds, late, noisy, sometimes dropped,
sometimes far off; none in an outage.
"""

import random
from collections import deque

from recoveryd.live.freshness import Reading
from recoveryd.simulation.model import ModelParams

LATENCY, LAG, INGRESS, LIVE = "produce_latency", "live_group", "ingress", "live_produce_p99"
_NOISE = {LATENCY: 0.15, LAG: 0.08, INGRESS: 0.03, LIVE: 0.15}


class Telemetry:
    """`take` samples the broker at a second, `arrived` returns what came in since, in the order of arrival."""

    def __init__(self, params: ModelParams, rng: random.Random) -> None:
        self._params, self._rng = params, rng
        self._under_way: deque[tuple[float, Reading]] = deque()

    def take(self, at_s: int, values: dict[str, float], *, heard: bool) -> None:
        """Sample every signal. In an outage random numbers are drawn too, so that the rest of the run is the same."""
        params, rng = self._params, self._rng
        for name, value in values.items():
            dropped = rng.random() < params.signal_drop
            noisy = value * rng.lognormvariate(0.0, _NOISE[name] * params.noise)
            if name == LATENCY and params.spikes and rng.random() < params.spikes:
                noisy = params.slo_latency_s * rng.uniform(1.0, 1.9)
            arrives_s = at_s + params.signal_delay_s + rng.uniform(0.0, params.signal_jitter_s)
            if heard and not dropped:
                self._under_way.append((arrives_s, Reading(name, noisy, at_s * 1_000)))

    def arrived(self, at_s: int) -> list[Reading]:
        come = [reading for arrives_s, reading in self._under_way if arrives_s <= at_s]
        if come:
            self._under_way = deque(item for item in self._under_way if item[0] > at_s)
        return come
