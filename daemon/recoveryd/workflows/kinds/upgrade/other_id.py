"""An upgrade to a version with an application id of its own: where the old one stood is taken over by a savepoint of
it, which is restored for the new one. Both are workflows of their own, with their copies and proofs.

The offsets of the old version are noted before the savepoint and compared after it: what was restored is what is noted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.recovery.told_size import ToldSize
from recoveryd.units.approvals import approval_of_all
from recoveryd.units.control import ENDED_CLEANLY
from recoveryd.units.internal_topics import InternalTopics
from recoveryd.units.model import Unit
from recoveryd.workflows.kinds.copies import planned_copies
from recoveryd.workflows.kinds.cut_making import how_it_ended
from recoveryd.workflows.kinds.earlier import savepoint_of
from recoveryd.workflows.kinds.outputs import undeclared
from recoveryd.workflows.kinds.savepoint import copied_as
from recoveryd.workflows.kinds.state import refuse_unclear
from recoveryd.workflows.kinds.upgrade.draining import lost_offsets_back, not_drained, places_of, ran_before, went_on
from recoveryd.workflows.kinds.upgrade.names import COMPARE, COMPARE_AGAIN, EMPTY_AGAIN, START_OLD, STOP_NEW
from recoveryd.workflows.kinds.upgrade.versions import unfixed
from recoveryd.workflows.machine.kind import Knows
from recoveryd.workflows.model.actions import (
    AwaitEmpty,
    AwaitStarted,
    AwaitStopped,
    ChildRun,
    RollBackChildren,
    RunChildren,
    TakeSnapshot,
    with_runs,
)
from recoveryd.workflows.model.colliding import is_there, refuse_collision
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.facts import Found, TopicFound
from recoveryd.workflows.model.lifecycle import REUSABLE
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.size import refuse_copy
from recoveryd.workflows.model.spec import UpgradeSpec
from recoveryd.workflows.model.step_names import NOTE, STOP
from recoveryd.workflows.model.workflow import PlannedCopies, StepState, UnitUndo, VersionChange, Workflow, WorkflowStep

SAVE, RESTORE = "take_savepoint", "restore_savepoint"
ENDS = "-restore-9999"  # the longest that ids of what it begins have behind its own
CUT, RESTORED = "cut", "restore"  # behind its own id, in those of the two


def taken_names(spec: UpgradeSpec, knows: Knows) -> Refused | None:
    """Whether somebody has the id or the name of what this is to begin: it would be refused once the old version is
    stopped.
    """
    if savepoint_of(_id_of(spec.run, CUT), knows.workflows) is not None:
        message = f"there is a savepoint {_id_of(spec.run, CUT)} already, and this would take one of that name"
        return Refused(Code.ID_IN_USE, message, "Choose another id, or delete it: recoveryctl savepoint delete.")
    for end in (CUT, RESTORED):
        found = knows.workflows.get(_id_of(spec.run, end))
        if found is not None and found.state not in REUSABLE:
            message = f"workflow {found.id} exists already, and this would begin one of that id"
            return Refused(Code.ID_IN_USE, message, "Choose another id.")
    return None


def _id_of(run: str, end: str) -> str:
    return f"{run}-{end}"


def problem_elsewhere(spec: UpgradeSpec, old: Unit, new: Unit, found: Found, params: WorkflowParams) -> Refused | None:
    """Why the new version cannot take over what the old one leaves; nothing is stopped then."""
    for verb, unit in (("savepoint", old), ("restore_savepoint", new)):
        asked = approval_of_all(params.approvals, verb, unit, params.units)
        if asked is not None and asked.dead_end is not None:
            return Refused(Code.NOT_AN_APPROVER, f"{verb}, which this begins: {asked.dead_end}")
    strange = sorted({*new.positioned} - {*old.positioned})
    if strange:
        message = f"{new.name} reads {strange[0]}, of which {old.name} has no offsets to take over"
        return Refused(Code.INVALID_VALUE, message, "Let both versions read the same.")
    unclear = _unclear(found.units[old.name].internal, old, new)
    if unclear is not None:
        return Refused(Code.AMBIGUOUS_TOPICS, unclear)
    facts = found.units[new.name]
    if facts.group is not None and facts.group.members:
        message = f"{new.name} runs already: {new.consumer_group} has {len(facts.group.members)} members"
        return Refused(Code.GROUP_NOT_EMPTY, message, "Stop it: it starts once it has offsets and state.")
    own = (topic for name in facts.internal.certain if (topic := facts.topics.get(name)) is not None)
    full = next((topic.name for topic in own if any(e.records_most for e in topic.ends.values())), None)
    if full is not None:
        message = f"{full} has records: {new.name} has state of its own already"
        return Refused(Code.TARGET_NOT_EMPTY, message, "Delete its internal topics, or choose another application id.")
    filled = [_renamed(name, old, new) for name in found.units[old.name].internal.certain]
    unclear_of_new = refuse_unclear(new, facts.internal, f"would stay beside that of {old.name}", filled)
    return undeclared(new) or unclear_of_new or _names_in_the_way(spec, old, new, found)


def _unclear(internal: InternalTopics, old: Unit, new: Unit) -> str | None:
    """Which topic of the old version nobody can tell the counterpart of."""
    if internal.ambiguous:
        name, reason = internal.ambiguous[0]
        return f"{name} may hold state of {old.name}, and would not be taken over: {reason}"
    foreign = next((name for name in internal.certain if not name.startswith(f"{old.consumer_group}-")), None)
    if foreign is None:
        return None
    return f"{foreign} is not named after {old.consumer_group}, so it is not known what {new.name} calls it"


def _names_in_the_way(spec: UpgradeSpec, old: Unit, new: Unit, found: Found) -> Refused | None:
    """Of topics that the savepoint and the restore will make."""
    facts, before = found.units[old.name], copied_as(_id_of(spec.run, CUT))
    internal = {name: facts.topics[name].partitions for name in facts.internal.certain if name in facts.topics}
    for name, partitions in internal.items():
        if is_there(before + name, found.names):
            message = f"{before + name} exists already, and is the name of the copy of {name} that this would make"
            return Refused(Code.INVALID_VALUE, message, "Choose another id, or take that topic away.")
        uncopied = refuse_copy(before + name, range(partitions)) or refuse_copy(_renamed(name, old, new), ())
        if uncopied is not None:
            return uncopied
    return refuse_collision(
        (made for name in internal for made in (before + name, _renamed(name, old, new))), found.names
    )


def _renamed(name: str, old: Unit, new: Unit) -> str:
    return new.consumer_group + name.removeprefix(old.consumer_group)


def findings_elsewhere(old: Unit, new: Unit, found: Found) -> Iterator[str]:
    yield (
        f"{new.name} has the application id {new.consumer_group}: it gets offsets and state of {old.name} by a savepoint, which is "
        "kept until somebody deletes it"
    )
    yield f"a rollback lets {old.name} go on from the cut: what {new.name} wrote by then stays, and is written once more"
    group = found.units[new.name].group
    if group is not None and any(group.committed.values()):
        yield f"{new.consumer_group} has committed offsets already, which are replaced"
    for name, reason in found.units[new.name].internal.ambiguous:
        yield f"{name} may be an internal topic of {new.name}, and is left alone: {reason}"


def copies_elsewhere(old: Unit, found: Found) -> PlannedCopies:
    """Each internal topic is copied twice: for the savepoint, and from that."""
    return planned_copies(2 * _internal(old, found))


def _each_time(old: Unit, found: Found) -> ToldSize:
    once = planned_copies(_internal(old, found))
    return ToldSize(once.records_at_most, once.bytes_at_most)


def _internal(old: Unit, found: Found) -> list[TopicFound]:
    names = found.units[old.name].internal.certain
    return [topic for name in names if (topic := found.topics.get(name)) is not None]


def steps_elsewhere(
    spec: UpgradeSpec, old: Unit, new: Unit, committed: tuple[str, ...], found: Found
) -> Iterator[WorkflowStep]:
    """Those behind `await_empty`. What is begun is named after the workflow, which is known later. The new version
    writes behind what the old one wrote.
    """
    ids, each = dict(found.groups[0].topic_ids), _each_time(old, found)
    note = TakeSnapshot(spec.cluster, spec.group, committed, tuple(old.outputs), is_live=True, topic_ids=ids)
    restored = {"to_unit": new.name, "outputs": dict.fromkeys(new.outputs, "append")}
    yield WorkflowStep(NOTE, note)
    yield WorkflowStep(SAVE, RunChildren((ChildRun(CUT, "savepoint", {"unit": old.name}),), {"savepoint": each}))
    yield WorkflowStep(COMPARE, replace(note, end_topics=()))
    begin = RunChildren((ChildRun(RESTORED, "restore_savepoint", restored),), {"restore_savepoint": each})
    yield WorkflowStep(RESTORE, begin)
    yield WorkflowStep(COMPARE_AGAIN, replace(note, end_topics=()))


def after_step_elsewhere(
    workflow: Workflow, spec: UpgradeSpec, step: WorkflowStep, event: StepReported
) -> Workflow | Refused:
    if step.name in {COMPARE, COMPARE_AGAIN}:
        return went_on(workflow, spec.group, event) or workflow
    if step.name != NOTE or workflow.plan is None or workflow.plan.version is None:
        return workflow
    problem = not_drained(spec.unit, spec.group, event)
    if problem is not None:
        return problem
    planned = workflow.plan.version
    left = unfixed(spec, tuple(planned.unfixed_range), places_of(event), event.logs, workflow.id)
    plan = replace(workflow.plan, version=VersionChange(planned.verdict, planned.differences, *left))
    steps = tuple(_named(workflow, s) for s in workflow.steps)
    return replace(workflow, plan=plan, steps=steps).with_undo(event.undo)


def _named(workflow: Workflow, step: WorkflowStep) -> WorkflowStep:
    if not isinstance(step.action, RunChildren):
        return step
    field, before = ("name", _ended(workflow)) if step.name == SAVE else ("savepoint", ran_before(workflow))
    runs = (
        replace(
            run,
            recovery=_id_of(workflow.id, run.recovery),
            data={**run.data, field: _id_of(workflow.id, CUT)},
            before=before,
        )
        for run in step.action.runs
    )
    return replace(step, action=with_runs(step.action, runs))


def _ended(workflow: Workflow) -> Mapping[str, Any]:
    """What the savepoint has to know of the old version, which is stopped before it begins."""
    was_clean = how_it_ended(workflow)
    return {} if was_clean is None else {ENDED_CLEANLY: was_clean}


def undo_elsewhere(workflow: Workflow, spec: UpgradeSpec) -> tuple[WorkflowStep, ...]:
    """The old version runs again before anything of the new one is taken away."""
    row = next((row for row in workflow.undo if isinstance(row, UnitUndo)), None)
    begun = {s.name: s for s in workflow.steps if s.began_ms is not None and s.state is not StepState.PENDING}
    if row is None or STOP not in begun:
        return ()
    old = WorkflowStep(
        START_OLD, AwaitStarted(spec.cluster, spec.group, spec.unit, ", the version before", ran_before(workflow))
    )
    back = {
        name: step.action.runs
        for name in (RESTORE, SAVE)
        if (step := begun.get(name)) is not None and isinstance(step.action, RunChildren)
    }
    lost = lost_offsets_back(workflow, spec)
    steps = [*lost, old]
    if RESTORE in back:
        steps = [
            WorkflowStep(STOP_NEW, AwaitStopped(spec.cluster, spec.to_group, spec.to_unit)),
            WorkflowStep(EMPTY_AGAIN, AwaitEmpty(spec.cluster, spec.to_group)),
            *lost,
            old,
        ]
    steps += [WorkflowStep(f"roll_back_{name}", RollBackChildren(runs)) for name, runs in back.items()]
    return tuple(steps)


def stays_elsewhere(workflow: Workflow, spec: UpgradeSpec) -> tuple[str, ...]:
    restored = next((s for s in workflow.steps if s.name == RESTORE), None)
    if not spec.is_other_id or restored is None or restored.began_ms is None:
        return ()
    return (f"{spec.unit} goes on from the cut, so what {spec.to_unit} wrote since is written once more",)
