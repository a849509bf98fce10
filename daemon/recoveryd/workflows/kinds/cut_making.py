"""How a cut comes to be: planned without offsets, filled when it is noted where the group and its changelogs stand,
then given the topics that hold its state and where these were verified to end.
"""

from collections.abc import Mapping
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.units.control import ENDED_CLEANLY
from recoveryd.units.facts import PartitionEnds
from recoveryd.workflows.kinds.copies import copy_data
from recoveryd.workflows.model.actions import ChildRun, CreateTopics, SetConfigs, with_runs
from recoveryd.workflows.model.cut import STOOD, Cut, CutTopic
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.spec import SavepointSpec
from recoveryd.workflows.model.step_names import COPY, NOTE, STOP
from recoveryd.workflows.model.workflow import OffsetUndo, TopicUndo, Workflow, WorkflowStep


def after_step(workflow: Workflow, step: WorkflowStep, event: StepReported) -> Workflow | Refused:
    spec = workflow.spec
    if not isinstance(spec, SavepointSpec):
        return workflow
    if isinstance(step.action, CreateTopics | SetConfigs):
        return _with_copies(workflow, event).with_undo(event.undo)
    if step.name == COPY:
        return _with_ends(workflow, event)
    if step.name != NOTE or workflow.cut is None:
        return workflow
    moved = _moved_on(workflow.cut, event)
    if moved is not None:
        return moved
    at_ms = step.ended_ms or workflow.updated_ms  # that of the report: the workflow may have waited long since
    cut = _cut(workflow.cut, spec, event, at_ms, was_clean=_was_clean(workflow, spec))
    # An application that runs deletes what it has read of a topic in between, so those come first.
    ordered = sorted(enumerate(cut.topics), key=lambda numbered: not numbered[1].is_between)
    runs = tuple(_copy_run(workflow, spec, number, topic) for number, topic in ordered if topic.offsets)
    steps = tuple(replace(s, action=with_runs(s.action, runs)) if s.name == COPY else s for s in workflow.steps)
    return replace(workflow, steps=steps, cut=cut)


def _moved_on(planned: Cut, event: StepReported) -> Refused | None:
    """Whether a topic went since the plan, or has partitions now that its copy would not have: the cut would lack its
    state.
    """
    gone = [name for name in (*planned.topic_ids, *(t.name for t in planned.topics)) if name not in event.logs]
    if gone:
        message = f"{gone[0]} was deleted after the plan was made"
        return Refused(Code.SOURCE_TOPIC_MISSING, message, "Look why, and take the savepoint again.")
    for topic in planned.topics:
        count = len(event.logs[topic.name])
        if count > topic.form.partitions:
            message = f"{topic.name} has {count} partitions, and had {topic.form.partitions} when the plan was made"
            return Refused(Code.STALE_PLAN, message, "Send it again: its plan will have them.")
    return None


def ended_cleanly(told: Mapping[str, object]) -> bool | None:
    """Whether the application ended as it was told to, by what is told of its end; None = that says nothing of it."""
    found = told.get(ENDED_CLEANLY)
    return found if isinstance(found, bool) else None


def how_it_ended(workflow: Workflow) -> bool | None:
    """The same, by the step of a workflow that stopped it."""
    stop = next((step for step in workflow.steps if step.name == STOP), None)
    return None if stop is None else ended_cleanly(stop.evidence)


def _was_clean(workflow: Workflow, spec: SavepointSpec) -> bool | None:
    """What was stopped before this began has ended by then, which its own step sees no more."""
    own = how_it_ended(workflow)
    return spec.was_clean if own is None else own


def _cut(planned: Cut, spec: SavepointSpec, event: StepReported, at_ms: int, *, was_clean: bool | None) -> Cut:
    committed: dict[str, dict[int, int | None]] = {}
    for row in event.undo:
        if isinstance(row, OffsetUndo):
            committed.setdefault(row.name, {})[row.partition] = row.to
    topics = tuple(_with_range(t, event.logs.get(t.name, {}), committed.get(t.name, {})) for t in planned.topics)
    internal = {topic.name for topic in topics}
    is_still = not spec.live or event.evidence.get("is_still") is True
    return replace(
        planned,
        at_ms=at_ms,
        offsets={topic: offsets for topic, offsets in committed.items() if topic not in internal},
        topics=topics,
        ends={
            topic: {p: log.high_watermark for p, log in logs.items()}
            for topic, logs in event.logs.items()
            if topic not in internal
        },
        is_exact=(planned.is_exact or (not spec.live and was_clean is True)) and is_still,
        is_exact_if_clean=not spec.live and not planned.is_exact and was_clean is None,
        why=_exactness(planned, is_still=is_still) if spec.live else _exactness_at_rest(planned, was_clean),
    )


def _exactness_at_rest(planned: Cut, was_clean: bool | None) -> str:
    if planned.is_exact:
        return f"{STOOD}, and it {'commits state and offsets together' if planned.topics else 'has no internal topics'}"
    if was_clean:
        return f"{STOOD}, and it had ended as it was told to"
    twice = "its state is ahead of its offsets by what it did since its last commit, which is counted twice"
    if was_clean is None:
        return f"{STOOD}; the cut is exact if it was stopped cleanly, which is not known: where it was killed, {twice}"
    return f"the application was killed and is not known to be exactly once: {twice}"


def _exactness(planned: Cut, *, is_still: bool) -> str:
    if not planned.is_exact:
        return "the application ran and is not known to be exactly once: records behind the cut may be counted twice"
    if not is_still:
        return (
            "the application committed, or was about to, between the two looks: state and offsets may be of different "
            "moments, so that records behind the cut may be counted twice or be missing"
        )
    return "it commits state and offsets together, and did not between the two looks"


def _with_range(topic: CutTopic, logs: Mapping[int, PartitionEnds], committed: Mapping[int, int | None]) -> CutTopic:
    starts, stops = {}, {}
    for p, log in logs.items():
        at = committed.get(p) if topic.is_between else None
        starts[p] = min(max(log.log_start, at or 0), log.high_watermark)
        stops[p] = log.high_watermark
    return replace(topic, starts=starts, stops=stops)


def _copy_run(workflow: Workflow, spec: SavepointSpec, number: int, topic: CutTopic) -> ChildRun:
    return ChildRun(
        f"{workflow.id}-{number}", "replay", copy_data(spec.cluster, topic.name, topic.copy, topic.starts, topic.stops)
    )


def _with_copies(workflow: Workflow, event: StepReported) -> Workflow:
    """By their ids: a restore has to find these, and no others of their names."""
    ids = {row.name: row.was_set for row in event.undo if isinstance(row, TopicUndo)}
    if workflow.cut is None:
        return workflow
    topics = tuple(replace(topic, copy_id=ids.get(topic.copy) or topic.copy_id) for topic in workflow.cut.topics)
    return replace(workflow, cut=replace(workflow.cut, topics=topics))


def _with_ends(workflow: Workflow, event: StepReported) -> Workflow:
    """Where the copies were verified to end: what is written behind is none of it."""
    if workflow.cut is None:
        return workflow
    ends = {copy: {p: log.high_watermark for p, log in logs.items()} for copy, logs in event.logs.items()}
    topics = tuple(replace(topic, copy_ends=ends.get(topic.copy, {})) for topic in workflow.cut.topics)
    return replace(workflow, cut=replace(workflow.cut, topics=topics))
