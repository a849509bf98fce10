"""The application of `app_world` under a runbook: what it began is carried out in the same world, and clients of others
have quotas.
"""

from collections.abc import Mapping
from dataclasses import replace

from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.states import State
from recoveryd.recovery.params import Params
from recoveryd.recovery.slice import RECOVERY
from recoveryd.units.facts import Group, UnitFacts, UnitTopic
from recoveryd.units.internal_topics import InternalTopics
from recoveryd.units.model import Behaviour, Output, Unit
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.model.actions import LookAtUnit, SetQuotas
from recoveryd.workflows.model.commands import Ack, Discard, Escalate, Promote, Reprocess, Rollback, Runbook
from recoveryd.workflows.model.effects import GatherForWorkflow, TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported, WorkflowFacts
from recoveryd.workflows.model.facts import Found
from recoveryd.workflows.model.spec import RunbookGate, RunbookPath, RunbookSpec
from recoveryd.workflows.model.workflow import QuotaUndo, UndoState
from recoveryd.workflows.wire.reprocess import ReprocessData
from recoveryd_jobs.contract.reports import Verification
from tests.builders.deciding import make_decider
from tests.builders.records import make_recovery
from tests.workflows.app_world import INTERNAL, PARTITIONS, UNIT, AppWorld, Log, _ends
from tests.workflows.world import report

WAIVED = {RunbookGate.ERRORS: "it has none", RunbookGate.LIVE: "a test cluster"}
SAFE = replace(UNIT, outputs={"totals": Output(Behaviour.IDEMPOTENT, "billing")}, owner="team", approvers=())


class RunbookWorld(AppWorld):
    """`quotas` is the truth of the cluster. The group stands at 60 of 100 in the inputs, and has no members."""

    truth = (*AppWorld.truth, "quotas")

    def __init__(self, unit: Unit = SAFE) -> None:
        self.unit = unit
        self.quotas: dict[str, float] = {}
        super().__init__()
        self.params = Params(units={unit.name: unit})
        self.core = make_decider(self.params)
        self.lead()
        self.members = []
        self.topics["errors"] = Log("errors-1", 0, 3)
        self.seen_sent = 0

    def begin(self, path: RunbookPath = RunbookPath.AUTO, source: str = "//ops/ann", **more: object) -> str:
        """The kind of the answer."""
        spec = RunbookSpec(self.unit.name, path, **{"waive": WAIVED, **more})  # type: ignore[arg-type]
        return self.send(lambda meta: Runbook(meta, spec), source)

    def say(self, what: type[Promote | Discard | Escalate], subject: str = "w1") -> str:
        return self.send(what, subject=subject)

    def note(self, step: str, note: str, workflow: str = "w1") -> str:
        return self.send(lambda meta: Ack(meta, step, note), subject=workflow)

    @property
    def marks(self) -> Mapping[str, object]:
        """Sink and state where the offsets are."""
        at = {"orders": {p: self.committed["orders", p] for p in range(PARTITIONS)}}
        return {"sink": at, "state": at}

    def deliver(self) -> None:
        """What it put on the control topic arrives, and recoveries that it began complete."""
        for sent in self.sent[self.seen_sent :]:
            self.seen_sent += 1
            if sent.verb == "reprocess":
                spec = ReprocessData.model_validate({**sent.data}).to_core()
                self.send(lambda meta, spec=spec: Reprocess(meta, spec), sent.source, sent.subject, sent.id)  # type: ignore[misc]
            elif sent.verb == "rollback":
                self.send(Rollback, sent.source, sent.subject, sent.id)
            elif sent.verb == "replay" and sent.subject not in self.state.of(RECOVERY).recoveries:
                self._copy(sent.data, sent.subject)
        self.pass_time(40, every_s=10)

    def _copy(self, data: Mapping[str, object], recovery: str) -> None:
        source, target = data["source"], data["target"]
        assert isinstance(source, dict)
        assert isinstance(target, dict)
        if target["topic"] not in self.topics:
            self._make(target["topic"])
        starts, stops = source["from"], source["to"]
        count = (
            sum(stops["offsets"][p] - starts["offsets"][p] for p in stops["offsets"])
            if isinstance(stops, dict)
            else self.topics[source["topic"]].end
        )
        self.topics[target["topic"]].end += count
        self.done.append(f"copy to {target['topic']}")
        ends = dict.fromkeys(range(PARTITIONS), self.topics[target["topic"]].end) if self.tells_ends else {}
        proof = Verification("match", count, count, "d", target_ends=ends)
        self.have_recovery(make_recovery(recovery, state=State.COMPLETED, verification=proof))

    def go_through(self, *, child: str = "w1-anew") -> None:
        """What people do for a runbook, each when it is asked for."""
        for _ in range(14):
            self.deliver()
            match self.waiting("w1"):
                case "choose_path":
                    self.ack("choose_path")
                case "execute" if self.look("w1").waiting_for.kind == "ack":  # type: ignore[union-attr]
                    self.starts()
                case "execute" if any(w == child for w in self._workflows()):
                    self.run_through(child)
                case "verify":
                    self.note("verify", "compared with the ledger")
            if self.workflow.is_terminal:
                return
            self.pass_time(40, every_s=10)

    def _workflows(self) -> list[str]:
        return [workflow.id for workflow in self.state.of(WORKFLOWS)]

    def facts(self) -> UnitFacts:
        topics = {n: UnitTopic(n, log.id, _ends(log), 1, self.configs.get(n, {})) for n, log in self.topics.items()}
        internal = InternalTopics(tuple(n for n in INTERNAL if n in self.topics), self.ambiguous)
        found = self._group({}).group
        assert isinstance(found, Group)
        state = "stable" if self.members else "empty"
        known, group = self.is_exactly_once, replace(found, state=state)
        return UnitFacts(self.now_ms, topics, group, internal, self.readers, is_exactly_once=known)

    def gather(self, effect: GatherForWorkflow) -> WorkflowFacts:
        facts = super().gather(effect)
        quotas = {client: self.quotas.get(client) for _, client in effect.wanted.quotas}
        return replace(facts, found=replace(facts.found, units={self.unit.name: self.facts()}, quotas=quotas))

    def take(self, effect: TakeStep) -> StepReported:
        match effect.action:
            case LookAtUnit() as action:
                ends = action.ends.items()
                left = sum(max(0, e - self.committed.get((t, p), 0)) for t, found in ends for p, e in found.items())
                topics = {name: self._topic(name) for name in action.topics}
                found = Found(units={self.unit.name: self.facts()}, topics=topics)
                return report(effect, Outcome.DONE, "looked", found=found, left=left if action.ends else None)
            case SetQuotas() as action:
                return self._limit(effect, action)
            case _:
                return super().take(effect)

    def _limit(self, effect: TakeStep, action: SetQuotas) -> StepReported:
        rows = [r for r in effect.rows if isinstance(r, QuotaUndo) and r.state is UndoState.OPEN]
        foreign = [r for r in rows if self.quotas.get(r.name) not in {r.to, r.was_set}]
        if foreign and not action.is_back:
            return report(effect, Outcome.FAILED, "somebody else set it", code=Code.QUOTA_CHANGED.value)
        for row in rows:
            goal = row.to if action.is_back else row.was_set
            if row not in foreign:
                self.quotas.pop(row.name, None)
                self.quotas |= {} if goal is None else {row.name: goal}
        done = tuple(replace(r, state=UndoState.KEPT if r in foreign else UndoState.DONE) for r in rows)
        return report(effect, Outcome.DONE, "limited", undo=done if action.is_back else ())
