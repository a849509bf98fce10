"""What a `schedule` asks for: when, which command, and what to do when the last run still goes on. The values are
validated already; JSON names and hints are in `wire`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recoveryd.kernel.commands import Command, Meta
from recoveryd.kernel.written import DurationMs, named

SKIP = "skip"
QUEUE = "queue"


@dataclass(frozen=True, slots=True)
class ScheduledCommand:
    """`data` is the data of the command as it was given, with a reason. `subject`: whom a command such as `pause` is
    about; None = each run gets an id of its own.
    """

    verb: str
    data: Mapping[str, object] = field(default_factory=dict)
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class ScheduleSpec:
    """`overrun`: what to do with a due time while the last run goes on, `skip` or `queue` (one at most)."""

    cron: str
    command: ScheduledCommand
    time_zone: str = "UTC"
    overrun: str = SKIP
    max_runtime_ms: DurationMs | None = field(default=None, metadata=named("max_runtime"))


@dataclass(frozen=True, slots=True)
class StartSchedule:
    """`sent`: the command of the first run as it would be now, by which is judged what only that can tell; None in
    histories of an earlier release.
    """

    meta: Meta
    spec: ScheduleSpec
    sent: Command | None = None
    verb = "schedule"


@dataclass(frozen=True, slots=True)
class EndSchedule:
    meta: Meta
    verb = "unschedule"
