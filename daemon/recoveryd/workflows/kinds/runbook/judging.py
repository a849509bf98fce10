"""What the looks of a runbook mean: who is where, whether the inputs are there, which gates are green."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.times import format_time_ms
from recoveryd.units.facts import UnitFacts
from recoveryd.units.model import Unit
from recoveryd.workflows.kinds.runbook.blocks import make_blocks
from recoveryd.workflows.kinds.runbook.gates import evidence_of, find_gates
from recoveryd.workflows.kinds.runbook.names import AGAIN, DECIDE, IDENTIFY, VERIFY
from recoveryd.workflows.kinds.runbook.paths import (
    COPIES,
    is_empty,
    problem_of_input,
    problem_of_target,
    propose,
    ranges_of,
)
from recoveryd.workflows.kinds.runbook.report import path_of, what_stays
from recoveryd.workflows.kinds.runbook.staging import problem_of_staged, told_later
from recoveryd.workflows.kinds.runbook.truths import Alignment, align
from recoveryd.workflows.machine.kind import Around
from recoveryd.workflows.machine.patience import GREEN_SEEN, GREEN_SINCE, UNSEEN_MS
from recoveryd.workflows.model.actions import LookAtUnit
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.spec import RunbookPath, RunbookSpec
from recoveryd.workflows.model.workflow import Workflow, WorkflowStep

_SEEN_EVERY_MS: Final = 300_000  # each is a version of the record
_ROWS_MOST: Final = 500  # partitions whose truths are told one by one


def judge(workflow: Workflow, step: WorkflowStep, event: StepReported, around: Around) -> StepReported:
    spec, unit = workflow.spec, around.unit
    assert isinstance(spec, RunbookSpec)
    facts = None if event.found is None else event.found.units.get(spec.unit)
    if unit is None or facts is None or event.found is None:
        why = f"the config has no unit {spec.unit!r} any more"
        return replace(event, outcome=Outcome.FAILED, why=why, code=Code.UNKNOWN_UNIT.value)
    match step.name:
        case "identify":
            return _identified(spec, unit, facts, event)
        case "confirm_input":
            return _confirmed(spec, unit, facts, event, around)
        case "verify" | "verify_again":
            return _verified_with_staged(workflow, _with_waivers(workflow, step), unit, facts, event, around)
        case "promote_or_discard":
            step = _with_waivers(workflow, step)
            return _held(step, _verified(workflow, step, unit, facts, event, around), around)
        case _:
            return _closed(workflow, unit, facts, event)


def _identified(spec: RunbookSpec, unit: Unit, facts: UnitFacts, event: StepReported) -> StepReported:
    assert event.found is not None
    alignment = align(unit, facts, spec)
    group = facts.group
    others = {name: topic.ends for name, topic in event.found.topics.items() if topic is not None}
    ends = {name: topic.ends for name, topic in facts.topics.items() if name in unit.outputs} | others
    evidence: dict[str, object] = {
        "verdict": alignment.verdict.value,
        "told": alignment.told,
        "owner": unit.owner,
        "approvers": list(unit.approvers),
        "outputs": {name: output.behaviour.value if output.behaviour else "unknown" for name, output in unit.outputs.items()},
        "readers": {name: list(groups) for name, groups in facts.readers.items()},
        "group": {"id": spec.group, "state": group.state if group else "not there", "members": len(group.members) if group else 0},
        "truths": _told_rows(alignment),
        **_range(spec, facts, alignment),
        "to_read": _ends({name: facts.topics[name].ends for name in unit.positioned_inputs if name in facts.topics}),
        "ends": _ends(ends),
        "internal": list(facts.internal.certain),
        "savepoint": spec.savepoint,
        "checkpoint": spec.checkpoint,
    }  # fmt: skip
    return replace(event, why=f"{alignment.verdict.value}: {alignment.told}", evidence=evidence)


def _range(spec: RunbookSpec, facts: UnitFacts, alignment: Alignment) -> dict[str, object]:
    """What would be copied, and partitions and replicas of the topics that it is of."""
    ranges = ranges_of(spec, alignment.ranges)
    return {
        "range": {t: {str(p): list(pair) for p, pair in found.items()} for t, found in ranges.items()},
        "copied": {
            t: [facts.topics[t].partitions, facts.topics[t].replication_factor] for t in ranges if t in facts.topics
        },
    }


def _told_rows(alignment: Alignment) -> dict[str, dict[str, list[int | None]]]:
    """[committed, state, sink] by topic and partition, those that lie apart first."""
    rows = sorted(alignment.rows, key=lambda row: (not row.is_apart, row.topic, row.partition))[:_ROWS_MOST]
    found: dict[str, dict[str, list[int | None]]] = {}
    for row in rows:
        found.setdefault(row.topic, {})[str(row.partition)] = [row.committed, row.state, row.sink]
    return found


def _ends(topics: Mapping[str, Mapping[int, Any]]) -> dict[str, dict[str, int]]:
    return {name: {str(p): end.high_watermark for p, end in ends.items()} for name, ends in topics.items()}


def _confirmed(spec: RunbookSpec, unit: Unit, facts: UnitFacts, event: StepReported, around: Around) -> StepReported:
    alignment = align(unit, facts, spec)
    blocks = make_blocks(unit, facts, alignment, spec, around)
    told = {b.name: {"state": b.state.value, "told": b.told, "if_unknown": b.if_unknown} for b in blocks}
    proposal = propose(unit, facts, spec, alignment)
    proposed = {"path": proposal.path.value, "why": proposal.why}
    evidence = {"dependencies": told, "proposed": proposed, **_range(spec, facts, alignment)}
    path = proposal.path if spec.path is RunbookPath.AUTO else spec.path
    held = [said for name, said in around.held.items() if name in {*unit.inputs, *unit.intermediate}]
    if held and spec.path is not RunbookPath.ESCALATE:
        return _stopped(event, held[0], Code.TOPIC_HELD, evidence)
    if spec.path not in {RunbookPath.AUTO, RunbookPath.ESCALATE}:
        problem = problem_of_input(unit, facts, spec.path, spec, alignment)
        if problem is not None:
            return _stopped(event, problem, Code.INPUT_NOT_CONFIRMED, evidence)
    problem = _problem_of_copies(spec, alignment) if path in COPIES else None
    if problem is not None:
        return _stopped(event, problem, Code.INPUT_NOT_CONFIRMED, evidence)
    counts = [f"{sum(b.state.value == grade for b in blocks)} {grade}" for grade in ("ok", "warn", "fail", "unknown")]
    unsure = [f"{b.name}: {b.told}" for b in blocks if b.if_unknown]
    why = f"of five dependencies {', '.join(c for c in counts if c[0] != '0')}" + "".join(f"; {u}" for u in unsure)
    return replace(event, why=why, evidence=evidence)


def _problem_of_copies(spec: RunbookSpec, alignment: Alignment) -> str | None:
    """Why what would be copied now cannot be, whatever the plan saw."""
    ranges = ranges_of(spec, alignment.ranges)
    if is_empty(ranges):
        return f"nothing is to be copied any more: {alignment.told}"
    return problem_of_target(spec, ranges)


def _stopped(event: StepReported, why: str, code: Code, evidence: Mapping[str, object]) -> StepReported:
    return replace(event, outcome=Outcome.FAILED, why=why, code=code.value, evidence=evidence)


def _verified(
    workflow: Workflow, step: WorkflowStep, unit: Unit, facts: UnitFacts, event: StepReported, around: Around
) -> StepReported:
    gates = find_gates(workflow, step, unit, facts, event, around)
    told = {gate.gate.value: {"state": gate.state.value, "told": gate.told} for gate in gates}
    evidence = {"gates": told, "left": event.left, "waived": step.evidence.get("waived", {})}
    open_gates = [f"{gate.gate.value} is {gate.state.value}: {gate.told}" for gate in gates if gate.is_open]
    if open_gates:
        return replace(event, outcome=Outcome.NOT_YET, why="; ".join(open_gates), evidence=evidence)
    waived = sum(gate.state.value == "waived" for gate in gates)
    why = f"{len(gates) - waived} of {len(gates)} gates are green" + (f", {waived} waived" if waived else "")
    return replace(event, why=why, evidence=evidence)


def _verified_with_staged(
    workflow: Workflow, step: WorkflowStep, unit: Unit, facts: UnitFacts, event: StepReported, around: Around
) -> StepReported:
    """Before it is published, also whether what was staged is still what was verified."""
    assert event.found is not None
    if step.name != AGAIN:
        return _verified(workflow, step, unit, facts, event, around)
    problem = problem_of_staged(workflow, event.found)
    if problem is not None:
        return replace(event, outcome=Outcome.FAILED, why=problem.message, code=problem.code.value)
    seen, later = _verified(workflow, step, unit, facts, event, around), told_later(workflow, event.found)
    return replace(seen, why=f"{seen.why}; {later}") if later else seen


def _with_waivers(workflow: Workflow, step: WorkflowStep) -> WorkflowStep:
    """What was waived before is waived in this step too."""
    before = (evidence_of(workflow, name).get("waived") for name in (VERIFY, DECIDE))
    told = (*before, step.evidence.get("waived"))
    waived = {gate: why for each in told if isinstance(each, Mapping) for gate, why in each.items()}
    return replace(step, evidence={**step.evidence, "waived": waived})


def _held(step: WorkflowStep, event: StepReported, around: Around) -> StepReported:
    """Its gates have to be green all the time; from when on they were is in the evidence, and when that was seen, to
    some minutes: what nobody looked at for longer may have been anything.
    """
    action = step.action
    assert isinstance(action, LookAtUnit)
    since, seen = step.evidence.get(GREEN_SINCE), step.evidence.get(GREEN_SEEN)
    if isinstance(seen, int) and around.now_ms - seen > UNSEEN_MS:
        since = None
    is_new = not isinstance(seen, int) or not 0 <= around.now_ms - seen < _SEEN_EVERY_MS
    evidence = dict(event.evidence)
    if event.outcome is Outcome.NOT_YET:
        why = f"{event.why}; the hold begins anew when that is mended, or `discard` ends it"
        return replace(event, why=why, evidence={**evidence, GREEN_SINCE: None})
    began_ms = step.began_ms or 0
    since_ms = since if isinstance(since, int) else around.now_ms
    since_ms = max(since_ms, began_ms if began_ms <= around.now_ms else 0)  # else the clock was set back since it began
    ready_ms = since_ms + action.hold_ms
    why = action.question if around.now_ms >= ready_ms else f"{action.question}; from {format_time_ms(ready_ms)} on"
    return replace(
        event,
        outcome=Outcome.NOT_YET,
        why=why,
        evidence={**evidence, GREEN_SINCE: since_ms, GREEN_SEEN: around.now_ms if is_new else seen},
    )


def _closed(workflow: Workflow, unit: Unit, facts: UnitFacts, event: StepReported) -> StepReported:
    committed = facts.group.committed if facts.group is not None else {}
    offsets = {t: {str(p): at.offset for p, at in sorted(committed.get(t, {}).items())} for t in unit.inputs}
    seen, path = evidence_of(workflow, IDENTIFY), path_of(workflow)
    ids = [str(each) for each in (seen.get("checkpoint"), seen.get("savepoint")) if each]
    evidence = {
        "offsets": offsets,
        "checkpoints": ids,
        "outputs": _ends({name: facts.topics[name].ends for name in unit.outputs if name in facts.topics}),
        "repair": list(what_stays(workflow)),
        "temporary": [f"{row.what} of {row.name}" for row in workflow.temporary],
    }
    total = sum(at for found in offsets.values() for at in found.values())
    why = f"{unit.name} took the path {path.value if path else 'of nobody'}; its offsets add up to {total:,}"
    open_yet = evidence["temporary"]
    why += f"; {len(open_yet)} temporary changes are to be put back" if open_yet else "; nothing temporary is left"
    return replace(event, why=why, evidence=evidence)
