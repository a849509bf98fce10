"""All workflows of a daemon: the journaled records, and since when each waits to ask again."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from recoveryd.kernel.known import KnownNouns
from recoveryd.workflows.model.near import Readiness
from recoveryd.workflows.model.size import noted_bytes
from recoveryd.workflows.model.workflow import Workflow


@dataclass(frozen=True, slots=True)
class Workflows(KnownNouns[Workflow]):
    """`due_ms`: when the present step of a live one is asked for again; `asked_ms`: since when the facts of a plan are
    asked for; `heard`: the step and the last try of it of which was heard. All are soft, as is `readiness`.
    `noted_bytes`: an estimate for each ended one.
    """

    due_ms: Mapping[str, int] = field(default_factory=dict)
    asked_ms: Mapping[str, int] = field(default_factory=dict)
    heard: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    noted_bytes: Mapping[str, int] = field(default_factory=dict)
    readiness: Readiness = Readiness()

    @staticmethod
    def of(workflows: Iterable[Workflow]) -> "Workflows":
        """As a new daemon knows them."""
        made = Workflows()
        for workflow in sorted(workflows, key=lambda w: w.updated_ms):
            made = made.with_workflow(workflow)
        return made

    def with_workflow(self, workflow: Workflow) -> "Workflows":
        live = {i: w for i, w in self.live.items() if i != workflow.id}
        ended = {i: w for i, w in self.ended.items() if i != workflow.id}
        (ended if is_over(workflow) else live)[workflow.id] = workflow
        due_ms = {i: at for i, at in self.due_ms.items() if i in live}
        asked_ms = {i: at for i, at in self.asked_ms.items() if i in live and i != workflow.id}
        heard = {i: last for i, last in self.heard.items() if i in live}
        size = {i: n for i, n in self.noted_bytes.items() if i != workflow.id}
        if is_over(workflow):
            size[workflow.id] = noted_bytes(workflow)
        return replace(self, live=live, ended=ended, due_ms=due_ms, asked_ms=asked_ms, heard=heard, noted_bytes=size)

    def with_due(self, workflow_id: str, at_ms: int) -> "Workflows":
        return replace(self, due_ms={**self.due_ms, workflow_id: at_ms})

    def with_asked(self, workflow_id: str, at_ms: int) -> "Workflows":
        """Unless they are asked for already."""
        return replace(self, asked_ms={workflow_id: at_ms, **self.asked_ms})

    def with_heard(self, workflow_id: str, step: str, try_number: int) -> "Workflows":
        return replace(self, heard={**self.heard, workflow_id: (step, try_number)})

    def without(self, forgotten: Collection[str]) -> "Workflows":
        """Without some of the ended ones."""
        size = {i: n for i, n in self.noted_bytes.items() if i not in forgotten}
        return replace(KnownNouns.without(self, forgotten), noted_bytes=size)


def is_over(workflow: Workflow) -> bool:
    """Whether nothing more happens by itself."""
    return workflow.is_terminal or workflow.state.value == "planned"
