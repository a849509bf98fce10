"""The replay contract of a unit: the six things that decide whether its inputs can be processed again and give the
same, each told or missing.

Reading from the beginning is not a recovery: the log must reach back far enough, offsets must mean what they say,
topics must be cut for it, records must still be readable, the code must give the same again, and writing it again must
do no harm.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.units.facts import UnitFacts
from recoveryd.units.findings import Grade
from recoveryd.units.model import Behaviour, ClauseName, Unit

_HOUR_MS: Final = 3_600_000
_NAMED_MOST: Final = 5
_VERSION_CHARS: Final = 12
_OF_CLUSTER: Final = (ClauseName.RETENTION, ClauseName.OFFSETS, ClauseName.TOPIC_DESIGN)


@dataclass(frozen=True, slots=True)
class ContractClause:
    """`state` unknown = nobody has said it, and it cannot be seen."""

    name: ClauseName
    state: Grade
    told: str


@dataclass(frozen=True, slots=True)
class UnitContract:
    """As a plan found it. `version` is that of what the config declares: the same words have the same one, always."""

    unit: str
    version: str
    clauses: tuple[ContractClause, ...]

    @property
    def problems(self) -> tuple[ContractClause, ...]:
        """Clauses that are missing or bad."""
        return tuple(clause for clause in self.clauses if clause.state is not Grade.OK)

    def told(self, clause: ContractClause) -> str:
        return f"{clause.name} of the contract of {self.unit} (version {self.version}) is {clause.state.value}: {clause.told}"


def look_at_contract(unit: Unit, facts: UnitFacts | None) -> UnitContract:
    """`facts` None = its cluster was not asked, or did not answer."""
    if facts is not None:
        return UnitContract(unit.name, version_of(unit), make_contract(unit, facts))
    untold = tuple(ContractClause(name, Grade.UNKNOWN, "the cluster did not say") for name in _OF_CLUSTER)
    return UnitContract(unit.name, version_of(unit), (*untold, _schema(unit), _determinism(unit), _outputs(unit)))


def version_of(unit: Unit) -> str:
    declared = {
        "inputs": sorted(unit.inputs),
        "retention_objective_ms": unit.retention_objective_ms,
        "schema": unit.schema,
        "deterministic": unit.is_deterministic,
        "outputs": {name: output.behaviour for name, output in unit.outputs.items()},
    }
    return hashlib.sha256(json.dumps(declared, sort_keys=True).encode()).hexdigest()[:_VERSION_CHARS]


def requires_cluster(unit: Unit) -> bool:
    """Whether the config requires a clause that only the cluster can tell: without its answer each plan is refused."""
    return not set(_OF_CLUSTER).isdisjoint(unit.required_clauses)


def refuse_contract(unit: Unit, contract: UnitContract) -> Refused | None:
    """By what the config requires: the first clause that is missing or bad."""
    required = next((clause for clause in contract.problems if clause.name in unit.required_clauses), None)
    if required is None:
        return None
    hint = (
        f"See `recoveryctl unit contract {unit.name}`; mend what it names, or take the clause out of required_clauses."
    )
    return Refused(Code.CONTRACT_OPEN, contract.told(required), hint)


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
        return ContractClause(ClauseName.RETENTION, Grade.FAIL, "some of its inputs do not exist")
    kept = {topic.name: topic.retention_ms for topic in known}
    shortest = min((ms for ms in kept.values() if ms is not None), default=None)
    told = "inputs are kept for ever" if shortest is None else f"inputs are kept for {shortest / _HOUR_MS:g} h"
    if unit.retention_objective_ms is None:
        return ContractClause(ClauseName.RETENTION, Grade.WARN, f"{told}; no objective says how long they have to be")
    wanted = f"{told}, the objective is {unit.retention_objective_ms / _HOUR_MS:g} h"
    if shortest is not None and shortest < unit.retention_objective_ms:
        return ContractClause(ClauseName.RETENTION, Grade.FAIL, wanted)
    sized = [topic.name for topic in known if topic.is_kept_by_size]
    if sized:
        message = f"{wanted}; {_listed(sized)} may lose records sooner, by retention.bytes"
        return ContractClause(ClauseName.RETENTION, Grade.WARN, message)
    return ContractClause(ClauseName.RETENTION, Grade.OK, wanted)


def _offsets(unit: Unit, facts: UnitFacts) -> ContractClause:
    if facts.group is None:
        return ContractClause(ClauseName.OFFSETS, Grade.WARN, f"the cluster has no group {unit.consumer_group}")
    names = [name for name in unit.positioned_inputs if name in facts.topics]
    bare = [name for name in names if not facts.group.committed.get(name)]
    if bare:
        return ContractClause(ClauseName.OFFSETS, Grade.WARN, f"no offset is committed on {_listed(bare)}")
    outside = [
        f"{name} {partition}"
        for name in names
        for partition, at in facts.group.committed[name].items()
        if (ends := facts.topics[name].ends.get(partition)) is None
        or not ends.log_start <= at.offset <= ends.high_watermark
    ]
    if outside:
        return ContractClause(
            ClauseName.OFFSETS, Grade.FAIL, f"committed offsets lie outside the log: {_listed(outside)}"
        )
    unread = [
        f"{name} {partition}"
        for name in names
        for partition, ends in facts.topics[name].ends.items()
        if ends.records_most and partition not in facts.group.committed[name]
    ]
    if unread:
        return ContractClause(ClauseName.OFFSETS, Grade.WARN, f"no offset is committed on {_listed(unread)}")
    return ContractClause(ClauseName.OFFSETS, Grade.OK, "committed on every input, inside the log")


def _topic_design(unit: Unit, facts: UnitFacts) -> ContractClause:
    compacted = [name for name in unit.inputs if name in facts.topics and facts.topics[name].is_compacted]
    if compacted:
        message = (
            f"{_listed(compacted)} is compacted: what lies back is the last value of each key, not what was read then"
        )
        return ContractClause(ClauseName.TOPIC_DESIGN, Grade.WARN, message)
    return ContractClause(ClauseName.TOPIC_DESIGN, Grade.OK, "no input is compacted")


def _schema(unit: Unit) -> ContractClause:
    if unit.schema is None:
        return ContractClause(ClauseName.SCHEMA, Grade.UNKNOWN, "nothing says which schemas its inputs had and have")
    return ContractClause(ClauseName.SCHEMA, Grade.OK, unit.schema)


def _determinism(unit: Unit) -> ContractClause:
    if unit.is_deterministic is None:
        return ContractClause(
            ClauseName.DETERMINISM, Grade.UNKNOWN, "nothing says whether the same input gives the same output"
        )
    if not unit.is_deterministic:
        return ContractClause(ClauseName.DETERMINISM, Grade.WARN, "the same input may give another output")
    return ContractClause(ClauseName.DETERMINISM, Grade.OK, "the same input gives the same output")


def _outputs(unit: Unit) -> ContractClause:
    name = ClauseName.OUTPUT_IDEMPOTENCE
    undeclared = [topic for topic, output in unit.outputs.items() if output.behaviour is None]
    appended = [topic for topic, output in unit.outputs.items() if output.behaviour is Behaviour.APPEND_ONLY]
    if undeclared:
        return ContractClause(name, Grade.UNKNOWN, f"nothing says what writing twice does on {_listed(undeclared)}")
    if appended:
        return ContractClause(
            name, Grade.WARN, f"{_listed(appended)} is append only: processed again, it holds records twice"
        )
    return ContractClause(
        name, Grade.OK, "every output takes the same record twice" if unit.outputs else "it has no outputs"
    )


def _listed(names: Iterable[str]) -> str:
    """A plan keeps it, so it has a bound."""
    known = list(names)
    more = len(known) - _NAMED_MOST
    return ", ".join(known[:_NAMED_MOST]) + (f" and {more} more" if more > 0 else "")
