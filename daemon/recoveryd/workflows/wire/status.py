"""The status record of a workflow: the envelope of every record, plan, steps, what it waits for and what can be put
back.

`WorkflowForm.read(write(w)) == w` for every workflow.
"""

from typing import Final

from recoveryd.wire.nouns import Document, NounForm, take
from recoveryd.wire.status_topic import ENVELOPE, FORMAT, format_of
from recoveryd.workflows.model.workflow import KIND, Workflow

PUBLIC: Final = (
    *ENVELOPE, "workflow", "unit", "error_code", "plan", "steps", "waiting_for", "undo", "cut", "stop", "report",
)  # fmt: skip


class WorkflowForm:
    def __init__(self) -> None:
        self._workflow = NounForm(Workflow)

    def write(self, workflow: Workflow) -> Document:
        """The status record as JSON values."""
        data = self._workflow.write(workflow)
        actions = [step.pop("action") for step in data["steps"]]
        public = take(data, PUBLIC)
        return {**public, "kind": KIND, "internal": {"format": FORMAT, **data, "actions": actions}}

    def read(self, document: Document) -> Workflow:
        """What `write` gave. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
        format_of(document)
        internal = document["internal"]
        steps = [
            {**step, "action": action} for step, action in zip(document["steps"], internal["actions"], strict=True)
        ]
        return self._workflow.read(
            {**internal, **{name: document[name] for name in PUBLIC if name in document}, "steps": steps}
        )
