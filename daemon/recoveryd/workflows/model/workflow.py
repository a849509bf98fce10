"""A workflow: what the status topic stores of it. All times are milliseconds since the epoch (UTC).

It is a tuple of steps that are taken one after the other. Each step is journaled before it begins and when it has
ended, so that a daemon that dies between the two finds it running and does it again, which is harmless (`actions`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Literal

from recoveryd.kernel.noun import StatusNoun
from recoveryd.kernel.states import State, Stop
from recoveryd.kernel.written import TimeMs, named
from recoveryd.units.compatibility import VersionDifference, VersionVerdict
from recoveryd.units.contract import UnitContract
from recoveryd.workflows.model.actions import Action
from recoveryd.workflows.model.confirming import Confirmation
from recoveryd.workflows.model.cut import Cut
from recoveryd.workflows.model.spec import Spec

KIND = "workflow"
RowKey = tuple[str, str, str, int]  # of what can be put back: what it is, its cluster or group, its name, its partition


class StepState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    UNDONE = "undone"


TAKEN: Final = frozenset({StepState.RUNNING, StepState.WAITING})
NOT_ENDED: Final = frozenset({StepState.PENDING, *TAKEN})


class UndoState(StrEnum):
    """`kept`: somebody else changed it meanwhile, so it stays as they left it. `left`: it could not be put back, and
    stays as the workflow set it.
    """

    OPEN = "open"
    DONE = "done"
    KEPT = "kept"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class WorkflowStep:
    """`tries` so often it was begun, `failures` so often in a row it failed; `evidence` has the numbers that its result
    rests on.
    """

    name: str
    action: Action
    state: StepState = StepState.PENDING
    why: str = ""
    evidence: Mapping[str, object] = field(default_factory=dict)
    began_ms: TimeMs | None = field(default=None, metadata=named("began"))
    ended_ms: TimeMs | None = field(default=None, metadata=named("ended"))
    tries: int = 0
    failures: int = 0

    @property
    def has_begun(self) -> bool:
        """Whether it ever began, also one that failed and is to begin anew: what it did then may have had effects."""
        return self.began_ms is not None or self.tries > 0


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is to become another. `before` None = it is not there now, `after` None = it is taken away."""

    what: str  # offset | topic | config | unit | quota
    name: str
    partition: int | None
    before: object = field(metadata=named("from"))
    after: object = field(metadata=named("to"))


@dataclass(frozen=True, slots=True)
class VersionChange:
    """What becomes of an application with its next version. `unfixed_range`: by input and partition, the [start, stop)
    of which the results stay those of the old one; `fix`: data of replays that copy just this for the new one.
    """

    verdict: VersionVerdict
    differences: tuple[VersionDifference, ...] = ()
    unfixed_range: Mapping[str, Mapping[int, tuple[int, int]]] = field(default_factory=dict)
    fix: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedCopies:
    """What the recoveries that a workflow begins copy together, by what lay there when the plan was made.
    `bytes_at_most` None = neither the brokers nor a sample of records said.
    """

    records_at_most: int
    bytes_at_most: int | None = None


@dataclass(frozen=True, slots=True)
class WorkflowPlan:
    """`hash` is over what is meant, not over numbers that move until the group is empty. `copies` None = it copies
    nothing, or how much is not known yet, as in plans of an earlier release.
    """

    hash: str
    changes: tuple[Change, ...] = ()
    findings: tuple[str, ...] = ()
    ambiguous_topics: tuple[str, ...] = ()
    version: VersionChange | None = None
    confirmations: tuple[Confirmation, ...] = ()
    contracts: tuple[UnitContract, ...] = ()
    copies: PlannedCopies | None = None


@dataclass(frozen=True, slots=True)
class WaitingFor:
    """`members` in words, of a group that must become empty; `deadline_ms`: then the workflow gives up. `left`: the
    least that was left so far of what is read.
    `is_under_way`: an application is being stopped or started by whoever controls it, so that no person is waited for,
    who may say all the same that it is done. `unanswered_since_ms`: since then no look was answered, `last_error` says
    why not; what is said besides is of the last answer.
    """

    kind: str  # ack | group_empty | approval | ready | recoveries | gates | choice | live | answer
    step: str  # empty while the whole of it waits for its approval
    since_ms: TimeMs = field(metadata=named("since"))
    deadline_ms: TimeMs | None = field(default=None, metadata=named("deadline"))
    members: tuple[str, ...] = ()
    left: int | None = None
    is_under_way: bool = False
    unanswered_since_ms: TimeMs | None = field(default=None, metadata=named("unanswered_since"))
    last_error: str = ""


@dataclass(frozen=True, slots=True)
class OffsetUndo:
    """How one committed offset is put back: `to` is what was there, `was_set` what we put there; None = nothing.
    `is_taken`: what was there is to be taken away.
    """

    name: str  # of the topic
    partition: int
    to: int | None
    was_set: int | None = None
    state: UndoState = UndoState.OPEN
    metadata: str = ""
    leader_epoch: int | None = None
    group: str = ""
    is_taken: bool = False
    what: Literal["offset"] = "offset"

    @property
    def key(self) -> RowKey:
        return (self.what, self.group, self.name, self.partition)

    @property
    def is_changed(self) -> bool:
        return self.was_set is not None or self.is_taken


@dataclass(frozen=True, slots=True)
class TopicUndo:
    """What was done with one topic. `to`: its id before, None = it was not there; `was_set`: the id that it has by us,
    None = taken away or not done yet.

    A topic that we made is taken away again while it is empty. Records that went with a topic do not come back, which
    is said.
    """

    name: str
    to: str | None
    was_set: str | None = None
    is_gone: bool = False
    state: UndoState = UndoState.OPEN
    partition: int | None = None
    cluster: str = ""
    what: Literal["topic"] = "topic"

    @property
    def key(self) -> RowKey:
        return (self.what, self.cluster, self.name, -1)

    @property
    def is_changed(self) -> bool:
        return self.was_set is not None or self.is_gone


@dataclass(frozen=True, slots=True)
class ConfigUndo:
    """One config of a topic that was changed. `to`: its value before, `was_set`: ours; None = not set on the topic
    itself.
    """

    name: str  # of the topic
    config: str
    to: str | None
    was_set: str | None
    is_temporary: bool = False
    state: UndoState = UndoState.OPEN
    partition: int | None = None
    cluster: str = ""
    what: Literal["config"] = "config"

    @property
    def key(self) -> RowKey:
        return (self.what, self.cluster, f"{self.name} {self.config}", -1)

    @property
    def is_changed(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class UnitUndo:
    """An application that is stopped for another version of it: to go back is to let it run again. `before`: how it
    ran, as whoever stopped it said. `is_told`: only a person can say which version runs.
    """

    name: str  # of the unit
    to: str = "running"
    was_set: str | None = None
    before: Mapping[str, Any] = field(default_factory=dict)
    is_told: bool = False
    state: UndoState = UndoState.OPEN
    partition: int | None = None
    what: Literal["unit"] = "unit"

    @property
    def key(self) -> RowKey:
        return (self.what, "", self.name, -1)

    @property
    def is_changed(self) -> bool:
        return self.was_set is not None


@dataclass(frozen=True, slots=True)
class QuotaUndo:
    """How much a client id of somebody may read per second for the time of the workflow: `to` is what was set for it
    before, None = nothing.
    """

    name: str  # the client id
    to: float | None
    was_set: float | None
    state: UndoState = UndoState.OPEN
    partition: int | None = None
    cluster: str = ""
    is_temporary: bool = True
    what: Literal["quota"] = "quota"

    @property
    def key(self) -> RowKey:
        return (self.what, self.cluster, self.name, -1)

    @property
    def is_changed(self) -> bool:
        """Never for a rollback: it is put back when the workflow ends."""
        return False


Undo = OffsetUndo | TopicUndo | ConfigUndo | UnitUndo | QuotaUndo


@dataclass(frozen=True, slots=True)
class Ending:
    """How a workflow ends once its temporary changes are put back. `deadline_ms`: then it ends without, as it does when
    somebody gave it up, after one last try.
    """

    state: State
    why: str
    code: str | None = None
    deadline_ms: TimeMs | None = field(default=None, metadata=named("deadline"))
    given_up_by: str = ""
    is_last_try: bool = False


@dataclass(frozen=True, slots=True)
class Rest:
    """The try of a step of which it was heard that nothing of it is under way any more: it waits, or failed before it
    changed anything. Of steps that change something, so that the next daemon too knows what may still be called off.
    """

    step: str
    try_number: int


@dataclass(frozen=True, slots=True)
class Steering:
    """What the workflow wants of those that it began: `verb`, under command ids made of `number`, which stay the same
    until they were read. `left`: ids of those of whom that is not known yet.
    """

    verb: str  # pause | resume | stop
    number: int
    left: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Workflow(StatusNoun):
    """`report`: of one that ended, where its kind writes one: what was seen, decided, changed, and what is open.
    `taken_back_by`: the id of the command that had it put back last. `ordinal`: it counts workflows, across control
    topics that were made anew; 0 in those of an earlier release. `reads`: topics that its plan has copied, which no
    hold may keep from being read; empty in those of an earlier release.
    """

    verb: str = field(metadata=named("workflow"))
    unit: str | None
    spec: Spec
    control_offset: int
    answered: bool = False
    plan: WorkflowPlan | None = None
    reads: tuple[str, ...] = ()
    steps: tuple[WorkflowStep, ...] = ()
    waiting_for: WaitingFor | None = None
    undo: tuple[Undo, ...] = ()
    approved: str = ""
    is_rolling_back: bool = False
    taken_back_by: str = ""
    ending: Ending | None = None
    cut: Cut | None = None
    stop: Stop | None = None
    error_code: str | None = None
    report: Mapping[str, Any] | None = None
    steering: Steering | None = None
    rest: Rest | None = None
    ordinal: int = 0
    kind = KIND

    @property
    def place(self) -> tuple[int, int]:
        """Greater of the one that was asked for later, whatever clocks say."""
        return self.ordinal, self.control_offset

    @property
    def waits_for_a_person(self) -> bool:
        waiting = self.waiting_for
        is_known = waiting is not None and not waiting.is_under_way and waiting.unanswered_since_ms is None
        asked = waiting.kind if waiting is not None and is_known else ""
        return asked in {"ack", "choice"} or (self.state is State.AWAITING_APPROVAL and not self.approved)

    @property
    def step(self) -> WorkflowStep | None:
        """The one that is taken now or next."""
        return next((s for s in self.steps if s.state in NOT_ENDED), None)

    @property
    def temporary(self) -> tuple[ConfigUndo | QuotaUndo, ...]:
        """What it changed for its own time only, and has not put back yet."""
        rows = (row for row in self.undo if isinstance(row, ConfigUndo | QuotaUndo))
        return tuple(row for row in rows if row.is_temporary and row.state is UndoState.OPEN)

    def with_undo(self, rows: Iterable[Undo]) -> "Workflow":
        """With these rows in place of those about the same things, in their order, and new ones behind."""
        by_key: dict[RowKey, Undo] = {row.key: row for row in self.undo}
        by_key.update((row.key, row) for row in rows)
        return replace(self, undo=tuple(by_key.values()))

    def with_step(self, step: WorkflowStep) -> "Workflow":
        return replace(self, steps=tuple(step if s.name == step.name else s for s in self.steps))
