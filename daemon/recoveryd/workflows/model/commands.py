"""The commands of workflows: six that ask for one, each with its spec, and those that are about one."""

from dataclasses import dataclass

from recoveryd.kernel.commands import Meta
from recoveryd.workflows.model.spec import (
    ReprocessSpec,
    ResetSpec,
    RestoreSpec,
    RunbookSpec,
    SavepointSpec,
    UpgradeSpec,
)


@dataclass(frozen=True, slots=True)
class Reset:
    """`unit` names one of the config, else `cluster` and `group` say whom."""

    meta: Meta
    spec: ResetSpec
    verb = "reset"


@dataclass(frozen=True, slots=True)
class Reprocess:
    """The unit starts again from a point, with empty state."""

    meta: Meta
    spec: ReprocessSpec
    verb = "reprocess"


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A named cut of a unit."""

    meta: Meta
    spec: SavepointSpec
    verb = "savepoint"


@dataclass(frozen=True, slots=True)
class RestoreSavepoint:
    """A unit begins with the state and the offsets of a cut."""

    meta: Meta
    spec: RestoreSpec
    verb = "restore_savepoint"


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A newer version of a unit takes over from it."""

    meta: Meta
    spec: UpgradeSpec
    verb = "upgrade"


@dataclass(frozen=True, slots=True)
class Runbook:
    """Seven steps from what is known of an application that stands still to one that is verified."""

    meta: Meta
    spec: RunbookSpec
    verb = "runbook"


@dataclass(frozen=True, slots=True)
class Promote:
    """What a shadow wrote goes where it belongs."""

    meta: Meta
    verb = "promote"


@dataclass(frozen=True, slots=True)
class Discard:
    """What a shadow wrote goes away."""

    meta: Meta
    verb = "discard"


@dataclass(frozen=True, slots=True)
class Escalate:
    """End a runbook, and hand over what is known."""

    meta: Meta
    verb = "escalate"


@dataclass(frozen=True, slots=True)
class Rollback:
    """Put back what a workflow changed."""

    meta: Meta
    verb = "rollback"


@dataclass(frozen=True, slots=True)
class Ack:
    """A person's word that a step is done."""

    meta: Meta
    step: str
    note: str = ""
    verb = "ack"
