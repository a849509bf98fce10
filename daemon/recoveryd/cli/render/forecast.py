"""A forecast as people read it: the verdict and its sentence, how long, how fast, what is needed, what is lost, what it
costs.
"""

from typing import Any

from rich.table import Table

from recoveryd.cli.render import figures
from recoveryd.cli.render.tables import facts
from recoveryd.cli.status import Document

VERDICTS = {
    "retention_loss": "RETENTION_LOSS",
    "impractical_never": "IMPRACTICAL (never)",
    "impractical_slow": "IMPRACTICAL (slow)",
    "deadline_miss": "DEADLINE_MISS",
    "marginal": "MARGINAL",
    "ok": "OK",
}


def forecast_facts(data: Document) -> Table:
    """All of a forecast document, one fact under the other; what is not known is left out."""
    return facts(
        ("forecast", ", ".join(verdict(name) for name in data["outlooks"])),
        ("why", data["sentence"]),
        ("better", data["suggestion"]),
        ("takes", interval(data["eta_seconds"])),
        ("to a pinned end", _time(data["bounded_seconds"])),
        ("to a moving head", _time(data["moving_seconds"])),
        ("backlog", f"{figures.count(data['backlog_records'])} records"),
        ("replay rate", f"{_per_s(data['replay_records_per_s'])} ({data['replay_source']})"),
        ("live rate", _live(data)),
        ("speed-up", _times(data["speed_up"])),
        ("needed", _needed(data)),
        ("retention", _retention(data)),
        ("storage", _storage(data.get("storage"))),
        ("cost", _cost(data.get("cost"))),
    )


def verdict(name: str) -> str:
    return VERDICTS.get(name, name)


def interval(eta: Document) -> str:
    """`about 8 min (6 min to 12 min)`."""
    if eta["mid"] is None:
        return "for ever"
    if eta["lo"] == eta["mid"] == eta["hi"]:
        return _time(eta["mid"])
    return f"about {_time(eta['mid'])} ({_time(eta['lo'])} to {_time(eta['hi'])})"


def _time(seconds: float | None) -> str:
    return "never" if seconds is None else figures.duration(seconds)


def _per_s(rate: float) -> str:
    return f"{rate:,.0f} records/s" if rate >= 10 or rate == 0 else f"{rate:.3g} records/s"


def _live(data: Document) -> str | None:
    rate = data["live_records_per_s"]
    return None if rate is None else f"{_per_s(rate)} ({data['live_source']})"


def _times(speed_up: float | None) -> str | None:
    if speed_up is None:
        return None
    return f"{speed_up:,.0f} times real time" if speed_up >= 10 else f"{speed_up:.2f} times real time"


def _needed(data: Document) -> str | None:
    rate = data["required_records_per_s"]
    return None if rate is None else f"{_per_s(rate)} to be done in {_time(data['deadline_seconds'])}"


def _retention(data: Document) -> str | None:
    if data["lost_data_seconds"]:
        return f"{figures.duration(data['lost_data_seconds'])} of data deleted before the start"
    if data["loss_in_seconds"] is not None:
        return f"reaches the position in {figures.duration(data['loss_in_seconds'])}"
    slack = data["retention_slack_seconds"]
    return None if slack is None else f"{figures.duration(slack)} of slack now, and the copy stays ahead"


def _storage(storage: Any) -> str | None:
    if storage is None:
        return None
    text = f"{figures.size(storage['all_bytes'])} in all, {figures.size(storage['replica_bytes'])} a replica"
    each = storage["per_broker_bytes"]
    return text if each is None else f"{text}, {figures.size(each)} on each broker"


def _cost(cost: Any) -> str | None:
    if cost is None:
        return None
    parts = ", ".join(f"{name.replace('_', ' ')} {cost[name]:,.2f}" for name in ("compute", "network", "storage"))
    return f"{cost['total']:,.2f} {cost['currency']} ({parts}; live impact {cost['live_impact']:,.2f})"
