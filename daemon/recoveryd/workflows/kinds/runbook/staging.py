"""What a shadow has staged: topics of its own, by their ids, each up to where its copy was verified. Just this is
published: what somebody wrote behind it nobody has looked at, and a topic that was made again holds something else.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.workflows.kinds.copies import copy_data
from recoveryd.workflows.kinds.runbook.names import EXECUTE
from recoveryd.workflows.model.actions import ChildRun, RunChildren
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.facts import Found
from recoveryd.workflows.model.spec import RunbookSpec
from recoveryd.workflows.model.workflow import TopicUndo, UndoState, Workflow, WorkflowStep

_ENDS = "ends"  # in what the step that copied says of each copy


def staged_topics(workflow: Workflow) -> dict[str, str]:
    """Topics that it made and that are still there, with their ids."""
    rows = (row for row in workflow.undo if isinstance(row, TopicUndo) and row.state is UndoState.OPEN)
    return {row.name: row.was_set for row in rows if row.to is None and row.was_set}


def with_staged_ends(workflow: Workflow, step: WorkflowStep, event: StepReported) -> Workflow:
    """Where the copies were verified to end, in the evidence of the step that made them."""
    evidence, staged = dict(step.evidence), staged_topics(workflow)
    for run in _runs(step):
        topic, told = _target(run), evidence.get(run.recovery)
        if topic in staged and isinstance(told, Mapping) and topic in event.logs:
            ends = {str(p): log.high_watermark for p, log in event.logs[topic].items()}
            evidence[run.recovery] = {**told, _ENDS: ends}
    return workflow.with_step(replace(step, evidence=evidence))


def staged_ends(workflow: Workflow) -> dict[str, dict[int, int]]:
    """By topic; without those of which it was not noted, as by an earlier release."""
    step = next((step for step in workflow.steps if step.name == EXECUTE), None)
    found: dict[str, dict[int, int]] = {}
    for run in () if step is None else _runs(step):
        told = step.evidence.get(run.recovery) if step is not None else None
        ends = told.get(_ENDS) if isinstance(told, Mapping) else None
        if isinstance(ends, Mapping):
            found[_target(run)] = {int(p): int(end) for p, end in ends.items()}
    return found


def published(workflow: Workflow, spec: RunbookSpec) -> Iterator[dict[str, Any]]:
    """The data of the replays that publish it."""
    ends = staged_ends(workflow)
    target = {"cluster": spec.cluster, "topic": spec.target, "on_existing": "append"}
    for name in staged_topics(workflow):
        if name not in ends:
            source = {"cluster": spec.cluster, "topic": name, "from": "earliest", "to": "latest"}
            yield {"source": source, "target": target}
        elif any(ends[name].values()):
            starts = dict.fromkeys(ends[name], 0)
            yield {**copy_data(spec.cluster, name, name, starts, ends[name]), "target": target}


def problem_of_staged(workflow: Workflow, found: Found) -> Refused | None:
    """Whether a topic of the name is not, or not whole, the one that was verified. A step that an earlier release made
    does not ask for these topics, so that nothing is known of them.
    """
    ends = staged_ends(workflow)
    for name, topic_id in staged_topics(workflow).items():
        if name not in found.topics:
            continue
        there = found.topics.get(name)
        if there is None or there.id != topic_id:
            how = "is gone" if there is None else "was created again"
            return Refused(Code.TOPIC_RECREATED, f"{name} {how} since it was verified, so nothing of it is published")
        for p, end in ends.get(name, {}).items():
            log = there.ends.get(p)
            if log is None or log.log_start > 0 or log.high_watermark < end:
                message = f"records of {name} {p} are gone that were verified, so nothing of it is published"
                return Refused(Code.OFFSET_OUTSIDE_LOG, message)
    return None


def told_later(workflow: Workflow, found: Found) -> str:
    """What came to it after it was verified, in words; empty = nothing."""
    told = []
    for name, ends in staged_ends(workflow).items():
        there = found.topics.get(name)
        more = 0 if there is None else sum(max(0, log.high_watermark - ends.get(p, 0)) for p, log in there.ends.items())
        if more:
            told.append(f"up to {more:,} records came to {name} after it was verified, and are left out")
    return "; ".join(told)


def _runs(step: WorkflowStep) -> tuple[ChildRun, ...]:
    return step.action.runs if isinstance(step.action, RunChildren) else ()


def _target(run: ChildRun) -> str:
    target = run.data.get("target")
    return str(target["topic"]) if isinstance(target, Mapping) else ""
