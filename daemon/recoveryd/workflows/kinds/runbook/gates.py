"""Five gates: a runbook is done when each is green, or was waived by somebody who said why. What cannot be told is not
green.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from recoveryd.units.facts import UnitFacts
from recoveryd.units.lint import is_stateful
from recoveryd.units.model import Unit, UnitKind
from recoveryd.workflows.kinds.runbook.names import EXECUTE, IDENTIFY
from recoveryd.workflows.kinds.runbook.truths import changelogs_emptied, is_together
from recoveryd.workflows.machine.kind import Around
from recoveryd.workflows.model.actions import RunChildren
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.facts import Found
from recoveryd.workflows.model.spec import RunbookGate, RunbookSpec
from recoveryd.workflows.model.workflow import Workflow, WorkflowStep


class GateState(StrEnum):
    GREEN = "green"
    RED = "red"
    UNKNOWN = "unknown"
    WAIVED = "waived"


@dataclass(frozen=True, slots=True)
class GateResult:
    gate: RunbookGate
    state: GateState
    told: str

    @property
    def is_open(self) -> bool:
        return self.state in {GateState.RED, GateState.UNKNOWN}


def find_gates(
    workflow: Workflow, step: WorkflowStep, unit: Unit, facts: UnitFacts, event: StepReported, around: Around
) -> tuple[GateResult, ...]:
    """In the order of `RunbookGate`. `event.left`: what the group has left to read up to the ends at the beginning."""
    spec = workflow.spec
    assert isinstance(spec, RunbookSpec)
    assert event.found is not None
    found = (
        _lag(unit, event.left),
        _output(workflow, unit, facts),
        _state(workflow, unit, facts),
        _errors(workflow, spec, event.found),
        _live(around),
    )
    waived = _waivers(spec, step)
    return tuple(_waived(result, waived) for result in found)


def evidence_of(workflow: Workflow, name: str) -> Mapping[str, object]:
    """Of a step that is done; empty if it is not."""
    return next((step.evidence for step in workflow.steps if step.name == name), {})


def _waivers(spec: RunbookSpec, step: WorkflowStep) -> dict[str, str]:
    given = step.evidence.get("waived")
    by_people = given.items() if isinstance(given, Mapping) else ()
    before = {gate.value: f"with the command: {reason}" for gate, reason in spec.waive.items()}
    return before | {gate: f"by {each['by']}: {each['reason']}" for gate, each in by_people}


def _waived(result: GateResult, waivers: Mapping[str, str]) -> GateResult:
    reason = waivers.get(result.gate.value)
    if reason is None or not result.is_open:
        return result
    return GateResult(result.gate, GateState.WAIVED, f"{result.told}; waived {reason}")


def _lag(unit: Unit, left: int | None) -> GateResult:
    gate = RunbookGate.LAG
    if left is None:
        return GateResult(gate, GateState.UNKNOWN, "how much is left to read could not be told")
    if left:
        return GateResult(gate, GateState.RED, f"{unit.name} has at most {left:,} offsets to read")
    return GateResult(gate, GateState.GREEN, f"{unit.name} has read what its inputs held when this began")


def _output(workflow: Workflow, unit: Unit, facts: UnitFacts) -> GateResult:
    gate = RunbookGate.OUTPUT
    execute = next((s for s in workflow.steps if s.name == EXECUTE), None)
    if execute is not None and isinstance(execute.action, RunChildren):
        told = "; ".join(_child(name, each) for name, each in execute.evidence.items() if isinstance(each, Mapping))
        if not told:
            return GateResult(gate, GateState.RED, "nothing was carried out")
        bad = [each for each in execute.evidence.values() if isinstance(each, Mapping) and not _is_proved(each)]
        return GateResult(gate, GateState.UNKNOWN if bad else GateState.GREEN, told)
    if not unit.outputs:
        return GateResult(gate, GateState.GREEN, f"{unit.name} has no outputs")
    lost = list(_shrunk(workflow, unit, facts))
    if lost:
        return GateResult(gate, GateState.RED, f"{', '.join(lost)} ends earlier than when this began")
    if is_together(unit, facts):
        return GateResult(gate, GateState.GREEN, "outputs were committed together with the offsets")
    return GateResult(gate, GateState.UNKNOWN, f"look whether {', '.join(unit.outputs)} holds what it should")


def _is_proved(child: Mapping[str, object]) -> bool:
    return "workflow" in child or child.get("verified") == "match"


def _child(name: str, child: Mapping[str, object]) -> str:
    if "workflow" in child:
        return f"{name}: {child['why']}"
    return f"{name}: {child['records']:,} records copied, verified: {child['verified']}"


def _shrunk(workflow: Workflow, unit: Unit, facts: UnitFacts) -> Iterator[str]:
    before = evidence_of(workflow, IDENTIFY).get("ends")
    for name in unit.outputs:
        ends = before.get(name, {}) if isinstance(before, Mapping) else {}
        now = facts.topics[name].ends if name in facts.topics else {}
        if any(int(p) not in now or now[int(p)].high_watermark < end for p, end in ends.items()):
            yield name


def _state(workflow: Workflow, unit: Unit, facts: UnitFacts) -> GateResult:
    gate = RunbookGate.STATE
    kept = is_stateful(unit, facts)
    if kept is False:
        return GateResult(gate, GateState.GREEN, f"{unit.name} keeps no state")
    if unit.kind not in {UnitKind.STREAMS, UnitKind.GROUP} or kept is None:
        return GateResult(gate, GateState.UNKNOWN, "where its state is, the cluster cannot tell")
    state = "" if facts.group is None else facts.group.state.lower()
    if state != "stable":
        return GateResult(gate, GateState.RED, f"its group is {state or 'not there'}, so its tasks are not at rest")
    before = evidence_of(workflow, IDENTIFY).get("internal")
    gone = [name for name in before if name not in facts.topics] if isinstance(before, list | tuple) else []
    bare = (*gone, *changelogs_emptied(facts))
    if bare and not _is_begun_anew(workflow):
        return GateResult(gate, GateState.RED, f"{', '.join(bare)} is gone or holds nothing")
    return GateResult(gate, GateState.GREEN, "its group is at rest, and its changelogs are there")


def _is_begun_anew(workflow: Workflow) -> bool:
    execute = next((s.action for s in workflow.steps if s.name == EXECUTE), None)
    return isinstance(execute, RunChildren) and any(
        run.verb in {"reprocess", "restore_savepoint"} for run in execute.runs
    )


def _errors(workflow: Workflow, spec: RunbookSpec, found: Found) -> GateResult:
    gate = RunbookGate.ERRORS
    if not spec.error_topics:
        return GateResult(gate, GateState.UNKNOWN, "no error topics were named")
    before = evidence_of(workflow, IDENTIFY).get("ends")
    came = []
    for name in spec.error_topics:
        topic = found.topics.get(name)
        ends = before.get(name, {}) if isinstance(before, Mapping) else {}
        if topic is None:
            came.append(f"{name} does not exist")
            continue
        now = {str(p): found.high_watermark for p, found in topic.ends.items()}
        more = sum(max(0, at - int(ends.get(p, 0))) for p, at in now.items())
        if more:
            came.append(f"{more:,} records came to {name}")
        elif any(now.get(p, 0) < int(end) for p, end in ends.items()):
            came.append(f"{name} ends earlier than when this began, so nobody can tell what came to it")
    if came:
        return GateResult(gate, GateState.RED, "; ".join(came))
    return GateResult(gate, GateState.GREEN, f"nothing came to {', '.join(spec.error_topics)}")


def _live(around: Around) -> GateResult:
    gate = RunbookGate.LIVE
    if around.live_over is None:
        return GateResult(gate, GateState.UNKNOWN, "no live traffic is protected or measured (`monitor:`)")
    if around.live_over:
        return GateResult(gate, GateState.RED, "; ".join(around.live_over))
    return GateResult(gate, GateState.GREEN, "protected live traffic is within its SLOs")
