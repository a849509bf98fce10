"""What a step does, as data. Each is harmless to do twice: who carries it out looks first whether it is done already,
and never overwrites what somebody else changed meanwhile.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from recoveryd.kernel.written import named
from recoveryd.recovery.told_size import ToldSize


@dataclass(frozen=True, slots=True)
class AwaitEmpty:
    """Wait until the group has no members; they are never thrown out. Static members leave only when their session
    times out.
    """

    cluster: str
    group: str
    do: Literal["await_empty"] = "await_empty"


@dataclass(frozen=True, slots=True)
class AwaitStopped:
    """Wait until somebody stopped the application: its group has no members, or a person says that it is stopped."""

    cluster: str
    group: str
    unit: str
    do: Literal["await_stopped"] = "await_stopped"


MEMBERS: Final = "members"  # in the evidence of a step that waits for members to join or to leave: how many were seen
MOVED: Final = "moved"  # in that of one that puts offsets back: so many had gone on, and were left there
WERE_GONE: Final = "were_gone"  # in the same: so many had no commit any more
RESTORING: Final = "restoring"  # in that of one that waits for a group to read: it may still be at its state


@dataclass(frozen=True, slots=True)
class AwaitStarted:
    """Wait until the application runs again: its group has a member, or a person says so. `note`: what is to be known
    for the start, `before`: how it ran before it was stopped, as whoever stopped it said. `changelogs`: against which
    the state is compared that its instances brought along; one with older state does not count as started. `is_told`:
    members may be of another application with the same group, and only a person can say of which. `inputs`: whose logs
    must still hold what was set for the group; `may_lack`: but for so many records, None = nobody said that some may.
    """

    cluster: str
    group: str
    unit: str
    note: str = ""
    before: Mapping[str, Any] = field(default_factory=dict)
    changelogs: tuple[str, ...] = ()
    is_told: bool = False
    inputs: tuple[str, ...] = ()
    may_lack: int | None = None
    do: Literal["await_started"] = "await_started"


@dataclass(frozen=True, slots=True)
class AskPerson:
    """Wait for an `ack`. `question` says what has to be done or looked at."""

    question: str
    do: Literal["ask_person"] = "ask_person"


@dataclass(frozen=True, slots=True)
class AskChoice:
    """Wait for one of these commands."""

    question: str
    verbs: tuple[str, ...]
    do: Literal["ask_choice"] = "ask_choice"


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Read the committed offsets of `topics`, with metadata and leader epochs, so that they can be put back, and where
    their logs and those of `end_topics` begin and end.
    """

    cluster: str
    group: str
    topics: tuple[str, ...]
    end_topics: tuple[str, ...] = ()
    # While members commit: ends are those of committed records, and it is noted whether nobody committed between two
    # looks.
    is_live: bool = False
    topic_ids: Mapping[str, str] = field(default_factory=dict)  # of topics that must still be those of the plan
    # Topics that members write in one transaction with their offsets: it is noted whether both are seen of each
    # transaction.
    state_topics: tuple[str, ...] = ()
    # Of one that is not live: wait until the group has no members, before and after, and no transaction is about to
    # commit offsets. One that a member left when it was killed may have its state in the log, and its offsets not yet.
    is_stable: bool = False
    partitions: Mapping[str, int] = field(
        default_factory=dict
    )  # of topics that must still have as many as the plan saw
    # The cluster is asked of it once more, so that the core can tell whether it has internal topics that the plan did
    # not know.
    unit: str = ""
    # A commit interval apart: consumers that are assigned their partitions are no members, and commit all the same.
    looks_twice: bool = False
    do: Literal["snapshot"] = "snapshot"


@dataclass(frozen=True, slots=True)
class SetOffsets:
    """Commit what the undo rows of the group say, and read it back. What is neither as it was nor as it shall be is
    somebody's: forward nothing is set then, back it stays as they left it. `gone`: internal topics that went before,
    with the ids that they had. What came back of them, with records, is of a run from the old offsets, and goes too.
    """

    cluster: str
    group: str
    is_back: bool = False  # the other way round
    topics: tuple[str, ...] = ()  # those of them only; empty = all
    connector: str = ""  # the unit of a sink connector, whose offsets Kafka Connect sets as long as it is stopped
    # Of topics that must still be those in which the offsets were noted; one that is another now counts as moved by
    # somebody.
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    gone: Mapping[str, str] = field(default_factory=dict)
    do: Literal["set_offsets"] = "set_offsets"


@dataclass(frozen=True, slots=True)
class TopicForm:
    """What is needed to make a topic again. `configs` are those that were set on the topic itself."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateTopics:
    """Make topics that do not exist; one that is there already must be empty and of this form, and counts as somebody
    else's where it was there before the first try. `is_own`: such a one is in the way.
    """

    cluster: str
    topics: tuple[TopicForm, ...]
    is_own: bool = False
    do: Literal["create_topics"] = "create_topics"


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    """Take topics away, each only as long as it has the id that `topics` names for it. `is_ours`: the workflow made
    them, so that no hold is in the way, and who has made one again keeps it; those with records stay unless
    `with_records`. `group`: which has no members then, and whose commits on them go with them.
    """

    cluster: str
    topics: Mapping[str, str]
    is_ours: bool = field(default=False, metadata=named("is_back"))
    group: str = ""
    with_records: bool = False
    do: Literal["delete_topics"] = "delete_topics"


@dataclass(frozen=True, slots=True)
class RecreateTopics:
    """Take topics away and make them again, empty, with the same partitions and configs. `ids`: those that the plan
    saw, by name. `group`: which has no members then. `is_back`: what went and could not be made is made again; nothing
    is taken away.
    """

    cluster: str
    topics: tuple[TopicForm, ...]
    ids: Mapping[str, str]
    group: str = ""
    is_back: bool = False
    do: Literal["recreate_topics"] = "recreate_topics"


@dataclass(frozen=True, slots=True)
class SetConfigs:
    """Give topics these configs, by topic and name; None takes one away. `is_temporary`: put back when the workflow
    ends, however it ends. `is_back`: the other way round, and only where nobody else changed it since.
    """

    cluster: str
    configs: Mapping[str, Mapping[str, str | None]]
    is_temporary: bool = False
    is_back: bool = False
    do: Literal["set_configs"] = "set_configs"


@dataclass(frozen=True, slots=True)
class ChildRun:
    """A command of its own, and the id of what it begins. `again`: so often it was sent anew, under another id, because
    nothing had begun when the workflow was paused. `before`: how the application ran in whose place it is to start one,
    as whoever stopped it said. That is not in the command, which could come from anybody.
    """

    recovery: str
    verb: str
    data: Mapping[str, Any]
    again: int = 0
    before: Mapping[str, Any] = field(default_factory=dict)

    @property
    def copies(self) -> str:
        """By what name its size was told: the topic that it copies, or the verb of a workflow."""
        source = self.data.get("source")
        return str(source["topic"]) if isinstance(source, Mapping) else self.verb


@dataclass(frozen=True, slots=True)
class RunChildren:
    """Put commands on the control topic, and wait until what they began has completed, with a match where it was
    verified. `told`: what the plan told of the size of each (`ChildRun.copies`); empty = of none, or in an earlier
    release.
    """

    runs: tuple[ChildRun, ...] = ()
    told: Mapping[str, ToldSize] = field(default_factory=dict)
    do: Literal["run_children"] = "run_children"


@dataclass(frozen=True, slots=True)
class AwaitCaughtUp:
    """Wait until the group has read everything up to `ends`, by topic and partition. Empty: to the ends that are found
    then. `brings_state`: its application may begin with state that it first has to read back from its changelogs, and
    commits nothing meanwhile.
    """

    cluster: str
    group: str
    ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    brings_state: bool = False
    do: Literal["await_caught_up"] = "await_caught_up"


@dataclass(frozen=True, slots=True)
class AwaitReady:
    """Wait until the group was at most `lag_ms` behind on all of `topics` for `hold_ms`. `units`: those of the config
    to which this time belongs; it begins again when one of them changes. `planned`: by unit what mattered of it when
    the plan was made, as a hash; `partitions`: so many each topic had.
    """

    cluster: str
    group: str
    topics: tuple[str, ...]
    lag_ms: int
    hold_ms: int
    units: tuple[str, ...] = ()
    planned: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    do: Literal["await_ready"] = "await_ready"


@dataclass(frozen=True, slots=True)
class LookAtTopics:
    """Count what lies in these topics, as evidence for a person; changes nothing. `group`: what was set for it there
    must still lie in their logs.
    """

    cluster: str
    topics: tuple[str, ...]
    group: str = ""
    do: Literal["look_at_topics"] = "look_at_topics"


@dataclass(frozen=True, slots=True)
class LookAtUnit:
    """Ask the cluster what it says of the unit now, and of `topics`, for the core to judge; changes nothing. `ends`: it
    is counted how much the group has left to read up to there. `verbs`: it is looked until one of these commands
    answers `question`, which may come once all was well for `hold_ms`. `with_readers`: who reads its outputs is asked
    as well, which takes long where there are many groups.
    """

    cluster: str
    group: str
    unit: str
    topics: tuple[str, ...] = ()
    ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    question: str = ""
    verbs: tuple[str, ...] = ()
    hold_ms: int = 0
    with_readers: bool = False
    do: Literal["look_at_unit"] = "look_at_unit"


@dataclass(frozen=True, slots=True)
class SetQuotas:
    """Give client ids of others these byte rates for what they read, by client id; None takes one away. Put back when
    the workflow ends, however it ends; `is_back`: that, and only where nobody else changed it since.
    """

    cluster: str
    quotas: Mapping[str, float | None]
    is_back: bool = False
    do: Literal["set_quotas"] = "set_quotas"


@dataclass(frozen=True, slots=True)
class RollBackChildren:
    """Have what a step began put back what it changed, and wait until it has."""

    runs: tuple[ChildRun, ...]
    is_back: bool = True
    do: Literal["roll_back_children"] = "roll_back_children"


@dataclass(frozen=True, slots=True)
class Settle:
    """Nothing is to be done: what the step is about was settled before. `told` says how."""

    told: str
    do: Literal["settle"] = "settle"


Action = (
    AwaitEmpty
    | AwaitStopped
    | AwaitStarted
    | AskPerson
    | TakeSnapshot
    | SetOffsets
    | CreateTopics
    | DeleteTopics
    | RecreateTopics
    | SetConfigs
    | RunChildren
    | AwaitCaughtUp
    | AwaitReady
    | LookAtTopics
    | LookAtUnit
    | AskChoice
    | SetQuotas
    | RollBackChildren
    | Settle
)
CHANGES: frozenset[type] = frozenset({SetOffsets, CreateTopics, DeleteTopics, RecreateTopics, SetConfigs, SetQuotas})
ANSWERED_BY_PEOPLE: frozenset[type] = frozenset({AwaitStopped, AwaitStarted, AskPerson})


def with_runs(action: Action, runs: Iterable[ChildRun]) -> RunChildren:
    """What was planned before it was known what it begins, once that is."""
    return RunChildren(tuple(runs), action.told if isinstance(action, RunChildren) else {})
