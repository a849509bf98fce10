"""One run: a policy in a world until the backlog is copied, recorded second by second for the judge.

The replay works in slices: a raise waits for the next slice, a cut interrupts the running one (unless the variant says
otherwise). The oracle knows everything but the noise of the measured plant, and has no delay and no slices.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from recoveryd.simulation.measured import make_broker
from recoveryd.simulation.model import ModelParams
from recoveryd.simulation.policies import PERIOD_S, Policy
from recoveryd.simulation.quota import QuotaGate
from recoveryd.simulation.scenarios import World
from recoveryd.simulation.telemetry import INGRESS, LAG, LATENCY, LIVE, Telemetry

TAIL_S = 600  # how long harm may outlast the replay and still count


@dataclass(frozen=True, slots=True)
class Trace:
    """Per second from the start of the replay: p99 and time lag in seconds, and the rate in force. `finished_s` None =
    not within the horizon.
    """

    finished_s: int | None
    latency_s: Sequence[float]
    lag_s: Sequence[float]
    rate: Sequence[float]
    updates: int


class _Slices:
    """The rate in force, by slices."""

    def __init__(self, params: ModelParams) -> None:
        self._params = params
        self._began_s = -(10**9)
        self.rate = 0.0

    def follow(self, wanted: float, at_s: int) -> float:
        over = at_s - self._began_s >= self._params.slice_s
        if over or (wanted < self.rate and self._params.is_slice_interruptible):
            if over or wanted != self.rate:
                self._began_s = at_s
            self.rate = wanted
        return self.rate


def simulate(world: World, policy: Policy | None, seed: int, params: ModelParams) -> Trace:
    """Run `policy`, or the oracle for None."""
    return _Run(world, policy, seed, params).trace()


def rest(world: World, seed: int, params: ModelParams, seconds: int) -> Trace:
    """The same world without a replay, for `seconds`."""
    broker = make_broker(params, seed)
    latency, lag = [], []
    for at in range(params.warm_up_s + seconds):
        broker.advance(world.capacity[at], world.live[at], world.consumer_max[at], 0.0)
        if at >= params.warm_up_s:
            latency.append(broker.latency_s)
            lag.append(broker.lag_s())
    return Trace(None, latency, lag, [0.0] * seconds, 0)


class _Run:
    def __init__(self, world: World, policy: Policy | None, seed: int, params: ModelParams) -> None:
        self._world, self._policy, self._params = world, policy, params
        self._broker = make_broker(params, seed)
        self._telemetry = Telemetry(params, random.Random(f"telemetry/{seed}"))  # noqa: S311  (no secret)
        self._slices = _Slices(params)
        self._quota = QuotaGate(params.scaled(params.replay_max)) if params.has_quota_actuator else None
        self._wanted = 0.0
        self._updates = 0
        self._served_recently = [0.0] * PERIOD_S

    def trace(self) -> Trace:
        params, broker = self._params, self._broker
        backlog, warm = params.scaled(params.backlog), params.warm_up_s
        latency: list[float] = []
        lag: list[float] = []
        rates: list[float] = []
        finished: int | None = None
        for at in range(warm + params.horizon_s):
            left = backlog - broker.replayed
            active = at >= warm and finished is None
            rate = self._rate(at, active=active) if active or at < warm else 0.0
            self._second(at, rate if active else 0.0, left)
            if at < warm:
                continue
            latency.append(broker.latency_s)
            lag.append(broker.lag_s())
            rates.append(rate)
            if finished is None and broker.replayed >= backlog - 1e-6:
                finished = at - warm + 1
            if finished is not None and at - warm >= finished + TAIL_S:
                break
        return Trace(finished, latency, lag, rates, self._updates)

    def _second(self, at: int, rate: float, left: float) -> None:
        world, broker = self._world, self._broker
        replay = rate if self._quota is None else self._quota.let_through(rate, at)
        broker.advance(world.capacity[at], world.live[at], world.consumer_max[at], min(replay, left))
        self._served_recently[at % PERIOD_S] = broker.served_replay
        if self._policy is not None and at % self._params.signal_period_s == 0:
            values = {LATENCY: broker.latency_s, LAG: broker.lag_s(), INGRESS: broker.served_live}
            if self._params.has_live_signal:
                values[LIVE] = broker.live_latency_s
            self._telemetry.take(at, values, heard=world.heard[at])

    def _rate(self, at: int, *, active: bool) -> float:
        most = self._params.scaled(self._params.replay_max)
        if self._policy is None:
            return min(most, self._oracle_rate(at)) if active else 0.0
        if at % PERIOD_S == 0:
            achieved = sum(self._served_recently) / PERIOD_S
            wanted = self._policy.tick(at, self._telemetry.arrived(at), achieved, active=active)
            self._updates += active and wanted != self._wanted
            self._wanted = wanted
        return min(most, self._slices.follow(self._wanted, at)) if active else 0.0

    def _oracle_rate(self, at: int) -> float:
        params, world = self._params, self._world
        produce, fetch = self._broker.live_demand(world.live[at], world.consumer_max[at])
        used = params.produce_work * produce + params.fetch_work * fetch
        return self._broker.oracle_rate(world.capacity[at], used)
