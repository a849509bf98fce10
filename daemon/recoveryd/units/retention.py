"""Whether the inputs of each unit are kept as long as its `retention_objective`: looked at all the time, so that
somebody hears of it before an incident and not during one.

What was seen is soft: a new daemon looks again, and tells again where an input is kept too short.
"""

from recoveryd.kernel.metrics import Metric, MetricKind
from recoveryd.units.draft import UnitsDraft
from recoveryd.units.events import RetentionSeen
from recoveryd.units.model import Unit

RETENTION_SHORT = Metric(
    "recoveryd_unit_retention_short",
    MetricKind.GAUGE,
    "1 where an input of the unit is kept shorter than its retention objective, else 0; absent while not known.",
    ("unit",),
)
_HOUR_MS = 3_600_000


def on_retention(draft: UnitsDraft, event: RetentionSeen) -> None:
    """Compare with the objective, and tell when the answer is another one than before."""
    unit = draft.units.get(event.unit)
    if unit is None or unit.retention_objective_ms is None:
        return
    objective_ms = unit.retention_objective_ms
    short = tuple(
        topic for topic in unit.inputs if (kept := event.kept_ms.get(topic)) is not None and kept < objective_ms
    )
    before = draft.short.get(event.unit)
    if event.unknown and not short:
        draft.short = {name: found for name, found in draft.short.items() if name != event.unit}
        return
    if before == short:
        return
    draft.short = {**draft.short, event.unit: short}
    if short:
        _tell(draft, unit, event, short)
    elif before:
        draft.notice(
            "unit_retention_met",
            unit.name,
            {"why": f"every input is kept {_hours(objective_ms)} or longer", "objective_ms": objective_ms},
        )


def _tell(draft: UnitsDraft, unit: Unit, event: RetentionSeen, short: tuple[str, ...]) -> None:
    objective_ms = unit.retention_objective_ms or 0
    kept = {topic: event.kept_ms[topic] for topic in short}
    worst = min(short, key=lambda topic: kept[topic] or 0)
    why = f"{worst} is kept for {_hours(kept[worst] or 0)}, the objective of {unit.name} is {_hours(objective_ms)}"
    draft.notice("unit_retention_short", unit.name, {"why": why, "objective_ms": objective_ms, "kept_ms": kept})
    draft.reason = why


def _hours(ms: int) -> str:
    return f"{ms / _HOUR_MS:g} h"
