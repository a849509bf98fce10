"""The steps that have recoveries and workflows carried out, or put back: what was not seen yet is sent, and how far all
of them are is said.

The step that wants them is journaled with their ids and data before the first is sent. Until one is seen its command is
sent again, with the same id, so that it begins once whatever dies in between. A command that is read when the workflow
does not want it any more begins nothing (`whose.refuse_child`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.kernel.times import format_time_ms
from recoveryd.recovery.model import Recovery
from recoveryd.units.facts import PartitionEnds
from recoveryd.workflows.machine.children.steering import remind_children, send, steer_children
from recoveryd.workflows.machine.children.whose import FAILED, Child, child_of, problem_of, refused_by_live, result_of
from recoveryd.workflows.machine.command_ids import WANTS, command_id, rollback_id
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.machine.patience import REFUSED_LAST, REFUSED_SINCE, UNSEEN_MS
from recoveryd.workflows.model.actions import ChildRun, RollBackChildren, RunChildren
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.workflow import Workflow, WorkflowStep

# In the evidence of a step.
FIRST_TRY: Final = "first_try"  # which look was the first after a pause, or since commands are read
COMPLETED: Final = "completed"  # of those that have, which may be forgotten by now
ENDS: Final = "target_ends"  # of one that has copied, until all have
SENT: Final = "sent"  # of one that begins more than some at a time: so many commands were sent so far
NO_ROOM: Final = "no_room"  # why something is asked for once more
REFUSED: Final = "refused_by_live"  # what live traffic refused, and what was then asked for again
APPROVALS: Final = "waits_for_approval"  # which of them wait for a person
GIVEN_UP: Final = "given_up"  # why nothing is asked for any more

AT_ONCE: Final = 16  # of what one step begins: a daemon takes so many recoveries and no more
_SENT_EVERY: Final = 15  # looks
_NOT_BEGUN: Final = frozenset({State.REQUESTED, State.PLANNING})  # it may still be refused


def look_at_children(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> StepReported:
    """Send what was not seen yet, and say how far all of them are."""
    assert isinstance(step.action, RunChildren)
    found = {run.recovery: child_of(draft, workflow, run) for run in step.action.runs}
    known = [child for child in found.values() if child is not None]
    live = [child for child in known if not child.is_terminal]
    is_due = step.tries % _SENT_EVERY == 1 or step.began_ms == draft.now_ms
    if is_due:
        remind_children(draft, workflow)
    named = _counted(draft, step.action.runs)
    ending = _ending(draft, workflow, step, known)
    if ending is not None:
        return ending
    if GIVEN_UP in step.evidence:
        return _told(workflow, step, Outcome.FAILED, str(step.evidence[GIVEN_UP]), code=Code.LIVE_OVER_SLO.value)
    completed = _completed(step, [child for child in known if child.is_terminal])
    unseen = [run for run in step.action.runs if found[run.recovery] is None and run.recovery not in completed]
    if not unseen and not live:
        kept = {child: {k: v for k, v in each.items() if k != ENDS} for child, each in completed.items()}
        logs = _verified_logs(step.action.runs, completed)
        return _told(workflow, step, Outcome.DONE, f"{named} completed", evidence=kept, logs=logs)
    runs, sent = step.action.runs, _sent(step)
    asked_for = {run.recovery for run in runs[:sent]}
    unread = [run for run in unseen if run.recovery in asked_for]
    if unread and step.tries - _first_try(step) >= draft.params.ready_wait_ms // draft.params.look_every_ms:
        why = f"the command for {unread[0].recovery} was not read for {draft.params.ready_wait_ms // 60_000} minutes"
        return _told(workflow, step, Outcome.FAILED, why, code=Code.STEP_FAILED.value)
    fresh = runs[sent : sent + max(0, AT_ONCE - len(live) - len(unread))]  # of more than may be begun at once
    for run in (*(unread if is_due else ()), *fresh):
        _begin(draft, workflow, run)
    copying = (r for r in live if isinstance(r, Recovery))
    left = sum(max(0, (p.stop or 0) - p.position) for r in copying for p in r.progress.partitions)
    refused = step.evidence.get(NO_ROOM) if unread else None
    asked = [child for child in live if child.state is State.AWAITING_APPROVAL]
    said = "; ".join(str(part) for part in (_said(asked or live), refused) if part)
    why = f"{len(completed)} of {named} completed" + (f": {said}" if said else "")
    begun = {SENT: sent + len(fresh), FIRST_TRY: step.tries} if fresh else {}
    more: dict[str, object] = {**begun, **({COMPLETED: completed} if completed else {})}
    if asked or APPROVALS in step.evidence:
        more[APPROVALS] = [child.id for child in asked]
    evidence = {**step.evidence, **more} if more else {}
    return _told(workflow, step, Outcome.NOT_YET, why, evidence=evidence, left=left)


def _said(live: Sequence[Child]) -> str:
    return f"{live[0].id}: {live[0].why}" if live else ""


def _completed(step: WorkflowStep, ended: Sequence[Child]) -> dict[str, Mapping[str, Any]]:
    """By id, of all that have completed so far."""
    noted = step.evidence.get(COMPLETED)
    before = noted if isinstance(noted, Mapping) else {}
    return {**before, **{child.id: _evidence(child) for child in ended}}


def _verified_logs(
    runs: Sequence[ChildRun], completed: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[int, PartitionEnds]]:
    """By topic that was copied to, up to where it was verified. Evidence that the next daemon read has numbers
    as text.
    """
    found = {}
    for run in runs:
        ends = completed[run.recovery].get(ENDS)
        if ends:
            found[run.data["target"]["topic"]] = {int(p): PartitionEnds(0, end) for p, end in ends.items()}
    return found


def _sent(step: WorkflowStep) -> int:
    """How many were begun so far; all, where so many may be at once."""
    assert isinstance(step.action, RunChildren)
    if len(step.action.runs) <= AT_ONCE:
        return len(step.action.runs)
    sent = step.evidence.get(SENT)
    return sent if isinstance(sent, int) else 0


def _first_try(step: WorkflowStep) -> int:
    """Looks are counted instead of time, in which nobody may have led."""
    first = step.evidence.get(FIRST_TRY)
    return first if isinstance(first, int) else 0


def _ending(
    draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, known: Sequence[Child]
) -> StepReported | None:
    """Of a step that ends early: it is stopped, or one of its children failed. Nothing that it began goes on alone."""
    live = [child for child in known if not child.is_terminal]
    if workflow.state is State.STOPPING:
        if live:
            return _told(workflow, step, Outcome.NOT_YET, f"{live[0].id} has not ended yet: {live[0].why}")
        return _told(workflow, step, Outcome.DONE, "what it had begun has ended")
    failed = step.evidence.get(FAILED)
    if not isinstance(failed, Mapping):
        problem = next((child for child in known if problem_of(child)), None)
        code = Code.STEP_FAILED.value if problem is None or problem.error_code is None else problem.error_code
        return None if problem is None else _told(workflow, step, Outcome.FAILED, problem_of(problem), code=code)
    if not live:
        return _told(workflow, step, Outcome.FAILED, str(failed["why"]), code=str(failed["code"]))
    if workflow.steering is None or workflow.steering.verb != "stop":
        draft.revise(steer_children(draft, workflow, "stop"))
    return _told(workflow, step, Outcome.NOT_YET, f"{failed['why']}; what began beside it is stopped first")


def look_at_rollback(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> StepReported:
    """The same for workflows that put back what they changed, one after the other. While it is stopped none is begun:
    it is only waited for the one that is under way.
    """
    assert isinstance(step.action, RollBackChildren)
    is_due = step.tries % _SENT_EVERY == 1 or step.began_ms == draft.now_ms
    if is_due:
        remind_children(draft, workflow)
    for run in step.action.runs:
        child = child_of(draft, workflow, run)
        if not isinstance(child, Workflow) or child.state is State.ROLLED_BACK:
            continue
        if child.is_terminal and not draft.kind_of(child).undo(child):
            continue
        if workflow.state is State.STOPPING:
            why = f"{child.id} is {child.state.value}: {child.why}"
            return _told(workflow, step, Outcome.NOT_YET, why)
        is_ours = child.taken_back_by == rollback_id(workflow, step, run)
        if child.state in {State.FAILED, State.STOPPED} and is_ours:
            why = f"{child.id} did not put everything back and is {child.state.value}: {child.why}"
            return _told(workflow, step, Outcome.FAILED, why, code=child.error_code or Code.STEP_FAILED.value)
        if child.is_terminal and is_due:
            data = {"reason": f"rollback of {workflow.id}"}
            send(draft, workflow, "rollback", child.id, data, rollback_id(workflow, step, run))
        return _told(workflow, step, Outcome.NOT_YET, f"{child.id} puts back what it changed: {child.why}")
    return _told(workflow, step, Outcome.DONE, "what it began is as it was before")


def while_unread(draft: WorkflowDraft, step: WorkflowStep) -> WorkflowStep:
    """While no commands are read, the wait for those that it sent does not begin."""
    if draft.has_read or not isinstance(step.action, RunChildren):
        return step
    return replace(step, evidence={**step.evidence, FIRST_TRY: step.tries})


def asked_anew(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> WorkflowStep:
    """After a pause: a command that was read meanwhile began nothing, and its id is used up."""
    action = step.action
    if not isinstance(action, RunChildren):
        return step
    runs = (replace(run, again=run.again + 1) if child_of(draft, workflow, run) is None else run for run in action.runs)
    return replace(step, action=replace(action, runs=tuple(runs)), evidence={**step.evidence, FIRST_TRY: step.tries})


def asked_again(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> tuple[Workflow, WorkflowStep]:
    """Both as they are once what live traffic has refused since the last look is wanted again, under another id: it may
    be for something that is half done. Not for ever: the time for that begins with the first refusal. It begins anew
    when all that was refused since has begun, and where nothing was refused for long, as while no daemon led or there
    was no room for more.
    """
    action = step.action
    if not isinstance(action, RunChildren) or workflow.state not in WANTS or FAILED in step.evidence:
        return workflow, step
    refused = [found for run in action.runs if (found := refused_by_live(draft, workflow, run)) is not None]
    if not refused:
        return workflow, step
    earlier, most_ms = _refused_earlier(draft, workflow, step, action), draft.params.ready_wait_ms
    since, last = step.evidence.get(REFUSED_SINCE), step.evidence.get(REFUSED_LAST)
    goes_on = bool(earlier) and isinstance(last, int) and draft.now_ms - last <= UNSEEN_MS
    since_ms = since if goes_on and isinstance(since, int) else draft.now_ms
    said = f"{refused[0].id}: {refused[0].why}"
    why = f"{said}; it is asked for again until {format_time_ms(since_ms + most_ms)}"
    names = sorted({*earlier, *(found.id for found in refused)})
    noted: dict[str, object] = {REFUSED: names, REFUSED_SINCE: since_ms, REFUSED_LAST: draft.now_ms, NO_ROOM: why}
    if draft.now_ms - since_ms >= most_ms:
        why = f"{said}; it was asked for again for {most_ms // 60_000} minutes"
        noted[GIVEN_UP] = why
    anew = asked_anew(draft, workflow, step)
    again = replace(anew, evidence={**anew.evidence, **noted})
    draft.reason = why
    return draft.revise(workflow.with_step(again), why=why), again


def _refused_earlier(
    draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep, action: RunChildren
) -> Sequence[str]:
    """Of those that were refused, all that have begun nothing since: to be read and planned takes a time of its own."""
    noted, completed = step.evidence.get(REFUSED), _completed(step, ())
    ids = set(noted) - set(completed) if isinstance(noted, list | tuple) else set()
    known = {run.recovery: child_of(draft, workflow, run) for run in action.runs if run.recovery in ids}
    return [name for name, child in known.items() if child is None or child.state in _NOT_BEGUN]


def _begin(draft: WorkflowDraft, workflow: Workflow, run: ChildRun) -> None:
    data = {"reason": f"{workflow.id}: {workflow.command.reason}"[:500], **run.data}
    send(draft, workflow, run.verb, run.recovery, data, command_id(workflow, run))


def _evidence(child: Child) -> dict[str, Any]:
    if isinstance(child, Workflow):
        return {"workflow": child.verb, "why": child.why}
    ends = {} if child.verification is None else {str(p): end for p, end in child.verification.target_ends.items()}
    return {"records": child.progress.records, "verified": result_of(child), **({ENDS: ends} if ends else {})}


def _counted(draft: WorkflowDraft, runs: Sequence[ChildRun]) -> str:
    are_workflows = all(run.verb in draft.kinds for run in runs)
    one, many = ("workflow", "workflows") if are_workflows else ("recovery", "recoveries")
    return f"{len(runs)} {one if len(runs) == 1 else many}"


def _told(workflow: Workflow, step: WorkflowStep, outcome: Outcome, why: str, **more: object) -> StepReported:
    return StepReported(workflow.id, step.name, step.tries, outcome, why, **more)  # type: ignore[arg-type]
