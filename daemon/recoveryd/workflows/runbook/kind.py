"""The runbook as a kind of workflow: its plan, what its looks mean, what follows from them, and how it is taken back."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused, nearest_name
from recoveryd.kernel.states import State
from recoveryd.units.facts import UnitFacts, UnitTopic
from recoveryd.units.model import Unit
from recoveryd.workflows.actions import (
    AskPerson,
    CreateTopics,
    DeleteTopics,
    LookAtUnit,
    RollBackChildren,
    RunChildren,
    SetQuotas,
    Settle,
)
from recoveryd.workflows.earlier import savepoint_of
from recoveryd.workflows.events import Outcome, StepReported
from recoveryd.workflows.facts import Found, GroupWanted, WantedFacts
from recoveryd.workflows.hashing import hash_of
from recoveryd.workflows.kinds import Around, Knows, Planned, WorkflowKind
from recoveryd.workflows.known import Workflows
from recoveryd.workflows.model import Change, Ending, QuotaUndo, StepState, Workflow, WorkflowPlan, WorkflowStep
from recoveryd.workflows.params import WorkflowParams
from recoveryd.workflows.positions import Current
from recoveryd.workflows.reset import unit_of
from recoveryd.workflows.runbook.blocks import make_blocks
from recoveryd.workflows.runbook.gates import evidence_of, find_gates
from recoveryd.workflows.runbook.names import AGAIN, CHOOSE, CLOSE, CONFIRM, DECIDE, EXECUTE, IDENTIFY, PROTECT, VERIFY
from recoveryd.workflows.runbook.paths import (
    outputs_of,
    problem_of_input,
    propose,
    ranges_of,
    staged_topics,
    steps_of_choice,
    with_last_steps,
)
from recoveryd.workflows.runbook.report import make_report, path_of, what_stays
from recoveryd.workflows.runbook.truths import Alignment, align
from recoveryd.workflows.spec import OutputChoice, RunbookPath, RunbookSpec, SavepointSpec

_ROWS_MOST: Final = 500  # partitions whose truths are told one by one
_COPIES: Final = frozenset({RunbookPath.REPLAY, RunbookPath.SHADOW})
_BEGUN: Final = frozenset({StepState.RUNNING, StepState.WAITING, StepState.DONE, StepState.FAILED})


def _complete(spec: RunbookSpec, knows: Knows) -> RunbookSpec | Refused:
    unit = unit_of(spec.unit, knows.params)
    if isinstance(unit, Refused):
        return unit
    savepoint = spec.savepoint
    if savepoint is not None and savepoint_of(savepoint, knows.workflows) is None:
        hint = "`recoveryctl savepoint list` shows them."
        return Refused(Code.NO_SUCH_SAVEPOINT, f"savepoint: there is none of the name {savepoint!r}", hint)
    if savepoint is None:
        savepoint = _newest_savepoint(unit, knows.workflows)
    outputs = outputs_of(unit, spec)
    problem = _strange(spec, unit) or _left_out(spec, unit, outputs)
    if problem is not None:
        return problem
    return replace(spec, savepoint=savepoint, outputs=outputs, cluster=unit.cluster, group=unit.consumer_group)


def _newest_savepoint(unit: Unit, workflows: Workflows) -> str | None:
    found = [
        w
        for w in workflows
        if isinstance(w.spec, SavepointSpec) and w.spec.unit == unit.name and w.state is State.COMPLETED and w.cut
    ]
    return max(found, key=lambda w: w.updated_ms).spec.name if found else None  # type: ignore[union-attr]


def _strange(spec: RunbookSpec, unit: Unit) -> Refused | None:
    for field, named, known in (
        ("outputs", spec.outputs, unit.outputs),
        ("sink", spec.sink, unit.inputs),
        ("state", spec.state, unit.inputs),
    ):
        strange = sorted(set(named) - set(known))
        if strange:
            hint = nearest_name(strange[0], frozenset(known)) if known else f"{unit.name} has none"
            return Refused(Code.INVALID_VALUE, f"{field}: {strange[0]} is not one of {unit.name}", hint)
    return None


def _left_out(spec: RunbookSpec, unit: Unit, outputs: Mapping[str, OutputChoice]) -> Refused | None:
    if spec.path is RunbookPath.RESTORE_STATE:
        left = sorted(set(unit.outputs) - set(outputs))
        if left:
            message = f"outputs: nothing is said about {left[0]}, which {unit.name} writes again"
            return Refused(Code.MISSING_FIELD, message, 'Say recreate, keep, append or {"new": name} for it.')
    if spec.path is RunbookPath.SHADOW and spec.target is None:
        message = "target: a shadow has to know the topic that it may be promoted to"
        return Refused(Code.MISSING_FIELD, message, "Name the topic as target.")
    return None


def _wanted(spec: RunbookSpec, params: WorkflowParams) -> WantedFacts:
    unit = params.units[spec.unit]
    named = dict.fromkeys((*unit.inputs, *unit.intermediate), ())
    topics = dict.fromkeys((*spec.error_topics, *(t for t in (spec.topic, spec.target) if t is not None)))
    return WantedFacts(
        groups=(GroupWanted(spec.cluster, spec.group, Current(), named),),
        units=(unit.name,),
        topics=tuple((spec.cluster, name) for name in topics),
        quotas=tuple((spec.cluster, client) for client in spec.quotas),
    )


def _plan(spec: RunbookSpec, found: Found, params: WorkflowParams) -> Planned | Refused:
    unit, facts = params.units[spec.unit], found.units[spec.unit]
    facts = _with_topic(facts, spec, found)
    alignment = align(unit, facts, spec)
    problem = _refuse(spec, unit, facts, alignment, found)
    if problem is not None:
        return problem
    proposal = propose(unit, facts, spec, alignment)
    quotas = tuple(
        QuotaUndo(client, found.quotas.get(client), rate, cluster=spec.cluster) for client, rate in spec.quotas.items()
    )
    is_auto = spec.path is RunbookPath.AUTO
    findings = (
        f"{alignment.verdict.value}: {alignment.told}",
        f"{proposal.path.value} would be proposed: {proposal.why}" if is_auto else f"the path is {spec.path.value}",
    )
    plan = WorkflowPlan(
        hash=hash_of(_matter(spec, facts, found)),
        changes=(
            *(Change("quota", row.name, None, row.to, row.was_set) for row in quotas),
            *_copied(spec, alignment, found),
        ),
        findings=findings,
        ambiguous_topics=tuple(name for name, _ in facts.internal.ambiguous),
    )
    return Planned(plan, _first_steps(spec), f"seven steps for {unit.name}; {findings[-1]}", quotas)


def _with_topic(facts: UnitFacts, spec: RunbookSpec, found: Found) -> UnitFacts:
    """The topic to be copied is usually one of the unit's; another one is looked at by itself."""
    topic = found.topics.get(spec.topic or "")
    if spec.topic is None or topic is None or spec.topic in facts.topics:
        return facts
    more = UnitTopic(spec.topic, topic.id, topic.ends, topic.form.replication_factor, topic.form.configs)
    return replace(facts, topics={**facts.topics, spec.topic: more})


def _refuse(spec: RunbookSpec, unit: Unit, facts: UnitFacts, alignment: Alignment, found: Found) -> Refused | None:
    lost = [
        name for name in (*spec.error_topics, *([spec.topic] if spec.topic else [])) if found.topics.get(name) is None
    ]
    if lost:
        return Refused(Code.SOURCE_TOPIC_MISSING, f"topics do not exist: {', '.join(lost)}; nothing is changed")
    if spec.path not in _COPIES:
        return None
    ranges = ranges_of(spec, alignment.ranges)
    if not any(stop > start for each in ranges.values() for start, stop in each.values()):
        message = f"nothing is to be copied: {alignment.told}"
        return Refused(Code.NOTHING_TO_DO, message, "Name topic and ranges.")
    outside = problem_of_input(unit, facts, spec.path, spec, alignment)
    if outside is not None:
        return Refused(Code.OFFSET_OUTSIDE_LOG, outside, "Name a range that the log holds.")
    if spec.target is not None and len(ranges) > 1:
        message = f"target: {', '.join(ranges)} cannot all go to {spec.target}"
        return Refused(Code.INVALID_VALUE, message, "Name one topic with its ranges.")
    return _refuse_target(spec, facts, found, next(iter(ranges)))


def _refuse_target(spec: RunbookSpec, facts: UnitFacts, found: Found, topic: str) -> Refused | None:
    if spec.path is not RunbookPath.SHADOW or spec.target is None:
        return None
    there = found.topics.get(spec.target)
    if there is None:
        return Refused(Code.TARGET_TOPIC_MISSING, f"target: {spec.target} does not exist")
    source = facts.topics[topic]
    if there.form.partitions < source.partitions:
        message = f"{spec.target} has {there.form.partitions} partitions and {topic} {source.partitions}"
        return Refused(Code.TARGET_PARTITIONS, message, "Choose a target with as many.")
    return None


def _copied(spec: RunbookSpec, alignment: Alignment, found: Found) -> Iterator[Change]:
    if spec.path not in _COPIES or spec.target is None:
        return
    there = found.topics.get(spec.target)
    for topic, ranges in ranges_of(spec, alignment.ranges).items():
        count = sum(stop - start for start, stop in ranges.values())
        yield Change(
            "topic", spec.target, None, None if there is None else there.id, f"{count:,} offsets of {topic} more"
        )


def _matter(spec: RunbookSpec, facts: UnitFacts, found: Found) -> dict[str, object]:
    return {
        "unit": (spec.unit, spec.cluster, spec.group, spec.path.value, spec.savepoint),
        "outputs": {name: (choice.policy.value, choice.name) for name, choice in spec.outputs.items()},
        "topics": {name: topic.id for name, topic in facts.topics.items()},
        "others": {name: None if topic is None else topic.id for name, topic in found.topics.items()},
        "copy": (spec.topic, {str(p): list(pair) for p, pair in spec.ranges.items()}, spec.target),
        "marks": [
            {t: {str(p): at for p, at in m.items()} for t, m in marks.items()} for marks in (spec.sink, spec.state)
        ],
        "policies": (dict(spec.quotas), {gate.value: why for gate, why in spec.waive.items()}, spec.hold_ms),
    }


def _first_steps(spec: RunbookSpec) -> tuple[WorkflowStep, ...]:
    """Those that follow `choose_path` are made when it is chosen."""
    look = LookAtUnit(spec.cluster, spec.group, spec.unit, spec.error_topics)
    open_yet = Settle("the path is not chosen yet")
    chosen = "" if spec.path is RunbookPath.AUTO else f"{spec.path.value} was asked for"
    return (
        WorkflowStep(IDENTIFY, look),
        WorkflowStep(CONFIRM, look),
        WorkflowStep(CHOOSE, Settle(chosen) if chosen else AskPerson("confirm the path that will be proposed")),
        WorkflowStep(PROTECT, open_yet),
        WorkflowStep(EXECUTE, open_yet),
        WorkflowStep(VERIFY, look),
        WorkflowStep(CLOSE, look),
    )


def _judge(workflow: Workflow, step: WorkflowStep, event: StepReported, around: Around) -> StepReported:
    spec, unit = workflow.spec, around.unit
    assert isinstance(spec, RunbookSpec)
    facts = None if event.found is None else event.found.units.get(spec.unit)
    if unit is None or facts is None or event.found is None:
        why = f"the config has no unit {spec.unit!r} any more"
        return replace(event, outcome=Outcome.FAILED, why=why, code=Code.UNKNOWN_UNIT.value)
    facts = _with_topic(facts, spec, event.found)
    match step.name:
        case "identify":
            return _identified(spec, unit, facts, event)
        case "confirm_input":
            return _confirmed(spec, unit, facts, event, around)
        case "verify" | "verify_again":
            return _verified(workflow, step, unit, facts, event, around)
        case _:
            return _closed(workflow, unit, facts, event)


def _identified(spec: RunbookSpec, unit: Unit, facts: UnitFacts, event: StepReported) -> StepReported:
    assert event.found is not None
    alignment = align(unit, facts, spec)
    ranges = ranges_of(spec, alignment.ranges)
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
        "range": {t: {str(p): list(pair) for p, pair in found.items()} for t, found in ranges.items()},
        "copied": {t: [facts.topics[t].partitions, facts.topics[t].replication_factor] for t in ranges if t in facts.topics},
        "to_read": _ends({name: facts.topics[name].ends for name in unit.inputs if name in facts.topics}),
        "ends": _ends(ends),
        "internal": list(facts.internal.certain),
        "savepoint": spec.savepoint,
        "checkpoint": spec.checkpoint,
    }  # fmt: skip
    return replace(event, why=f"{alignment.verdict.value}: {alignment.told}", evidence=evidence)


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
    evidence = {"dependencies": told, "proposed": proposed}
    held = [said for name, said in around.held.items() if name in {*unit.inputs, *unit.intermediate}]
    if held and spec.path is not RunbookPath.ESCALATE:
        return _stopped(event, held[0], Code.TOPIC_HELD, evidence)
    if spec.path not in {RunbookPath.AUTO, RunbookPath.ESCALATE}:
        problem = problem_of_input(unit, facts, spec.path, spec, alignment)
        if problem is not None:
            return _stopped(event, problem, Code.INPUT_NOT_CONFIRMED, evidence)
    counts = [f"{sum(b.state.value == grade for b in blocks)} {grade}" for grade in ("ok", "warn", "fail", "unknown")]
    unsure = [f"{b.name}: {b.told}" for b in blocks if b.if_unknown]
    why = f"of five dependencies {', '.join(c for c in counts if c[0] != '0')}" + "".join(f"; {u}" for u in unsure)
    return replace(event, why=why, evidence=evidence)


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


def _after_step(workflow: Workflow, step: WorkflowStep, event: StepReported) -> Workflow | Refused:
    spec = workflow.spec
    if not isinstance(spec, RunbookSpec) or workflow.is_rolling_back:
        return workflow.with_undo(event.undo)
    if isinstance(step.action, CreateTopics | DeleteTopics | SetQuotas):
        return workflow.with_undo(event.undo)
    if step.name == CONFIRM and spec.path is RunbookPath.AUTO:
        return _with_question(workflow)
    if step.name == CHOOSE:
        return _chosen(workflow, step)
    if step.name == DECIDE:
        at = workflow.steps.index(step)
        more = steps_of_choice(workflow, str(step.evidence.get("choice")))
        return replace(workflow, steps=(*workflow.steps[: at + 1], *more, *workflow.steps[at + 1 :]))
    return workflow


def _with_question(workflow: Workflow) -> Workflow:
    proposed = evidence_of(workflow, CONFIRM)["proposed"]
    assert isinstance(proposed, Mapping)
    question = (
        f"{proposed['path']} is proposed: {proposed['why']}. `ack` confirms it; `stop` ends this, and another path "
        "can be asked for by name"
    )
    step = next(s for s in workflow.steps if s.name == CHOOSE)
    return workflow.with_step(replace(step, action=AskPerson(question)))


def _chosen(workflow: Workflow, step: WorkflowStep) -> Workflow:
    path = path_of(workflow)
    assert path is not None
    if path is RunbookPath.ESCALATE:
        proposed = evidence_of(workflow, CONFIRM).get("proposed")
        why = proposed["why"] if isinstance(proposed, Mapping) and proposed["path"] == path.value else step.why
        left = tuple(replace(s, state=StepState.SKIPPED) if s.state is StepState.PENDING else s for s in workflow.steps)
        return replace(workflow, steps=left, ending=Ending(State.STOPPED, f"handed over: {why}", Code.ESCALATED.value))
    return with_last_steps(workflow, path, CHOOSE)


def _undo(workflow: Workflow) -> tuple[WorkflowStep, ...]:
    """What it began puts back what it changed, the last one first; then topics that it made go."""
    runs = [
        run
        for step in workflow.steps
        if isinstance(step.action, RunChildren) and step.state in _BEGUN
        for run in step.action.runs
        if run.verb != "replay"
    ]
    steps = [WorkflowStep(f"roll_back_{run.recovery}", RollBackChildren((run,))) for run in reversed(runs)]
    staged = staged_topics(workflow)
    if staged:
        action = DeleteTopics(workflow.spec.cluster, staged, is_back=True, with_records=True)
        steps.append(WorkflowStep("delete_made_topics", action))
    return tuple(steps)


RUNBOOK = WorkflowKind(
    spec=RunbookSpec,
    complete=_complete,
    wanted=_wanted,
    plan=_plan,
    claims=lambda spec: frozenset({f"the group {spec.group} on {spec.cluster}"}),
    topics=lambda spec: tuple(name for name in (spec.topic, spec.target) if name is not None),
    after_step=_after_step,
    undo=_undo,
    judge=_judge,
    report=make_report,
    stays=lambda workflow: tuple(what_stays(workflow)),
    waived=frozenset({VERIFY, AGAIN}),
)
