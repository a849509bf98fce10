"""A world with a control topic, on which schedules send commands that the same core reads and carries out.

A restart goes through the status topic; control records that were not applied yet are read again after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from recoveryd.kernel.decision import Answer, Decision, Notice
from recoveryd.kernel.effects import Effect, SendCommand
from recoveryd.kernel.events import (
    BecameLeader,
    CommandNotSent,
    CommandReceived,
    ControlRead,
    ControlUnread,
    Event,
    Seen,
)
from recoveryd.recovery.effects import GatherFacts
from recoveryd.recovery.events import FactsGathered
from recoveryd.recovery.params import Params
from recoveryd.recovery.plan_facts import PlanFacts
from recoveryd.schedules.draft import SCHEDULES
from recoveryd.schedules.model import Schedule
from recoveryd.wire.codec import EncodedCommand
from recoveryd.wire.status_topic import encode_daemon
from tests.builders.core import CODEC, STATUS, make_facts, make_target
from tests.builders.world import PARAMS, World

SOURCE = "//ops/alice"
REPLAY: dict[str, Any] = {
    "source": {"topic": "flights", "from": "earliest", "to": "latest"},
    "target": {"topic": "flights.v2", "on_existing": "append"},
}
CONTINUED: dict[str, Any] = REPLAY | {"source": REPLAY["source"] | {"from": {"schedule": "last_end"}}}


def at(text: str, zone: str = "UTC") -> int:
    """A wall-clock time as milliseconds since the epoch."""
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 1_000


@dataclass(frozen=True)
class Written:
    """A record of the control topic."""

    ms: int
    record: EncodedCommand


class ScheduleWorld(World):
    """`swallows`: how many sent commands get lost on the way, as when the daemon dies before it writes them."""

    def __init__(
        self,
        now: str = "2026-11-22T01:59:30",
        ends: tuple[int, ...] = (100, 50),
        params: Params = PARAMS,
        *,
        speed: int = 100,
    ) -> None:
        self.control: list[Written] = []
        self.swallows = 0
        self.refuses: CommandNotSent | None = None
        self.sent: list[SendCommand] = []
        self.topic_id = self.target_id = ""
        self.log: dict[bytes, bytes] = {}
        super().__init__(make_facts(ends), params, speed=speed)
        self.now_ms = at(now)
        self.feed(BecameLeader(1, "control", reads_control=True))
        self.feed(ControlRead())

    def _note(self, before: Any, decision: Decision) -> None:
        super()._note(before, self._recoveries_only(decision))
        for gone in decision.forgotten:
            self.log.pop(gone.encode(), None)
        self.log.update(map(STATUS.encode, decision.changed))

    def _recoveries_only(self, decision: Decision) -> Decision:
        return replace(decision, changed=[noun for noun in decision.changed if not isinstance(noun, Schedule)])

    def _run(self, effect: Effect) -> list[Event]:
        if isinstance(effect, GatherFacts):
            return [FactsGathered(effect.recovery, self._facts(), effect.version)]
        if isinstance(effect, SendCommand):
            return self._send(effect)
        return super()._run(effect)

    def _facts(self) -> PlanFacts:
        ends = tuple(self.ends[p] for p in sorted(self.ends))
        starts = tuple(self.log_starts[p] for p in sorted(self.ends))
        facts = make_facts(ends, starts=starts, target=make_target(len(ends), records=1))
        if self.topic_id and facts.source is not None:
            facts = replace(facts, source=replace(facts.source, topic_id=self.topic_id))
        if self.target_id and facts.target is not None:
            facts = replace(facts, target=replace(facts.target, topic_id=self.target_id))
        return facts

    def _send(self, effect: SendCommand) -> list[Event]:
        self.sent.append(effect)
        if self.refuses is not None:
            return [self.refuses]
        if self.swallows:
            self.swallows -= 1
            return []
        made = CODEC.encode(
            effect.verb, effect.subject, effect.data, id=effect.id, source=effect.source, time_ms=effect.at_ms
        )
        assert isinstance(made, EncodedCommand), made
        self.write(made)
        return []

    def write(self, record: EncodedCommand) -> None:
        self.control.append(Written(self.now_ms, record))

    def read(self) -> None:
        """Hand the core every control record that it has not applied."""
        while self.state.daemon.applied_control_offset + 1 < len(self.control):
            offset = self.state.daemon.applied_control_offset + 1
            self.feed(self._event(offset))

    def _event(self, offset: int) -> CommandReceived:
        seen: dict[tuple[str, str], Seen] = {}
        for number, written in enumerate(self.control[: offset + 1]):
            made = written.record
            event = CODEC.decode_event(0, number, written.ms, made.key, made.value, made.headers)
            assert isinstance(event, CommandReceived)
            about = getattr(event.command, "meta", event.command)
            if number == offset:
                return replace(event, previous=seen.get((about.source, about.id)))
            seen.setdefault((about.source, about.id), Seen(number, about.content_hash))
        raise AssertionError(offset)

    def second(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            super().second()
            self.read()

    def minutes(self, count: int) -> None:
        self.second(60 * count)

    def command(self, verb: str, subject: str = "nightly", data: Mapping[str, Any] | None = None) -> Answer:
        """Send a command, and have it read."""
        self.leave_command(verb, subject, data)
        before = len(self.answers)
        self.read()
        return self.answers[before]

    def leave_command(self, verb: str, subject: str = "nightly", data: Mapping[str, Any] | None = None) -> None:
        """Send a command that nobody reads yet."""
        made = CODEC.encode(
            verb,
            subject,
            {"reason": "because", **(data or {})},
            id=f"c{len(self.control)}",
            source=SOURCE,
            time_ms=self.now_ms,
        )
        assert isinstance(made, EncodedCommand), made
        self.write(made)

    def add(
        self,
        cron: str = "* * * * *",
        verb: str = "replay",
        data: Mapping[str, Any] = REPLAY,
        *,
        subject: str | None = None,
        **more: Any,
    ) -> Answer:
        sent = {"verb": verb, "data": dict(data)} | ({} if subject is None else {"subject": subject})
        return self.command("schedule", data={"cron": cron, "command": sent, **more})

    def schedule(self, schedule_id: str = "nightly") -> Schedule:
        found = self.state.of(SCHEDULES).get(schedule_id)
        assert found is not None, self.answers
        return found

    def told(self, kind: str) -> list[Notice]:
        return [notice for notice in self.notices if notice.type == kind]

    def runs(self) -> list[str]:
        """The ids of all recoveries that began, in order."""
        return [notice.subject for notice in self.told("recovery_requested")]

    def stand_still(self, unread_s: int) -> None:
        """A leader that goes on after an hour in which it decided nothing, and takes `unread_s` to read what was sent
        meanwhile.
        """
        self.now_ms += 3_600_000
        self.feed(ControlUnread())
        super().second(unread_s)
        self.read()
        self.feed(ControlRead())

    def restart(self, *, down_s: int = 0, applications_die: bool = False, unread_s: int = 0) -> None:
        """Kill -9, some time without a daemon, and a new leader that knows only what was journaled. It takes `unread_s`
        to read the control topic.
        """
        self.lost_effects = False
        for _ in range(down_s):
            self.now_ms += 1_000
            for app in list(self.applications.values()):
                app.alive = app.alive and not applications_die
        self.epoch += 1
        folded = STATUS.fold([encode_daemon(self.state.daemon), *self.log.items()])
        journaled = {i: noun for i, noun in folded.nouns.items() if isinstance(noun, Schedule)}
        assert journaled == {s.id: s for s in self.state.of(SCHEDULES)}, "a restart forgets something"
        self.state = self.decider.restore(folded.daemon, folded.nouns, {})
        self.feed(BecameLeader(self.epoch + 1, "control", reads_control=True))
        super().second(unread_s)
        self.read()
        self.feed(ControlRead())
