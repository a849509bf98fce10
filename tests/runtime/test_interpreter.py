"""Effects run, and every result comes back as an event."""

import asyncio
from dataclasses import replace

import pytest

from recoveryd.adapters.memory import MemoryBroker, MemoryCommandSender
from recoveryd.errors import ClusterProblem, LaunchError
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.effects import Effect, SendCommand, WakeAt
from recoveryd.kernel.events import CommandNotSent, Event
from recoveryd.kernel.state import CoreState
from recoveryd.recovery.effects import (
    CreateTarget,
    EndedRecovery,
    ForgetRecoveries,
    GatherFacts,
    KillAttempt,
    LaunchAttempt,
    ReadLedger,
    SetQuota,
    SweepQuotas,
)
from recoveryd.recovery.events import (
    EffectFailed,
    FactsGathered,
    ForgettingFailed,
    LedgerRead,
    QuotaSet,
    QuotasSwept,
    TargetReady,
)
from recoveryd.recovery.params import Params
from recoveryd.recovery.plan_facts import PlanFacts
from recoveryd.recovery.slice import RECOVERY
from recoveryd.runtime.interpreter import AT_ONCE, Interpreter
from recoveryd.runtime.runners import command_runners, recovery_runners, watch_runners, workflow_runners
from recoveryd.units.control import Report, Wish
from recoveryd.watches.effects import StopApplication
from recoveryd.workflows.model.effects import GatherForWorkflow, TakeStep
from recoveryd.workflows.model.events import StepReported, WorkflowFacts
from recoveryd.workflows.model.facts import Found, WantedFacts
from recoveryd_jobs.contract import Directive
from tests.builders.core import CODEC, NOW_MS, command, make_facts, make_spec
from tests.builders.deciding import make_decider
from tests.builders.world import World
from tests.runtime.fakes import QuietClusters, ScriptedJobs, ScriptedLedger, until, within

PLANNED = World()
PLANNED.feed(command("replay"))
PLAN = PLANNED.recovery().plan


class Rig:
    def __init__(self) -> None:
        self.clusters, self.ledger, self.jobs = QuietClusters(), ScriptedLedger(), ScriptedJobs()
        self.events: list[Event] = []
        self.interpreter = Interpreter(
            recovery_runners(self.clusters, self.ledger, self.jobs, None, self.events.append), self.events.append
        )

    async def run(self, effect: Effect, events: int = 1) -> list[Event]:
        self.interpreter.start(effect)
        await until(lambda: len(self.events) >= events)
        return self.events


def launch(attempt: int = 1, recovery: str = "r1") -> LaunchAttempt:
    assert PLAN is not None
    directive = Directive(recovery, attempt, 1, "run", 30_000)
    return LaunchAttempt(recovery, attempt, make_spec(), PLAN, directive)


def read_ledger() -> ReadLedger:
    assert PLAN is not None
    return ReadLedger("r1", 1, PLAN, fence=False)


async def test_results_come_back_as_events() -> None:
    rig = Rig()
    assert await rig.run(CreateTarget("r1", "main", "t", 4, 1, {})) == [TargetReady("r1", "target-1", 4)]
    assert await rig.run(read_ledger(), 2) == [
        TargetReady("r1", "target-1", 4),
        LedgerRead("r1", 1, False, (), (), read_ledger().sequence),
    ]


async def test_a_cluster_that_does_not_answer_is_a_retriable_failure() -> None:
    events = await Rig().run(GatherFacts("r1", make_spec()))
    assert events == [
        EffectFailed("r1", "gather_facts", 0, Code.CLUSTER_UNREACHABLE.value, "no answer about flights", True)
    ]


class SlowQuotas:
    """The first call ends only once it is let."""

    def __init__(self) -> None:
        self.let = asyncio.Event()
        self.held: dict[str, float | None] = {}
        self.begun = 0

    async def set(self, effect: SetQuota) -> QuotaSet:
        await self._begin()
        self.held[effect.recovery] = effect.bytes_per_s
        return QuotaSet(effect.recovery, effect.bytes_per_s)

    async def sweep(self, effect: SweepQuotas) -> QuotasSwept:
        await self._begin()
        for recovery in set(self.held) - set(effect.keep):
            del self.held[recovery]
        return QuotasSwept(effect.cluster)

    async def _begin(self) -> None:
        self.begun += 1
        if self.begun == 1:
            await self.let.wait()


async def test_the_last_quota_of_a_recovery_is_the_one_that_holds() -> None:
    rig, quotas = Rig(), SlowQuotas()
    emit = rig.events.append
    interpreter = Interpreter(recovery_runners(rig.clusters, rig.ledger, rig.jobs, quotas, emit), emit)
    interpreter.start(SetQuota("r1", "main", "main", 1e6))
    await until(lambda: quotas.begun == 1)
    interpreter.start(SetQuota("r1", "main", "main", None))
    interpreter.start(SetQuota("r2", "main", "main", 2e6))
    await until(lambda: "r2" in quotas.held)
    quotas.let.set()
    await until(lambda: len(rig.events) == 3)
    assert quotas.held == {"r1": None, "r2": 2e6}


class SlowLedger(ScriptedLedger):
    """Each forgetting ends only once it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.let = asyncio.Event()
        self.begun: list[str] = []

    async def forget(self, effect: ForgetRecoveries) -> None:
        self.begun += [ended.id for ended in effect.recoveries]
        await self.let.wait()


async def test_a_cluster_forgets_one_batch_after_the_other_and_does_not_keep_another_cluster_waiting() -> None:
    rig, ledger = Rig(), SlowLedger()
    emit = rig.events.append
    interpreter = Interpreter(recovery_runners(rig.clusters, ledger, rig.jobs, None, emit), emit)
    for cluster, name in (("main", "r1"), ("main", "r2"), ("other", "r3")):
        interpreter.start(ForgetRecoveries(cluster, (EndedRecovery(name, None),)))
    await until(lambda: "r3" in ledger.begun)
    assert ledger.begun == ["r1", "r3"]
    ledger.let.set()
    await until(lambda: len(rig.events) == 3)
    assert ledger.begun == ["r1", "r3", "r2"]


async def test_a_failure_to_forget_names_its_cluster() -> None:
    rig = Rig()
    rig.ledger.error = ClusterProblem("no answer")
    events = await rig.run(ForgetRecoveries("main", (EndedRecovery("r1", None),)))
    assert events == [ForgettingFailed("main", Code.CLUSTER_UNREACHABLE.value, "no answer")]


async def test_a_sweep_that_ends_late_does_not_remove_a_quota_that_was_wanted_after_it() -> None:
    rig, quotas = Rig(), SlowQuotas()
    emit = rig.events.append
    interpreter = Interpreter(recovery_runners(rig.clusters, rig.ledger, rig.jobs, quotas, emit), emit)
    interpreter.start(SweepQuotas("main", ("r2",)))
    await until(lambda: quotas.begun == 1)
    interpreter.start(SetQuota("r1", "other", "main", 1e6))
    interpreter.start(SetQuota("r2", "other", "other", 2e6))
    await until(lambda: "r2" in quotas.held)
    assert "r1" not in quotas.held
    quotas.let.set()
    await until(lambda: "r1" in quotas.held)
    await until(lambda: len(rig.events) == 3)
    assert quotas.held["r1"] == 1e6


async def test_a_launch_that_fails_names_its_attempt() -> None:
    rig = Rig()
    rig.jobs.error = LaunchError("no java", retriable=False)
    assert await rig.run(launch(3)) == [EffectFailed("r1", "launch", 3, "RCV-3012", "no java", False)]


@pytest.mark.parametrize(
    ("effect", "kind", "retriable"),
    [(GatherFacts("r1", make_spec()), "gather_facts", False), (read_ledger(), "read_ledger", True)],
)
async def test_a_bug_in_an_adapter_becomes_an_event_as_well(
    effect: Effect, kind: str, *, retriable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig()
    rig.ledger.error = KeyError("x")

    async def broken(_: GatherFacts) -> None:
        raise KeyError("x")

    monkeypatch.setattr(rig.clusters, "gather_facts", broken)
    [event] = await rig.run(effect)
    assert isinstance(event, EffectFailed)
    assert (event.effect, event.code, event.retriable) == (kind, "RCV-5002", retriable)


async def test_starting_and_ending_applications_of_a_recovery_keep_their_order() -> None:
    rig = Rig()
    rig.jobs.launching.clear()
    for effect in (launch(1), KillAttempt("r1", 1), launch(2), KillAttempt("other", 9)):
        rig.interpreter.start(effect)
    await until(lambda: rig.jobs.log)
    assert rig.jobs.log == [("kill", "other", 9)]
    rig.jobs.launching.set()
    await until(lambda: len(rig.jobs.log) == 4)
    assert rig.jobs.log[1:] == [("launch", "r1", 1), ("kill", "r1", 1), ("launch", "r1", 2)]
    await until(lambda: not rig.interpreter._tasks)
    assert rig.interpreter._queues == {}


async def test_only_so_many_effects_run_at_once() -> None:
    rig = Rig()
    rig.jobs.launching.clear()
    for i in range(AT_ONCE + 10):
        rig.interpreter.start(launch(1, f"r{i}"))
    await until(lambda: rig.jobs.running == AT_ONCE)
    await asyncio.sleep(0.01)
    rig.jobs.launching.set()
    await until(lambda: len(rig.jobs.log) == AT_ONCE + 10)
    assert rig.jobs.most_running == AT_ONCE


class WaitingClusters(QuietClusters):
    """`silent` answers only once it is let, the others at once."""

    def __init__(self) -> None:
        super().__init__()
        self.let = asyncio.Event()
        self.asked: list[str] = []

    async def gather_facts(self, effect: GatherFacts) -> PlanFacts:
        self.asked.append(effect.recovery)
        if effect.spec.target.cluster == "silent":
            await self.let.wait()
        return make_facts()


def gather(recovery: str, target: str, version: int = 1) -> GatherFacts:
    spec = make_spec()
    return GatherFacts(recovery, replace(spec, target=replace(spec.target, cluster=target)), version=version)


async def test_effects_on_a_cluster_that_does_not_answer_leave_the_slots_of_the_others_free() -> None:
    rig, clusters = Rig(), WaitingClusters()
    emit = rig.events.append
    interpreter = Interpreter(recovery_runners(clusters, rig.ledger, rig.jobs, None, emit), emit)
    for i in range(AT_ONCE + 1):
        interpreter.start(gather(f"r{i}", "silent"))
    await until(lambda: len(clusters.asked) == AT_ONCE)
    interpreter.start(gather("new", "main"))
    interpreter.start(launch())
    await until(lambda: len(rig.events) == 1 and len(rig.jobs.log) == 1)
    assert rig.events == [FactsGathered("new", make_facts(), 1)]
    assert len(clusters.asked) == AT_ONCE + 1
    await interpreter.close()


async def test_facts_are_not_asked_for_twice_at_once() -> None:
    rig, clusters = Rig(), WaitingClusters()
    emit = rig.events.append
    interpreter = Interpreter(recovery_runners(clusters, rig.ledger, rig.jobs, None, emit), emit)
    for version in (1, 1, 2, 1):
        interpreter.start(gather("r1", "silent", version))
    await until(lambda: len(clusters.asked) == 2)
    clusters.let.set()
    await until(lambda: interpreter.is_idle)
    assert rig.events == [FactsGathered("r1", make_facts(), 1), FactsGathered("r1", make_facts(), 2)]
    interpreter.start(gather("r1", "silent"))
    await until(lambda: len(rig.events) == 3)


async def test_a_target_is_not_made_twice_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, let = Rig(), asyncio.Event()
    begun: list[str] = []

    async def create(effect: CreateTarget) -> TargetReady:
        begun.append(effect.recovery)
        await let.wait()
        return TargetReady(effect.recovery, "target-1", effect.partitions)

    monkeypatch.setattr(rig.clusters, "create_target", create)
    interpreter = Interpreter(
        recovery_runners(rig.clusters, rig.ledger, rig.jobs, None, rig.events.append), rig.events.append
    )
    for recovery in ("r1", "r1", "r2"):
        interpreter.start(CreateTarget(recovery, "main", "t", 4, 1, {}))
    await until(lambda: len(begun) == 2)
    let.set()
    await until(lambda: interpreter.is_idle)
    assert rig.events == [TargetReady("r1", "target-1", 4), TargetReady("r2", "target-1", 4)]


class WaitingSteps:
    """Gathers only once it is let."""

    def __init__(self) -> None:
        self.let = asyncio.Event()
        self.asked: list[int | None] = []

    async def gather(self, effect: GatherForWorkflow) -> WorkflowFacts:
        self.asked.append(effect.version)
        await self.let.wait()
        return WorkflowFacts(effect.workflow, Found(), effect.version)

    async def take(self, effect: TakeStep) -> StepReported:
        raise NotImplementedError


async def test_facts_of_a_workflow_are_not_asked_for_twice_at_once() -> None:
    steps, events = WaitingSteps(), list[Event]()
    interpreter = Interpreter(workflow_runners(steps), events.append)
    for version in (1, 1, 2, 1):
        interpreter.start(GatherForWorkflow("w", WantedFacts(), version, "main"))
    await until(lambda: len(steps.asked) == 2)
    steps.let.set()
    await until(lambda: interpreter.is_idle)
    assert events == [WorkflowFacts("w", Found(), 1), WorkflowFacts("w", Found(), 2)]


class SilentApplications:
    """Whoever controls them never answers."""

    def __init__(self) -> None:
        self.asked = 0

    async def look(self, unit: str) -> Report:
        self.asked += 1
        await asyncio.Event().wait()
        raise AssertionError(unit)

    async def ask(self, wish: Wish) -> Report:
        raise NotImplementedError

    async def start(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


async def test_applications_whose_control_does_not_answer_keep_no_launch_waiting() -> None:
    rig, applications = Rig(), SilentApplications()
    runners = recovery_runners(rig.clusters, rig.ledger, rig.jobs, None, rig.events.append)
    interpreter = Interpreter({**runners, **watch_runners(applications)}, rig.events.append)
    for i in range(AT_ONCE + 1):
        interpreter.start(StopApplication(f"w{i}", "u", NOW_MS, 1))
    await until(lambda: applications.asked == AT_ONCE)
    interpreter.start(launch())
    interpreter.start(KillAttempt("other", 1))
    await until(lambda: len(rig.jobs.log) == 2)
    await interpreter.close()


async def test_effects_that_may_take_for_ever_leave_the_slots_of_the_others_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig, let = Rig(), asyncio.Event()
    begun: list[str] = []

    async def read(effect: ReadLedger, _moved: object) -> LedgerRead:
        begun.append(effect.recovery)
        await let.wait()
        return LedgerRead(effect.recovery, 1, False, (), (), effect.sequence)

    monkeypatch.setattr(rig.ledger, "read", read)
    for i in range(AT_ONCE + 1):
        rig.interpreter.start(replace(read_ledger(), recovery=f"r{i}"))
    await until(lambda: len(begun) == AT_ONCE)
    assert await rig.run(CreateTarget("new", "main", "t", 4, 1, {})) == [TargetReady("new", "target-1", 4)]
    assert len(begun) == AT_ONCE
    let.set()
    await until(lambda: len(rig.events) == AT_ONCE + 2)


async def test_an_effect_without_end_fails_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoveryd.runtime.interpreter.DEADLINE_S", 0.01)
    rig = Rig()
    rig.jobs.launching.clear()
    [event] = await rig.run(launch())
    assert isinstance(event, EffectFailed)
    assert (event.effect, event.code, event.retriable) == ("launch", "RCV-2011", True)


async def test_the_time_out_of_somebody_else_is_not_told_as_ours() -> None:
    rig = Rig()
    rig.ledger.error = TimeoutError("the receipts are slow")
    [event] = await rig.run(read_ledger())
    assert isinstance(event, EffectFailed)
    assert (event.message, event.retriable) == ("No answer in time: the receipts are slow", True)


async def test_closing_gives_up_what_runs_and_says_nothing() -> None:
    rig = Rig()
    rig.jobs.launching.clear()
    rig.interpreter.start(launch())
    rig.interpreter.start(WakeAt(5))
    await until(lambda: rig.jobs.running)
    await within(rig.interpreter.close())
    assert (rig.events, rig.jobs.log) == ([], [])


async def test_the_facts_an_effect_brings_make_the_plan() -> None:
    rig = Rig()

    async def facts(_: GatherFacts) -> object:
        return make_facts()

    rig.clusters.gather_facts = facts  # type: ignore[method-assign, assignment]
    decider = make_decider(Params())
    asked = decider.decide(CoreState(), command("replay"), NOW_MS)
    [event] = await rig.run(next(e for e in asked.effects if isinstance(e, GatherFacts)))
    planned = decider.decide(asked.state, event, NOW_MS)
    assert planned.state.of(RECOVERY).recoveries["r1"].plan is not None


async def test_a_command_that_was_not_sent_says_whether_it_ever_will_be() -> None:
    events: list[Event] = []
    broker = MemoryBroker()
    interpreter = Interpreter(command_runners(MemoryCommandSender(broker, "control", CODEC)), events.append)
    broker.is_reachable = False
    interpreter.start(SendCommand("s1", "stop", "r1", {"reason": "r"}, "c1", "//t", NOW_MS))
    interpreter.start(SendCommand("s1", "stop", "r1", {"reason": "r", "why": "r"}, "c2", "//t", NOW_MS))
    await until(lambda: len(events) == 2)
    assert events == [
        CommandNotSent("s1", "c1", Code.CLUSTER_UNREACHABLE.value, "The cluster did not answer in time.", True),
        CommandNotSent("s1", "c2", Code.UNKNOWN_FIELD.value, "data.why is not a field of stop.", False),
    ]


async def test_commands_of_one_noun_go_out_in_order() -> None:
    events: list[Event] = []
    broker = MemoryBroker()
    log = broker.create("control").log(0)
    interpreter = Interpreter(command_runners(MemoryCommandSender(broker, "control", CODEC)), events.append)
    for number in range(30):
        interpreter.start(SendCommand("s1", "stop", f"r{number}", {"reason": "r"}, f"c{number}", "//t", NOW_MS))
    await until(lambda: len(log.records) == 30)
    assert [record.key for record in log.records] == [b"r%d" % number for number in range(30)]
    assert events == []
