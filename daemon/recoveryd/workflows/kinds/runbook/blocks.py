"""Five things that have to be known before an application is recovered, and what comes of it where one is not known."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from recoveryd.units.contract import ContractClause, make_contract
from recoveryd.units.facts import UnitFacts
from recoveryd.units.findings import Grade
from recoveryd.units.lint import is_stateful
from recoveryd.units.model import ClauseName, Unit
from recoveryd.workflows.kinds.runbook.truths import Alignment, TruthVerdict
from recoveryd.workflows.machine.kind import Around
from recoveryd.workflows.model.spec import RunbookSpec

_IF_UNKNOWN: Final[Mapping[str, str]] = {
    "retention": "recovery falls back to exports of the source system, or repairs only a part",
    "state": "a restart goes on with a state that does not fit",
    "output": "rows are written twice, are missing, or tables do not fit each other",
    "headroom": "the catch-up delays live traffic",
    "ownership": "the incident stands still while people find out who may decide",
}
_ORDER: Final = (Grade.FAIL, Grade.UNKNOWN, Grade.WARN, Grade.OK)


@dataclass(frozen=True, slots=True)
class DependencyBlock:
    """`if_unknown`: what comes of it, of one that is not well known."""

    name: str
    state: Grade
    told: str

    @property
    def if_unknown(self) -> str:
        return "" if self.state in {Grade.OK, Grade.WARN} else _IF_UNKNOWN[self.name]


def make_blocks(
    unit: Unit, facts: UnitFacts, alignment: Alignment, spec: RunbookSpec, around: Around
) -> tuple[DependencyBlock, ...]:
    """Retention, state, output, headroom, ownership."""
    clauses = {clause.name: clause for clause in make_contract(unit, facts)}
    return (
        _worst(
            "retention", clauses[ClauseName.RETENTION], clauses[ClauseName.OFFSETS], clauses[ClauseName.TOPIC_DESIGN]
        ),
        _state(unit, facts, alignment, spec, clauses[ClauseName.DETERMINISM]),
        _worst("output", clauses[ClauseName.OUTPUT_IDEMPOTENCE], clauses[ClauseName.SCHEMA]),
        _headroom(around),
        _ownership(unit),
    )


def _worst(name: str, *clauses: ContractClause) -> DependencyBlock:
    worst = min((clause.state for clause in clauses), key=_ORDER.index)
    told = [clause.told for clause in clauses if clause.state is worst]
    return DependencyBlock(name, worst, "; ".join(told))


def _state(
    unit: Unit, facts: UnitFacts, alignment: Alignment, spec: RunbookSpec, determinism: ContractClause
) -> DependencyBlock:
    kept = is_stateful(unit, facts)
    if kept is False:
        return DependencyBlock("state", Grade.OK, f"{unit.name} keeps none")
    if alignment.verdict is TruthVerdict.STATE_STALE:
        doubt = f"; of the savepoint {spec.savepoint}: {spec.doubt}" if spec.doubt else ""
        return DependencyBlock("state", Grade.WARN, alignment.told + doubt)
    if spec.doubt:
        return DependencyBlock("state", Grade.WARN, f"the savepoint {spec.savepoint} is there, but {spec.doubt}")
    if spec.savepoint is not None:
        return DependencyBlock("state", Grade.OK, f"the savepoint {spec.savepoint} is there; {determinism.told}")
    if alignment.rows and all(row.state is not None for row in alignment.rows):
        return DependencyBlock("state", Grade.OK, "it is of the point of the offsets")
    return DependencyBlock("state", Grade.UNKNOWN, "nothing says which point its state is of, and it has no savepoint")


def _headroom(around: Around) -> DependencyBlock:
    if around.live_over is None:
        return DependencyBlock("headroom", Grade.UNKNOWN, "no live traffic is protected or measured (`monitor:`)")
    if around.live_over:
        return DependencyBlock("headroom", Grade.WARN, "; ".join(around.live_over))
    return DependencyBlock("headroom", Grade.OK, "protected live traffic is within its SLOs")


def _ownership(unit: Unit) -> DependencyBlock:
    lost = [what for what, found in (("owner", unit.owner), ("approvers", unit.approvers)) if not found]
    lost += [f"owner of {name}" for name, output in unit.outputs.items() if output.owner is None]
    if "owner" in lost:
        return DependencyBlock("ownership", Grade.UNKNOWN, f"the config names no {', '.join(lost)}")
    if lost:
        return DependencyBlock("ownership", Grade.WARN, f"owner: {unit.owner}; the config names no {', '.join(lost)}")
    return DependencyBlock("ownership", Grade.OK, f"owner: {unit.owner}; approvers: {', '.join(unit.approvers)}")
