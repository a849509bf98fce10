"""The numbers of the game day, in one place: the load, the SLOs, the faults. Times in s, sizes in bytes."""

from dataclasses import dataclass

TOPIC = "flights.live"
GROUP = "flights-board"
PARTITIONS = 4
HEALTH_NAME = "live_produce_p99"


@dataclass(frozen=True)
class Load:
    """Live traffic, and the backlog as minutes of it; both are in the same topic. The backlog keeps an unlimited run
    busy for most of a minute.
    """

    live_records_per_s: float = 4_000.0
    backlog_s: float = 1_000.0

    @property
    def backlog_records(self) -> int:
        return int(self.live_records_per_s * self.backlog_s)


@dataclass(frozen=True)
class Slos:
    """A second is violated when the p99 of the observer's acknowledgements, or the time lag of the protected group, is
    at or over its SLO.
    """

    p99_s: float
    lag_s: float


@dataclass(frozen=True)
class Faults:
    """The broker is stopped for `stop_s` of every `cycle_s`, during `slow_s`; telemetry is cut for `cut_s`. Each begins
    when its share of the copy is reached.
    """

    stop_s: float = 0.15
    cycle_s: float = 0.30
    slow_s: float = 12.0
    slow_at: float = 0.4
    cut_s: float = 60.0
    cut_at: float = 0.55


@dataclass(frozen=True)
class Scenario:
    """`fixed_share`: the fixed rate as a part of the unlimited run's rate. `most_bytes_per_s` bounds the controller."""

    load: Load = Load()
    faults: Faults = Faults()
    baseline_s: float = 45.0
    settle_s: float = 20.0
    idle_s: float = 30.0
    run_deadline_s: float = 600.0
    fixed_share: float = 0.5
    most_bytes_per_s: int = 60_000_000
    floor_bytes_per_s: int = 600_000
    latency_factor: float = 3.0
    latency_least_s: float = 0.020
    latency_most_s: float = 0.120  # below the length of a stop, so that a slow broker always shows
    lag_factor: float = 3.0
    lag_least_s: float = 5.0


def calibrated(scenario: Scenario, quiet_p99_s: float, quiet_lag_s: float) -> Slos:
    """SLOs from what the machine shows without a replay and without faults: a multiple of a usual bad second, within
    bounds.
    """
    p99_s = min(scenario.latency_most_s, max(scenario.latency_least_s, scenario.latency_factor * quiet_p99_s))
    return Slos(round(p99_s, 3), round(max(scenario.lag_least_s, scenario.lag_factor * quiet_lag_s), 1))
