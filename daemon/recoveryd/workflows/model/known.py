"""All workflows of a daemon: the journaled records, and since when each waits to ask again."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from recoveryd.kernel.known import KnownNouns, live_and_ended
from recoveryd.kernel.states import ENDED, State
from recoveryd.workflows.model.near import Readiness
from recoveryd.workflows.model.size import noted_bytes
from recoveryd.workflows.model.workflow import Workflow


@dataclass(frozen=True, slots=True)
class Workflows(KnownNouns[Workflow]):
    """`due_ms`: when the present step of a live one is asked for again; `asked_ms`: since when the facts of a plan are
    asked for; `heard`: the step and the last try of it of which was heard. All are soft, as is `readiness`.
    `forgettable`: the ended ones without the savepoints, which are kept until somebody deletes them, in the same order.
    `noted_bytes`: an estimate for all of those together.
    """

    due_ms: Mapping[str, int] = field(default_factory=dict)
    asked_ms: Mapping[str, int] = field(default_factory=dict)
    heard: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    forgettable: Mapping[str, Workflow] = field(default_factory=dict)
    noted_bytes: int = 0
    readiness: Readiness = Readiness()

    @staticmethod
    def of(workflows: Iterable[Workflow]) -> "Workflows":
        """As a new daemon knows them."""
        live, ended = live_and_ended(sorted(workflows, key=lambda w: w.updated_ms), is_over)
        forgettable = {i: w for i, w in ended.items() if not is_kept(w)}
        return Workflows(live, ended, forgettable=forgettable, noted_bytes=sum(map(noted_bytes, forgettable.values())))

    def with_workflow(self, workflow: Workflow) -> "Workflows":
        """These, with a new or changed one. The ended ones are copied only when it joins, leaves or changes them."""
        live = {i: w for i, w in self.live.items() if i != workflow.id}
        if not is_over(workflow):
            live[workflow.id] = workflow
        due_ms = {i: at for i, at in self.due_ms.items() if i in live}
        asked_ms = {i: at for i, at in self.asked_ms.items() if i in live and i != workflow.id}
        heard = {i: last for i, last in self.heard.items() if i in live}
        made = replace(self, live=live, due_ms=due_ms, asked_ms=asked_ms, heard=heard)
        if workflow.id in self.ended:
            made = made.without((workflow.id,))
        return _with_ended(made, workflow) if is_over(workflow) else made

    def with_due(self, workflow_id: str, at_ms: int) -> "Workflows":
        return replace(self, due_ms={**self.due_ms, workflow_id: at_ms})

    def with_asked(self, workflow_id: str, at_ms: int) -> "Workflows":
        """Unless they are asked for already."""
        return replace(self, asked_ms={workflow_id: at_ms, **self.asked_ms})

    def with_heard(self, workflow_id: str, step: str, try_number: int) -> "Workflows":
        return replace(self, heard={**self.heard, workflow_id: (step, try_number)})

    def without(self, forgotten: Collection[str]) -> "Workflows":
        """Without some of the ended ones."""
        gone = frozenset(forgotten)
        forgettable = {i: w for i, w in self.forgettable.items() if i not in gone}
        size = self.noted_bytes - sum(noted_bytes(self.forgettable[i]) for i in gone & self.forgettable.keys())
        return replace(KnownNouns.without(self, gone), forgettable=forgettable, noted_bytes=size)


def is_over(workflow: Workflow) -> bool:
    """Whether nothing more happens by itself."""
    return workflow.state in ENDED


def is_kept(workflow: Workflow) -> bool:
    """Whether it is a savepoint, which is kept until somebody deletes it."""
    return workflow.cut is not None and workflow.state is State.COMPLETED


def _with_ended(known: Workflows, workflow: Workflow) -> Workflows:
    """With one more that ended."""
    ended = {**known.ended, workflow.id: workflow}
    if is_kept(workflow):
        return replace(known, ended=ended)
    forgettable = {**known.forgettable, workflow.id: workflow}
    size = known.noted_bytes + noted_bytes(workflow)
    return replace(known, ended=ended, forgettable=forgettable, noted_bytes=size)
