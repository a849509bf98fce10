"""A small world around the core: one consumer group in memory, whose offsets steps note, set and put back."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import Command, Meta, StopCommand
from recoveryd.kernel.decision import Answer, Decision, Notice
from recoveryd.kernel.effects import SendCommand
from recoveryd.kernel.events import BecameLeader, CommandReceived, ControlRead, Event, Tick
from recoveryd.kernel.state import CoreState
from recoveryd.kernel.states import CommandRef
from recoveryd.recovery.commands import Approve, Reject
from recoveryd.recovery.model import Recovery
from recoveryd.recovery.params import Params
from recoveryd.recovery.slice import RECOVERY
from recoveryd.recovery.spec import Earliest
from recoveryd.units.approvals import ApprovalRule
from recoveryd.units.facts import Committed, Group, GroupType, Member, PartitionEnds, UnitFacts, UnitTopic
from recoveryd.units.model import Unit, UnitKind
from recoveryd.wire.status_topic import encode_daemon
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.model.actions import AwaitEmpty, LookAtTopics, SetOffsets, TakeSnapshot
from recoveryd.workflows.model.commands import Reset, Rollback
from recoveryd.workflows.model.effects import GatherForWorkflow, TakeStep
from recoveryd.workflows.model.events import UNTRIED, GatheringFailed, Outcome, StepReported, WorkflowFacts
from recoveryd.workflows.model.facts import Found, GroupFound
from recoveryd.workflows.model.passed import find_passed, refuse_passed
from recoveryd.workflows.model.positions import PartitionLook, To
from recoveryd.workflows.model.spec import ResetSpec
from recoveryd.workflows.model.workflow import OffsetUndo, Undo, UndoState, Workflow
from tests.builders.core import NOW_MS, STATUS
from tests.builders.deciding import make_decider
from tests.builders.world import check_fields

TOPIC, PARTITIONS, LOG = "orders", 3, (10, 100)
OWNED = Unit("owned", UnitKind.GROUP, "main", "app", (TOPIC,), approvers=("//ops/kim",))
Offsets = dict[int, int]
Fault = Callable[[TakeStep], StepReported | None]


class WorkflowWorld:
    """The core of a daemon that leads, whose workflow is `w1`. `fault` may answer a step instead of the world. `lost`:
    effects that are journaled and never run, as when the daemon dies. `truth`: names of what steps change.
    """

    truth: tuple[str, ...] = ()

    def __init__(self, params: Params) -> None:
        self.params = params
        self.core, self.state, self.now_ms, self.offset = make_decider(params), CoreState(), NOW_MS, 0
        self.fault: Fault = lambda _: None
        self.lost = False
        self.done: list[str] = []
        self.sets = 0
        self.gathering_fails: list[GatheringFailed] = []
        self.answers: list[Answer] = []
        self.sent: list[SendCommand] = []
        self.notices: list[Notice] = []
        self.epoch = 0
        self.lead()

    @property
    def workflow(self) -> Workflow:
        return self.look("w1")

    def look(self, workflow: str) -> Workflow:
        found = self.state.of(WORKFLOWS).get(workflow)
        assert found is not None
        return found

    def rollback(self) -> str:
        return self.send(Rollback)

    def stop(self) -> str:
        return self.send(StopCommand)

    def approve(self, source: str, plan_hash: str | None = None, sent_ms: int | None = None) -> str:
        wanted = plan_hash or (self.workflow.plan.hash if self.workflow.plan else "")
        return self.send(lambda meta: Approve(meta, wanted), source, sent_ms=sent_ms)

    def reject(self) -> str:
        return self.send(lambda meta: Reject(meta, ""), "//ops/kim")

    def send(
        self,
        make: Callable[[Meta], Command],
        source: str = "//ops/ann",
        subject: str = "w1",
        command: str = "",
        sent_ms: int | None = None,
    ) -> str:
        """The kind of the answer. `command`: its id; `sent_ms`: None = now."""
        self.offset += 1
        meta = Meta(command or f"c{self.offset}", source, subject, "r", f"h{self.offset}")
        told = len(self.answers)
        self.feed(CommandReceived(self.offset, self.now_ms if sent_ms is None else sent_ms, make(meta)))
        return self.answers[told].kind if len(self.answers) > told else ""

    def have_recovery(self, recovery: Recovery, *, is_foreign: bool = False) -> None:
        """As if the capability of recoveries had it, by the command that was sent for it unless it `is_foreign`."""
        named = (sent for sent in reversed(self.sent) if sent.subject == recovery.id and not is_foreign)
        sent = next(named, None)  # the last: what was refused is asked for under another id
        if sent is not None:
            recovery = replace(recovery, command=CommandRef(sent.id, sent.source, "r"))
        kept = self.state.of(RECOVERY)
        self.state = self.state.having(
            RECOVERY, replace(kept, recoveries=kept.recoveries.with_changes({recovery.id: recovery}))
        )

    def forget_recovery(self, recovery: str) -> None:
        """As after `limits.keep_terminal`."""
        kept = self.state.of(RECOVERY)
        self.state = self.state.having(RECOVERY, replace(kept, recoveries=kept.recoveries.without([recovery], ())))

    def lead(self, unread: Callable[[], object] | None = None, why: str = "") -> None:
        """A new daemon takes over, from what the status topic holds, and then reads what came meanwhile, which takes it
        a while: `unread` sends it. `why`: the same daemon begins anew.
        """
        self.epoch += 1
        nouns = self.core.known(self.state).values()
        fold = STATUS.fold([encode_daemon(self.state.daemon), *map(STATUS.encode, nouns)])
        self.state = self.core.restore(fold.daemon, fold.nouns, {})
        self.feed(BecameLeader(self.epoch, "control", why, reads_control=True))
        if unread is not None:
            self.pass_time(10)
            unread()
        self.feed(ControlRead())

    def pass_time(self, seconds: int, every_s: int = 1) -> None:
        for _ in range(0, seconds, every_s):
            self.now_ms += every_s * 1_000
            self.feed(Tick())

    def feed(self, event: Event) -> Decision:
        decision = self.core.decide(self.state, event, self.now_ms)
        self.state = decision.state
        self.answers += decision.answers
        self.notices += decision.notices
        check_fields(decision.notices)
        for effect in () if self.lost else decision.effects:
            if isinstance(effect, GatherForWorkflow):
                self.feed(self.gathering_fails.pop(0) if self.gathering_fails else self.gather(effect))
            elif isinstance(effect, SendCommand):
                self.sent.append(effect)
            elif isinstance(effect, TakeStep):
                self.feed(self.fault(effect) or self.carry_out(effect))
        return decision

    def carry_out(self, effect: TakeStep) -> StepReported:
        """One that only looks changes nothing: what it would change is left."""
        if not effect.is_look:
            return self.take(effect)
        before = deepcopy({name: getattr(self, name) for name in (*self.truth, "done", "sets")})
        told = self.take(effect)
        is_left = any(getattr(self, name) != before[name] for name in self.truth)
        for name, value in before.items():
            setattr(self, name, value)
        return report(effect, Outcome.LEFT, "something is left", undo=self.changed_before(effect)) if is_left else told

    def changed_before(self, _effect: TakeStep) -> tuple[Undo, ...]:
        """What earlier tries of a step changed that can only be told by a look."""
        return ()

    def fail_at(self, step: str, *, retriable: bool, times: int = 1_000, untried: bool = False) -> None:
        """The cluster does not answer for this step, so many times; `untried`: before anything was changed."""
        left = [times]

        def fault(effect: TakeStep) -> StepReported | None:
            if effect.step != step or left[0] <= 0:
                return None
            left[0] -= 1
            code, found = Code.CLUSTER_UNREACHABLE.value, {UNTRIED: effect.try_number} if untried else {}
            return report(effect, Outcome.FAILED, "no answer", code=code, is_retriable=retriable, evidence=found)

        self.fault = fault

    def die_at(self, step: str, *, is_done: bool) -> None:
        """The daemon dies at the effect of this step. `is_done`: the cluster did it, and nobody heard."""

        def dies(effect: TakeStep) -> StepReported | None:
            if effect.step != step:
                return None
            if is_done:
                self.take(effect)
            self.lost = True
            return StepReported(effect.workflow, "of somebody who is gone", 0, Outcome.DONE)

        self.fault = dies

    def live_again(self, unread: Callable[[], object] | None = None) -> None:
        """The next daemon leads, and nothing is in its way but what was sent while none did."""
        self.fault, self.lost = (lambda _: None), False
        self.lead(unread)
        self.pass_time(5)

    def take(self, effect: TakeStep) -> StepReported:
        """What the cluster does."""
        raise NotImplementedError

    def gather(self, effect: GatherForWorkflow) -> WorkflowFacts:
        """What the cluster says."""
        raise NotImplementedError


class GroupWorld(WorkflowWorld):
    """`committed` is the truth; `members` keep the group from being empty."""

    truth = ("committed",)

    def __init__(self, *units: Unit, approvals: tuple[ApprovalRule, ...] = ()) -> None:
        self.committed: Offsets = dict.fromkeys(range(PARTITIONS), 50)
        self.members: list[Member] = []
        self.log_start = LOG[0]  # for looks; a plan is told `LOG`
        self.exists, self.topics, self.topic_id = True, {TOPIC}, "id"
        self.kind = GroupType.CLASSIC
        self.tells_contracts = True
        self.metadata = ""
        super().__init__(Params(units={unit.name: unit for unit in units}, approvals=approvals))

    def reset(self, to: To | None = None, source: str = "//ops/ann", **more: object) -> str:
        """The kind of the answer."""
        spec = ResetSpec("main", "app", to or Earliest(), topics={TOPIC: ()}, **more)  # type: ignore[arg-type]
        return self.send(lambda meta: Reset(meta, spec), source)

    def take(self, effect: TakeStep) -> StepReported:
        match effect.action:
            case AwaitEmpty():
                names = tuple(map(str, self.members))
                outcome = Outcome.NOT_YET if names else Outcome.DONE
                return report(effect, outcome, f"{len(names)} members", members=names)
            case TakeSnapshot():
                rows = tuple(OffsetUndo(TOPIC, p, self.committed.get(p), group="app") for p in range(PARTITIONS))
                return report(effect, Outcome.DONE, "noted", undo=rows)
            case SetOffsets() as action:
                return self._set(effect, action)
            case LookAtTopics(topics=topics, group=group):
                starts = {TOPIC: dict.fromkeys(range(PARTITIONS), self.log_start)}
                refused = refuse_passed(find_passed(effect.rows, topics, starts), group, None)
                if refused is not None:
                    return report(effect, Outcome.FAILED, refused.message, code=refused.code.value)
                return report(effect, Outcome.DONE, "looked")
            case other:
                raise AssertionError(other)

    def _set(self, effect: TakeStep, action: SetOffsets) -> StepReported:
        is_back, is_known = action.is_back, action.topic_ids.get(TOPIC) == self.topic_id
        rows = [row for row in effect.rows if isinstance(row, OffsetUndo)]
        expected = {r: {r.to, r.was_set} | ({None} if is_back and is_known else set()) for r in rows}
        foreign = [r for r in rows if self.committed.get(r.partition) not in expected[r]]
        if foreign and not is_back:
            return report(effect, Outcome.FAILED, "somebody else set it", code=Code.GROUP_CHANGED.value)
        for row in rows:
            goal = row.to if is_back else row.was_set
            if row in foreign:
                continue
            self.sets += 1
            if goal is None:
                self.committed.pop(row.partition, None)
            else:
                self.committed[row.partition] = goal
        done = tuple(replace(r, state=UndoState.KEPT if r in foreign else UndoState.DONE) for r in rows)
        return report(effect, Outcome.DONE, "set", undo=done if is_back else ())

    def gather(self, effect: GatherForWorkflow) -> WorkflowFacts:
        (asked,) = effect.wanted.groups
        wanted = asked.topics or tuple(self.topics)
        looks = [
            PartitionLook(topic, p, *LOG, self.committed.get(p))
            for topic in wanted
            if topic in self.topics
            for p in (asked.topics or {}).get(topic) or range(PARTITIONS)
            if p < PARTITIONS
        ]
        rows = {TOPIC: {p: Committed(at, self.metadata) for p, at in self.committed.items()}}
        group = Group("app", self.kind, "empty", tuple(self.members), rows) if self.exists else None
        missing = tuple(t for t in wanted if t not in self.topics)
        ends = dict.fromkeys(range(PARTITIONS), PartitionEnds(*LOG))
        read = {name: UnitTopic(name, self.topic_id, ends, 1) for name in self.topics}
        units = dict.fromkeys(effect.wanted.contracts, UnitFacts(self.now_ms, read, group))
        found = GroupFound(group, tuple(looks), missing, {TOPIC: self.topic_id})
        return WorkflowFacts(effect.workflow, Found((found,), units if self.tells_contracts else {}), effect.version)


def report(effect: TakeStep, outcome: Outcome, why: str, **more: object) -> StepReported:
    return StepReported(effect.workflow, effect.step, effect.try_number, outcome, why, **more)  # type: ignore[arg-type]
