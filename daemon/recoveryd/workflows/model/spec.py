"""What the commands of workflows ask for: a spec for each kind, and the choices in it. The commands themselves are in
`commands`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from recoveryd.kernel.written import named
from recoveryd.workflows.model.cut import Cut
from recoveryd.workflows.model.positions import OnNoRecord, OnOutOfRange
from recoveryd.workflows.model.positions_written import ToField


class StateChoice(StrEnum):
    """What becomes of the state of an application whose offsets are set. `keep`: it stays as it is, on purpose;
    `clean`: a person empties it.
    """

    KEEP = "keep"
    CLEAN = "clean"


@dataclass(frozen=True, slots=True)
class ResetSpec:
    """Of `unit`, or of `group` on `cluster`. `topics`: by name the partitions that are meant, empty = all of it; None =
    every input of the unit, or every topic on which the group has a commit. `confirm`: by item, what somebody says of
    it. `state`: of a unit that keeps some. `all_inputs`: `topics` are those of the unit as it was when the command was
    taken, which named none; False in those of an earlier release.
    """

    cluster: str
    group: str
    to: ToField
    unit: str | None = None
    topics: Mapping[str, tuple[int, ...]] | None = None
    on_out_of_range: OnOutOfRange = OnOutOfRange.FAIL
    on_no_record: OnNoRecord = OnNoRecord.FAIL
    confirm: Mapping[str, str] = field(default_factory=dict)
    state: StateChoice | None = None
    dry_run: bool = False
    plan_hash: str | None = None
    all_inputs: bool = False
    verb: Literal["reset"] = "reset"


class OutputPolicy(StrEnum):
    """What becomes of an output before the application writes to it once more. `keep`: it is overwritten by key;
    `append`: old results stay beside new ones; `new`: the application has to be started with another topic.
    """

    RECREATE = "recreate"
    KEEP = "keep"
    APPEND = "append"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class OutputChoice:
    """`name` is that of the new topic, of `new` only."""

    policy: OutputPolicy
    name: str | None = None


class IntermediatePolicy(StrEnum):
    """Of topics that an application writes and reads again: what lies there was made from what is processed
    once more.
    """

    SEEK_TO_END = "seek_to_end"
    RECREATE = "recreate"


@dataclass(frozen=True, slots=True)
class ReprocessSpec:
    """`to`: where the inputs are read from. `accept_missing`: so many records in front of the inputs may be gone.
    `keep_inputs`: retention takes nothing from them until the workflow ended.
    """

    unit: str
    to: ToField = field(metadata=named("from"))
    outputs: Mapping[str, OutputChoice] = field(default_factory=dict)
    intermediate: Mapping[str, IntermediatePolicy] = field(default_factory=dict)
    accept_missing: int = 0
    on_out_of_range: OnOutOfRange = OnOutOfRange.FAIL
    on_no_record: OnNoRecord = OnNoRecord.FAIL
    keep_inputs: bool = False
    cluster: str = ""
    group: str = ""
    dry_run: bool = False
    plan_hash: str | None = None
    verb: Literal["reprocess"] = "reprocess"


@dataclass(frozen=True, slots=True)
class SavepointSpec:
    """`live`: while the application runs. `name`: empty = the id that its workflow gets. `was_clean`: whether the
    application ended as it was told to, where a workflow began this that had stopped it; None = it does not know.
    """

    unit: str
    name: str
    live: bool = False
    cluster: str = ""
    group: str = ""
    dry_run: bool = False
    plan_hash: str | None = None
    was_clean: bool | None = None
    verb: Literal["savepoint"] = "savepoint"


@dataclass(frozen=True, slots=True)
class RestoreSpec:
    """`cut` is that of the savepoint, once it was looked up: the savepoint may be deleted while this goes on. `before`:
    how the application ran in whose place the unit starts, where a workflow began this that had stopped it.
    `takes_over`: that was an upgrade; on its way back the unit stays stopped, because the other version runs by then.
    """

    savepoint: str
    unit: str = field(metadata=named("to_unit"))
    outputs: Mapping[str, OutputChoice] = field(default_factory=dict)
    cut: Cut | None = None
    before: Mapping[str, Any] = field(default_factory=dict)
    cluster: str = ""
    group: str = ""
    dry_run: bool = False
    plan_hash: str | None = None
    takes_over: bool = False
    verb: Literal["restore_savepoint"] = "restore_savepoint"


class OnIncompatible(StrEnum):
    """`fail`: what cannot go on is refused, and what nobody can tell is asked of a person. `continue`: neither."""

    FAIL = "fail"
    CONTINUE = "continue"


class UpgradeMode(StrEnum):
    """`offline`: the old version is stopped before the new one starts. `online`: the new one runs beside it first."""

    OFFLINE = "offline"
    ONLINE = "online"


class Cutover(StrEnum):
    """Of `online`, how often readers see an input: `exact` once; `at_least_once`: those that lie between the two stops
    come from both versions.
    """

    EXACT = "exact"
    AT_LEAST_ONCE = "at_least_once"


@dataclass(frozen=True, slots=True)
class ReadyWhen:
    """The new version is ready once it was at most so far behind for so long."""

    lag_ms: int
    hold_ms: int


@dataclass(frozen=True, slots=True)
class UpgradeSpec:
    """From the version that is `unit` to the one that is `to_unit`. Of `online`: `staged_unit` is the new version as it
    runs beside the old one, `tail_unit` as it reads what lies between the two stops; both have its group. `to_group` is
    that of the new version, which is another one if its application id is. `anew_after`: an earlier upgrade that ended
    while this group read a tail. `run`: the id of the upgrade itself, after which it names what it makes.
    """

    unit: str
    to_unit: str
    mode: UpgradeMode = UpgradeMode.OFFLINE
    on_incompatible: OnIncompatible = OnIncompatible.FAIL
    ready: ReadyWhen | None = None
    cutover: Cutover = Cutover.EXACT
    staged_unit: str | None = None
    tail_unit: str | None = None
    cluster: str = ""
    group: str = ""
    to_group: str = ""
    anew_after: str | None = None
    run: str = ""
    dry_run: bool = False
    plan_hash: str | None = None
    verb: Literal["upgrade"] = "upgrade"

    @property
    def is_other_id(self) -> bool:
        """Whether the new version reads as another group."""
        return self.to_group not in {"", self.group}


class RunbookPath(StrEnum):
    """How an application comes back. `auto` proposes one of the others; a person confirms it."""

    AUTO = "auto"
    RESUME = "resume"
    RESTORE_STATE = "restore_state"
    REPLAY = "replay"
    SHADOW = "shadow"
    ESCALATE = "escalate"


class RunbookGate(StrEnum):
    """What has to be well before a runbook is done."""

    LAG = "lag"
    OUTPUT = "output"
    STATE = "state"
    ERRORS = "errors"
    LIVE = "live"


Ranges = Mapping[int, tuple[int, int]]
Marks = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class RunbookSpec:
    """`sink` and `state`: up to where, in the inputs, what the application wrote and what it keeps go, as the sink and
    a checkpoint say; by topic and partition the next offset that is not in it. `ranges` [start, stop) of `topic` are
    what `replay` and `shadow` copy, to `target`. `quotas`: bytes/s by client id. `waive`: a reason by gate. `hold_ms`:
    so long a shadow is well before it may be promoted. `run`: the id of the runbook itself, after which it names what
    it makes. `cut`: that of the savepoint, once it was looked up, less its ends; None in those of an earlier release.
    """

    unit: str
    path: RunbookPath = RunbookPath.AUTO
    savepoint: str | None = None
    outputs: Mapping[str, OutputChoice] = field(default_factory=dict)
    topic: str | None = None
    ranges: Ranges = field(default_factory=dict)
    target: str | None = None
    sink: Marks = field(default_factory=dict)
    state: Marks = field(default_factory=dict)
    checkpoint: str | None = None
    error_topics: tuple[str, ...] = ()
    quotas: Mapping[str, float] = field(default_factory=dict)
    max_bytes_per_s: float | None = None
    waive: Mapping[RunbookGate, str] = field(default_factory=dict)
    hold_ms: int = 0
    cluster: str = ""
    group: str = ""
    run: str = ""
    dry_run: bool = False
    plan_hash: str | None = None
    cut: Cut | None = None
    verb: Literal["runbook"] = "runbook"

    @property
    def doubt(self) -> str:
        """Why the savepoint may not be of one moment; empty where it is, or where there is none."""
        return "" if self.cut is None or self.cut.is_exact else self.cut.why


Spec = ResetSpec | ReprocessSpec | SavepointSpec | RestoreSpec | UpgradeSpec | RunbookSpec
WithOutputs = ReprocessSpec | RestoreSpec
