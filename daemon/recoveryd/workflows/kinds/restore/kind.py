"""The plan of `restore_savepoint`, put together, and the kind itself; its checks and its steps are beside it."""

from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused, nearest_name
from recoveryd.workflows.kinds.copies import planned_copies
from recoveryd.workflows.kinds.earlier import savepoint_of
from recoveryd.workflows.kinds.noting import change_of, with_new_topics_told
from recoveryd.workflows.kinds.outputs import (
    Forms,
    form_leases,
    forms_of,
    new_names,
    outputs_left_out,
    theirs,
    topic_changes,
)
from recoveryd.workflows.kinds.reset import outside_log, unit_of
from recoveryd.workflows.kinds.restore.checks import find_problem, findings_of, place_between, problem_of_unit
from recoveryd.workflows.kinds.restore.emptied import told_empty, told_unasked
from recoveryd.workflows.kinds.restore.names import CREATE_STATE, RECREATE_STATE, cut_of, name_now
from recoveryd.workflows.kinds.restore.noted import after_step
from recoveryd.workflows.kinds.restore.steps import (
    back_steps,
    copied,
    not_in_cut,
    restore_steps,
    state_forms,
    still_rows,
)
from recoveryd.workflows.machine.kind import Around, Knows, Planned, WorkflowKind
from recoveryd.workflows.machine.starting import started_again
from recoveryd.workflows.model.commands import RestoreSavepoint
from recoveryd.workflows.model.cut import Cut
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.facts import Found, GroupWanted, WantedFacts
from recoveryd.workflows.model.hashing import hash_of
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.positions import AtTopicOffsets, OnNoRecord, OnOutOfRange, PositionRefused, resolve
from recoveryd.workflows.model.spec import RestoreSpec, SavepointSpec
from recoveryd.workflows.model.step_names import CREATE, RECREATE
from recoveryd.workflows.model.workflow import Undo, Workflow, WorkflowPlan, WorkflowStep
from recoveryd.workflows.wire.savepoint import RESTORE_FORM


def _complete(spec: RestoreSpec, knows: Knows) -> RestoreSpec | Refused:
    saved = savepoint_of(spec.savepoint, knows.workflows)
    if saved is None or saved.cut is None:
        names = frozenset(w.spec.name for w in knows.workflows if isinstance(w.spec, SavepointSpec))
        hint = nearest_name(spec.savepoint, names) if names else "there is no savepoint yet"
        return Refused(Code.NO_SUCH_SAVEPOINT, f"savepoint: there is none of the name {spec.savepoint!r}", hint)
    unit = unit_of(spec.unit, knows.params)
    if isinstance(unit, Refused):
        return unit
    problem = outputs_left_out(spec.outputs, unit) or problem_of_unit(unit, saved.cut)
    if problem is not None:
        return problem
    known = replace(spec, cluster=unit.cluster, group=unit.consumer_group, cut=saved.cut)
    return replace(known, before=knows.before, takes_over=knows.takes_over)


def _wanted(spec: RestoreSpec, params: WorkflowParams) -> WantedFacts:
    unit, cut = params.units[spec.unit], cut_of(spec)
    named = (*(name_now(spec, cut, topic) for topic in cut.topics), *spec.outputs, *new_names(spec))
    copies = (topic.copy for topic in cut.topics if topic.offsets)
    return WantedFacts(
        groups=(GroupWanted(spec.cluster, spec.group, _to(cut), dict.fromkeys(unit.positioned, ())),),
        units=(unit.name,),
        topics=tuple((spec.cluster, name) for name in dict.fromkeys((*named, *copies))),
        with_sizes=True,
        names_on=spec.cluster,
    )


def _to(cut: Cut) -> AtTopicOffsets:
    return AtTopicOffsets(
        {topic: {p: at for p, at in offsets.items() if at is not None} for topic, offsets in cut.offsets.items()}
    )


def _plan(spec: RestoreSpec, found: Found, params: WorkflowParams) -> Planned | Refused:
    unit, cut = params.units[spec.unit], cut_of(spec)
    changed = outputs_left_out(spec.outputs, unit) or problem_of_unit(unit, cut)
    problem = changed or find_problem(spec, unit, cut, found)  # the unit may be another one since the command was taken
    if problem is not None:
        return problem
    try:
        looked = [(resolve(_to(cut), look, OnOutOfRange.FAIL, OnNoRecord.FAIL), look) for look in found.groups[0].looks]
    except PositionRefused as refused:
        return outside_log(refused)
    # Where nothing was committed at the cut, nothing is afterwards: a commit since would leave out what lies before it.
    positions = [(p, look) for p, look in looked if p.offset is not None or look.committed is not None]
    between = [
        place_between(spec, cut, topic, p)
        for topic in cut.topics
        if topic.is_between
        for p in range(topic.form.partitions)
    ]
    positions += between
    state = state_forms(spec, cut, found)
    forms = forms_of(spec, found)
    gone = not_in_cut(spec, cut, found)
    plan = WorkflowPlan(
        hash=hash_of(
            {
                "unit": (spec.unit, spec.cluster, spec.group, spec.savepoint, cut.at_ms),
                "topics": {name: None if topic is None else topic.id for name, topic in found.topics.items()},
                "inputs": found.groups[0].topic_ids,
                "outputs": {name: (choice.policy.value, choice.name) for name, choice in spec.outputs.items()},
            }
        ),
        changes=(
            *topic_changes(_as_outputs(state), gone),
            *topic_changes(forms, {}),
            *(change_of(p, look) for p, look in positions),
        ),
        findings=tuple(findings_of(spec, unit, cut, found)),
        ambiguous_topics=tuple(name for name, _ in found.units[spec.unit].internal.ambiguous),
        copies=planned_copies(copied(cut, found)),
    )
    told = f"{len(cut.topics)} internal topics of {spec.group} are to be filled, {len(positions)} offsets set or taken away"
    rows: tuple[Undo, ...] = (*still_rows(spec, cut), *theirs(spec.cluster, found, forms))
    steps = tuple(restore_steps(spec, unit, found, state, forms, gone))
    copies = tuple(topic.copy for topic in cut.topics if topic.offsets)
    return Planned(plan, steps, told, rows, leases=form_leases(spec, found), reads=copies)


def _as_outputs(state: Forms) -> Forms:
    return {RECREATE: state[RECREATE_STATE], CREATE: state[CREATE_STATE]}


def _judge(workflow: Workflow, _step: WorkflowStep, event: StepReported, around: Around) -> StepReported:
    """A store that it made since the plan would stay as it is, ahead of the offsets of the cut. And where live traffic
    lets no copy begin, nothing is taken away yet: there would be nothing in its place.
    """
    spec = workflow.spec
    assert isinstance(spec, RestoreSpec)
    cut = cut_of(spec)
    told = with_new_topics_told(workflow, event, (name_now(spec, cut, topic) for topic in cut.topics))
    if around.no_copy is None or told.outcome is not Outcome.DONE or not any(topic.offsets for topic in cut.topics):
        return told
    why = f"the state is not taken away while live traffic lets no copy begin: {around.no_copy}"
    return replace(told, outcome=Outcome.NOT_YET, why=why, code=Code.LIVE_OVER_SLO.value, undo=(), logs={})


def _undo(workflow: Workflow) -> tuple[WorkflowStep, ...]:
    spec, back = workflow.spec, back_steps(workflow)
    assert isinstance(spec, RestoreSpec)
    return back if spec.takes_over else started_again(workflow, back, told_empty(workflow))


def _claims(spec: RestoreSpec) -> frozenset[str]:
    topics = (f"the topic {name} on {spec.cluster}" for name in (*spec.outputs, *new_names(spec)))
    return frozenset([f"the group {spec.group} on {spec.cluster}", f"the savepoint {spec.savepoint}", *topics])


RESTORE_SAVEPOINT = WorkflowKind(
    command=RestoreSavepoint,
    form=RESTORE_FORM,
    complete=_complete,
    wanted=_wanted,
    plan=_plan,
    claims=_claims,
    topics=lambda spec: (*spec.outputs, *new_names(spec)),
    after_step=after_step,
    undo=_undo,
    judge=_judge,
    left=told_unasked,
    ends=lambda _spec: "-9999",
)
