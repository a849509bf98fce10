"""The five ways of a runbook: which one is proposed and why, and the steps that each takes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from recoveryd.recovery.kept_topics import AS_WRITTEN
from recoveryd.units.contract import make_contract
from recoveryd.units.facts import UnitFacts
from recoveryd.units.findings import Grade
from recoveryd.units.model import Behaviour, ClauseName, Unit
from recoveryd.workflows.kinds.copies import copy_data
from recoveryd.workflows.kinds.outputs import undeclared
from recoveryd.workflows.kinds.runbook.gates import evidence_of
from recoveryd.workflows.kinds.runbook.names import (
    AGAIN,
    CLOSE,
    CONFIRM,
    DECIDE,
    EXECUTE,
    IDENTIFY,
    PROTECT,
    PUBLISH,
    REMOVE,
    STAGE,
    VERIFY,
)
from recoveryd.workflows.kinds.runbook.staging import published, staged_topics
from recoveryd.workflows.kinds.runbook.truths import Alignment, TruthVerdict
from recoveryd.workflows.model.actions import (
    Action,
    AskChoice,
    AwaitStarted,
    ChildRun,
    CreateTopics,
    DeleteTopics,
    LookAtUnit,
    RunChildren,
    SetQuotas,
    Settle,
    TopicForm,
)
from recoveryd.workflows.model.size import named_after
from recoveryd.workflows.model.spec import OutputChoice, OutputPolicy, Ranges, RunbookPath, RunbookSpec
from recoveryd.workflows.model.workflow import Workflow, WorkflowStep

COPIES: Final = frozenset({RunbookPath.REPLAY, RunbookPath.SHADOW})
_ENDS: Final = {
    RunbookPath.AUTO: "-restore-9999",
    RunbookPath.RESTORE_STATE: "-restore-9999",
    RunbookPath.REPLAY: "-9999",
    RunbookPath.SHADOW: "-publish-9999",
}

_FROM_ELSEWHERE: Final = "take it from a backup, or decide to go on without"
_WITHOUT: Final = {
    RunbookPath.REPLAY: _FROM_ELSEWHERE,
    RunbookPath.RESTORE_STATE: "`reprocess` with `accept_missing` begins without them",
}


@dataclass(frozen=True, slots=True)
class Proposal:
    path: RunbookPath
    why: str


def propose(unit: Unit, facts: UnitFacts, spec: RunbookSpec, alignment: Alignment) -> Proposal:
    """The way by what is known; where it is not known that a way does no harm, a person is called."""
    problem = problem_of_input(unit, facts, RunbookPath.RESUME, spec, alignment)
    if problem is not None:
        return Proposal(RunbookPath.ESCALATE, f"{problem}: {_FROM_ELSEWHERE}")
    is_stale = alignment.verdict is TruthVerdict.STATE_STALE
    found = _restored(unit, spec, alignment) if is_stale else _written_again(alignment, ", ".join(unit.appended))
    gone = problem_of_input(unit, facts, found.path, spec, alignment)
    if gone is None:
        return found
    return Proposal(RunbookPath.ESCALATE, f"{alignment.told}, and {gone}: {_WITHOUT[found.path]}")


def _written_again(alignment: Alignment, twice: str) -> Proposal:
    """`twice`: outputs in which a record that is written again is there twice; empty = none."""
    told = alignment.told
    match alignment.verdict:
        case TruthVerdict.SINK_BEHIND:
            why = f"{told}: what the sink lacks is copied to a topic of its own, to be written from there"
            return Proposal(RunbookPath.REPLAY, why)
        case TruthVerdict.SINK_AHEAD if twice:
            why = f"{told}, and {twice} would hold them twice: they are copied to be compared first"
            return Proposal(RunbookPath.REPLAY, why)
        case TruthVerdict.UNKNOWN if twice:
            return Proposal(RunbookPath.ESCALATE, f"{told}; and {twice} may not be written twice")
        case TruthVerdict.SINK_AHEAD | TruthVerdict.UNKNOWN:
            why = f"{told}; every output takes the same record twice, so it goes on from its offsets"
            return Proposal(RunbookPath.RESUME, why)
        case _:
            return Proposal(RunbookPath.RESUME, f"{told}: it goes on where it stopped")


def _restored(unit: Unit, spec: RunbookSpec, alignment: Alignment) -> Proposal:
    unsaid = undeclared(unit)
    if unsaid is not None:
        return Proposal(RunbookPath.ESCALATE, f"{alignment.told}, and {unsaid.message}")
    left = sorted(set(unit.outputs) - set(outputs_of(unit, spec)))
    if left:
        why = (
            f"{alignment.told}, and nothing says what becomes of {', '.join(left)}: send it again with "
            "`path: restore_state` and `outputs`"
        )
        return Proposal(RunbookPath.ESCALATE, why)
    how = "it begins anew with empty state" if spec.savepoint is None else f"it begins with savepoint {spec.savepoint}"
    how += f" ({spec.doubt})" if spec.doubt else ""
    return Proposal(RunbookPath.RESTORE_STATE, f"{alignment.told}: {how}")


def outputs_of(unit: Unit, spec: RunbookSpec) -> Mapping[str, OutputChoice]:
    """What was said, and `keep` where an output is overwritten by key."""
    kept = {
        name: OutputChoice(OutputPolicy.KEEP) for name, output in unit.outputs.items() if _is_kept(output.behaviour)
    }
    return {**kept, **spec.outputs}


def _is_kept(behaviour: Behaviour | None) -> bool:
    return behaviour is Behaviour.IDEMPOTENT


def problem_of_input(
    unit: Unit, facts: UnitFacts, path: RunbookPath, spec: RunbookSpec, alignment: Alignment
) -> str | None:
    """Why the inputs are not there for this way; the condition at which it stops before anything is changed."""
    lost = [name for name in unit.inputs if name not in facts.topics]
    if lost:
        return f"{', '.join(lost)} does not exist"
    if path is RunbookPath.RESUME:
        clause = next(c for c in make_contract(unit, facts) if c.name is ClauseName.OFFSETS)
        return clause.told if clause.state is Grade.FAIL else None
    if path is RunbookPath.RESTORE_STATE:
        return _not_from_the_start(unit, facts) if spec.savepoint is None else None
    for topic, ranges in ranges_of(spec, alignment.ranges).items() if path in COPIES else ():
        ends = facts.topics[topic].ends if topic in facts.topics else {}
        for partition, (start, stop) in ranges.items():
            log = ends.get(partition)
            if log is None or not log.log_start <= start <= stop <= log.high_watermark:
                there = "has no such partition" if log is None else f"holds {log.log_start} to {log.high_watermark}"
                return f"{topic} {partition} {there}, and {start} to {stop} is needed"
    return None


def _not_from_the_start(unit: Unit, facts: UnitFacts) -> str | None:
    """Why empty state cannot be filled by processing all of the inputs again."""
    gone = {
        f"{name} {partition}": ends.log_start
        for name in unit.positioned_inputs
        for partition, ends in sorted(facts.topics[name].ends.items())
        if ends.log_start
    }
    if not gone:
        return None
    place, start = next(iter(gone.items()))
    more = f", as do {len(gone) - 1} more" if len(gone) > 1 else ""
    return f"there is no savepoint, and {place} begins at {start:,}{more}: what was before it cannot be processed again"


def ranges_of(
    spec: RunbookSpec, apart: Mapping[str, Mapping[int, tuple[int, int]]]
) -> Mapping[str, Mapping[int, tuple[int, int]]]:
    """What is copied: what was said, else where the truths lie apart."""
    return {spec.topic: spec.ranges} if spec.topic is not None and spec.ranges else apart


def problem_of_target(spec: RunbookSpec, ranges: Mapping[str, Ranges]) -> str | None:
    """Why what is to be copied cannot go where it shall: records of several topics would lie between each other."""
    if spec.target is None or len(ranges) <= 1:
        return None
    return f"{', '.join(ranges)} cannot all go to {spec.target}"


def targets_of(spec: RunbookSpec, path: RunbookPath, ranges: Iterable[str], run: str) -> dict[str, str]:
    """By topic, the topic to which it is copied at first. `run`: the id of the runbook."""
    if path is RunbookPath.SHADOW:
        return {topic: staged_name(topic, run) for topic in ranges}
    return {topic: spec.target or named_after(topic, f".{run}") for topic in ranges}


def is_empty(ranges: Mapping[str, Mapping[int, tuple[int, int]]]) -> bool:
    return not any(stop > start for found in ranges.values() for start, stop in found.values())


def ends_of_children(spec: RunbookSpec) -> str:
    """The longest end of an id of what it begins, and of what that begins."""
    return _ENDS.get(spec.path, "")


def last_steps(workflow: Workflow, path: RunbookPath) -> tuple[WorkflowStep, ...]:
    """From `protect_live` on."""
    spec = workflow.spec
    assert isinstance(spec, RunbookSpec)
    confirmed = evidence_of(workflow, CONFIRM)
    range_then = {name: confirmed[name] for name in ("range", "copied") if name in confirmed}
    seen = {**evidence_of(workflow, IDENTIFY), **range_then}
    copies = _copies(seen, spec) if path in COPIES else {}
    return tuple(_steps(workflow, spec, path, copies, seen))


def _steps(
    workflow: Workflow,
    spec: RunbookSpec,
    path: RunbookPath,
    copies: Mapping[str, Mapping[int, tuple[int, int]]],
    seen: Mapping[str, Any],
) -> Iterator[WorkflowStep]:
    yield WorkflowStep(PROTECT, _protect(spec, path))
    if path is RunbookPath.SHADOW:
        yield WorkflowStep(STAGE, CreateTopics(spec.cluster, tuple(_staged_forms(workflow, copies, seen)), is_own=True))
    yield WorkflowStep(EXECUTE, _execute(workflow, spec, path, copies))
    yield WorkflowStep(VERIFY, look_at(spec, seen))
    if path is RunbookPath.SHADOW:
        question = (
            f"look at {', '.join(staged_name(topic, workflow.id) for topic in copies)}, then promote or discard it"
        )
        yield WorkflowStep(DECIDE, _choice(spec, seen, question))
    yield WorkflowStep(CLOSE, LookAtUnit(spec.cluster, spec.group, spec.unit, spec.error_topics))


def _choice(spec: RunbookSpec, seen: Mapping[str, Any], question: str) -> Action:
    """With a hold, its gates are looked at until somebody chooses."""
    verbs = ("promote", "discard")
    if not spec.hold_ms:
        return AskChoice(question, verbs)
    return replace(look_at(spec, seen), question=question, verbs=verbs, hold_ms=spec.hold_ms)


def look_at(spec: RunbookSpec, seen: Mapping[str, Any]) -> LookAtUnit:
    """With what the inputs held at the beginning as what has to be read."""
    ends = {topic: {int(p): end for p, end in found.items()} for topic, found in seen.get("to_read", {}).items()}
    return LookAtUnit(spec.cluster, spec.group, spec.unit, spec.error_topics, ends)


def _protect(spec: RunbookSpec, path: RunbookPath) -> Action:
    if spec.quotas:
        return SetQuotas(spec.cluster, dict(spec.quotas))
    if path is RunbookPath.RESUME:
        return Settle(
            "no quota was asked for: the application reads as fast as it can; `quotas` would slow its clients"
        )
    return Settle("replays begin at the floor of their rate, and speed up only while live traffic is well")


def _execute(
    workflow: Workflow, spec: RunbookSpec, path: RunbookPath, copies: Mapping[str, Mapping[int, tuple[int, int]]]
) -> Action:
    match path:
        case RunbookPath.RESTORE_STATE:
            return RunChildren((_restore(workflow, spec),))
        case RunbookPath.REPLAY:
            runs = [_copy(workflow, spec, number, topic, copies[topic]) for number, topic in enumerate(copies)]
            return RunChildren(tuple(runs))
        case RunbookPath.SHADOW:
            staged = [_copy(workflow, spec, number, topic, copies[topic], True) for number, topic in enumerate(copies)]
            return RunChildren(tuple(staged))
        case _:
            return AwaitStarted(spec.cluster, spec.group, spec.unit, ", with the state and the offsets that it has")


def _restore(workflow: Workflow, spec: RunbookSpec) -> ChildRun:
    outputs = {
        name: {"new": choice.name} if choice.name is not None else choice.policy.value
        for name, choice in spec.outputs.items()
    }
    if spec.savepoint is None:
        return ChildRun(f"{workflow.id}-anew", "reprocess", {"unit": spec.unit, "from": "earliest", "outputs": outputs})
    data = {"savepoint": spec.savepoint, "to_unit": spec.unit, "outputs": outputs}
    return ChildRun(f"{workflow.id}-restore", "restore_savepoint", data)


def _copies(seen: Mapping[str, Any], spec: RunbookSpec) -> Mapping[str, Mapping[int, tuple[int, int]]]:
    apart = {
        topic: {int(p): (start, stop) for p, (start, stop) in found.items()}
        for topic, found in seen.get("range", {}).items()
    }
    return ranges_of(spec, apart)


def _copy(
    workflow: Workflow,
    spec: RunbookSpec,
    number: int,
    topic: str,
    ranges: Mapping[int, tuple[int, int]],
    is_staged: bool = False,
) -> ChildRun:
    path = RunbookPath.SHADOW if is_staged else RunbookPath.REPLAY
    target = targets_of(spec, path, [topic], workflow.id)[topic]
    starts, stops = ({p: pair[at] for p, pair in ranges.items()} for at in (0, 1))
    data = copy_data(spec.cluster, topic, target, starts, stops)
    if not is_staged:
        data["target"]["create"] = True
    return ChildRun(f"{workflow.id}-{number}", "replay", _limited(spec, data))


def _limited(spec: RunbookSpec, data: dict[str, Any]) -> dict[str, Any]:
    return data | ({"limits": {"max_bytes_per_s": spec.max_bytes_per_s}} if spec.max_bytes_per_s is not None else {})


def staged_name(topic: str, run: str) -> str:
    return named_after(topic, f".shadow-{run}")


def _staged_forms(
    workflow: Workflow, copies: Mapping[str, Mapping[int, tuple[int, int]]], seen: Mapping[str, Any]
) -> Iterator[TopicForm]:
    for topic in copies:
        partitions, replicas = seen["copied"][topic]
        yield TopicForm(staged_name(topic, workflow.id), partitions, replicas, dict(AS_WRITTEN))


def steps_of_choice(workflow: Workflow, choice: str) -> tuple[WorkflowStep, ...]:
    """Between the choice and the end."""
    spec = workflow.spec
    assert isinstance(spec, RunbookSpec)
    staged = staged_topics(workflow)
    remove = WorkflowStep(REMOVE, DeleteTopics(spec.cluster, staged, is_ours=True, with_records=True))
    if choice != "promote":
        return (remove,)
    runs = tuple(
        ChildRun(f"{workflow.id}-publish-{number}", "replay", _limited(spec, data))
        for number, data in enumerate(published(workflow, spec))
    )
    again = look_at(spec, evidence_of(workflow, IDENTIFY))
    again = replace(again, topics=(*again.topics, *staged))
    return (WorkflowStep(AGAIN, again), WorkflowStep(PUBLISH, RunChildren(runs)), remove)


def with_last_steps(workflow: Workflow, path: RunbookPath, before: str) -> Workflow:
    """The steps after `before` in place of those that stood there until it was known which way is gone."""
    at = next(number for number, step in enumerate(workflow.steps) if step.name == before)
    return replace(workflow, steps=(*workflow.steps[: at + 1], *last_steps(workflow, path)))
