"""Every kind of workflow, by its verb."""

from collections.abc import Mapping
from typing import Final

from recoveryd.workflows.kinds import WorkflowKind
from recoveryd.workflows.reprocess import REPROCESS
from recoveryd.workflows.reset import RESET

KINDS: Final[Mapping[str, WorkflowKind]] = {"reset": RESET, "reprocess": REPROCESS}
