"""Who reads what a copy writes: consumer groups and sink connectors, each with what a record that comes twice does
there.

What nobody has declared is unknown, never harmless, and has to be approved by somebody.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from recoveryd.recovery.model import Affected, Finding, Plan, Severity
from recoveryd.recovery.plan_facts import TargetReaders
from recoveryd.recovery.spec import Spec
from recoveryd.units.internal_topics import CHANGELOG, REPARTITION
from recoveryd.units.model import Behaviour, Unit, UnitKind, group_of_sink

UNKNOWN: Final = "unknown"
_WORST_FIRST: Final = (Behaviour.APPEND_ONLY, Behaviour.TRANSACTIONAL, Behaviour.IDEMPOTENT)
_NAMED_MOST: Final = 5
_LISTED_MOST: Final = 200  # the plan keeps them


def impact_of(spec: Spec, found: TargetReaders, units: Mapping[str, Unit]) -> tuple[Affected, ...]:
    """By name; a unit that reads its own internal topic is not affected by it."""
    topic = spec.target.topic
    here = [unit for unit in units.values() if unit.cluster == spec.target.cluster]
    by_group = {unit.consumer_group: unit for unit in here}
    own = {unit.consumer_group for unit in here if _is_own(unit, topic)}
    rows = {
        unit.consumer_group: _of_unit(unit, "config") for unit in here if topic in (*unit.inputs, *unit.intermediate)
    }
    for sink in found.sinks:
        group = group_of_sink(sink)
        rows[group] = _row(rows.get(group), by_group.get(group), Affected("sink", sink, None, UNKNOWN, None, "connect"))
    for group in found.groups:
        rows[group] = _row(
            rows.get(group), by_group.get(group), Affected("group", group, None, UNKNOWN, None, "cluster")
        )
    affected = (row for group, row in rows.items() if group not in own)
    return tuple(sorted(affected, key=lambda row: (row.behaviour != UNKNOWN, row.kind, row.name)))[:_LISTED_MOST]


def _row(known: Affected | None, unit: Unit | None, seen: Affected) -> Affected:
    if known is not None:
        return replace(known, seen_by=f"{known.seen_by}, {seen.seen_by}")
    return seen if unit is None else _of_unit(unit, seen.seen_by)


def _is_own(unit: Unit, topic: str) -> bool:
    """Streams begins names of internal topics with the application id."""
    return topic in (unit.internal_topics or ()) or (
        unit.kind is UnitKind.STREAMS
        and topic.startswith(f"{unit.group}-")
        and topic.endswith((REPARTITION, CHANGELOG))
    )


def _of_unit(unit: Unit, seen_by: str) -> Affected:
    kind = "sink" if unit.kind is UnitKind.CONNECT else "group"
    return Affected(kind, unit.group, unit.name, behaviour_of(unit), unit.owner, seen_by)


def behaviour_of(unit: Unit) -> str:
    """The worst of all that it writes; unknown where nobody has said it of one of them, or of anything."""
    told = [output.behaviour for output in unit.outputs.values()]
    told += [unit.sink_behaviour] if unit.sink_behaviour is not None or not told else []
    if None in told:
        return UNKNOWN
    return next(each.value for each in _WORST_FIRST if each in told)


def impact_findings(topic: str, rows: Sequence[Affected], found: TargetReaders) -> tuple[Finding, ...]:
    unknown = unknown_of(rows)
    told = [Finding("impact_untold", Severity.WARN, problem) for problem in found.problems]
    if unknown:
        message = f"{_named(unknown)} read {topic}, and nothing says what a record that comes twice does there"
        told.insert(0, Finding("impact_unknown", Severity.WARN, message))
    known = [row for row in rows if row.behaviour != UNKNOWN]
    if known:
        message = f"{_named(known)} read {topic}: {', '.join(sorted({row.behaviour for row in known}))}"
        told.append(Finding("impact", Severity.INFO, message))
    return tuple(told)


def unknown_of(rows: Sequence[Affected]) -> list[Affected]:
    return [row for row in rows if row.behaviour == UNKNOWN]


def approval_for_impact(plan: Plan) -> str | None:
    """Why a person has to look at it first, or None."""
    unknown = unknown_of(plan.impact)
    if not unknown:
        return None
    topic = plan.target.topic
    return f"nothing says what a record that comes twice does to {_named(unknown)}, which read {topic} (approval.unknown_readers)"


def _named(rows: Sequence[Affected]) -> str:
    more = f" and {len(rows) - _NAMED_MOST} more" if len(rows) > _NAMED_MOST else ""
    return ", ".join(f"{row.kind} {row.name}" for row in rows[:_NAMED_MOST]) + more
