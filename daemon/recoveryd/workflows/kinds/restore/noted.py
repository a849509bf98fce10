"""What a step found, for those behind it: once it is noted where the group stands, which offsets are set or taken away,
what is copied, and how far the unit has to read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from recoveryd.kernel.refused import Refused
from recoveryd.workflows.kinds.copies import copy_data
from recoveryd.workflows.kinds.noting import (
    change_key,
    inside_log,
    refuse_grown,
    with_commits_since,
    with_positions,
    with_start_as_before,
    without_commits,
)
from recoveryd.workflows.kinds.reset import outside_log
from recoveryd.workflows.kinds.restore.emptied import with_state_kept
from recoveryd.workflows.kinds.restore.names import SETTLE, cut_of, name_now
from recoveryd.workflows.model.actions import (
    Action,
    AwaitCaughtUp,
    AwaitStopped,
    ChildRun,
    RecreateTopics,
    RunChildren,
    SetOffsets,
    TakeSnapshot,
    with_runs,
)
from recoveryd.workflows.model.cut import Cut, CutTopic
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.positions import PositionRefused
from recoveryd.workflows.model.spec import RestoreSpec
from recoveryd.workflows.model.step_names import CATCH_UP, COPY, NOTE
from recoveryd.workflows.model.workflow import UndoState, Workflow, WorkflowStep


def after_step(workflow: Workflow, step: WorkflowStep, event: StepReported) -> Workflow | Refused:
    spec = workflow.spec
    if not isinstance(spec, RestoreSpec) or workflow.plan is None:
        return workflow
    if step.name == SETTLE:
        return workflow.with_undo(replace(row, state=UndoState.DONE) for row in workflow.temporary)
    if isinstance(step.action, AwaitStopped):
        return with_start_as_before(workflow, event)
    if isinstance(step.action, RecreateTopics):
        return without_commits(workflow.with_undo(event.undo), {form.name for form in step.action.topics})
    if step.name == NOTE and isinstance(step.action, TakeSnapshot):
        return refuse_grown(step.action.partitions, event) or _noted(workflow, spec, event)
    heard = workflow.with_undo(event.undo)
    is_back = isinstance(step.action, SetOffsets) and step.action.is_back
    return with_state_kept(heard, event.evidence) if is_back else heard


def _noted(workflow: Workflow, spec: RestoreSpec, event: StepReported) -> Workflow | Refused:
    cut = cut_of(spec)
    workflow = with_commits_since(workflow, event)
    assert workflow.plan is not None
    after = _whole({change_key(c): c.after for c in workflow.plan.changes if c.what == "offset"})
    try:
        inside_log(after, event, but=[name_now(spec, cut, topic) for topic in cut.topics])
    except PositionRefused as refused:
        return outside_log(refused)
    awaited = next(s.action for s in workflow.steps if isinstance(s.action, AwaitCaughtUp))
    ends = {t: {p: log.high_watermark for p, log in event.logs[t].items()} for t in awaited.ends}
    copy = next((s.action for s in workflow.steps if s.name == COPY), RunChildren())
    pinned: dict[str, Action] = {
        COPY: with_runs(copy, _runs(workflow, spec, cut)),
        CATCH_UP: replace(awaited, ends=ends),
    }
    steps = tuple(replace(s, action=pinned[s.name]) if s.name in pinned else s for s in workflow.steps)
    return with_positions(replace(workflow, steps=steps), event, spec.group, after)


def _whole(after: Mapping[tuple[str, int], object]) -> dict[tuple[str, int], int | None]:
    return {place: at if isinstance(at, int) else None for place, at in after.items()}


def _runs(workflow: Workflow, spec: RestoreSpec, cut: Cut) -> Iterator[ChildRun]:
    for number, topic in enumerate(cut.topics):
        if topic.offsets and (not topic.copy_ends or any(topic.copy_ends.values())):
            yield ChildRun(f"{workflow.id}-{number}", "replay", _copy_back(spec, cut, topic))


def _copy_back(spec: RestoreSpec, cut: Cut, topic: CutTopic) -> dict[str, Any]:
    """The data of a replay of what is of the cut. Of one that does not say where its copies ended it is all of them."""
    name, ends = name_now(spec, cut, topic), topic.copy_ends
    if ends:
        return copy_data(spec.cluster, topic.copy, name, dict.fromkeys(ends, 0), ends)
    return {
        "source": {"cluster": spec.cluster, "topic": topic.copy, "from": "earliest", "to": "latest"},
        "target": {"cluster": spec.cluster, "topic": name},
    }
