"""Recoveries and workflows that a workflow has carried out: commands that it puts on the control topic, as anybody could, and
what became of them.

The step that wants them is journaled with their ids and data before the first is sent. Until one is seen its command is
sent again, with the same id, so that it begins once whatever dies in between. A command that is read when the workflow
does not want it any more begins nothing (`refuse_child`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import Command
from recoveryd.kernel.decision import Answer
from recoveryd.kernel.effects import SendCommand
from recoveryd.kernel.refused import Refused
from recoveryd.kernel.states import State
from recoveryd.recovery.model import Recovery
from recoveryd.units.facts import PartitionEnds
from recoveryd.workflows.machine.command_ids import (
    BACK,
    WANTS,
    asks_back,
    command_id,
    is_taken_back,
    rollback_id,
    steering_id,
)
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.model.actions import ChildRun, RollBackChildren, RunChildren
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.workflow import TAKEN, Steering, Workflow, WorkflowStep

FIRST_TRY: Final = "first_try"  # in the evidence of a step: which look was the first after a pause
FAILED: Final = "failed"  # in the evidence of a step: why it fails once what it began is at rest
COMPLETED: Final = "completed"  # in the evidence of a step: of those that have, which may be forgotten by now
ENDS: Final = "target_ends"  # of one that has copied, until all have
SENT: Final = (
    "sent"  # in the evidence of a step that begins more than some at a time: so many commands were sent so far
)
NO_ROOM: Final = "no_room"  # in the evidence of a step: why something is asked for once more
AT_ONCE: Final = 16  # of what one step begins: a daemon takes so many recoveries and no more
_SENT_EVERY: Final = 15  # looks
_BAD: Final = frozenset({"mismatch"})
Child = Recovery | Workflow


def look_at_children(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> StepReported:
    """Send what was not seen yet, and say how far all of them are."""
    assert isinstance(step.action, RunChildren)
    found = {run.recovery: _begun(draft, workflow, run) for run in step.action.runs}
    known = [child for child in found.values() if child is not None]
    live = [child for child in known if not child.is_terminal]
    is_due = step.tries % _SENT_EVERY == 1 or step.began_ms == draft.now_ms
    if is_due:
        remind_children(draft, workflow)
    named = _counted(draft, step.action.runs)
    ending = _ending(draft, workflow, step, known)
    if ending is not None:
        return ending
    completed = _completed(step, [child for child in known if child.is_terminal])
    unseen = [run for run in step.action.runs if found[run.recovery] is None and run.recovery not in completed]
    if not unseen and not live:
        kept = {child: {k: v for k, v in each.items() if k != ENDS} for child, each in completed.items()}
        logs = _verified_logs(step.action.runs, completed)
        return _told(workflow, step, Outcome.DONE, f"{named} completed", evidence=kept, logs=logs)
    runs, sent = step.action.runs, _sent(step)
    unread = [run for run in unseen if run in runs[:sent]]
    if unread and step.tries - _first_try(step) >= draft.params.ready_wait_ms // draft.params.look_every_ms:
        why = f"the command for {unread[0].recovery} was not read for {draft.params.ready_wait_ms // 60_000} minutes"
        return _told(workflow, step, Outcome.FAILED, why, code=Code.STEP_FAILED.value)
    fresh = runs[sent : sent + max(0, AT_ONCE - len(live) - len(unread))]  # of more than may be begun at once
    for run in (*(unread if is_due else ()), *fresh):
        _begin(draft, workflow, run)
    copying = (r for r in live if isinstance(r, Recovery))
    left = sum(max(0, (p.stop or 0) - p.position) for r in copying for p in r.progress.partitions)
    refused = step.evidence.get(NO_ROOM) if unread else None
    said = f"{live[0].id}: {live[0].why}" if live else refused
    why = f"{len(completed)} of {named} completed" + (f": {said}" if said else "")
    begun = {SENT: sent + len(fresh), FIRST_TRY: step.tries} if fresh else {}
    more: dict[str, object] = {**begun, **({COMPLETED: completed} if completed else {})}
    evidence = {**step.evidence, **more} if more else {}
    return _told(workflow, step, Outcome.NOT_YET, why, evidence=evidence, left=left)


def _completed(step: WorkflowStep, ended: Sequence[Child]) -> dict[str, Mapping[str, Any]]:
    """By id, of all that have completed so far."""
    noted = step.evidence.get(COMPLETED)
    before = noted if isinstance(noted, Mapping) else {}
    return {**before, **{child.id: _evidence(child) for child in ended}}


def _verified_logs(
    runs: Sequence[ChildRun], completed: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[int, PartitionEnds]]:
    """By topic that was copied to, up to where it was verified. Evidence that the next daemon read has numbers as text."""
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
        problem = next((child for child in known if _problem(child)), None)
        code = Code.STEP_FAILED.value if problem is None or problem.error_code is None else problem.error_code
        return None if problem is None else _told(workflow, step, Outcome.FAILED, _problem(problem), code=code)
    if not live:
        return _told(workflow, step, Outcome.FAILED, str(failed["why"]), code=str(failed["code"]))
    if workflow.steering is None or workflow.steering.verb != "stop":
        draft.revise(steer_children(draft, workflow, "stop"))
    return _told(workflow, step, Outcome.NOT_YET, f"{failed['why']}; what began beside it is stopped first")


def look_at_rollback(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> StepReported:
    """The same for workflows that put back what they changed, one after the other. While it is stopped none is begun: it is only
    waited for the one that is under way.
    """
    assert isinstance(step.action, RollBackChildren)
    is_due = step.tries % _SENT_EVERY == 1 or step.began_ms == draft.now_ms
    if is_due:
        remind_children(draft, workflow)
    for run in step.action.runs:
        child = _begun(draft, workflow, run)
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
            _send(draft, workflow, "rollback", child.id, data, rollback_id(workflow, step, run))
        return _told(workflow, step, Outcome.NOT_YET, f"{child.id} puts back what it changed: {child.why}")
    return _told(workflow, step, Outcome.DONE, "what it began is as it was before")


def steer_children(draft: WorkflowDraft, workflow: Workflow, verb: str) -> Workflow:
    """Pause, resume or stop those that live. Gives the workflow that remembers it, which is to be journaled."""
    steered = replace(workflow, steering=None)
    left = tuple(child.id for child in _living(draft, workflow) if not _is_so(child, verb))
    if left:
        steered = replace(workflow, steering=Steering(verb, workflow.version, left))
    remind_children(draft, steered)
    return steered


def remind_children(draft: WorkflowDraft, workflow: Workflow) -> None:
    """Send what was wanted of them last once more, under the same ids, to those that have not read it."""
    wanted = workflow.steering
    if wanted is None:
        return
    living = {child.id for child in _living(draft, workflow)}
    for child in wanted.left:
        if child in living:
            data = {"reason": f"{wanted.verb} of {workflow.id}"}
            _send(draft, workflow, wanted.verb, child, data, steering_id(workflow, wanted, child))


def hear_of_steering(draft: WorkflowDraft, workflow: Workflow, command: str) -> None:
    """A command with this id was read. One that came too early for it is wanted again, under another id."""
    wanted = workflow.steering
    if wanted is None:
        return
    answer = next((answer for answer in draft.draft.answers if answer.command_id == command), None)
    for child in _living(draft, workflow) if answer is not None and answer.kind in {"rejected", "expired"} else ():
        if command == steering_id(workflow, wanted, child.id) and not _is_so(child, wanted.verb):
            draft.revise(workflow, steering=replace(wanted, number=workflow.version))
            return
    forget_steering(draft, workflow, command)


def has_children(draft: WorkflowDraft, workflow: Workflow) -> bool:
    """Whether something that it began still lives."""
    return any(_living(draft, workflow))


def asked_anew(draft: WorkflowDraft, workflow: Workflow, step: WorkflowStep) -> WorkflowStep:
    """After a pause: a command that was read meanwhile began nothing, and its id is used up."""
    action = step.action
    if not isinstance(action, RunChildren):
        return step
    runs = (replace(run, again=run.again + 1) if _begun(draft, workflow, run) is None else run for run in action.runs)
    return replace(step, action=replace(action, runs=tuple(runs)), evidence={**step.evidence, FIRST_TRY: step.tries})


def refuse_child(draft: WorkflowDraft, command: Command) -> Refused | None:
    """The refusal of a command that a workflow sent, to begin something or to have it put back, and does not want any more: it
    ended, it stops or is paused, it is at another step, or what it began beside has failed. None for every other command.
    """
    meta = command.meta
    told = re.fullmatch(rf"(.+)\.(\d+)\.{re.escape(meta.subject)}(?:\.\d+)?({re.escape(BACK)}\d+)?", meta.id, re.ASCII)
    parent = None if told is None else draft.workflows.get(told[1])
    if told is None or parent is None:
        return None
    if parent.created_ms != int(told[2]):
        return None
    is_wanted = is_taken_back(parent, meta.id) if told[3] else _wants(draft, parent, command)
    if is_wanted and parent.command.source == meta.source:  # else somebody took the id of a command for their own
        return None
    what = f"the rollback of {meta.subject}" if told[3] else meta.subject
    message = f"workflow {parent.id} is {parent.state.value} and does not want {what} any more"
    if parent.state is State.PAUSED:
        message = f"workflow {parent.id} is paused, and asks for {what} when it goes on"
    return Refused(Code.NOT_IN_THIS_STATE, message)


def _wants(draft: WorkflowDraft, workflow: Workflow, command: Command) -> bool:
    step = workflow.step
    if workflow.state not in WANTS or step is None or step.state not in TAKEN or FAILED in step.evidence:
        return False
    runs = step.action.runs if isinstance(step.action, RunChildren) else ()
    is_ours = any(
        (run.recovery, run.verb) == (command.meta.subject, command.verb)
        and command.meta.id == command_id(workflow, run)
        for run in runs
    )
    known = (_begun(draft, workflow, run) for run in runs)
    return is_ours and not any(_problem(child) for child in known if child is not None)


def refused_child(draft: WorkflowDraft, workflow: Workflow, answer: Answer) -> bool:
    """Whether this answers a command of the present step, and says that it begins nothing."""
    step = workflow.step
    if step is None or answer.kind == "accepted" or workflow.state not in WANTS:
        return False
    if isinstance(step.action, RollBackChildren):
        return answer.kind == "rejected" and asks_back(workflow, step, answer.command_id)
    if not isinstance(step.action, RunChildren):
        return False
    asked = (run for run in step.action.runs if answer.command_id == command_id(workflow, run))
    return any(_begun(draft, workflow, run) is None for run in asked)


def forget_steering(draft: WorkflowDraft, workflow: Workflow, command: str) -> bool:
    """Whether it was a command to one that it began, which is not wanted any more: it was read, or can never be sent."""
    wanted = workflow.steering
    if wanted is None or not any(command == steering_id(workflow, wanted, child) for child in wanted.left):
        return False
    left = tuple(child for child in wanted.left if command != steering_id(workflow, wanted, child))
    draft.revise(workflow, steering=replace(wanted, left=left) if left else None)
    return True


def ran_before(draft: WorkflowDraft, command: str) -> Mapping[str, Any]:
    """How the application ran in whose place a command is to start one, if a workflow sent it that knows."""
    for workflow in draft.workflows.live.values():
        step = workflow.step
        for run in step.action.runs if step is not None and isinstance(step.action, RunChildren) else ():
            if command == command_id(workflow, run):
                return run.before
    return {}


def _begun(draft: WorkflowDraft, workflow: Workflow, run: ChildRun) -> Child | None:
    """What its command began. Another one that has the id is none of ours, whatever became of it."""
    found = draft.workflows.get(run.recovery) if run.verb in draft.kinds else draft.recovery(run.recovery)
    return found if found is not None and found.command.id == command_id(workflow, run) else None


def _living(draft: WorkflowDraft, workflow: Workflow) -> Iterator[Child]:
    step = workflow.step
    action = None if step is None else step.action
    for run in action.runs if isinstance(action, RunChildren | RollBackChildren) else ():
        recovery = _begun(draft, workflow, run)
        if recovery is not None and not recovery.is_terminal:
            yield recovery


def _is_so(child: Child, verb: str) -> bool:
    """Whether it is already what this would make of it."""
    if child.state in {State.STOPPING, State.CLOSING}:
        return True
    is_paused = child.state in {State.PAUSED, State.PAUSING}
    return is_paused if verb == "pause" else verb == "resume" and not is_paused


def _begin(draft: WorkflowDraft, workflow: Workflow, run: ChildRun) -> None:
    data = {"reason": f"{workflow.id}: {workflow.command.reason}"[:500], **run.data}
    _send(draft, workflow, run.verb, run.recovery, data, command_id(workflow, run))


def _send(
    draft: WorkflowDraft, workflow: Workflow, verb: str, child: str, data: Mapping[str, object], command: str
) -> None:
    """In the name of whoever asked for the workflow; `command` is its id."""
    draft.effect(SendCommand(workflow.id, verb, child, data, command, workflow.command.source, draft.now_ms))


def _problem(recovery: Child) -> str:
    if recovery.is_terminal and recovery.state is not State.COMPLETED:
        return f"{recovery.id} is {recovery.state.value}: {recovery.why}"
    if recovery.is_terminal and _result(recovery) in _BAD:
        return f"{recovery.id} was verified with a mismatch; `recoveryctl describe {recovery.id}` names the differences"
    return ""


def _evidence(child: Child) -> dict[str, Any]:
    if isinstance(child, Workflow):
        return {"workflow": child.verb, "why": child.why}
    ends = {} if child.verification is None else {str(p): end for p, end in child.verification.target_ends.items()}
    return {"records": child.progress.records, "verified": _result(child), **({ENDS: ends} if ends else {})}


def _result(child: Child) -> str | None:
    proof = child.verification if isinstance(child, Recovery) else None
    return None if proof is None else str(proof.result)


def _counted(draft: WorkflowDraft, runs: Sequence[ChildRun]) -> str:
    are_workflows = all(run.verb in draft.kinds for run in runs)
    one, many = ("workflow", "workflows") if are_workflows else ("recovery", "recoveries")
    return f"{len(runs)} {one if len(runs) == 1 else many}"


def _told(workflow: Workflow, step: WorkflowStep, outcome: Outcome, why: str, **more: object) -> StepReported:
    return StepReported(workflow.id, step.name, step.tries, outcome, why, **more)  # type: ignore[arg-type]
