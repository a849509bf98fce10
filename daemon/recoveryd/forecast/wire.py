"""A forecast as JSON values and back: the `forecast` of a plan, of a running recovery, of an event, and of `recoveryctl forecast -o json`."""

from typing import Any

from recoveryd.forecast.view import CostView, ForecastView, Storage
from recoveryd.kernel.times import format_time_ms, parse_time_ms


def forecast_to_data(view: ForecastView) -> dict[str, Any]:
    """Every field, units last in the names; null = never for the times, else not known or not asked."""
    return {
        "outlook": view.outlook,
        "outlooks": list(view.outlooks),
        "sentence": view.sentence,
        "suggestion": view.suggestion,
        "moving_head": view.is_moving,
        "eta_seconds": {"lo": view.lo_s, "mid": view.mid_s, "hi": view.hi_s},
        "bounded_seconds": view.bounded_s,
        "moving_seconds": view.moving_s,
        "speed_up": view.speed_up,
        "window_seconds": view.window_s,
        "backlog_records": view.backlog,
        "replay_records_per_s": view.replay_per_s,
        "replay_source": view.rate_source,
        "live_records_per_s": view.live_per_s,
        "live_source": view.live_source,
        "required_records_per_s": view.required_per_s,
        "deadline_seconds": view.deadline_s,
        "extra_share": view.extra_share,
        "loss_in_seconds": view.loss_in_s,
        "retention_slack_seconds": view.slack_s,
        "lost_data_seconds": view.lost_data_s,
        "partition": view.partition,
        "storage": None if view.storage is None else _storage(view.storage),
        "cost": None if view.cost is None else _cost(view.cost),
        "at": format_time_ms(view.at_ms) if view.at_ms else None,
    }


def forecast_from_data(data: dict[str, Any]) -> ForecastView:
    """The inverse; fields an older release did not write get their defaults."""
    eta, storage, cost = data["eta_seconds"], data.get("storage"), data.get("cost")
    return ForecastView(
        outlook=data["outlook"],
        outlooks=tuple(data["outlooks"]),
        sentence=data["sentence"],
        suggestion=data["suggestion"],
        is_moving=data["moving_head"],
        lo_s=eta["lo"],
        mid_s=eta["mid"],
        hi_s=eta["hi"],
        bounded_s=data["bounded_seconds"],
        moving_s=data["moving_seconds"],
        speed_up=data["speed_up"],
        window_s=data["window_seconds"],
        backlog=data["backlog_records"],
        replay_per_s=data["replay_records_per_s"],
        rate_source=data["replay_source"],
        live_per_s=data["live_records_per_s"],
        live_source=data["live_source"],
        required_per_s=data["required_records_per_s"],
        deadline_s=data["deadline_seconds"],
        extra_share=data["extra_share"],
        loss_in_s=data["loss_in_seconds"],
        slack_s=data["retention_slack_seconds"],
        lost_data_s=data["lost_data_seconds"],
        partition=data["partition"],
        storage=None
        if storage is None
        else Storage(storage["replica_bytes"], storage["all_bytes"], storage["per_broker_bytes"]),
        cost=None if cost is None else CostView(**{name: cost[name] for name in _COST_FIELDS}),
        at_ms=0 if data.get("at") is None else parse_time_ms(data["at"]),
    )


_COST_FIELDS = ("currency", "compute", "network", "storage", "live_impact", "total")


def _storage(storage: Storage) -> dict[str, int | None]:
    return {
        "replica_bytes": storage.replica_bytes,
        "all_bytes": storage.all_bytes,
        "per_broker_bytes": storage.per_broker_bytes,
    }


def _cost(cost: CostView) -> dict[str, Any]:
    return {name: getattr(cost, name) for name in _COST_FIELDS}
