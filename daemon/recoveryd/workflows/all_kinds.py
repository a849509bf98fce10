"""Every kind of workflow, by its verb."""

from collections.abc import Mapping
from typing import Final

from recoveryd.workflows.kinds import WorkflowKind
from recoveryd.workflows.reprocess import REPROCESS
from recoveryd.workflows.reset import RESET
from recoveryd.workflows.restore_savepoint import RESTORE_SAVEPOINT
from recoveryd.workflows.runbook.kind import RUNBOOK
from recoveryd.workflows.savepoint import SAVEPOINT
from recoveryd.workflows.upgrade import UPGRADE

KINDS: Final[Mapping[str, WorkflowKind]] = {
    "reset": RESET,
    "reprocess": REPROCESS,
    "savepoint": SAVEPOINT,
    "restore_savepoint": RESTORE_SAVEPOINT,
    "upgrade": UPGRADE,
    "runbook": RUNBOOK,
}
