"""The replay contract of a unit: the six things that decide whether its inputs can be processed again and give the
same, each told or missing.

Reading from the beginning is not a recovery: the log must reach back far enough, offsets must mean what they say,
topics must be cut for it, records must still be readable, the code must give the same again, and writing it again must
do no harm.
"""

from dataclasses import dataclass
from typing import Final

from recoveryd.units.facts import UnitFacts
from recoveryd.units.findings import Grade
from recoveryd.units.model import Behaviour, Unit

_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class ContractClause:
    """`state` unknown = nobody has said it, and it cannot be seen."""

    name: str
    state: Grade
    told: str


def make_contract(unit: Unit, facts: UnitFacts) -> tuple[ContractClause, ...]:
    """Retention, offsets, topic design, schema, determinism, output idempotence, in this order."""
    return (
        _retention(unit, facts),
        _offsets(unit, facts),
        _topic_design(unit, facts),
        _schema(unit),
        _determinism(unit),
        _outputs(unit),
    )


def _retention(unit: Unit, facts: UnitFacts) -> ContractClause:
    known = [facts.topics[name] for name in unit.inputs if name in facts.topics]
    if len(known) < len(unit.inputs):
        return ContractClause("retention", Grade.FAIL, "some of its inputs do not exist")
    kept = {topic.name: topic.retention_ms for topic in known}
    shortest = min((ms for ms in kept.values() if ms is not None), default=None)
    told = "inputs are kept for ever" if shortest is None else f"inputs are kept for {shortest / _HOUR_MS:g} h"
    if unit.retention_objective_ms is None:
        return ContractClause("retention", Grade.WARN, f"{told}; no objective says how long they have to be")
    wanted = f"{told}, the objective is {unit.retention_objective_ms / _HOUR_MS:g} h"
    if shortest is not None and shortest < unit.retention_objective_ms:
        return ContractClause("retention", Grade.FAIL, wanted)
    sized = [topic.name for topic in known if topic.is_kept_by_size]
    if sized:
        message = f"{wanted}; {', '.join(sized)} may lose records sooner, by retention.bytes"
        return ContractClause("retention", Grade.WARN, message)
    return ContractClause("retention", Grade.OK, wanted)


def _offsets(unit: Unit, facts: UnitFacts) -> ContractClause:
    if facts.group is None:
        return ContractClause("offsets", Grade.WARN, f"the cluster has no group {unit.consumer_group}")
    names = [name for name in unit.inputs if name in facts.topics]
    bare = [name for name in names if not facts.group.committed.get(name)]
    if bare:
        return ContractClause("offsets", Grade.WARN, f"no offset is committed on {', '.join(bare)}")
    outside = [
        f"{name} {partition}"
        for name in names
        for partition, at in facts.group.committed[name].items()
        if (ends := facts.topics[name].ends.get(partition)) is None
        or not ends.log_start <= at.offset <= ends.high_watermark
    ]
    if outside:
        return ContractClause("offsets", Grade.FAIL, f"committed offsets lie outside the log: {', '.join(outside[:5])}")
    unread = [
        f"{name} {partition}"
        for name in names
        for partition, ends in facts.topics[name].ends.items()
        if ends.records_most and partition not in facts.group.committed[name]
    ]
    if unread:
        return ContractClause("offsets", Grade.WARN, f"no offset is committed on {', '.join(unread[:5])}")
    return ContractClause("offsets", Grade.OK, "committed on every input, inside the log")


def _topic_design(unit: Unit, facts: UnitFacts) -> ContractClause:
    compacted = [name for name in unit.inputs if name in facts.topics and facts.topics[name].is_compacted]
    if compacted:
        message = (
            f"{', '.join(compacted)} is compacted: what lies back is the last value of each key, not what was read then"
        )
        return ContractClause("topic_design", Grade.WARN, message)
    return ContractClause("topic_design", Grade.OK, "no input is compacted")


def _schema(unit: Unit) -> ContractClause:
    if unit.schema is None:
        return ContractClause("schema", Grade.UNKNOWN, "nothing says which schemas its inputs had and have")
    return ContractClause("schema", Grade.OK, unit.schema)


def _determinism(unit: Unit) -> ContractClause:
    if unit.is_deterministic is None:
        return ContractClause("determinism", Grade.UNKNOWN, "nothing says whether the same input gives the same output")
    if not unit.is_deterministic:
        return ContractClause("determinism", Grade.WARN, "the same input may give another output")
    return ContractClause("determinism", Grade.OK, "the same input gives the same output")


def _outputs(unit: Unit) -> ContractClause:
    name = "output_idempotence"
    undeclared = [topic for topic, output in unit.outputs.items() if output.behaviour is None]
    appended = [topic for topic, output in unit.outputs.items() if output.behaviour is Behaviour.APPEND_ONLY]
    if undeclared:
        return ContractClause(name, Grade.UNKNOWN, f"nothing says what writing twice does on {', '.join(undeclared)}")
    if appended:
        return ContractClause(
            name, Grade.WARN, f"{', '.join(appended)} is append only: processed again, it holds records twice"
        )
    return ContractClause(
        name, Grade.OK, "every output takes the same record twice" if unit.outputs else "it has no outputs"
    )
