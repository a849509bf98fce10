"""The runbook as a kind of workflow: what follows from its steps, and how it is taken back."""

from collections.abc import Mapping
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.states import State
from recoveryd.workflows.kinds.runbook.gates import evidence_of
from recoveryd.workflows.kinds.runbook.judging import judge
from recoveryd.workflows.kinds.runbook.names import AGAIN, CHOOSE, CONFIRM, DECIDE, EXECUTE, VERIFY
from recoveryd.workflows.kinds.runbook.paths import ends_of_children, steps_of_choice, with_last_steps
from recoveryd.workflows.kinds.runbook.planning import complete, make_plan, wanted
from recoveryd.workflows.kinds.runbook.report import make_report, path_of, what_stays
from recoveryd.workflows.kinds.runbook.staging import staged_topics, with_staged_ends
from recoveryd.workflows.machine.kind import WorkflowKind
from recoveryd.workflows.model.actions import (
    AskPerson,
    CreateTopics,
    DeleteTopics,
    RollBackChildren,
    RunChildren,
    SetQuotas,
)
from recoveryd.workflows.model.commands import Runbook
from recoveryd.workflows.model.events import StepReported
from recoveryd.workflows.model.spec import RunbookPath, RunbookSpec
from recoveryd.workflows.model.workflow import Ending, StepState, Workflow, WorkflowStep
from recoveryd.workflows.wire.runbook import RUNBOOK_FORM


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
    return with_staged_ends(workflow, step, event) if step.name == EXECUTE else workflow


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
        if isinstance(step.action, RunChildren) and step.began_ms is not None
        for run in step.action.runs
        if run.verb != "replay"
    ]
    steps = [WorkflowStep(f"roll_back_{run.recovery}", RollBackChildren((run,))) for run in reversed(runs)]
    staged = staged_topics(workflow)
    if staged:
        action = DeleteTopics(workflow.spec.cluster, staged, is_ours=True, with_records=True)
        steps.append(WorkflowStep("delete_made_topics", action))
    return tuple(steps)


RUNBOOK = WorkflowKind(
    command=Runbook,
    form=RUNBOOK_FORM,
    complete=complete,
    wanted=wanted,
    plan=make_plan,
    claims=lambda spec: frozenset({f"the group {spec.group} on {spec.cluster}"}),
    topics=lambda spec: tuple(name for name in (spec.topic, spec.target) if name is not None),
    after_step=_after_step,
    undo=_undo,
    judge=judge,
    report=make_report,
    stays=lambda workflow: tuple(what_stays(workflow)),
    waived=frozenset({VERIFY, AGAIN, DECIDE}),
    ends=ends_of_children,
)
