"""The plan of a runbook: what its command means, what is refused before anything is changed, and its first steps."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused, nearest_name
from recoveryd.kernel.states import State
from recoveryd.units.approvals import approval_of_all
from recoveryd.units.facts import UnitFacts
from recoveryd.units.model import Unit
from recoveryd.workflows.kinds.earlier import savepoint_of
from recoveryd.workflows.kinds.outputs import undeclared
from recoveryd.workflows.kinds.reprocess import refuse_kind
from recoveryd.workflows.kinds.reset import unit_of
from recoveryd.workflows.kinds.restore.kind import RESTORE_SAVEPOINT
from recoveryd.workflows.kinds.runbook.names import CHOOSE, CLOSE, CONFIRM, EXECUTE, IDENTIFY, PROTECT, VERIFY
from recoveryd.workflows.kinds.runbook.paths import (
    COPIES,
    is_empty,
    outputs_of,
    problem_of_input,
    problem_of_target,
    propose,
    ranges_of,
    targets_of,
)
from recoveryd.workflows.kinds.runbook.truths import Alignment, align
from recoveryd.workflows.kinds.state import refuse_unclear
from recoveryd.workflows.machine.kind import Knows, Planned
from recoveryd.workflows.model.actions import AskPerson, LookAtUnit, Settle
from recoveryd.workflows.model.colliding import is_there, refuse_collision
from recoveryd.workflows.model.cut import Cut
from recoveryd.workflows.model.facts import Found, GroupWanted, WantedFacts
from recoveryd.workflows.model.hashing import hash_of
from recoveryd.workflows.model.known import Workflows
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.positions import Current
from recoveryd.workflows.model.size import refuse_copy
from recoveryd.workflows.model.spec import OutputChoice, Ranges, RestoreSpec, RunbookPath, RunbookSpec, SavepointSpec
from recoveryd.workflows.model.workflow import Change, QuotaUndo, Workflow, WorkflowPlan, WorkflowStep

_NAMED_MOST: Final = 20  # partitions of a hint
_UNSAID: Final = "main"  # the cluster of a command that names none


def complete(spec: RunbookSpec, knows: Knows) -> RunbookSpec | Refused:
    unit = unit_of(spec.unit, knows.params)
    if isinstance(unit, Refused):
        return unit
    if spec.savepoint is None:
        saved = _newest_savepoint(unit, knows.workflows)
    else:
        saved = savepoint_of(spec.savepoint, knows.workflows)
        if saved is None:
            hint = "`recoveryctl savepoint list` shows them."
            return Refused(Code.NO_SUCH_SAVEPOINT, f"savepoint: there is none of the name {spec.savepoint!r}", hint)
    outputs = outputs_of(unit, spec)
    problem = _strange(spec, unit) or _left_out(spec, unit, outputs)
    if problem is not None:
        return problem
    named = replace(spec, cluster=unit.cluster, group=unit.consumer_group, run=knows.run, outputs=outputs)
    if saved is None or saved.cut is None:
        return named
    return replace(named, savepoint=saved.cut.name, cut=replace(saved.cut, ends={}))


def _newest_savepoint(unit: Unit, workflows: Workflows) -> Workflow | None:
    """Of those whose offsets and state are of one moment, if there is one."""
    found = [
        w
        for w in workflows
        if isinstance(w.spec, SavepointSpec) and w.spec.unit == unit.name and w.state is State.COMPLETED and w.cut
    ]
    return max(found, key=lambda w: (_is_of_one_moment(w.cut), w.place)) if found else None


def _is_of_one_moment(cut: Cut | None) -> bool:
    """As far as is known."""
    return cut is not None and (cut.is_exact or cut.is_exact_if_clean)


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
        return undeclared(unit)
    if spec.path is RunbookPath.SHADOW and spec.target is None:
        message = "target: a shadow has to know the topic that it may be promoted to"
        return Refused(Code.MISSING_FIELD, message, "Name the topic as target.")
    return None


def wanted(spec: RunbookSpec, params: WorkflowParams) -> WantedFacts:
    """Where it may begin with a savepoint, also what that needs."""
    unit, restored = params.units[spec.unit], _restored(spec)
    named = dict.fromkeys(unit.positioned, ())
    topics = dict.fromkeys((*spec.error_topics, *(t for t in (spec.topic, spec.target) if t is not None)))
    own = WantedFacts(
        groups=(GroupWanted(spec.cluster, spec.group, Current(), named),),
        units=(unit.name,),
        topics=tuple((spec.cluster, name) for name in topics),
        quotas=tuple((spec.cluster, client) for client in spec.quotas),
        names_on=spec.cluster if spec.path in {RunbookPath.AUTO, *COPIES} else "",
    )
    if restored is None:
        return own
    needed = RESTORE_SAVEPOINT.wanted(restored, params)
    both = tuple(dict.fromkeys((*own.topics, *needed.topics)))
    return replace(own, groups=needed.groups, topics=both, names_on=needed.names_on)


def _restored(spec: RunbookSpec) -> RestoreSpec | None:
    """What it would have restored, if that way is gone."""
    if spec.savepoint is None or spec.cut is None or spec.path not in {RunbookPath.AUTO, RunbookPath.RESTORE_STATE}:
        return None
    return RestoreSpec(spec.savepoint, spec.unit, spec.outputs, spec.cut, cluster=spec.cluster, group=spec.group)


def make_plan(spec: RunbookSpec, found: Found, params: WorkflowParams) -> Planned | Refused:
    unit, facts = params.units[spec.unit], found.units[spec.unit]
    alignment = align(unit, facts, spec)
    problem = _refuse(spec, unit, facts, alignment, found, params)
    if problem is not None:
        return problem
    proposal = propose(unit, facts, spec, alignment)
    quotas = tuple(
        QuotaUndo(client, found.quotas.get(client), rate, cluster=spec.cluster) for client, rate in spec.quotas.items()
    )
    is_auto = spec.path is RunbookPath.AUTO
    findings: tuple[str, ...] = (
        f"{alignment.verdict.value}: {alignment.told}",
        f"{proposal.path.value} would be proposed: {proposal.why}" if is_auto else f"the path is {spec.path.value}",
    )
    if spec.doubt and RunbookPath.RESTORE_STATE in {spec.path, proposal.path}:
        findings = (*findings, f"the savepoint {spec.savepoint}: {spec.doubt}")
    refused = _refuse(replace(spec, path=proposal.path), unit, facts, alignment, found, params) if is_auto else None
    if refused is not None:
        findings = (
            *findings,
            f"{proposal.path.value} could not be carried out as things are: {refused.message}",
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
    copied = tuple(ranges_of(spec, alignment.ranges)) if spec.path in COPIES else ()
    told = f"seven steps for {unit.name}; {findings[1]}"
    return Planned(plan, _first_steps(spec), told, quotas, leases=leases, reads=copied)


def _refuse(
    spec: RunbookSpec, unit: Unit, facts: UnitFacts, alignment: Alignment, found: Found, params: WorkflowParams
) -> Refused | None:
    problem = _refuse_topics(spec, unit, facts, found)
    if problem is not None:
        return problem
    if spec.path is RunbookPath.RESTORE_STATE:
        return _refuse_restore(spec, unit, facts, alignment, found, params)
    return _refuse_copies(spec, unit, facts, alignment, found) if spec.path in COPIES else None


def _refuse_restore(
    spec: RunbookSpec, unit: Unit, facts: UnitFacts, alignment: Alignment, found: Found, params: WorkflowParams
) -> Refused | None:
    """Why the workflow that this begins would be refused."""
    verb = "reprocess" if spec.savepoint is None else "restore_savepoint"
    asked = approval_of_all(params.approvals, verb, unit, params.units)
    if asked is not None and asked.dead_end is not None:
        return Refused(Code.NOT_AN_APPROVER, f"{verb}, which this begins: {asked.dead_end}")
    restored = _restored(spec)
    planned = None if restored is None else RESTORE_SAVEPOINT.plan(restored, found, params)
    if isinstance(planned, Refused):
        return planned
    strange = _refuse_anew(unit, facts) if spec.savepoint is None else None
    problem = problem_of_input(unit, facts, spec.path, spec, alignment)
    if strange is not None or problem is None:
        return strange
    return Refused(
        Code.INPUT_INCOMPLETE, problem, "Send a `reprocess` with `accept_missing`, or restore the inputs first."
    )


def _refuse_anew(unit: Unit, facts: UnitFacts) -> Refused | None:
    return refuse_kind(unit) or refuse_unclear(unit, facts.internal, "would not be taken away")


def _refuse_copies(
    spec: RunbookSpec, unit: Unit, facts: UnitFacts, alignment: Alignment, found: Found
) -> Refused | None:
    """Of a path that copies: why the replays that this begins would be refused."""
    ranges = ranges_of(spec, alignment.ranges)
    if is_empty(ranges):
        message = f"nothing is to be copied: {alignment.told}"
        return Refused(Code.NOTHING_TO_DO, message, "Name topic and ranges.")
    outside = problem_of_input(unit, facts, spec.path, spec, alignment)
    if outside is not None:
        return Refused(Code.OFFSET_OUTSIDE_LOG, outside, "Name a range that the log holds.")
    mixed = problem_of_target(spec, ranges)
    if mixed is not None:
        return Refused(Code.INVALID_VALUE, f"target: {mixed}", "Name one topic with its ranges.")
    named = (refuse_copy(spec.target or topic, there) for topic, there in ranges.items())
    uncopied = next((refused for refused in named if refused is not None), None)
    return uncopied or _refuse_made(spec, found, ranges) or _refuse_target(spec, facts, found, ranges)


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
    """The command that copies these ranges of a topic which is not the unit's, say of dead letters: to have copied
    those says nothing of the unit, so that a runbook could not verify it.
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


def _refuse_made(spec: RunbookSpec, found: Found, ranges: Mapping[str, Ranges]) -> Refused | None:
    """Of topics that it is to make: one of the name is there, or Kafka would not let it stand beside another."""
    made = [name for name in targets_of(spec, spec.path, ranges, spec.run).values() if name != spec.target]
    there = next((name for name in made if is_there(name, found.names)), None)
    if there is not None:
        message = f"{there} exists already, and is the name of the topic that this would copy to"
        return Refused(Code.INVALID_VALUE, message, "Choose another id for the runbook.")
    return refuse_collision((*made, *([spec.target] if spec.target is not None else [])), found.names)


def _refuse_target(spec: RunbookSpec, facts: UnitFacts, found: Found, ranges: Mapping[str, Ranges]) -> Refused | None:
    """As the replay that writes to it would be: of a shadow, the one that publishes what was staged."""
    if spec.target is None:
        return None
    there, is_shadow = found.topics.get(spec.target), spec.path is RunbookPath.SHADOW
    if there is None:  # a replay makes it
        missing = Refused(Code.TARGET_TOPIC_MISSING, f"target: {spec.target} does not exist")
        return missing if is_shadow else None
    ((topic, wanted),) = ranges.items()
    source = facts.topics[topic]
    written = [p for p, (start, stop) in wanted.items() if stop > start]
    needed = source.partitions if is_shadow else max(written) + 1
    if there.form.partitions < needed:
        message = f"{spec.target} has {there.form.partitions} partitions and {topic} {source.partitions}"
        return Refused(Code.TARGET_PARTITIONS, message, "Choose a target with as many.")
    if "compact" in there.form.configs.get("cleanup.policy", "delete") and (is_shadow or not source.is_compacted):
        message = (
            f"target: {spec.target} is compacted: records without a key would be refused and repeated keys removed"
        )
        return Refused(Code.TARGET_COMPACTED, message)
    held = next((p for p in written if p in there.ends and there.ends[p].records_most), None)
    if held is None or is_shadow:
        return None
    message = f"target: partition {held} of {spec.target} has up to {there.ends[held].records_most:,} records already"
    return Refused(Code.TARGET_NOT_EMPTY, message, "Name another target, or none: a new topic is made then.")


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
        WorkflowStep(IDENTIFY, replace(look, with_readers=True)),
        WorkflowStep(CONFIRM, look),
        WorkflowStep(CHOOSE, Settle(chosen) if chosen else AskPerson("confirm the path that will be proposed")),
        WorkflowStep(PROTECT, open_yet),
        WorkflowStep(EXECUTE, open_yet),
        WorkflowStep(VERIFY, look),
        WorkflowStep(CLOSE, look),
    )
