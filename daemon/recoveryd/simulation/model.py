"""The modelled broker: a fluid, one second at a time.

Work is capacity used: a produced byte costs 1.5 (replication), a tail fetch 0.5, a replayed byte 1.0 (cold read). All
demand is served in the same proportion (FIFO, no priority). Produced bytes that are not served wait in a queue. Units:
capacity 100 = all that the modelled broker can do. `measured` replaces the formula of what is served, and how quickly,
by what a real broker showed.
"""

from dataclasses import dataclass

from recoveryd.simulation.response import Response

_ORACLE_UTILISATION = 0.95


@dataclass(frozen=True, slots=True)
class ModelParams:
    """Rates per second in capacity units, times in seconds. The defaults are one busy broker; `scale` enlarges
    everything alike. `response`: measured, instead of the formula.
    """

    scale: float = 1.0
    capacity: float = 100.0
    live: float = 20.0
    consumer_max: float = 40.0
    backlog: float = 48_000.0
    replay_max: float = 120.0
    produce_work: float = 1.5
    fetch_work: float = 0.5
    base_latency_s: float = 0.008
    utilisation_most: float = 0.985
    is_knee_squared: bool = False
    commit_every_s: int = 5
    slo_latency_s: float = 0.2
    slo_lag_s: float = 30.0
    signal_period_s: int = 2
    signal_delay_s: float = 3.0
    signal_jitter_s: float = 1.0
    signal_drop: float = 0.05
    noise: float = 1.0
    spikes: float = 0.0  # part of the latency samples that show up to twice the SLO, whatever the broker does
    slice_s: int = 10
    is_slice_interruptible: bool = True
    has_quota_actuator: bool = False
    has_live_signal: bool = False  # the live application tells its own p99, beside that of the canary
    baseline_error: float = 1.0  # factor by which the controller's p99 baseline is wrong
    warm_up_s: int = 120
    horizon_s: int = 9_000
    response: Response | None = None

    def scaled(self, amount: float) -> float:
        """A rate or size of the nominal model, at this scale."""
        return amount * self.scale


class Broker:
    """The state of the broker; `advance` moves it by one second. The time lag is measured against the *committed*
    offset, as monitoring tools do.
    """

    def __init__(self, params: ModelParams) -> None:
        self.params = params
        self.queue = 0.0  # produced bytes that wait
        self.produced = [0.0]  # cumulative, at the end of each second
        self.consumed = 0.0
        self.committed = 0.0
        self.replayed = 0.0
        self.served_live = 0.0
        self.served_replay = 0.0
        self.latency_s = params.base_latency_s
        self.live_latency_s = params.base_latency_s  # as the live application measures it itself
        self._oldest = 0  # second in which the first uncommitted record was produced

    def live_demand(self, live: float, consumer_max: float) -> tuple[float, float]:
        """Produce and tail fetch wanted in this second."""
        return live + self.queue, max(0.0, min(consumer_max, self.produced[-1] - self.consumed))

    def advance(self, capacity: float, live: float, consumer_max: float, replay: float) -> None:
        """One second in which the replay wants `replay` bytes. `consumer_max` is 0 while the group rebalances (it then
        commits nothing).
        """
        params = self.params
        produce, fetch = self.live_demand(live, consumer_max)
        live_work = params.produce_work * produce + params.fetch_work * fetch
        share, replay_share, latency_s = self.serve(capacity, live_work, replay)
        served = produce * share
        self.queue = produce - served
        self.served_live, self.served_replay = served, replay * replay_share
        self.replayed += self.served_replay
        self.produced.append(self.produced[-1] + served)
        self.consumed += fetch * share
        if consumer_max > 0 and len(self.produced) % params.commit_every_s == 0:
            self.committed = self.consumed
        self.latency_s = latency_s + (self.queue / served if served > 0 else 0.0)
        self.live_latency_s = self.latency_s

    def serve(self, capacity: float, live_work: float, replay: float) -> tuple[float, float, float]:
        """What part of live traffic and of the replay is served in this second, and the p99 of what is."""
        params = self.params
        demand = live_work + replay
        share = 1.0 if demand <= capacity else capacity / demand
        busy = min(demand / capacity, params.utilisation_most)
        head_room = 1 - busy**2 if params.is_knee_squared else 1 - busy
        return share, share, params.base_latency_s / head_room

    def oracle_rate(self, capacity: float, live_work: float) -> float:
        """The highest rate that does no harm, for who knows everything: it keeps the broker at 95 %."""
        return max(0.0, _ORACLE_UTILISATION * capacity - live_work)

    def lag_s(self) -> float:
        """Age of the first record after the committed offset."""
        produced = self.produced
        oldest = self._oldest
        last = len(produced) - 1
        while oldest < last and produced[oldest + 1] <= self.committed:
            oldest += 1
        self._oldest = oldest
        if oldest >= last:
            return 0.0
        step = produced[oldest + 1] - produced[oldest]
        return last - oldest - ((self.committed - produced[oldest]) / step if step > 0 else 0.0)
