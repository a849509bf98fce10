"""Every kind of workflow, by its verb."""

from collections.abc import Mapping
from typing import Final

from recoveryd.workflows.kinds.reprocess import REPROCESS
from recoveryd.workflows.kinds.reset import RESET
from recoveryd.workflows.kinds.restore.kind import RESTORE_SAVEPOINT
from recoveryd.workflows.kinds.runbook.kind import RUNBOOK
from recoveryd.workflows.kinds.savepoint import SAVEPOINT
from recoveryd.workflows.kinds.upgrade.kind import UPGRADE
from recoveryd.workflows.machine.kind import WorkflowKind

_ALL = (RESET, REPROCESS, SAVEPOINT, RESTORE_SAVEPOINT, UPGRADE, RUNBOOK)
KINDS: Final[Mapping[str, WorkflowKind]] = {str(kind.command.verb): kind for kind in _ALL}
