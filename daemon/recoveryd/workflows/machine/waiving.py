"""A gate that is not green may be waived, by somebody who says why."""

from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.events import CommandReceived
from recoveryd.workflows.machine.draft import WorkflowDraft
from recoveryd.workflows.machine.steps import take_again
from recoveryd.workflows.model.commands import Ack
from recoveryd.workflows.model.workflow import Workflow


def waive(draft: WorkflowDraft, event: CommandReceived, workflow: Workflow, command: Ack) -> None:
    """Those gates of the waiting step that are not green now."""
    step = workflow.step
    assert step is not None
    if not command.note:
        message = f"{step.name} waits for gates that are not green: say in the note why they may be left so"
        draft.answer(event, "rejected", message, Code.WAIVER_WITHOUT_REASON.value)
        return
    gates = step.evidence.get("gates")
    is_open = gates if isinstance(gates, dict) else {}
    names = [name for name, gate in is_open.items() if gate["state"] in {"red", "unknown"}]
    if not names:
        message = f"no gate of {step.name} is open that could be waived"
        draft.answer(event, "rejected", message, Code.NOT_IN_THIS_STATE.value)
        return
    waived = {name: {"by": command.meta.source, "reason": command.note} for name in names}
    before = step.evidence.get("waived")
    evidence = {**step.evidence, "waived": {**(before if isinstance(before, dict) else {}), **waived}}
    draft.answer(event, "accepted", f"waived by {command.meta.who}: {', '.join(names)}")
    take_again(draft, draft.revise(workflow.with_step(replace(step, evidence=evidence))))
