"""What the daemon needs from the outside world: one protocol per thing, implemented in `recoveryd.adapters` (and in
memory there as well).

No rule about recovery lives behind a port. Foreign errors are translated by the adapter into the exceptions of
`recoveryd.errors`. Methods are coroutines where they may wait; every wait inside has a deadline.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from recoveryd.holds.events import SeenMember
from recoveryd.kernel.decision import Answer, Notice, Noun
from recoveryd.kernel.effects import SendCommand
from recoveryd.kernel.events import ControlUnreadable, Event, Seen
from recoveryd.kernel.state import DaemonRecord
from recoveryd.live.events import OffsetsSampled
from recoveryd.live.freshness import RejectReason
from recoveryd.recovery.effects import (
    CreateTarget,
    ForgetRecoveries,
    GatherFacts,
    LaunchAttempt,
    ReadLedger,
    SetQuota,
    SweepQuotas,
)
from recoveryd.recovery.events import LedgerRead, QuotaSet, QuotasSwept, TargetReady
from recoveryd.recovery.plan_facts import PlanFacts
from recoveryd.units.control import Report, Wish
from recoveryd.workflows.model.effects import GatherForWorkflow, TakeStep
from recoveryd.workflows.model.events import StepReported, WorkflowFacts
from recoveryd_jobs.contract import Directive

Emit = Callable[[Event], None]  # puts an event into the runtime's inbox; thread-safe; never blocks


@dataclass(frozen=True, slots=True)
class JournalBatch:
    """Everything one transaction writes. The order of each list is the order on the topic. On compacted topics, later
    entries of the same key win.
    """

    changed: Sequence[Noun] = ()
    forgotten: Sequence[str] = ()  # ids whose records are removed; written before `changed`
    daemon: DaemonRecord | None = None
    answers: Sequence[Answer] = ()
    notices: Sequence[Notice] = ()
    directives: Sequence[Directive] = ()
    dead_letters: Sequence[ControlUnreadable] = ()


@dataclass(frozen=True, slots=True)
class Folded:
    """What the status topic holds at its high watermark, and the ids of earlier commands (from the control topic, up to
    the applied offset).
    """

    nouns: Mapping[str, Noun] = field(default_factory=dict)
    daemon: DaemonRecord = DaemonRecord()
    seen: dict[bytes, Seen] = field(default_factory=dict)  # by `idempotency_key`
    directive_sequences: dict[str, int] = field(default_factory=dict)


class Journal(Protocol):
    """The one writer's log. Raises `Fenced` once another daemon took over; then this daemon must not act any more."""

    async def open(self) -> Folded:
        """Fence older writers (init_transactions), then read status to the high watermark."""
        ...

    async def commit(self, batch: JournalBatch) -> None:
        """Write all of the batch in one transaction, or raise. An unknown outcome is resolved (by committing again)
        before it returns or raises.
        """
        ...

    async def close(self) -> None: ...


class Clusters(Protocol):
    """Questions to, and topic creation on, the named clusters of the config."""

    async def gather_facts(self, effect: GatherFacts) -> PlanFacts: ...

    async def create_target(self, effect: CreateTarget) -> TargetReady: ...

    async def sample(self, topics: Iterable[tuple[str, str]]) -> OffsetsSampled:
        """Log starts, high watermarks, last stable offsets and topic ids of (cluster, topic) pairs."""
        ...

    async def control_topic_id(self) -> str: ...

    async def control_end(self, position: int) -> int:
        """The offset behind the last record of the control topic. One below `position`, before which there were
        records, is told only when all whom clients take for the leader say so for twelve seconds: a broker that leads
        no more may not know better. Raises `ClusterProblem`, also when they do not agree.
        """
        ...

    async def check_own_topics(self) -> None:
        """Raises `OwnTopicProblem` naming each topic that is missing on `main` and each wrong cleanup policy."""
        ...

    async def check_width(self) -> None:
        """Raises `OwnTopicProblem` naming each own topic that must have one partition and is seen to have more."""
        ...

    async def close(self) -> None: ...


class GroupOffsets(Protocol):
    """Where consumer groups of live traffic stand. Raises `ClusterProblem`."""

    async def committed(
        self, cluster: str, group: str, topics: Mapping[str, int | None]
    ) -> Mapping[str, Mapping[int, int]]:
        """Next offset to read, by topic and partition. `topics`: the partition count of each, None = not known.

        A partition without a commit is absent; a topic of which some partition got no answer is absent altogether.
        """
        ...

    async def have_members(self, cluster: str) -> Mapping[str, bool]:
        """Whether each group has members, for the groups that the cluster lets us list; others are absent."""
        ...

    async def members(self, cluster: str, group: str) -> tuple[SeenMember, ...] | None:
        """The members of one group; None where the cluster knows none of this name, does not tell of its protocol, or
        lets the group rebalance, when nobody knows what its members have.
        """
        ...

    async def close(self) -> None: ...


class Fate(Enum):
    """What became of a canary record. `UNUSABLE`: none could be sent, for a reason that says nothing about latency."""

    DELIVERED = "delivered"
    WAITING = "waiting"
    GIVEN_UP = "given up"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class Probe:
    """`seconds` from sending the record to its acknowledgement; without one, since the first record was sent that the
    cluster has not answered. None = no measurement.
    """

    fate: Fate
    seconds: float | None = None
    why: str = ""


class Canary(Protocol):
    """A tiny record to one cluster, acknowledged by all in-sync replicas, never more than one at a time."""

    async def probe(self, wait_s: float) -> Probe:
        """Send a record, unless one is still under way, and wait up to `wait_s` for it. Raises nothing when the cluster
        fails.
        """
        ...

    async def close(self) -> None:
        """Forget what is under way; the next probe begins anew."""
        ...


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """`value` is a finite number, or None, with the reason under which it is counted and a sentence that says why.
    `is_empty`: the server answered, and has no such series.
    """

    value: float | None
    reject: RejectReason | None = None
    why: str = ""
    is_empty: bool = False


class Queries(Protocol):
    """Instant queries to Prometheus servers of the config. Raises nothing when a server fails."""

    async def ask(self, url: str, query: str, lookback_s: float, deadline_s: float) -> QueryAnswer:
        """The one number that `query` gives now, of samples at most `lookback_s` old."""
        ...

    async def close(self) -> None: ...


class WorkflowSteps(Protocol):
    """Looks at consumer groups and sets where they stand, for workflows. Raises `ClusterProblem`."""

    async def gather(self, effect: GatherForWorkflow) -> WorkflowFacts: ...

    async def take(self, effect: TakeStep) -> StepReported:
        """Harmless to do twice. One that is a look changes nothing."""
        ...

    async def close(self) -> None: ...


class TopicRetention(Protocol):
    """How long topics keep their records. Raises nothing for what a cluster does."""

    async def kept_ms(self, cluster: str, topics: Collection[str]) -> Mapping[str, int | None]:
        """By topic; None = for ever. One that gave no answer is absent."""
        ...

    async def close(self) -> None: ...


class Ledger(Protocol):
    """Receipts on target clusters."""

    async def read(self, effect: ReadLedger, moved: Callable[[], None] = ...) -> LedgerRead:
        """`moved` is called now and then while a long reading gets on."""
        ...

    async def forget(self, effect: ForgetRecoveries) -> None:
        """Delete the receipts of ended recoveries. Raises `ClusterProblem` when that can be tried again."""
        ...


class ClientQuotas(Protocol):
    """The brokers' client quotas of recoveries; raises `ClusterProblem`."""

    async def set(self, effect: SetQuota) -> QuotaSet: ...

    async def sweep(self, effect: SweepQuotas) -> QuotasSwept: ...


class Jobs(Protocol):
    """Spark applications as child processes. Exits come back through `emit` as AttemptExited."""

    async def launch(self, effect: LaunchAttempt) -> None:
        """Idempotent per (recovery, attempt). Raises `LaunchError`."""
        ...

    async def kill(self, recovery: str, attempt: int) -> None: ...

    async def kill_all(self) -> None:
        """Whatever this daemon launched."""
        ...

    async def forget(self, recoveries: Collection[str]) -> None:
        """Remove what their attempts left on disk."""
        ...

    async def close(self) -> None:
        """Leave the child processes running (under their lease) and end the spare drivers."""
        ...


class ProgressFeed(Protocol):
    """Reads the progress topic, from a few seconds before its start on, and emits LaneHeartbeat and DriverHeartbeat."""

    async def start(self, emit: Emit) -> None: ...

    async def close(self) -> None: ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch, steady: a wall clock that is set does not move it before `adopt`."""
        ...

    def monotonic_s(self) -> float: ...

    def set_by_ms(self) -> int:
        """By how much the wall clock was set, when that is too much to be made up for gradually; 0 = it was not."""
        ...

    def differs(self) -> bool:
        """Whether the wall clock differs by so much now: it was set, or the machine slept, which stops the monotonic
        clock but not this one.
        """
        ...

    def adopt(self) -> None:
        """Take over the wall clock's time; times of before mean nothing any more."""
        ...


class ConnectorOffsets(Protocol):
    """Offsets of sink connectors by the REST interface of Kafka Connect, each by topic and partition. Raises
    `ClusterProblem`.
    """

    async def sink_offsets(self, unit: str) -> Mapping[tuple[str, int], int]: ...

    async def set_sink_offsets(self, unit: str, offsets: Mapping[tuple[str, int], int | None]) -> None:
        """Only those that are named; None takes one away. The connector has to be stopped."""
        ...


class ApplicationControl(Protocol):
    """Stops and starts the applications of units, or says who does. Every failure is a report, never an exception."""

    async def ask(self, wish: Wish) -> Report:
        """Bring the application nearer to what is wanted, within seconds. Idempotent: ask again until the report
        fulfils the wish or needs more than time.
        """
        ...

    async def look(self, unit: str) -> Report:
        """What state it has; changes nothing."""
        ...

    async def start(self) -> None:
        """Begin to look after what an earlier daemon started."""
        ...

    async def close(self) -> None:
        """Leave applications as they are."""
        ...


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """A record of the control topic as it lies there; `broker_ms` is its LogAppendTime. `damage`: why nothing is known
    of it but its offset.
    """

    partition: int
    offset: int
    broker_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    damage: str = ""

    @property
    def size(self) -> int:
        """How many bytes key, value and headers have; where the record was compressed, the topic does not bound it."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


class ControlLog(Protocol):
    """Reads a part of the control topic without any group."""

    def pages(self, start: int, stop: int | None) -> AsyncIterator[Sequence[ControlRecord]]:
        """Records of [start, stop) in order, in pages of bounded size; `stop` None = the end as it is now. Offsets
        without a record are skipped.
        """
        ...


class CommandSender(Protocol):
    """Writes commands to the control topic."""

    async def send(self, effect: SendCommand) -> None:
        """Returns once the record is safe. Raises `ClusterProblem`, or `FormProblem` for what the daemon would refuse
        by its form alone.
        """
        ...

    async def close(self) -> None: ...
