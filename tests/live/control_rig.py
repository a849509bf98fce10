"""A controller on its own: the test gives the signals, time moves by whole periods."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

from recoveryd.live.freshness import Reading
from recoveryd.live.law.controller import step
from recoveryd.live.law.memory import WorkKind
from recoveryd.live.law.types import ControlDecision, ControllerParams, ControllerState, Inputs
from recoveryd.live.pressure import PEAK_OF, Protection, SignalKind

START_MS = 1_800_000_000_000
PERIOD_MS = 5_000
LATENCY, GROUP = "produce_latency", "shop"
IDLE_S, SLO_S = 0.016, 0.2
PROTECTIONS = (Protection(LATENCY, SignalKind.LATENCY, SLO_S), Protection(GROUP, SignalKind.LAG, 30.0))
PARAMS = ControllerParams(
    protections=PROTECTIONS, measure_delay=False, period_ms=PERIOD_MS, loop_delay_ms=25_000, start_share=0.05
)
FLOOR, CEILING = 1.0, 100.0


def latency_at(z: float) -> float:
    """The latency at which the strain is `z`; the target is at 0.9."""
    rest = IDLE_S / SLO_S
    return SLO_S * rest / (1 - z * (1 - math.sqrt(rest))) ** 2


@dataclass
class Rig:
    params: ControllerParams = PARAMS
    state: ControllerState = field(default_factory=ControllerState)
    now_ms: int = START_MS
    floor: float = FLOOR
    ceiling: float = CEILING
    decision: ControlDecision | None = None
    work: WorkKind = WorkKind.WRITE

    def tick(
        self,
        z: float | None = 0.0,
        *,
        lag_s: float | None = 5.0,
        ingress: float | None = None,
        ingress_since_ms: int | None = None,
        achieved: float | None = -1.0,
        age_ms: int = 0,
        active: bool = True,
        after_ms: int = PERIOD_MS,
        more: tuple[Reading, ...] = (),
    ) -> ControlDecision:
        """Take one step; None leaves a signal out. By default the lanes achieve what was granted."""
        self.now_ms += after_ms
        taken_ms = self.now_ms - age_ms
        readings = list(more)
        if z is not None:
            readings.append(Reading(LATENCY, latency_at(z), taken_ms))
        if lag_s is not None:
            readings.append(Reading(GROUP, lag_s, taken_ms))
        load = None if ingress is None else Reading("ingress", ingress, taken_ms)
        got = self.state.published if achieved == -1.0 else achieved
        inputs = Inputs(tuple(readings), load, got, self.floor, self.ceiling, active, self.work, ingress_since_ms)
        self.state, self.decision = step(self.state, inputs, self.now_ms, self.params)
        return self.decision

    def settle(self, z: float, **more: Any) -> "Rig":
        """So many steps that the next one at this pressure sees no other."""
        for _ in range(max(PEAK_OF, self.params.loop_delay_ms // PERIOD_MS) - 1):
            self.tick(z, **more)
        return self

    def cut(self, z: float = 1.0) -> ControlDecision:
        """Two samples over the SLO: the first one is in doubt."""
        self.tick(z)
        return self.tick(z)

    def rest(self, ticks: int = 15) -> "Rig":
        """Time before the start: calm, and nothing runs."""
        for _ in range(ticks):
            self.tick(0.0, active=False)
        return self

    def run(self, rate: float, ticks: int = 3) -> "Rig":
        """Run at `rate` with the pressure at the target, so that the rate stays."""
        for _ in range(3):  # it begins low, and is seen there
            self.tick(0.9)
        self.state = replace(self.state, rate=rate, budget=rate, published=rate, publications=((self.now_ms, rate),))
        for _ in range(ticks):
            self.tick(0.9)
        return self


def started(rate: float = 40.0, params: ControllerParams = PARAMS) -> Rig:
    """A rig with a baseline, running at `rate`."""
    return Rig(params).rest().run(rate)
