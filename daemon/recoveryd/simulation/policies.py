"""The policies that are compared. All but the budget controller and its AIMD variant are baselines, as simple as they
are in practice.

A policy is asked every two seconds and answers with a rate. `Controlled` runs the daemon's own `step`.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from recoveryd.live.freshness import Reading
from recoveryd.live.law.controller import step
from recoveryd.live.law.types import ControlDecision, ControllerParams, ControllerState, Inputs, Law
from recoveryd.live.pressure import Protection, SignalKind
from recoveryd.simulation.model import ModelParams
from recoveryd.simulation.telemetry import INGRESS, LAG, LATENCY, LIVE

PERIOD_S = 2
SAFE_RATE = 55.0  # of the nominal model at rest: what the oracle may use
FLOOR = 1.2  # 1 % of the nominal ceiling


class Policy(Protocol):
    """`tick` is called every two seconds, during the warm-up as well (`active` False: the answer is not used)."""

    def tick(self, at_s: int, readings: Sequence[Reading], achieved: float, *, active: bool) -> float: ...


class Fixed:
    """One rate for the whole run; infinite = as fast as possible."""

    def __init__(self, rate: float) -> None:
        self._rate = rate

    def tick(self, at_s: int, readings: Sequence[Reading], achieved: float, *, active: bool) -> float:
        del at_s, readings, achieved, active
        return self._rate


class OnOff:
    """Like gh-ost: full speed while the lag is below its threshold, nothing above it."""

    def __init__(self, params: ModelParams) -> None:
        self._most = params.scaled(params.replay_max)
        self._threshold_s = params.slo_lag_s / 2
        self._lag_s = 0.0

    def tick(self, at_s: int, readings: Sequence[Reading], achieved: float, *, active: bool) -> float:
        del at_s, achieved, active
        self._lag_s = next((r.value for r in reversed(readings) if r.name == LAG), self._lag_s)
        return self._most if self._lag_s < self._threshold_s else 0.0


class Ledbat:
    """A background transfer that yields by delay, like LEDBAT.

    The rate moves with the distance of the pressure from a target. Gains are absolute, tuned for the
    nominal scale; at the SLO it halves. Stale telemetry decays it like the controller.
    """

    def __init__(self, params: ModelParams) -> None:
        self._params = params
        self._rate, self._most, self._least = 6.0, params.scaled(params.replay_max), FLOOR
        self._baseline: list[float] = []
        self._newest_s = 0.0
        self._cut_s = -1.0

    def tick(self, at_s: int, readings: Sequence[Reading], achieved: float, *, active: bool) -> float:
        del achieved
        if not active:
            self._baseline += [r.value for r in readings if r.name == LATENCY]
            return 0.0
        fresh = [r for r in readings if r.name in {LATENCY, LAG}]
        self._newest_s = max([self._newest_s, *(r.sampled_at_ms / 1_000 for r in fresh)])
        if at_s - self._newest_s > 25:
            self._rate, self._cut_s = self._rate * 0.8, float(at_s)
        usable = [r for r in fresh if r.sampled_at_ms / 1_000 > self._cut_s]
        if usable:
            self._follow(max(self._pressure(r) for r in usable), at_s)
        self._rate = min(self._most, max(self._least, self._rate))
        return self._rate

    def _follow(self, pressure: float, at_s: int) -> None:
        if pressure >= 1:
            self._rate, self._cut_s = self._rate / 2, float(at_s)
        else:
            self._rate += 2.0 * (0.9 - pressure)

    def _pressure(self, reading: Reading) -> float:
        if reading.name == LAG:
            idle_s = self._params.commit_every_s
            return (reading.value - idle_s) / (self._params.slo_lag_s - idle_s)
        idle = sorted(self._baseline)[len(self._baseline) // 2] if self._baseline else 0.013
        slo = self._params.slo_latency_s
        return max(0.0, (1 / idle - 1 / max(reading.value, 1e-9)) / (1 / idle - 1 / slo))


def control_params(params: ModelParams, *, law: Law = Law.BUDGET, cut: float = 0.5) -> ControllerParams:
    """The controller's defaults for the two protected signals of the model.

    Floor, start and AIMD step keep their absolute size at any scale (nothing is tuned again); only the job's ceiling
    grows with it.
    """
    latency = Protection(LATENCY, SignalKind.LATENCY, params.slo_latency_s)
    lag = Protection(LAG, SignalKind.LAG, params.slo_lag_s, idle_s=float(params.commit_every_s))
    live = (Protection(LIVE, SignalKind.LATENCY, params.slo_latency_s),) if params.has_live_signal else ()
    return ControllerParams(
        protections=(lag,) if law is Law.LAG_ONLY else (latency, *live, lag),
        law=law,
        raise_latency_ms=params.slice_s * 500,  # on average half a slice is left
        start_share=0.10 / params.scale,
        additive_share=0.008 / params.scale,
        additive_cut=cut,
    )


class Controlled:
    """The core's controller; `state` and `decision` are those of the last tick."""

    def __init__(self, params: ModelParams, control: ControllerParams | None = None) -> None:
        self._params = params
        self._control = control or control_params(params)
        self._names = {p.name for p in self._control.protections}
        self.state = ControllerState()
        self.decision: ControlDecision | None = None

    def tick(self, at_s: int, readings: Sequence[Reading], achieved: float, *, active: bool) -> float:
        signals = tuple(r if active else self._mistaken(r) for r in readings if r.name in self._names)
        ingress = next((r for r in reversed(readings) if r.name == INGRESS), None)
        ceiling = self._params.scaled(self._params.replay_max)
        inputs = Inputs(signals, ingress, achieved, FLOOR, ceiling, active)
        self.state, self.decision = step(self.state, inputs, at_s * 1_000, self._control)
        return self.decision.rate_bytes_per_s

    def _mistaken(self, reading: Reading) -> Reading:
        """For the variant with a wrong baseline: the reading times `baseline_error`."""
        if reading.name == LATENCY:
            return reading._replace(value=reading.value * self._params.baseline_error)
        return reading


BUDGET = "budget"
POLICIES: dict[str, Callable[[ModelParams], Policy]] = {
    "none": lambda _params: Fixed(float("inf")),
    "fixed 25 %": lambda params: Fixed(params.scaled(0.25 * SAFE_RATE)),
    "fixed 50 %": lambda params: Fixed(params.scaled(0.5 * SAFE_RATE)),
    "fixed 75 %": lambda params: Fixed(params.scaled(0.75 * SAFE_RATE)),
    "on/off": OnOff,
    "AIMD on lag": lambda params: Controlled(params, control_params(params, law=Law.LAG_ONLY)),
    "AIMD x0.5": lambda params: Controlled(params, control_params(params, law=Law.ADDITIVE)),
    "AIMD x0.7": lambda params: Controlled(params, control_params(params, law=Law.ADDITIVE, cut=0.7)),
    "LEDBAT-like": Ledbat,
    BUDGET: Controlled,
}
