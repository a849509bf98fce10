"""Worlds: capacity, live traffic, its consumer and the telemetry, second by second, by scenario and seed.

Every policy of a scenario and seed meets the same world, and so does the run without a replay that the judge compares
with. Times count from the start of the replay; the warm-up before it is calm.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from recoveryd.simulation.model import ModelParams


class Scenario(StrEnum):
    STEADY = "steady"
    BURST = "burst"
    SLOWDOWN = "slowdown"
    RAMP = "ramp"
    MIXED = "mixed"
    OUTAGE = "outage"
    SICK_CONSUMER = "sick consumer"


# The gate takes the mean over these. A sick consumer is judged on its own, since no throttle can help it.
JUDGED = tuple(s for s in Scenario if s is not Scenario.SICK_CONSUMER)

_NOISE_SIGMA, _NOISE_MEMORY = 0.07, 0.98
_REBALANCE_GAP_S, _REBALANCE_S = 1_200.0, (5, 12)


@dataclass(frozen=True, slots=True)
class World:
    """One value per second from the start of the warm-up. `consumer_max` is 0 during a rebalance, `heard` False while
    there is no telemetry.
    """

    capacity: tuple[float, ...]
    live: tuple[float, ...]
    consumer_max: tuple[float, ...]
    heard: tuple[bool, ...]


class _Draft:
    """Factors that a scenario changes, per second of the replay."""

    def __init__(self, seconds: int, rng: random.Random) -> None:
        self.seconds, self.rng = seconds, rng
        self.capacity = [1.0] * seconds
        self.live = [1.0] * seconds
        self.consumer = [1.0] * seconds
        self.heard = [True] * seconds

    def shape(self, values: list[float], start: int, length: int, factor: float) -> None:
        for at in range(start, min(self.seconds, start + length)):
            values[at] *= factor


def make_world(scenario: Scenario, seed: int, params: ModelParams) -> World:
    """The world of `scenario` and `seed`; equal arguments give an equal world."""
    rng = random.Random(f"{scenario}/{seed}")  # noqa: S311 - a simulation, not a secret
    draft = _Draft(params.horizon_s, rng)
    _SHAPES[scenario](draft)
    warm = params.warm_up_s
    live = [params.scaled(params.live) * f for f in (*[1.0] * warm, *draft.live)]
    swing = 0.0
    for at in range(len(live)):
        swing = _NOISE_MEMORY * swing + math.sqrt(1 - _NOISE_MEMORY**2) * rng.gauss(0.0, _NOISE_SIGMA)
        live[at] *= max(0.1, 1 + swing)
    consumer = [params.scaled(params.consumer_max) * f for f in (*[1.0] * warm, *draft.consumer)]
    _rebalance(consumer, warm, rng)
    capacity = tuple(params.scaled(params.capacity) * f for f in (*[1.0] * warm, *draft.capacity))
    return World(capacity, tuple(live), tuple(consumer), (*[True] * warm, *draft.heard))


def _rebalance(consumer: list[float], first_s: int, rng: random.Random) -> None:
    """At random times the group stops for some seconds."""
    at_s = first_s + rng.expovariate(1 / _REBALANCE_GAP_S)
    while at_s < len(consumer):
        start_s, length_s = int(at_s), rng.randint(*_REBALANCE_S)
        for second in range(start_s, min(len(consumer), start_s + length_s)):
            consumer[second] = 0.0
        at_s += rng.expovariate(1 / _REBALANCE_GAP_S)


def _steady(_draft: _Draft) -> None:
    return


def _burst(draft: _Draft) -> None:
    """Live traffic x1.9 for two minutes, every eight minutes."""
    for start in range(240, draft.seconds, 480):
        draft.shape(draft.live, start, 120, 1.9)


def _slowdown(draft: _Draft) -> None:
    """The broker at 60 % for three minutes, every 700 s."""
    for start in range(300, draft.seconds, 700):
        draft.shape(draft.capacity, start, 180, 0.6)


def _ramp(draft: _Draft) -> None:
    """Live traffic grows to x1.9 over 25 minutes and stays."""
    for at in range(draft.seconds):
        draft.live[at] *= 1 + 0.9 * min(1.0, at / 1_500)


def _mixed(draft: _Draft) -> None:
    """Bursts and slowdowns of random size, length and time; they may overlap."""
    rng = draft.rng
    at_s = rng.expovariate(1 / 240)
    while at_s < draft.seconds:
        length_s = rng.randint(60, 240)
        if rng.random() < 0.5:
            draft.shape(draft.live, int(at_s), length_s, rng.uniform(1.3, 1.9))
        else:
            draft.shape(draft.capacity, int(at_s), length_s, rng.uniform(0.6, 0.9))
        at_s += length_s + rng.expovariate(1 / 240)


def _outage(draft: _Draft) -> None:
    """No telemetry for 150 s, every 500 s; 40 s into it the broker falls to 55 % until it is over."""
    for start in range(200, draft.seconds, 500):
        draft.shape(draft.capacity, start + 40, 110, 0.55)
        for at in range(start, min(draft.seconds, start + 150)):
            draft.heard[at] = False


def _sick_consumer(draft: _Draft) -> None:
    """The protected consumer is slower than live traffic for five minutes, whatever the broker does."""
    draft.shape(draft.consumer, 300, 300, 0.4)


_SHAPES: dict[Scenario, Callable[[_Draft], None]] = {
    Scenario.STEADY: _steady,
    Scenario.BURST: _burst,
    Scenario.SLOWDOWN: _slowdown,
    Scenario.RAMP: _ramp,
    Scenario.MIXED: _mixed,
    Scenario.OUTAGE: _outage,
    Scenario.SICK_CONSUMER: _sick_consumer,
}
