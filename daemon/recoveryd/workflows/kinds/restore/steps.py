"""The steps by which a unit begins with a cut, and those of the way back.

Changelogs are filled before they may be compacted, so that what was copied can be verified, and get the configs that
they had only then.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from recoveryd.recovery.kept_topics import AS_WRITTEN
from recoveryd.units.model import Unit
from recoveryd.workflows.kinds.copies import told_sizes
from recoveryd.workflows.kinds.ending_steps import last_steps
from recoveryd.workflows.kinds.outputs import Forms, kept_ids, output_steps
from recoveryd.workflows.kinds.restore.emptied import filled
from recoveryd.workflows.kinds.restore.names import (
    CREATE_STATE,
    DELETE_FILLED,
    RECREATE_STATE,
    SETTLE,
    cut_of,
    name_now,
    state_names,
)
from recoveryd.workflows.machine.undoing import rollback_steps
from recoveryd.workflows.model.actions import (
    AwaitCaughtUp,
    AwaitEmpty,
    AwaitStarted,
    AwaitStopped,
    CreateTopics,
    DeleteTopics,
    RecreateTopics,
    RunChildren,
    SetConfigs,
    TakeSnapshot,
    TopicForm,
)
from recoveryd.workflows.model.cut import Cut
from recoveryd.workflows.model.facts import Found, TopicFound
from recoveryd.workflows.model.spec import OutputPolicy, RestoreSpec
from recoveryd.workflows.model.step_names import COPY, DELETE, EMPTY, NOTE, STOP
from recoveryd.workflows.model.workflow import ConfigUndo, TopicUndo, UndoState, Workflow, WorkflowStep


def restore_steps(
    spec: RestoreSpec, unit: Unit, found: Found, state: Forms, forms: Forms, gone: Mapping[str, str]
) -> Iterator[WorkflowStep]:
    cluster, group, cut = spec.cluster, spec.group, cut_of(spec)
    ids, planned = found.groups[0].topic_ids, _partitions(spec, found)
    internal = tuple(name_now(spec, cut, topic) for topic in cut.topics)
    between = tuple(name_now(spec, cut, topic) for topic in cut.topics if topic.is_between)
    yield WorkflowStep(STOP, AwaitStopped(cluster, group, unit.name))
    yield WorkflowStep(EMPTY, AwaitEmpty(cluster, group))
    read = (*unit.positioned, *between)
    others = tuple(name for name in planned if name not in read)
    note = TakeSnapshot(cluster, group, read, others, topic_ids=ids, partitions=planned, unit=unit.name)
    yield WorkflowStep(NOTE, replace(note, looks_twice=True))
    if gone:
        yield WorkflowStep(DELETE, DeleteTopics(cluster, gone, group=group))
    if state[RECREATE_STATE]:
        old = {form.name: topic_id or "" for topic_id, form in state[RECREATE_STATE]}
        yield WorkflowStep(RECREATE_STATE, RecreateTopics(cluster, _bare(state[RECREATE_STATE]), old, group))
    if state[CREATE_STATE]:
        yield WorkflowStep(CREATE_STATE, CreateTopics(cluster, _bare(state[CREATE_STATE]), is_own=True))
    if cut.topics:
        yield WorkflowStep(COPY, RunChildren(told=told_sizes(copied(cut, found))))
        yield WorkflowStep(SETTLE, SetConfigs(cluster, _settled(spec, cut)))
    yield from output_steps(spec, forms)
    for step in last_steps(spec, unit, internal, kept_ids(ids, state, forms), gone):
        action = step.action
        if isinstance(action, AwaitStarted):
            action = replace(action, before=spec.before, inputs=(*unit.positioned_inputs, *unit.intermediate))
        elif isinstance(action, AwaitCaughtUp):
            action = replace(action, brings_state=len(between) < len(internal))
        yield replace(step, action=action)


def copied(cut: Cut, found: Found) -> tuple[TopicFound, ...]:
    """The copies from which its topics are filled."""
    return tuple(there for topic in cut.topics if topic.offsets and (there := found.topics.get(topic.copy)) is not None)


def state_forms(spec: RestoreSpec, cut: Cut, found: Found) -> Forms:
    again: list[tuple[str | None, TopicForm]] = []
    new: list[tuple[str | None, TopicForm]] = []
    for topic in cut.topics:
        form = replace(topic.form, name=name_now(spec, cut, topic), configs={**topic.form.configs, **AS_WRITTEN})
        there = found.topics.get(form.name)
        (new if there is None else again).append((None if there is None else there.id, form))
    return {RECREATE_STATE: again, CREATE_STATE: new}


def not_in_cut(spec: RestoreSpec, cut: Cut, found: Found) -> dict[str, str]:
    """Internal topics that the unit has now and had not then, by name, with their ids."""
    known = {name_now(spec, cut, topic) for topic in cut.topics}
    facts = found.units[spec.unit]
    names = (name for name in facts.internal.certain if name not in known)
    return {name: topic.id for name in names if (topic := facts.topics.get(name)) is not None}


def _partitions(spec: RestoreSpec, found: Found) -> dict[str, int]:
    """How many the plan saw, of topics that are read, and of outputs that are made again or like which others
    are made.
    """
    like = (n for n, choice in spec.outputs.items() if choice.policy in {OutputPolicy.RECREATE, OutputPolicy.NEW})
    made = {name: topic.form.partitions for name in like if (topic := found.topics[name]) is not None}
    return {**Counter(look.topic for look in found.groups[0].looks), **made}


def _bare(forms: Sequence[tuple[str | None, TopicForm]]) -> tuple[TopicForm, ...]:
    return tuple(form for _, form in forms)


def _settled(spec: RestoreSpec, cut: Cut) -> dict[str, dict[str, str | None]]:
    return {
        name_now(spec, cut, topic): {name: topic.form.configs.get(name) for name in AS_WRITTEN} for topic in cut.topics
    }


def still_rows(spec: RestoreSpec, cut: Cut) -> Iterator[ConfigUndo]:
    """Topics are made with configs of their copying: where that fails, they get their own all the same."""
    for topic, configs in _settled(spec, cut).items():
        for name, value in configs.items():
            if value != AS_WRITTEN[name]:
                yield ConfigUndo(topic, name, value, AS_WRITTEN[name], is_temporary=True, cluster=spec.cluster)


def back_steps(workflow: Workflow) -> tuple[WorkflowStep, ...]:
    """State topics that it made and filled go as well, once nobody uses them, also those that it made in place of
    others (`emptied`). One that went is for the application to make.
    """
    spec = workflow.spec
    assert isinstance(spec, RestoreSpec)
    names = state_names(spec)
    made = {
        row.name: row.was_set
        for row in workflow.undo
        if isinstance(row, TopicUndo) and row.name in names and row.to is None and row.was_set
        if row.state is UndoState.OPEN
    }
    gone = {row.name for row in workflow.undo if isinstance(row, TopicUndo) and row.name in names and row.is_gone}
    others = replace(workflow, undo=tuple(row for row in workflow.undo if row.name not in made.keys() | gone))
    steps = rollback_steps(others)
    for name, topics in (("delete_state_topics", made), (DELETE_FILLED, filled(workflow))):
        action = DeleteTopics(spec.cluster, topics, is_ours=True, group=spec.group, with_records=True)
        steps = (*steps, WorkflowStep(name, action)) if topics else steps
    return steps
