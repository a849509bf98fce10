"""How a step of the core sees workflows, and the slice of the state that is theirs."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from recoveryd.kernel.decision import Answer
from recoveryd.kernel.draft import Draft, View
from recoveryd.kernel.noun import changed
from recoveryd.kernel.state import CoreState, Slot
from recoveryd.kernel.states import State
from recoveryd.recovery.model import Recovery
from recoveryd.workflows.machine.kind import WorkflowKind
from recoveryd.workflows.model.known import Workflows
from recoveryd.workflows.model.lifecycle import advance
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.workflow import Workflow, WorkflowStep

FindRecovery = Callable[[CoreState, str], Recovery | None]
# Of a state, a cluster and a group: the sentence that names the watch which will stop its application.
FindWatch = Callable[[CoreState, str, str], str | None]
WORKFLOWS = Slot("workflows", Workflows())


class WorkflowDraft(View):
    """Every change of a workflow is journaled; `due` is not."""

    def __init__(
        self,
        draft: Draft,
        params: WorkflowParams,
        kinds: Mapping[str, WorkflowKind],
        find: FindRecovery,
        find_watch: FindWatch,
    ) -> None:
        super().__init__(draft)
        self._find, self._find_watch = find, find_watch
        self.kinds = kinds
        self.params = params
        self.workflows = draft.before.of(WORKFLOWS)

    def kind_of(self, workflow: Workflow) -> WorkflowKind:
        return self.kinds[workflow.verb]

    def recovery(self, recovery: str) -> Recovery | None:
        """As it was before this step."""
        return self._find(self.draft.before, recovery)

    def watch_on(self, cluster: str, group: str) -> str | None:
        """The sentence that names a watch which will stop the application of this group, or None."""
        return self._find_watch(self.draft.before, cluster, group)

    def put(self, workflow: Workflow) -> Workflow:
        self.draft.journal(workflow)
        self.workflows = self.workflows.with_workflow(workflow)
        return workflow

    def revise(self, workflow: Workflow, **changes: Any) -> Workflow:
        """Change and journal it as its next version."""
        return self.put(changed(workflow, self.now_ms, **changes))

    def move(
        self, workflow: Workflow, to: State, why: str, told: Mapping[str, object] | None = None, **changes: Any
    ) -> Workflow:
        """Into its next state, which the events topic is told."""
        if workflow.state is State.AWAITING_APPROVAL:
            changes = {"waiting_for": None, **changes}
        moved = self.put(advance(workflow, to, why, self.now_ms, **changes))
        if moved.is_terminal:
            self.draft.ended.append(moved.id)
        data = {"from": workflow.state.value, "to": to.value, "why": why, "verb": workflow.verb}
        self.notice(f"workflow_{to.value}", workflow.id, data | dict(told or {}))
        self.reason = why
        return moved

    def due(self, workflow_id: str, at_ms: int) -> None:
        """Ask for its present step again at this time."""
        self.workflows = self.workflows.with_due(workflow_id, at_ms)

    def hear(self, workflow_id: str, step: WorkflowStep, try_number: int) -> None:
        """What comes of this try of its step, or of an earlier one, is no news from now on."""
        self.workflows = self.workflows.with_heard(workflow_id, step.name, try_number)

    def asked(self, workflow_id: str) -> int:
        """Since when the facts of its plan are asked for, which is now unless they were before."""
        self.workflows = self.workflows.with_asked(workflow_id, self.now_ms)
        return self.workflows.asked_ms[workflow_id]

    def answer_creation(self, workflow: Workflow, kind: str, message: str, code: str = "", hint: str = "") -> Workflow:
        """The answer to the command that made it, which waits for the plan. Does nothing the second time."""
        if workflow.answered:
            return workflow
        ref = workflow.command
        answer = Answer(kind, workflow.verb, ref.id, workflow.id, code, message, hint, workflow.control_offset)
        self.draft.answer_later(answer)
        return self.revise(workflow, answered=True)

    def forget(self, workflow_ids: Collection[str]) -> None:
        """Take ended workflows out of memory and off the status topic."""
        self.draft.forget(workflow_ids)
        self.workflows = self.workflows.without(workflow_ids)

    def finish(self, state: CoreState) -> CoreState:
        return state if self.workflows is state.of(WORKFLOWS) else state.having(WORKFLOWS, self.workflows)
