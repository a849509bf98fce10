"""Whole runs of workflows in which people, the cluster and the daemon do anything at any time: commands in every state,
effects that fail, are heard of late or never, holds, and daemons that die. The core has an answer to each, nothing that
was changed for a time only outlives its workflow, and whatever happened, a `stop` ends it.
"""

from collections.abc import Callable
from random import Random

import pytest

from recoveryd.holds.draft import HOLDS
from recoveryd.holds.spec import Release, StartHold
from recoveryd.kernel.catalogue import Code
from recoveryd.kernel.commands import StopCommand
from recoveryd.kernel.states import State
from recoveryd.recovery.commands import Approve, Pause, Reject, Resume
from recoveryd.units.facts import Member
from recoveryd.workflows.machine.command_ids import command_id
from recoveryd.workflows.machine.draft import WORKFLOWS
from recoveryd.workflows.model.actions import CreateTopics, DeleteTopics, RecreateTopics, RunChildren, SetOffsets
from recoveryd.workflows.model.commands import Ack, Discard, Escalate, Promote, Rollback
from recoveryd.workflows.model.effects import GatherForWorkflow, TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported, WorkflowFacts
from recoveryd.workflows.model.facts import Found
from recoveryd.workflows.model.spec import RunbookPath
from recoveryd.workflows.model.workflow import Workflow
from tests.builders.core import make_hold
from tests.workflows import test_upgrade_online, test_upgrade_other_id
from tests.workflows.app_world import PARTITIONS, AppWorld
from tests.workflows.runbook_world import RunbookWorld
from tests.workflows.test_savepoint import restore, save
from tests.workflows.two_versions import TwoVersions
from tests.workflows.world import OWNED, GroupWorld, report

World = GroupWorld | AppWorld
OPERATIONS, NOT_HEARD, FAILS = 40, 0.15, 0.1
AT = {"orders": dict.fromkeys(range(PARTITIONS), 60)}
BEGUN: dict[str, tuple[Callable[[], World], Callable[..., object]]] = {
    "reset": (lambda: GroupWorld(OWNED), GroupWorld.reset),
    "reprocess": (AppWorld, lambda world: world.reprocess(keep_inputs=True)),
    "savepoint": (AppWorld, save),
    "restore": (AppWorld, lambda world: (save(world), world.run_through(), restore(world))),
    "runbook": (RunbookWorld, lambda world: world.begin(sink=AT, state=AT, quotas={"shop-1": 1_000.0})),
    "shadow": (
        RunbookWorld,
        lambda world: world.begin(
            RunbookPath.SHADOW, topic="orders", ranges={0: (10, 20)}, target="totals", hold_ms=60_000
        ),
    ),
    "restore_state": (RunbookWorld, lambda world: world.begin(RunbookPath.RESTORE_STATE)),
    "upgrade beside": (test_upgrade_online.two_versions, test_upgrade_online.upgrade),
    "upgrade elsewhere": (test_upgrade_other_id.two_versions, test_upgrade_other_id.upgrade),
}
STEERING = (Pause, Resume, StopCommand, Rollback, Promote, Discard, Escalate)


class Chaos:
    """`late`: effects of which nothing was heard yet."""

    def __init__(self, world: World, random: Random) -> None:
        self.world, self.random = world, random
        self.late: list[TakeStep | GatherForWorkflow] = []
        self.holds, self.not_heard, self.fails = 0, NOT_HEARD, FAILS
        self.gather = world.gather
        world.fault, world.gather = self._fault, self._gather  # type: ignore[method-assign]

    def _gather(self, effect: GatherForWorkflow) -> WorkflowFacts:
        if self.random.random() >= self.not_heard:
            return self.gather(effect)
        self.late.append(effect)
        return WorkflowFacts("nobody", Found())

    def _fault(self, effect: TakeStep) -> StepReported | None:
        luck = self.random.random()
        if luck < self.not_heard:
            self.late.append(effect)
            return StepReported("nobody", "", 0, Outcome.DONE)
        if luck < self.not_heard + self.fails:
            is_retriable = self.random.random() < 0.7
            code = Code.CLUSTER_UNREACHABLE.value
            return report(effect, Outcome.FAILED, "no answer", code=code, is_retriable=is_retriable)
        return None

    @property
    def workflows(self) -> list[Workflow]:
        return list(self.world.state.of(WORKFLOWS))

    def operate(self) -> None:
        world, random = self.world, self.random
        about = random.choice(self.workflows)
        told = about.plan.hash if about.plan is not None else ""
        step = about.step.name if about.step is not None and random.random() < 0.8 else "no_such_step"
        match random.choice(
            ("time",) * 4 + ("steer",) * 3 + ("ack", "ack", "approve", "hold", "lead", "late", "world")
        ):
            case "time":
                world.pass_time(random.choice((1, 3, 10, 130, 700)), every_s=random.choice((1, 5)))
            case "steer":
                world.send(random.choice(STEERING), subject=about.id)
            case "ack":
                world.send(lambda meta: Ack(meta, step, random.choice(("", "why"))), subject=about.id)
            case "approve":
                what = random.choice((lambda meta: Approve(meta, told), lambda meta: Reject(meta, "")))
                world.send(what, random.choice(("//ops/kim", "//ops/ann")), about.id)
            case "hold" if self.holds and random.random() < 0.6:
                world.send(Release, subject=f"h{random.randint(1, self.holds)}")
            case "hold":
                self.hold()
            case "lead":
                world.lead(self.hold if random.random() < 0.3 else None)
            case "late" if self.late:
                self.hear(self.late.pop(random.randrange(len(self.late))))
            case "world" if isinstance(world, RunbookWorld) and random.random() < 0.5:
                world.deliver()
            case "world" if isinstance(world, TwoVersions):
                world.people(rounds=random.choice((1, 2, 4)))
            case "world" if isinstance(world, AppWorld) and random.random() < 0.5:
                world.run_through(about.id)
            case _:
                world.members = [] if world.members else [Member("m9", "busy", "host")]

    def hold(self) -> None:
        self.holds += 1
        topic = self.random.choice(("orders", "totals"))
        self.world.send(lambda meta: StartHold(meta, make_hold(topic)), subject=f"h{self.holds}")

    def hear(self, effect: TakeStep | GatherForWorkflow) -> None:
        world = self.world
        world.feed(self.gather(effect) if isinstance(effect, GatherForWorkflow) else world.carry_out(effect))

    def settle(self) -> None:
        """Nothing is in the way any more, and everything is stopped."""
        self.not_heard = self.fails = 0
        world = self.world
        world.members = []
        for number in range(1, self.holds + 1):
            world.send(Release, subject=f"h{number}")
        for _ in range(6):
            for workflow in self.workflows:
                world.send(StopCommand, subject=workflow.id)
            world.pass_time(300, every_s=10)
            if isinstance(world, RunbookWorld):
                world.deliver()


def check(workflows: list[Workflow]) -> None:
    by_id = {workflow.id: workflow for workflow in workflows}
    for workflow in workflows:
        assert "defect of recoveryd" not in workflow.why
        if not workflow.is_terminal:
            continue
        assert workflow.temporary == ()
        actions = (step.action for step in workflow.steps)
        for run in (run for action in actions if isinstance(action, RunChildren) for run in action.runs):
            child = by_id.get(run.recovery)
            is_own = child is not None and child.command.id == command_id(workflow, run)
            assert not is_own or child is None or child.is_terminal or child.is_rolling_back, "nobody waits for it"


def begun(name: str, seed: str) -> Chaos:
    make, begin = BEGUN[name]
    world = make()
    begin(world)
    return Chaos(world, Random(seed))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", list(BEGUN))
def test_whatever_happens_there_is_an_answer_and_an_end(name: str, seed: int) -> None:
    chaos = begun(name, f"{name} {seed}")
    for _ in range(OPERATIONS):
        chaos.operate()
        check(chaos.workflows)
    chaos.settle()
    check(chaos.workflows)
    assert [w.id for w in chaos.workflows if not w.is_terminal and w.state is not State.PLANNED] == []


def changed_by(effect: TakeStep) -> set[str]:
    """Topics that a step takes away, makes, or sets a group in. What it takes away of its own is not meant."""
    match effect.action:
        case SetOffsets(is_back=False):
            return {getattr(row, "name", "") for row in effect.rows}
        case CreateTopics(topics=forms) | RecreateTopics(topics=forms, is_back=False):
            return {form.name for form in forms}
        case DeleteTopics(topics=named, is_ours=False):
            return set(named)
        case _:
            return set()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", list(BEGUN))
def test_no_change_begins_in_a_topic_that_somebody_holds(name: str, seed: int) -> None:
    """Whatever fails or is not heard, and whichever daemon leads."""
    chaos = begun(name, f"{name} held {seed}")
    if seed < 4:
        chaos.not_heard = chaos.fails = 0
    world, fault = chaos.world, chaos.world.fault

    def begins(effect: TakeStep) -> StepReported | None:
        held = {topic for _, topic in world.state.of(HOLDS).held}
        assert effect.is_look or not changed_by(effect) & held, effect.step
        return fault(effect)

    world.fault = begins
    for _ in range(OPERATIONS):
        chaos.operate()
        check(chaos.workflows)
