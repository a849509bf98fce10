"""A forecast as shown and stored: finite numbers, None for never, one sentence, a suggestion, storage and cost.

`Forecast` is the result of the formulas and may hold infinities; the view is what a plan stores, an event says and a
screen shows. It is built only here, so that a plan, a running recovery and `recoveryctl forecast` agree.
"""

from dataclasses import dataclass, field

from recoveryd.forecast.completion import Forecast, ForecastRates, Work, duration_s
from recoveryd.forecast.cost import Pricing, Usage, estimate_cost
from recoveryd.kernel.numbers import finite
from recoveryd.kernel.written import TimeMs, named


@dataclass(frozen=True, slots=True)
class CostView:
    """In the currency of the config; parts without a price are 0."""

    currency: str
    compute: float
    network: float
    storage: float
    live_impact: float
    total: float


@dataclass(frozen=True, slots=True)
class Storage:
    """Bytes that the copy needs: for one replica, for all, and on each broker if spread evenly (None = number of
    brokers unknown).
    """

    replica_bytes: int
    all_bytes: int
    per_broker_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class EtaRange:
    """None = never."""

    lo: float | None
    mid: float | None
    hi: float | None


@dataclass(frozen=True, slots=True)
class ForecastView:
    """Times in seconds, rates in records/s. `eta_seconds`, `bounded_s`, `moving_s`: None = never. Elsewhere None = not
    known, not asked for, or no danger.
    """

    outlook: str
    outlooks: tuple[str, ...]
    sentence: str
    suggestion: str
    is_moving: bool = field(metadata=named("moving_head"))
    eta_seconds: EtaRange
    bounded_s: float | None = field(metadata=named("bounded_seconds"))
    moving_s: float | None = field(metadata=named("moving_seconds"))
    speed_up: float | None
    window_s: float | None = field(metadata=named("window_seconds"))
    backlog: float = field(metadata=named("backlog_records"))
    replay_per_s: float = field(metadata=named("replay_records_per_s"))
    live_per_s: float | None = field(metadata=named("live_records_per_s"))
    rate_source: str = field(default="configured", metadata=named("replay_source"))  # measured | configured
    live_source: str = "unknown"  # sampled | log times | given | unknown
    required_per_s: float | None = field(default=None, metadata=named("required_records_per_s"))
    deadline_s: float | None = field(default=None, metadata=named("deadline_seconds"))
    extra_share: float | None = None
    loss_in_s: float | None = field(default=None, metadata=named("loss_in_seconds"))
    slack_s: float | None = field(
        default=None, metadata=named("retention_slack_seconds")
    )  # seconds until the loss if nothing is copied
    lost_data_s: float = field(default=0.0, metadata=named("lost_data_seconds"))
    partition: int | None = None  # the slowest
    storage: Storage | None = None
    cost: CostView | None = None
    at_ms: TimeMs | None = field(default=None, metadata=named("at"))


def make_view(forecast: Forecast, work: Work, rates: ForecastRates) -> ForecastView:
    """The view of `forecast`; `work` and `rates` are those of the whole job. Callers put in what else they know with
    `replace`.
    """
    pinned = Work(work.backlog, work.window_s, is_moving=False, startup_s=work.startup_s)
    moving = Work(work.backlog, work.window_s, is_moving=True, startup_s=work.startup_s)
    bounded_s, moving_s = duration_s(pinned, rates.replay, rates.live), _moving_s(moving, rates)
    return ForecastView(
        outlook=forecast.outlook.value,
        outlooks=tuple(o.value for o in forecast.outlooks),
        sentence=forecast.why,
        suggestion=forecast.suggestion,
        is_moving=work.is_moving,
        eta_seconds=EtaRange(
            finite(forecast.seconds_lo, 1), finite(forecast.seconds, 1), finite(forecast.seconds_hi, 1)
        ),
        bounded_s=finite(bounded_s, 1),
        moving_s=finite(moving_s, 1),
        speed_up=finite(forecast.speed_up, 4),
        window_s=finite(work.window_s, 1) if work.window_s > 0 else None,
        backlog=work.backlog,
        replay_per_s=rates.replay,
        live_per_s=rates.live,
        required_per_s=finite(forecast.required_rate, 3),
        extra_share=finite(forecast.extra_share, 6) if work.is_moving else None,
        loss_in_s=finite(forecast.loss_in_s, 1),
        lost_data_s=forecast.lost_data_s,
        partition=forecast.partition,
    )


def _moving_s(work: Work, rates: ForecastRates) -> float:
    return duration_s(work, rates.replay, rates.live, rates.profile)


def storage_of(replica_bytes: float, replication_factor: int, brokers: int | None = None) -> Storage:
    """The storage for `replica_bytes` with so many replicas, spread evenly over `brokers`."""
    every = replica_bytes * replication_factor
    return Storage(round(replica_bytes), round(every), None if not brokers else round(every / brokers))


def cost_of(usage: Usage, pricing: Pricing) -> CostView | None:
    """None when nothing has a price."""
    if not pricing.is_known:
        return None
    cost = estimate_cost(usage, pricing.prices)
    return CostView(
        pricing.currency,
        round(cost.compute, 4),
        round(cost.network_in + cost.network_out, 4),
        round(cost.storage, 4),
        round(cost.live_impact, 4),
        round(cost.total, 4),
    )
