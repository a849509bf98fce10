"""All schedules of a daemon: the journaled records, and when their commands were last sent, which is not journaled."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from recoveryd.kernel.known import KnownNouns, live_and_ended
from recoveryd.schedules.model import Schedule


@dataclass(frozen=True, slots=True)
class Schedules(KnownNouns[Schedule]):
    """`sent_ms`: by schedule, when this daemon last sent the command of its run."""

    sent_ms: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(schedules: Iterable[Schedule]) -> "Schedules":
        """The schedules as a new daemon knows them."""
        return Schedules(*live_and_ended(schedules, lambda schedule: not schedule.is_live))

    def with_schedule(self, schedule: Schedule) -> "Schedules":
        """These, with a new or changed one; the ended ones are in the order in which they ended."""
        live = {i: s for i, s in self.live.items() if i != schedule.id}
        ended = {i: s for i, s in self.ended.items() if i != schedule.id} if schedule.id in self.ended else self.ended
        if schedule.is_live:
            return replace(self, live={**live, schedule.id: schedule}, ended=ended)
        return replace(self, live=live, ended={**ended, schedule.id: schedule})

    def with_sent(self, schedule_id: str, at_ms: int) -> "Schedules":
        return replace(self, sent_ms={**self.sent_ms, schedule_id: at_ms})

    def without(self, forgotten: Collection[str]) -> "Schedules":
        """These, without the ended ones `forgotten`."""
        gone = frozenset(forgotten)
        sent_ms = {i: at for i, at in self.sent_ms.items() if i not in gone}
        return replace(KnownNouns.without(self, forgotten), sent_ms=sent_ms)
