"""The record of a schedule: everything that must survive a restart. All times are milliseconds since the epoch (UTC).

A run is journaled, with its id and its whole data, before its command is sent, so that it can be sent again and is
still the same command.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.kernel.noun import StatusNoun
from recoveryd.kernel.states import Stop
from recoveryd.kernel.written import DurationMs, TimeMs, named
from recoveryd.schedules.spec import ScheduleSpec

KIND = "schedule"


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """The answer to the command: accepted, rejected, duplicate or expired, with code and message."""

    kind: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class ScheduleRun:
    """One firing. `due_ms` is its time by the cron expression, `fired_ms` when it was decided; `deadline_ms` is
    absolute.

    `data` is what was sent, while the run goes on. `control_offset` is where its command lies on the control topic, -1
    while it was not read from there. `outcome` says how it ended: the state of what it began, or the answer.
    """

    due_ms: TimeMs = field(metadata=named("due"))
    fired_ms: TimeMs = field(metadata=named("fired"))
    command_id: str
    recovery: str
    deadline_ms: TimeMs | None = field(default=None, metadata=named("deadline"))
    data: Mapping[str, object] = field(default_factory=dict)
    control_offset: int = -1
    answer: RunAnswer | None = None
    outcome: str = ""
    why: str = ""
    ended_ms: TimeMs | None = field(default=None, metadata=named("ended"))


@dataclass(frozen=True, slots=True)
class LastEnd:
    """Where the last run ended: the next offset to copy, by partition. `recovery` is the run that came that far, into
    the topic `target_topic_id`. `since_ms`: the time at which the first run began; what is older is left out by all.
    """

    cluster: str
    topic: str
    topic_id: str
    offsets: Mapping[int, int]
    recovery: str
    target_topic_id: str = ""
    since_ms: TimeMs | None = field(default=None, metadata=named("since"))


@dataclass(frozen=True, slots=True)
class RunForecast:
    """Of the next run: how long it is expected to take by the last `runs`, and how long it may until the one after it
    is due.
    """

    fits: bool
    expected_ms: DurationMs = field(metadata=named("expected"))
    interval_ms: DurationMs = field(metadata=named("interval"))
    runs: int


@dataclass(frozen=True, slots=True)
class RunCounts:
    """`late`: runs that made up for due times which passed while no daemon ran, or began more than a minute after
    theirs. `skipped`: due times left out because the last run still went on. `completed`, `stopped`, `failed` and
    `refused` add up to the runs that ended.
    """

    fired: int = 0
    late: int = 0
    skipped: int = 0
    completed: int = 0
    stopped: int = 0
    failed: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Schedule(StatusNoun):
    """`run` is the one that goes on, `last_run` the last that ended. `queued_ms`: a due time that waits for its end.
    `end_code`: why its runs cannot go on behind `last_end`, also if it is made again; "" = they can.

    A schedule that was ended stays known until its run has ended too.
    """

    spec: ScheduleSpec
    next_run_ms: TimeMs | None = field(default=None, metadata=named("next_run"))
    run: ScheduleRun | None = None
    last_run: ScheduleRun | None = None
    queued_ms: TimeMs | None = field(default=None, metadata=named("queued"))
    counts: RunCounts = RunCounts()
    last_end: LastEnd | None = None
    end_code: str = ""
    durations_ms: tuple[int, ...] = ()  # of the last runs that ran, the newest last
    forecast: RunForecast | None = None
    stop: Stop | None = None
    error_code: str | None = None
    kind = KIND

    @property
    def is_live(self) -> bool:
        """Whether time or its run can still change something about it."""
        return not self.is_terminal or self.run is not None
