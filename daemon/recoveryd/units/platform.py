"""Is a platform ready for recoveries? Seven questions, each answered as strong or weak with what shows it; what could
not be seen is unknown and never counts as strong.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from recoveryd.units.facts import UnitFacts
from recoveryd.units.model import Unit

NEEDED_APIS: Final[Mapping[int, str]] = {
    22: "transactional producers (InitProducerId)",
    23: "leader epochs (OffsetForLeaderEpoch)",
    44: "configs one by one (IncrementalAlterConfigs)",
    47: "deleting commits (OffsetDelete)",
    48: "quotas (DescribeClientQuotas)",
    49: "quotas (AlterClientQuotas)",
    61: "who wrote a partition (DescribeProducers)",
    66: "open transactions (ListTransactions)",
}
REASSIGN: Final = 45  # AlterPartitionReassignments
_NAMED_MOST: Final = 3


class Signal(StrEnum):
    STRONG = "strong"
    WEAK = "weak"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PlatformRow:
    name: str
    signal: Signal
    evidence: str


@dataclass(frozen=True, slots=True)
class PlatformSeen:
    """`apis`: keys of the requests that every broker answers. `brokers`: the rack of each by id, None = it has none.
    `broker_configs` of one broker; None = they may not be read. `leaders`: by input, how many brokers lead its
    partitions. `units` without facts could not be looked at. `daemon`: what it answered; None = nothing.
    """

    apis: frozenset[int] | None
    brokers: Mapping[int, str | None]
    broker_configs: Mapping[str, str] | None
    client_rack: str | None
    units: Mapping[str, tuple[Unit, UnitFacts | None]] = field(default_factory=dict)
    topic_leaders: Mapping[str, int] = field(default_factory=dict)
    watched: tuple[str, ...] = ()
    daemon: str | None = None


def judge_platform(seen: PlatformSeen) -> tuple[PlatformRow, ...]:
    """Compatibility, replay boundary, cost, elasticity, governance, migration risk, observability."""
    return (
        _compatibility(seen),
        _boundary(seen),
        _cost(seen),
        _elasticity(seen),
        _governance(seen),
        _migration(seen),
        _observability(seen),
    )


def _compatibility(seen: PlatformSeen) -> PlatformRow:
    name = "compatibility"
    if seen.apis is None:
        return PlatformRow(name, Signal.UNKNOWN, "the brokers did not say which requests they answer")
    lacking = [word for key, word in NEEDED_APIS.items() if key not in seen.apis]
    if lacking:
        return PlatformRow(name, Signal.WEAK, f"brokers do not answer {_some(lacking)}")
    return PlatformRow(name, Signal.STRONG, f"every broker answers the {len(NEEDED_APIS)} requests beyond basic ones")


def _boundary(seen: PlatformSeen) -> PlatformRow:
    name, weak, unseen, kept = "replay_boundary", [], [], 0
    for unit, facts in seen.units.values():
        if unit.retention_objective_ms is None:
            weak.append(f"{unit.name} has no retention_objective")
            continue
        if facts is None:
            unseen.append(unit.name)
            continue
        for topic in unit.inputs:
            found = facts.topics.get(topic)
            if found is None:
                weak.append(f"{topic} does not exist")
            elif found.is_kept_by_size:
                weak.append(f"{topic} loses records by size")
            elif found.retention_ms is not None and found.retention_ms < unit.retention_objective_ms:
                weak.append(f"{topic} is kept shorter than {unit.name} needs")
            else:
                kept += 1
    return _of_units(seen, name, weak, unseen, f"{kept} inputs are kept as long as their units need")


def _cost(seen: PlatformSeen) -> PlatformRow:
    """What a replay costs besides time: traffic between zones."""
    name, racks = "cost", {rack for rack in seen.brokers.values() if rack}
    if len(seen.brokers) == 1:
        return PlatformRow(name, Signal.STRONG, "one broker: no traffic crosses zones")
    if not racks:
        return PlatformRow(name, Signal.UNKNOWN, "brokers have no broker.rack, so traffic between zones is not told")
    if len(racks) == 1:
        return PlatformRow(name, Signal.STRONG, f"every broker is in {next(iter(racks))}")
    if seen.broker_configs is None:
        return PlatformRow(name, Signal.UNKNOWN, f"{len(racks)} racks, and the configs of brokers may not be read")
    lacks = []
    if not seen.broker_configs.get("replica.selector.class"):
        lacks.append("brokers have no replica.selector.class")
    if seen.client_rack is None:
        lacks.append("the config has no client.rack")
    if lacks:
        return PlatformRow(name, Signal.WEAK, f"{len(racks)} racks, and reads cross them: {_some(lacks)}")
    return PlatformRow(name, Signal.STRONG, f"{len(racks)} racks, and lanes in {seen.client_rack} read near by")


def _elasticity(seen: PlatformSeen) -> PlatformRow:
    name = "elasticity"
    if len(seen.brokers) < 2:
        return PlatformRow(name, Signal.WEAK, "one broker: a catch-up has nowhere to go but beside live traffic")
    narrow = [
        f"{topic} is led by {leaders} of {len(seen.brokers)} brokers"
        for topic, leaders in seen.topic_leaders.items()
        if leaders < len(seen.brokers)
    ]
    if narrow:
        return PlatformRow(name, Signal.WEAK, _some(narrow))
    if seen.apis is None or not seen.topic_leaders:
        return PlatformRow(name, Signal.UNKNOWN, f"{len(seen.brokers)} brokers; no input of a unit was looked at")
    if REASSIGN not in seen.apis:
        return PlatformRow(name, Signal.WEAK, "partitions cannot be moved by a request")
    return PlatformRow(name, Signal.STRONG, f"inputs are spread over {len(seen.brokers)} brokers, and can be moved")


def _governance(seen: PlatformSeen) -> PlatformRow:
    name, units = "governance", [unit for unit, _ in seen.units.values()]
    weak = [f"{unit.name} has no owner" for unit in units if unit.owner is None]
    weak += [f"{unit.name} has no approvers" for unit in units if not unit.approvers]
    if seen.broker_configs is not None:
        weak += [] if seen.broker_configs.get("authorizer.class.name") else ["brokers have no authorizer"]
        if seen.broker_configs.get("auto.create.topics.enable") == "true":
            weak.append("a misspelt topic is created (auto.create.topics.enable)")
    if weak:
        return PlatformRow(name, Signal.WEAK, _some(weak))
    if seen.broker_configs is None or not units:
        what = "the config names no units" if not units else "the configs of brokers may not be read"
        return PlatformRow(name, Signal.UNKNOWN, what)
    return PlatformRow(name, Signal.STRONG, f"an authorizer, and owners and approvers of {len(units)} units")


def _migration(seen: PlatformSeen) -> PlatformRow:
    """Whether applications could go on elsewhere with what is here."""
    name, weak = "migration_risk", []
    for unit, facts in seen.units.values():
        weak += [f"the schema of {unit.name} is not told"] if unit.schema is None else []
        if facts is None:
            continue
        weak += [f"whose {topic} is, is not certain" for topic, _ in facts.internal.ambiguous]
        weak += [
            f"{topic.name} has the times of this cluster (LogAppendTime)"
            for topic in facts.topics.values()
            if topic.name in unit.inputs and topic.configs.get("message.timestamp.type") == "LogAppendTime"
        ]
    unseen = [unit.name for unit, facts in seen.units.values() if facts is None]
    return _of_units(seen, name, weak, unseen, f"topics, times and schemas of {len(seen.units)} units can move")


def _observability(seen: PlatformSeen) -> PlatformRow:
    name = "observability"
    if seen.daemon is None:
        return PlatformRow(name, Signal.UNKNOWN, "no daemon answered with its metrics; give --http URL")
    if not seen.watched:
        return PlatformRow(name, Signal.WEAK, f"{seen.daemon}, but `monitor:` of the config watches nothing")
    return PlatformRow(name, Signal.STRONG, f"{seen.daemon}, and `monitor:` watches {_some(seen.watched)}")


def _of_units(seen: PlatformSeen, name: str, weak: list[str], unseen: list[str], strong: str) -> PlatformRow:
    """One weak unit is enough; `strong` holds only when every unit was looked at, and there are some."""
    if weak:
        return PlatformRow(name, Signal.WEAK, _some(weak))
    if unseen:
        return PlatformRow(name, Signal.UNKNOWN, f"not looked at: {_some(unseen)}")
    if not seen.units:
        return PlatformRow(name, Signal.UNKNOWN, "the config names no units on this cluster")
    return PlatformRow(name, Signal.STRONG, strong)


def _some(words: "list[str] | tuple[str, ...]") -> str:
    return ", ".join(_first(words))


def _first(words: "list[str] | tuple[str, ...]") -> Iterator[str]:
    yield from words[:_NAMED_MOST]
    if len(words) > _NAMED_MOST:
        yield f"and {len(words) - _NAMED_MOST} more"
