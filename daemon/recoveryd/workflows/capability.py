"""Workflows as a capability: which commands and events they take."""

from collections.abc import Mapping

from recoveryd.kernel.capability import Capability, StatusForm, Subject, begins, on, steers
from recoveryd.kernel.commands import RefusedCommand, StopCommand
from recoveryd.kernel.decision import Noun
from recoveryd.kernel.events import BecameLeader, CommandNotSent, CommandReceived, ControlRead, Tick
from recoveryd.kernel.state import CoreState
from recoveryd.kernel.states import CommandRef
from recoveryd.live.events import ReaderSampled
from recoveryd.recovery.commands import Approve, Pause, Reject, Resume
from recoveryd.recovery.draft import Groups
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.slice import RECOVERY
from recoveryd.recovery.told_size import ToldSize
from recoveryd.units.params import with_units
from recoveryd.workflows.kinds.all_kinds import KINDS
from recoveryd.workflows.kinds.runbook.commands import on_discard, on_escalate, on_promote
from recoveryd.workflows.machine.children.whose import refuse_child
from recoveryd.workflows.machine.command_ids import is_begun
from recoveryd.workflows.machine.draft import WORKFLOWS, FindWatch, WorkflowDraft
from recoveryd.workflows.machine.hearing import hear_answers, on_not_sent
from recoveryd.workflows.machine.on_commands import (
    ends_of_begun,
    on_ack,
    on_approve,
    on_begin,
    on_pause,
    on_reject,
    on_resume,
    on_rollback,
    on_stop,
)
from recoveryd.workflows.machine.planning import on_gathered, on_gathering_failed
from recoveryd.workflows.machine.readiness import forget_idle, on_reader_sampled
from recoveryd.workflows.machine.replays import taker_of
from recoveryd.workflows.machine.resting import goes_on
from recoveryd.workflows.machine.sizing import size_told_before
from recoveryd.workflows.machine.steps import on_step
from recoveryd.workflows.machine.stopped import groups_at_work, stopped_groups
from recoveryd.workflows.machine.ticking import forget_old, keep_time, look_soon, take_over_time
from recoveryd.workflows.metrics import make_measures
from recoveryd.workflows.model.commands import Ack, Discard, Escalate, Promote, Rollback
from recoveryd.workflows.model.events import GatheringFailed, StepReported, WorkflowFacts
from recoveryd.workflows.model.known import Workflows
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.workflow import KIND, Workflow
from recoveryd.workflows.wire.command import ACK_FORM, ROLLBACK_FORM
from recoveryd.workflows.wire.runbook import DISCARD_FORM, ESCALATE_FORM, PROMOTE_FORM
from recoveryd.workflows.wire.status import WorkflowForm

NAME = "workflows"
_TIME = (Tick, BecameLeader, ControlRead)


def make_workflows(params: WorkflowParams, find_watch: FindWatch) -> Capability[WorkflowDraft]:
    """`find_watch`: who will stop the application of a group."""
    form = WorkflowForm()
    return Capability(
        name=NAME,
        view=WorkflowDraft,
        make_view=lambda draft: WorkflowDraft(draft, with_units(params, draft.before), KINDS, _find, find_watch),
        events=(WorkflowFacts, GatheringFailed, StepReported),
        verbs=(
            *(begins(kind.command, on_begin) for kind in KINDS.values()),
            steers(Approve, on_approve),
            steers(Reject, on_reject),
            steers(StopCommand, on_stop),
            steers(Pause, on_pause),
            steers(Resume, on_resume),
            steers(Ack, on_ack),
            steers(Rollback, on_rollback),
            steers(Promote, on_promote),
            steers(Discard, on_discard),
            steers(Escalate, on_escalate),
        ),
        handlers=(
            on(WorkflowFacts, on_gathered),
            on(GatheringFailed, on_gathering_failed),
            on(StepReported, on_step),
            on(CommandNotSent, on_not_sent),
            on(ReaderSampled, on_reader_sampled),
        ),
        refuses=refuse_child,
        ends=ends_of_begun,
        steer=_steer,
        steers_after=(*_TIME, CommandReceived),
        subject=_subject,
        forms={
            **{verb: kind.form for verb, kind in KINDS.items()},
            Promote.verb: PROMOTE_FORM,
            Discard.verb: DISCARD_FORM,
            Escalate.verb: ESCALATE_FORM,
            Rollback.verb: ROLLBACK_FORM,
            Ack.verb: ACK_FORM,
        },
        status=StatusForm(Workflow, lambda kind: kind == KIND, form.write, form.read),
        measures=make_measures(),
        restore=_restore,
        known=lambda state: state.of(WORKFLOWS).by_id,
        is_active=lambda state: bool(state.of(WORKFLOWS).live),
        remaining=lambda state, _now_ms: [w.id for w in state.of(WORKFLOWS).live.values() if goes_on(state, w)],
    )


def workflow_on(state: CoreState, cluster: str, group: str) -> str | None:
    """The sentence that names a workflow on this group, or None."""
    for workflow in state.of(WORKFLOWS).live.values():
        claims = KINDS[workflow.verb].claims(workflow.spec)
        if f"the group {group} on {cluster}" in claims and not workflow.spec.dry_run:
            return f"workflow {workflow.id} works on the group {group} and is {workflow.state.value}"
    return None


def taken_away(state: CoreState, cluster: str, topic: str) -> str | None:
    """The sentence that names a workflow which goes on and will take this topic away, or None."""
    return taker_of(state.of(WORKFLOWS), cluster, topic)


def is_wanted(state: CoreState, recovery: str, command: CommandRef) -> bool:
    """Whether a workflow begins this recovery by this command."""
    return is_begun(state.of(WORKFLOWS), recovery, command)


def told_size(state: CoreState, recovery: str, command: CommandRef) -> ToldSize | None:
    """How much the plan of a workflow that begins it told that it copies."""
    return size_told_before(state.of(WORKFLOWS), recovery, command)


def groups_at_rest(state: CoreState) -> tuple[Groups, Groups]:
    """Those whose application a workflow keeps stopped, and those that one works on."""
    return stopped_groups(state.of(WORKFLOWS)), groups_at_work(state.of(WORKFLOWS))


def _restore(state: CoreState, nouns: Mapping[str, Noun], _sequences: Mapping[str, int]) -> CoreState:
    return state.having(WORKFLOWS, Workflows.of(noun for noun in nouns.values() if isinstance(noun, Workflow)))


def _find(state: CoreState, recovery: str) -> Recovery | None:
    return state.of(RECOVERY).recoveries.get(recovery)


def _subject(draft: WorkflowDraft, workflow_id: str) -> Subject | None:
    workflow = draft.workflows.get(workflow_id)
    return None if workflow is None else Subject(KIND, workflow.state.value)


def _steer(draft: WorkflowDraft, event: object) -> None:
    """A new leader has no times, so that all is due at once."""
    if isinstance(event, BecameLeader):
        take_over_time(draft, is_set=bool(event.why))
    if isinstance(event, _TIME):
        keep_time(draft)
        if draft.has_read:
            forget_old(draft)
        forget_idle(draft)
    if isinstance(event, CommandReceived):
        command = event.command
        about = command if isinstance(command, RefusedCommand) else command.meta
        hear_answers(draft, about.id, about.source)
    if draft.draft.ended:
        look_soon(draft)  # last: what is due in this step looks at what was before it
