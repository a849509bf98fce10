"""A small world around the core: an application on a cluster in memory, with inputs, an intermediate topic, outputs and
internal topics, which steps of workflows stop, empty, set back and start.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.live.params import LiveParams
from recoveryd.recovery.params import Params
from recoveryd.recovery.slice import RECOVERY
from recoveryd.recovery.spec import Earliest
from recoveryd.units.facts import Committed, Group, GroupType, Member, PartitionEnds, UnitFacts, UnitTopic
from recoveryd.units.internal_topics import InternalTopics
from recoveryd.units.model import Behaviour, Output, Unit, UnitKind
from recoveryd.workflows.model.actions import (
    MEMBERS,
    MOVED,
    RESTORING,
    WERE_GONE,
    Action,
    AwaitCaughtUp,
    AwaitEmpty,
    AwaitStarted,
    AwaitStopped,
    CreateTopics,
    DeleteTopics,
    LookAtTopics,
    RecreateTopics,
    SetConfigs,
    SetOffsets,
    TakeSnapshot,
    TopicForm,
)
from recoveryd.workflows.model.colliding import names_of
from recoveryd.workflows.model.commands import Ack, Reprocess
from recoveryd.workflows.model.effects import GatherForWorkflow, TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported, WorkflowFacts
from recoveryd.workflows.model.facts import Found, GroupFound, TopicFound
from recoveryd.workflows.model.passed import find_passed, refuse_passed
from recoveryd.workflows.model.positions import PartitionLook, To
from recoveryd.workflows.model.spec import IntermediatePolicy, OutputChoice, OutputPolicy, ReprocessSpec
from recoveryd.workflows.model.workflow import ConfigUndo, OffsetUndo, TopicUndo, Undo, UndoState
from recoveryd_jobs.contract import Verification
from tests.builders.deciding import make_decider
from tests.builders.records import make_recovery
from tests.workflows.world import WorkflowWorld, report

GROUP, PARTITIONS = "app", 2
UNIT = Unit(
    "shop",
    UnitKind.STREAMS,
    "main",
    GROUP,
    ("orders",),
    ("steps",),
    {"totals": Output(Behaviour.IDEMPOTENT), "log": Output(Behaviour.APPEND_ONLY)},
    stateful=True,
)
OUTPUTS = {"totals": OutputChoice(OutputPolicy.RECREATE), "log": OutputChoice(OutputPolicy.NEW, "log-2")}
INTERNAL = ("app-counts-changelog", "app-by-key-repartition")


@dataclass
class Log:
    """One topic: all partitions alike."""

    id: str
    start: int
    end: int


class AppWorld(WorkflowWorld):
    """`topics`, `committed` and `members` are the truth. `done` are the changes that reached the cluster, in order.
    `refused`: verbs and topics for which the cluster says no. `tells_ends`: whether a proof says where the target
    ended. `record_bytes`: None = its brokers tell no sizes.
    """

    truth = ("topics", "committed", "configs", "made")

    def __init__(self, *units: Unit) -> None:
        self.partitions = PARTITIONS
        self.topics = {
            "orders": Log("orders-1", 0, 100),
            "steps": Log("steps-1", 0, 80),
            "totals": Log("totals-1", 0, 40),
            "log": Log("log-1", 0, 30),
            **{name: Log(f"{name}-1", 0, 20) for name in INTERNAL},
        }
        self.committed: dict[tuple[str, int], int] = {
            (topic, p): at for topic, at in (("orders", 60), ("steps", 70), (INTERNAL[1], 9)) for p in range(PARTITIONS)
        }
        self.members = [Member("m1", "shop-1", "host")]
        self.readers: Mapping[str, tuple[str, ...]] = {}
        self.kind, self.made = GroupType.CLASSIC, 0
        self.configs: dict[str, dict[str, str]] = {name: {"cleanup.policy": "compact"} for name in INTERNAL}
        self.refused: set[tuple[str, str]] = set()
        self.internal = INTERNAL
        self.ambiguous: tuple[tuple[str, str], ...] = ()
        self.record_bytes: int | None = None
        self.is_exactly_once: bool | None = None
        self.is_still, self.metadata, self.tells_ends = True, "", True
        super().__init__(Params(units={unit.name: unit for unit in units or (UNIT,)}))

    def protect(self, live: LiveParams) -> None:
        """From now on live traffic is watched."""
        self.params = replace(self.params, live=live)
        self.core = make_decider(self.params)
        self.lead()

    def limit(self, **limits: int) -> None:
        """From now on plans that are larger wait for approval."""
        self.params = replace(self.params, **limits)  # type: ignore[arg-type]
        self.core = make_decider(self.params)
        self.lead()

    def reprocess(self, to: To | None = None, **more: object) -> str:
        """The kind of the answer."""
        return self.reprocess_as("w1", to, **more)

    def reprocess_as(self, workflow: str, to: To | None = None, **more: object) -> str:
        spec = ReprocessSpec(UNIT.name, to or Earliest(), **{"outputs": OUTPUTS, **more})  # type: ignore[arg-type]
        sent = next((sent for sent in self.sent if sent.subject == workflow), None)
        return self.send(lambda meta: Reprocess(meta, spec), subject=workflow, command=sent.id if sent else "")

    def ack(self, step: str, workflow: str = "w1") -> str:
        return self.send(lambda meta: Ack(meta, step), subject=workflow)

    def stops(self) -> None:
        self.members = []
        self.pass_time(3)

    def starts(self, *, reads_all: bool = True) -> None:
        """The application runs again, and reads its inputs to their ends."""
        self.members = [Member("m2", "shop-1", "host")]
        if reads_all:
            self.committed |= {("orders", p): self.topics["orders"].end for p in range(PARTITIONS)}
        self.pass_time(6)

    def complete_children(self) -> None:
        """What it had carried out is done; the copies hold what they should."""
        for sent in self.sent:
            begun = self.state.of(RECOVERY).recoveries.get(sent.subject)
            if sent.verb == "replay" and (begun is None or begun.state is State.REJECTED):
                source, target = sent.data["source"], sent.data["target"]
                assert isinstance(source, dict)
                assert isinstance(target, dict)
                to, end = source["to"], self.topics[source["topic"]].end
                self.topics[target["topic"]].end = end = end if to == "latest" else max(to["offsets"].values())
                ends = dict.fromkeys(range(PARTITIONS), end) if self.tells_ends else {}
                proof = Verification("match", end, end, "d", target_ends=ends)
                self.have_recovery(make_recovery(sent.subject, state=State.COMPLETED, verification=proof))
        self.pass_time(3)

    @property
    def waits_at(self) -> str | None:
        return self.waiting("w1")

    def waiting(self, workflow: str) -> str | None:
        waiting = self.look(workflow).waiting_for
        return None if waiting is None else waiting.step

    def run_through(self, workflow: str = "w1") -> None:
        """What people do for a workflow, each when it is asked for."""
        for _ in range(10):
            match self.waiting(workflow):
                case "stop_application" | "await_empty" | "await_empty_again":
                    self.stops()
                case "start_application":
                    self.starts()
                case "copy_state":
                    self.complete_children()
                case "clean_local_state" | "confirm_output" | "confirm_compatibility" as step:
                    self.ack(step, workflow)
            self.pass_time(40)

    def gather(self, effect: GatherForWorkflow) -> WorkflowFacts:
        wanted = effect.wanted
        groups = tuple(self._group(g.topics or {}) for g in wanted.groups)
        topics = {n: UnitTopic(n, log.id, _ends(log, self.partitions), 1) for n, log in self.topics.items()}
        internal = self._internal()
        known = self.is_exactly_once
        facts = UnitFacts(self.now_ms, topics, groups[0].group, internal, self.readers, is_exactly_once=known)
        units = dict.fromkeys((*wanted.units, *wanted.contracts), facts)
        names = [name for _, name in wanted.topics] + (list(internal.certain) if wanted.internal else [])
        names += [wanted.copied_as + name for name in internal.certain] if wanted.copied_as else []
        found = {name: self._topic(name) for name in names}
        counts = {name: self.topics[name].end - 1 for _, name in wanted.counted}
        names = names_of(self.topics if wanted.names_on else ())
        told = Found(groups, units, found, counts, self.now_ms, names=names)
        return WorkflowFacts(effect.workflow, told, effect.version)

    def _internal(self) -> InternalTopics:
        return InternalTopics(tuple(name for name in self.internal if name in self.topics), self.ambiguous)

    def look_at(self, _unit: str) -> UnitFacts:
        """What a step that looks at a unit is told."""
        return UnitFacts(self.now_ms, internal=self._internal())

    def _topic(self, name: str) -> TopicFound | None:
        log, configs = self.topics.get(name), self.configs.get(name, {"cleanup.policy": "delete"})
        if log is None:
            return None
        size = None if self.record_bytes is None else self.record_bytes * self.partitions * (log.end - log.start)
        form = TopicForm(name, self.partitions, 1, dict(configs))
        return TopicFound(log.id, form, _ends(log, self.partitions), size)

    def _group(self, topics: Mapping[str, object]) -> GroupFound:
        committed: dict[str, dict[int, Committed]] = {}
        for (topic, p), at in self.committed.items():
            committed.setdefault(topic, {})[p] = Committed(at, self.metadata)
        group = Group(GROUP, self.kind, "stable", tuple(self.members), committed, is_streams=True)
        looks = tuple(
            PartitionLook(t, p, self.topics[t].start, self.topics[t].end, self.committed.get((t, p)))
            for t in topics
            if t in self.topics
            for p in range(self.partitions)
        )
        missing = tuple(t for t in topics if t not in self.topics)
        return GroupFound(group, looks, missing, {t: self.topics[t].id for t in topics if t in self.topics})

    def take(self, effect: TakeStep) -> StepReported:
        takers: dict[type, Callable[[TakeStep, Action], StepReported]] = {
            AwaitEmpty: self._empty,
            AwaitStopped: self._empty,
            AwaitStarted: self._started,
            TakeSnapshot: self._note,
            SetOffsets: self._set,
            CreateTopics: self._create,
            DeleteTopics: self._delete,
            RecreateTopics: self._recreate,
            AwaitCaughtUp: self._caught_up,
            SetConfigs: self._configure,
            LookAtTopics: lambda effect, _: report(effect, Outcome.DONE, "looked"),
        }
        return takers[type(effect.action)](effect, effect.action)

    def changed_before(self, effect: TakeStep) -> tuple[Undo, ...]:
        action = effect.action
        match action:
            case CreateTopics(topics=forms):
                there = [form.name for form in forms if form.name in self.topics]
                return tuple(TopicUndo(name, None, self.topics[name].id, cluster="main") for name in there)
            case DeleteTopics(topics=named, is_ours=False):
                gone = {name: topic_id for name, topic_id in named.items() if name not in self.topics}
                return tuple(TopicUndo(name, before, None, True, cluster="main") for name, before in gone.items())
            case RecreateTopics(ids=ids, is_back=False):
                now = {name: self.topics[name].id if name in self.topics else None for name in ids}
                other = {name: topic_id for name, topic_id in now.items() if topic_id != ids[name]}
                return tuple(TopicUndo(n, ids[n], made, made is None, cluster="main") for n, made in other.items())
            case _:
                return ()

    def _empty(self, effect: TakeStep, _: Action) -> StepReported:
        names = tuple(map(str, self.members))
        evidence = {**effect.seen, MEMBERS: len(names)} if names else effect.seen
        outcome = Outcome.NOT_YET if names else Outcome.DONE
        return report(effect, outcome, f"{len(names)} members", members=names, evidence=evidence)

    def _started(self, effect: TakeStep, action: Action) -> StepReported:
        assert isinstance(action, AwaitStarted)
        if (left_out := self.left_out(effect, action)) is not None:
            return left_out
        is_sure = bool(self.members) and not action.is_told
        return report(effect, Outcome.DONE if is_sure else Outcome.NOT_YET, f"{len(self.members)} members")

    def left_out(self, effect: TakeStep, action: AwaitStarted) -> StepReported | None:
        """The report on a start after which records would never be read."""
        gone = find_passed(effect.rows, action.inputs, self._starts(action.inputs))
        refused = refuse_passed(gone, action.unit, action.may_lack)
        return refused and report(effect, Outcome.FAILED, refused.message, code=refused.code.value)

    def _starts(self, topics: Iterable[str]) -> dict[str, dict[int, int]]:
        known = [(t, log) for t in topics if (log := self.topics.get(t)) is not None]
        return {t: dict.fromkeys(range(self.partitions), log.start) for t, log in known}

    def _note(self, effect: TakeStep, action: Action) -> StepReported:
        assert isinstance(action, TakeSnapshot)
        ids = {name: log.id for name, log in self.topics.items()}
        other = [name for name, known in action.topic_ids.items() if ids.get(name) != known]
        if other:
            return report(effect, Outcome.FAILED, f"{other[0]} was created again", code=Code.TOPIC_RECREATED.value)
        places = [(t, p) for t in action.topics for p in range(self.partitions)]
        rows = tuple(OffsetUndo(t, p, self.committed.get((t, p)), group=action.group) for t, p in places)
        logs = {
            t: _ends(self.topics[t], self.partitions) for t in (*action.topics, *action.end_topics) if t in self.topics
        }
        evidence = {"is_still": self.is_still}
        found = Found(units={action.unit: self.look_at(action.unit)}) if action.unit else None
        return report(effect, Outcome.DONE, "noted", evidence=evidence, undo=rows, logs=logs, found=found)

    def _set(self, effect: TakeStep, action: Action) -> StepReported:
        assert isinstance(action, SetOffsets)
        other = [n for n, known in action.topic_ids.items() if n not in self.topics or self.topics[n].id != known]
        if other and not action.is_back:
            return report(effect, Outcome.FAILED, f"{other[0]} was created again", code=Code.TOPIC_RECREATED.value)
        rows = [row for row in effect.rows if isinstance(row, OffsetUndo)]
        lost = {r: {None} if action.is_back and r.name in action.topic_ids else set() for r in rows}
        foreign = [
            r
            for r in rows
            if r.name in other or self.committed.get((r.name, r.partition)) not in {r.to, r.was_set} | lost[r]
        ]
        if foreign and not action.is_back:
            return report(effect, Outcome.FAILED, "somebody else set it", code=Code.GROUP_CHANGED.value)
        came_back = [n for n in action.gone if (log := self.topics.get(n)) is not None and log.end > log.start]
        for name in came_back:
            self._drop(name)
        before = dict(self.committed)
        were_gone = sum(
            r not in foreign and r.to is not None and (r.name, r.partition) not in self.committed for r in rows
        )
        for row in rows:
            goal = row.to if action.is_back else row.was_set
            if row not in foreign:
                self.committed.pop((row.name, row.partition), None)
                self.committed |= {} if goal is None else {(row.name, row.partition): goal}
        self.done.append("back" if action.is_back else "set")
        back = tuple(replace(r, state=UndoState.KEPT if r in foreign else UndoState.DONE) for r in rows)
        if not action.is_back:
            return report(effect, Outcome.DONE, "set")
        moved = sum(r.name not in other and before.get((r.name, r.partition)) is not None for r in foreign)
        return report(effect, Outcome.DONE, "set back", evidence={MOVED: moved, WERE_GONE: were_gone}, undo=back)

    def _create(self, effect: TakeStep, action: Action) -> StepReported:
        assert isinstance(action, CreateTopics)
        kept = {r.name: r.to for r in effect.rows if isinstance(r, TopicUndo) and r.state is UndoState.KEPT}
        there = [
            form.name
            for form in action.topics
            if form.name in self.topics and (effect.try_number == 1 or kept.get(form.name) == self.topics[form.name].id)
        ]
        if there and action.is_own:
            return report(effect, Outcome.FAILED, f"{there[0]} was there before", code=Code.TOPIC_CHANGED.value)
        made = [(form.name, self._make(form.name, form.configs)) for form in action.topics]
        rows = [TopicUndo(name, None, made_id, cluster="main") for name, made_id in made if name not in there]
        return report(effect, Outcome.DONE, "made", undo=tuple(rows))

    def _recreate(self, effect: TakeStep, action: Action) -> StepReported:
        assert isinstance(action, RecreateTopics)
        rows: list[TopicUndo] = []
        for form in action.topics:
            log = self.topics.get(form.name)
            if action.is_back and ("create", form.name) in self.refused:
                return _refused(effect, form.name, rows)
            if log is not None and log.id == action.ids[form.name]:
                if ("delete", form.name) in self.refused:
                    return _refused(effect, form.name, rows)
                self._drop(form.name)
                if ("create", form.name) in self.refused:
                    gone = TopicUndo(form.name, log.id, None, is_gone=True, cluster="main")
                    return _refused(effect, form.name, [*rows, gone])
            rows.append(
                TopicUndo(form.name, action.ids[form.name], self._make(form.name, form.configs), cluster="main")
            )
        return report(effect, Outcome.DONE, "made anew", undo=tuple(rows))

    def _delete(self, effect: TakeStep, action: Action) -> StepReported:
        assert isinstance(action, DeleteTopics)
        rows: list[TopicUndo] = []
        for name, topic_id in action.topics.items():
            log = self.topics.get(name)
            if ("delete", name) in self.refused:
                return _refused(effect, name, rows)
            if log is not None and log.id != topic_id:
                return report(effect, Outcome.FAILED, f"{name} was made again", code=Code.TOPIC_CHANGED.value)
            is_kept = action.is_ours and not action.with_records
            is_used = is_kept and log is not None and log.end > log.start
            if log is not None and not is_used:
                self._drop(name)
            state = UndoState.OPEN if not action.is_ours else UndoState.KEPT if is_used else UndoState.DONE
            known = {r.was_set: r.to for r in effect.rows if isinstance(r, TopicUndo) and r.name == name}
            before, after = (known.get(topic_id), topic_id) if action.is_ours else (topic_id, None)
            rows.append(TopicUndo(name, before, after, not is_used, state, cluster="main"))
        return report(effect, Outcome.DONE, "gone", undo=tuple(rows))

    def _configure(self, effect: TakeStep, action: Action) -> StepReported:
        assert isinstance(action, SetConfigs)
        rows = [r for r in effect.rows if isinstance(r, ConfigUndo) and r.state is UndoState.OPEN]
        rows = [r for r in rows if r.is_temporary is action.is_temporary]
        rows = [r for r in rows if r.config in action.configs.get(r.name, {})]
        foreign = [r for r in rows if self.configs.get(r.name, {}).get(r.config) not in {r.to, r.was_set}]
        if foreign and not action.is_back:
            return report(effect, Outcome.FAILED, "somebody else set it", code=Code.TOPIC_CHANGED.value)
        is_first = effect.try_number == 1 and not action.is_back
        others = [r for r in rows if is_first and self.configs.get(r.name, {}).get(r.config) == r.was_set]
        for topic, configs in action.configs.items():
            for config, value in configs.items():
                if any((r.name, r.config) == (topic, config) for r in foreign):
                    continue
                self.configs.setdefault(topic, {}).pop(config, None)
                if value is not None:
                    self.configs[topic][config] = value
        back = tuple(replace(r, state=UndoState.KEPT if r in foreign else UndoState.DONE) for r in rows)
        kept = tuple(replace(r, state=UndoState.KEPT) for r in others)
        return report(effect, Outcome.DONE, "configured", undo=back if action.is_back else kept)

    def _caught_up(self, effect: TakeStep, action: Action) -> StepReported:
        assert isinstance(action, AwaitCaughtUp)
        ends = {(t, p): end for t, ends in action.ends.items() for p, end in ends.items()}
        behind = {place: end - at for place, end in ends.items() if (at := self.committed.get(place, 0)) < end}
        left = sum(behind.values())
        rows = [r for r in effect.rows if isinstance(r, OffsetUndo)] if action.brings_state else []
        began = [r for r in rows if self.committed.get((r.name, r.partition)) == (r.was_set if r.is_changed else r.to)]
        refused = refuse_passed(find_passed(began, action.ends, self._starts(action.ends)), action.group, None)
        if refused is not None:
            return report(effect, Outcome.FAILED, refused.message, code=refused.code.value)
        is_restoring = bool(self.members) and any((r.name, r.partition) in behind for r in began)
        evidence = {"left": left} | ({RESTORING: True} if left and is_restoring else {})
        return report(effect, Outcome.NOT_YET if left else Outcome.DONE, f"{left} left", left=left, evidence=evidence)

    def _make(self, name: str, configs: Mapping[str, str] | None = None) -> str:
        if name not in self.topics:
            self.configs[name] = dict(configs or {})
            self.made += 1
            self.topics[name] = Log(f"{name}-made-{self.made}", 0, 0)
            self.done.append(f"make {name}")
        return self.topics[name].id

    def _drop(self, name: str) -> None:
        del self.topics[name]
        self.committed = {place: at for place, at in self.committed.items() if place[0] != name}
        self.done.append(f"drop {name}")


def _refused(effect: TakeStep, topic: str, rows: list[TopicUndo]) -> StepReported:
    """`rows`: of what was done before."""
    return report(effect, Outcome.FAILED, f"may not: {topic}", code=Code.NOT_AUTHORISED.value, undo=tuple(rows))


def _ends(log: Log, partitions: int = PARTITIONS) -> dict[int, PartitionEnds]:
    return dict.fromkeys(range(partitions), PartitionEnds(log.start, log.end))


SEEK, AGAIN = IntermediatePolicy.SEEK_TO_END, IntermediatePolicy.RECREATE
