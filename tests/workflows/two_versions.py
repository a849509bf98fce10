"""The world of two versions of an application, each with a group of its own, on one cluster in memory. What each of
them reads while it runs is kept, so that it can be told how often an input came out where readers look.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.states import State
from recoveryd.live.events import ReaderSampled
from recoveryd.live.lag.window import LagSample
from recoveryd.recovery.slice import RECOVERY
from recoveryd.units.facts import Group, Member, UnitFacts, UnitTopic
from recoveryd.units.internal_topics import InternalTopics
from recoveryd.units.model import Unit
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.machine.readiness import readers_in_play
from recoveryd.workflows.model.actions import AskPerson, AwaitEmpty, AwaitStarted, AwaitStopped, LookAtUnit
from recoveryd.workflows.model.colliding import names_of
from recoveryd.workflows.model.commands import RestoreSavepoint, Rollback, Savepoint
from recoveryd.workflows.model.effects import GatherForWorkflow, TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported, WorkflowFacts
from recoveryd.workflows.model.facts import Found
from recoveryd.workflows.model.workflow import Workflow
from recoveryd.workflows.wire.savepoint import RestoreData, SavepointData
from tests.builders.records import make_recovery
from tests.workflows.app_world import PARTITIONS, AppWorld, Log, _ends
from tests.workflows.world import report

Place = tuple[str, int]
OUTPUTS = ("totals", "log")  # where readers look


@dataclass
class Reader:
    """A group: what it committed, and as which unit it runs now (None = it does not)."""

    committed: dict[Place, int] = field(default_factory=dict)
    runs: str | None = None


class TwoVersions(AppWorld):
    """`suffixes` of the internal topics that each group has. `published`: how often each input record came out in
    `OUTPUTS`;
    `processed`: by group, how often it was read.
    """

    truth = (*AppWorld.truth, "groups")

    def __init__(self, *units: Unit, suffixes: tuple[str, ...]) -> None:
        old = units[0]
        self.groups = {unit.group: Reader() for unit in units}
        self.suffixes = suffixes
        self.published: Counter[tuple[str, int, int]] = Counter()
        self.processed: dict[str, Counter[tuple[str, int, int]]] = {g: Counter() for g in self.groups}
        self.copied: dict[str, list[tuple[str, int, int]]] = {}
        self.units = {unit.name: unit for unit in units}
        self.seen_sent, self.partitions = 0, PARTITIONS
        self.begins_at_end = False  # auto.offset.reset
        super().__init__(*units)
        self.topics = {name: log for name, log in self.topics.items() if not name.startswith("app-")}
        for suffix in suffixes:
            self.topics[f"{old.group}-{suffix}"] = Log(f"{suffix}-1", 0, 20)
            self.configs[f"{old.group}-{suffix}"] = {"cleanup.policy": "compact"}
        self.groups[old.group].runs = old.name
        self._select(old.group)
        self.reads(old.group, 60)
        if old.intermediate:
            self.groups[old.group].committed |= {("steps", p): 70 for p in range(PARTITIONS)}

    def reads(self, group: str, upto: int | None = None) -> None:
        """Whoever runs as this group gets on: to `upto`, or to the ends."""
        reader = self.groups[group]
        if reader.runs is None:
            return
        unit = self.units[reader.runs]
        for topic in unit.positioned_inputs:
            for p in range(self.partitions):
                log = self.topics.get(topic)
                end = 0 if log is None else log.end if upto is None else min(upto, log.end)
                at = reader.committed.get((topic, p), end if self.begins_at_end else 0)
                for offset in range(at, end):
                    self._process(unit, topic, p, offset)
                reader.committed[topic, p] = max(at, end)

    def _process(self, unit: Unit, topic: str, p: int, offset: int) -> None:
        if topic in self.copied:
            origin = [(t, q, o) for t, q, o in self.copied[topic] if q == p]
            if offset >= len(origin):
                return  # a marker
            record = origin[offset]
        else:
            record = (topic, p, offset)
        self.processed[unit.group][record] += 1
        if set(OUTPUTS) & set(unit.outputs):
            self.published[record] += 1

    def produce(self, count: int = 10) -> None:
        self.topics["orders"].end += count

    def start(self, unit: str) -> None:
        group = self.units[unit].group
        assert self.groups[group].runs in {None, unit}
        self.groups[group].runs = unit
        for suffix in self.suffixes:
            self._make(f"{group}-{suffix}", {"cleanup.policy": "compact"})

    def stop_group(self, group: str) -> None:
        self.groups[group].runs = None

    def begin_anew(self, group: str) -> None:
        """Without state and offsets."""
        self.groups[group].committed.clear()
        for suffix in self.suffixes:
            self.topics.pop(f"{group}-{suffix}", None)

    def live(self) -> list[Workflow]:
        return list(self.state.of(WORKFLOWS).live.values())

    def people(self, rounds: int = 30, *, until: str = "") -> None:
        """What people do, each when it is asked for; applications read meanwhile. `until`: they leave this step
        alone.
        """
        for _ in range(rounds):
            self.deliver()
            for workflow in self.live():
                step = workflow.step
                if step is None or workflow.waiting_for is None or step.name == until:
                    continue
                match step.action:
                    case AwaitStopped(group=group) | AwaitEmpty(group=group):
                        self.stop_group(group)
                    case AwaitStarted(unit=unit, is_told=is_told):
                        self.start(unit)
                        if is_told:
                            self.ack(step.name, workflow.id)
                    case AskPerson():
                        self.ack(step.name, workflow.id)
            for _ in range(4):
                self.produce(1)
                for group in self.groups:
                    self.reads(group)
                self.sample()
                self.pass_time(5)
            if not self.live() or (until and any(w.step and w.step.name == until for w in self.live())):
                return

    def sample(self) -> None:
        """The collector looks at those whom a workflow waits for."""
        for reader in readers_in_play(self.state.of(WORKFLOWS)):
            log, group = self.topics[reader.topic], self.groups[reader.group]
            samples = tuple(
                (p, LagSample(group.committed.get((reader.topic, p)), self.now_ms, log.end, self.now_ms, log.start,
                              log.end, log.id, group.runs is not None))
                for p in range(self.partitions)
            )  # fmt: skip
            self.feed(ReaderSampled(reader, tuple(range(self.partitions)), samples))

    def deliver(self) -> None:
        """What was put on the control topic arrives, and recoveries that it began complete."""
        for sent in self.sent[self.seen_sent :]:
            self.seen_sent += 1
            data = {**sent.data}
            match sent.verb:
                case "savepoint":
                    saved = SavepointData.model_validate(data).to_core()
                    self.send(lambda meta, spec=saved: Savepoint(meta, spec), sent.source, sent.subject, sent.id)  # type: ignore[misc]
                case "restore_savepoint":
                    spec = RestoreData.model_validate(data).to_core()
                    self.send(lambda meta, spec=spec: RestoreSavepoint(meta, spec), sent.source, sent.subject, sent.id)  # type: ignore[misc]
                case "rollback":
                    self.send(Rollback, sent.source, sent.subject, sent.id)
                case "stop":
                    self.send(StopCommand, sent.source, sent.subject, sent.id)
                case "replay":
                    self._note_copy(sent.subject, data)
        self.complete_children()

    def _note_copy(self, recovery: str, data: dict[str, object]) -> None:
        """Of a copy of an input: which of its records is which."""
        source, target = data["source"], data["target"]
        assert isinstance(source, dict)
        assert isinstance(target, dict)
        if source["topic"] != "orders" or recovery in self.state.of(RECOVERY).recoveries:
            return
        starts, stops = source["from"]["offsets"], source["to"]["offsets"]
        self.copied[target["topic"]] = [
            (source["topic"], int(p), offset) for p in starts for offset in range(starts[p], stops[p])
        ]

    def complete_children(self) -> None:
        """A tail holds only what it is to hold, other copies all of their source."""
        for name, records in self.copied.items():
            if name in self.topics and not self.topics[name].end:
                self.topics[name].end = max(Counter(p for _, p, _ in records).values(), default=0)
                self._has_ended(name)
        super().complete_children()

    def _has_ended(self, target: str) -> None:
        for sent in self.sent:
            if sent.verb == "replay" and sent.data["target"]["topic"] == target:  # type: ignore[index]
                self.have_recovery(make_recovery(sent.subject, state=State.COMPLETED))

    def gather(self, effect: GatherForWorkflow) -> WorkflowFacts:
        wanted = effect.wanted
        groups = []
        for each in wanted.groups:
            self._select(each.group)
            groups.append(self._group(each.topics or {}))
        units = {name: self.facts(self.units[name]) for name in wanted.units}
        names = [name for _, name in wanted.topics]
        if wanted.internal:
            names += [name for facts in units.values() for name in facts.internal.certain]
        topics = {name: self._topic(name) for name in names}
        there = names_of(self.topics if wanted.names_on else ())
        found = Found(tuple(groups), units, topics, at_ms=self.now_ms, names=there)
        return WorkflowFacts(effect.workflow, found, effect.version)

    def facts(self, unit: Unit) -> UnitFacts:
        self._select(unit.group)
        named = {*unit.inputs, *unit.intermediate, *unit.outputs}
        internal = tuple(f"{unit.group}-{s}" for s in self.suffixes if f"{unit.group}-{s}" in self.topics)
        names = {*named, *internal} & set(self.topics)
        topics = {n: UnitTopic(n, self.topics[n].id, _ends(self.topics[n], self.partitions), 1) for n in names}
        found = self._group(dict.fromkeys(names)).group
        assert isinstance(found, Group)
        is_known = bool(self.members or self.committed)
        group = replace(found, id=unit.group) if is_known else None
        unclear = tuple(each for each in self.ambiguous if each[0].startswith(f"{unit.group}-"))
        return UnitFacts(self.now_ms, topics, group, InternalTopics(internal, unclear), self.readers)

    def look_at(self, unit: str) -> UnitFacts:
        return self.facts(self.units[unit])

    def take(self, effect: TakeStep) -> StepReported:
        group = getattr(effect.action, "group", "")
        if not group:
            return super().take(effect)
        self._select(group)
        if isinstance(effect.action, LookAtUnit):
            units = {effect.action.unit: self.facts(self.units[effect.action.unit])}
            return report(effect, Outcome.DONE, "looked", found=Found(units=units))
        told = super().take(effect)
        self.groups[group].committed = self.committed
        return told

    def _select(self, group: str) -> None:
        reader = self.groups[group]
        self.committed = reader.committed
        self.members = [] if reader.runs is None else [Member("m1", reader.runs, "host")]

    def _drop(self, name: str) -> None:
        super()._drop(name)
        for reader in self.groups.values():
            reader.committed = {place: at for place, at in reader.committed.items() if place[0] != name}

    def rolls_back(self, workflow: str = "w1") -> None:
        assert self.send(Rollback, subject=workflow) == "accepted"
        self.people()
        assert self.look(workflow).state is State.ROLLED_BACK, self.look(workflow).why
