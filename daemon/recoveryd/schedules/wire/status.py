"""The status record of a schedule: the envelope that every record has; fields that only schedules have are under
`schedule`, fields that only the daemon needs under `internal`.

`ScheduleForm.read(write(s)) == s` for every schedule.
"""

from typing import Final

from recoveryd.schedules.model import KIND, Schedule
from recoveryd.wire.nouns import Document, NounForm, take
from recoveryd.wire.status_topic import ENVELOPE, FORMAT, format_of

PUBLIC: Final = (*ENVELOPE, "error_code", "stop")
# Parts under `schedule`, beside the specification, whose own `command` is the one that is sent.
PARTS: Final = ("next_run", "queued", "run", "last_run", "counts", "last_end", "forecast")


class ScheduleForm:
    def __init__(self) -> None:
        self._schedule = NounForm(Schedule)

    def write(self, schedule: Schedule) -> Document:
        """The status record as JSON values."""
        data = self._schedule.write(schedule)
        own = {**data.pop("spec"), **take(data, PARTS)}
        return {**take(data, PUBLIC), "kind": KIND, "schedule": own, "internal": {"format": FORMAT, **data}}

    def read(self, document: Document) -> Schedule:
        """The schedule in a document of `write`. Raises KeyError, TypeError, ValueError or AttributeError for anything
        else.
        """
        format_of(document)
        own = document["schedule"]
        public = {name: document[name] for name in PUBLIC}
        parts = {name: own[name] for name in PARTS if name in own}
        return self._schedule.read({**document["internal"], **public, **parts, "spec": own})
