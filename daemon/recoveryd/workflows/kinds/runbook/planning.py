"""The plan of a runbook: what its command means, what is refused before anything is changed, and its first steps."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused, nearest_name
from recoveryd.kernel.states import State
from recoveryd.units.facts import UnitFacts
from recoveryd.units.model import Unit
from recoveryd.workflows.kinds.earlier import savepoint_of
from recoveryd.workflows.kinds.reset import unit_of
from recoveryd.workflows.kinds.runbook.names import CHOOSE, CLOSE, CONFIRM, EXECUTE, IDENTIFY, PROTECT, VERIFY
from recoveryd.workflows.kinds.runbook.paths import COPIES, is_empty, outputs_of, problem_of_input, propose, ranges_of
from recoveryd.workflows.kinds.runbook.truths import Alignment, align
from recoveryd.workflows.machine.kind import Knows, Planned
from recoveryd.workflows.model.actions import AskPerson, LookAtUnit, Settle
from recoveryd.workflows.model.facts import Found, GroupWanted, WantedFacts
from recoveryd.workflows.model.hashing import hash_of
from recoveryd.workflows.model.known import Workflows
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.positions import Current
from recoveryd.workflows.model.size import refuse_copy
from recoveryd.workflows.model.spec import OutputChoice, RunbookPath, RunbookSpec, SavepointSpec
from recoveryd.workflows.model.workflow import Change, QuotaUndo, WorkflowPlan, WorkflowStep

_NAMED_MOST: Final = 20  # partitions of a hint
_UNSAID: Final = "main"  # the cluster of a command that names none


def complete(spec: RunbookSpec, knows: Knows) -> RunbookSpec | Refused:
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
    return max(found, key=lambda w: w.place).spec.name if found else None  # type: ignore[union-attr]


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


def wanted(spec: RunbookSpec, params: WorkflowParams) -> WantedFacts:
    unit = params.units[spec.unit]
    named = dict.fromkeys((*unit.inputs, *unit.intermediate), ())
    topics = dict.fromkeys((*spec.error_topics, *(t for t in (spec.topic, spec.target) if t is not None)))
    return WantedFacts(
        groups=(GroupWanted(spec.cluster, spec.group, Current(), named),),
        units=(unit.name,),
        topics=tuple((spec.cluster, name) for name in topics),
        quotas=tuple((spec.cluster, client) for client in spec.quotas),
    )


def make_plan(spec: RunbookSpec, found: Found, params: WorkflowParams) -> Planned | Refused:
    unit, facts = params.units[spec.unit], found.units[spec.unit]
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
    leases = frozenset(row.key for row in quotas)
    return Planned(plan, _first_steps(spec), f"seven steps for {unit.name}; {findings[-1]}", quotas, leases=leases)


def _refuse(spec: RunbookSpec, unit: Unit, facts: UnitFacts, alignment: Alignment, found: Found) -> Refused | None:
    problem = _refuse_topics(spec, unit, facts, found)
    if problem is not None or spec.path not in COPIES:
        return problem
    ranges = ranges_of(spec, alignment.ranges)
    if is_empty(ranges):
        message = f"nothing is to be copied: {alignment.told}"
        return Refused(Code.NOTHING_TO_DO, message, "Name topic and ranges.")
    outside = problem_of_input(unit, facts, spec.path, spec, alignment)
    if outside is not None:
        return Refused(Code.OFFSET_OUTSIDE_LOG, outside, "Name a range that the log holds.")
    if spec.target is not None and len(ranges) > 1:
        message = f"target: {', '.join(ranges)} cannot all go to {spec.target}"
        return Refused(Code.INVALID_VALUE, message, "Name one topic with its ranges.")
    named = (refuse_copy(spec.target or topic, found) for topic, found in ranges.items())
    uncopied = next((refused for refused in named if refused is not None), None)
    return uncopied or _refuse_target(spec, facts, found, next(iter(ranges)))


def _refuse_topics(spec: RunbookSpec, unit: Unit, facts: UnitFacts, found: Found) -> Refused | None:
    named = (*spec.error_topics, *([spec.topic] if spec.topic else []))
    lost = [name for name in named if found.topics.get(name) is None]
    if lost:
        return Refused(Code.SOURCE_TOPIC_MISSING, f"topics do not exist: {', '.join(lost)}; nothing is changed")
    own = frozenset((*unit.inputs, *unit.intermediate, *unit.outputs, *facts.internal.certain))
    if spec.topic is not None and spec.topic not in own:
        message = f"topic: {spec.topic} is none of {unit.name}, which has {', '.join(sorted(own))}"
        return Refused(Code.INVALID_VALUE, message, f"Copy it with a replay of its own: {_replay_of(spec, found)}")
    return None


def _replay_of(spec: RunbookSpec, found: Found) -> str:
    """The command that copies these ranges of a topic which is not the unit's, say of dead letters: to have copied those says nothing of
    the unit, so that a runbook could not verify it.
    """
    places = sorted(spec.ranges.items())[:_NAMED_MOST]
    more = "" if len(places) == len(spec.ranges) else ",..."
    starts, stops = ([f"{p}={pair[at]}" for p, pair in places] for at in (0, 1))
    target = spec.target or f"{spec.topic}.copied"
    words = {
        "source": spec.topic,
        "partitions": f"{','.join(str(p) for p, _ in places)}{more}",
        "from": f"offsets:{','.join(starts)}{more}",
        "to": f"offsets:{','.join(stops)}{more}",
        "target": target,
    }
    if spec.cluster != _UNSAID:
        words |= {"source-cluster": spec.cluster, "target-cluster": spec.cluster}
    said = " ".join(f"--{name} {value}" for name, value in words.items())
    there = "--create" if found.topics.get(target) is None else "--on-existing append"
    return f'recoveryctl replay {said} {there} --reason "asked for in a runbook of {spec.unit}"'


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
    if spec.path not in COPIES or spec.target is None:
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
