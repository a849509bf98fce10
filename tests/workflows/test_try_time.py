"""How long one try of a step that changes topics goes on, and that no second one runs beside it."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from types import SimpleNamespace

import pytest

from recoveryd.adapters.kafka.steps import going, topic_mending, topic_steps, topic_tries, try_time
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.adapters.kafka.topic_admin import TopicShape
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.states import State
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.workflows.model.actions import CHANGES, Action, CreateTopics, DeleteTopics, RecreateTopics, TopicForm
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.params import WorkflowParams
from recoveryd.workflows.model.workflow import TopicUndo, Undo
from tests.integration.step_world import Runs
from tests.workflows.world import GroupWorld, report

NAMES = ("a", "b", "c")
FORMS = tuple(TopicForm(name, 1, 1) for name in NAMES)


class Topics:
    """Those of a cluster, with their ids; a change takes `takes_s` of a clock of its own, and waits for `lets_go`."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.ids = {name: f"{name}-0" for name in names}
        self.made = 0
        self.now_s, self.takes_s = 0.0, 25.0
        self.lets_go = threading.Event()
        self.lets_go.set()
        self.changes: list[str] = []

    def describe(self, _admin: object, names: Iterable[str], *_: object) -> dict[str, TopicShape | None]:
        return {name: self._shape(name) for name in names}

    def _shape(self, name: str) -> TopicShape | None:
        return TopicShape(name, self.ids[name], {0: 1}, 1) if name in self.ids else None

    def create(self, _admin: object, name: str, *_: object) -> bool:
        if name in self.ids:
            return False
        self._change(f"create {name}")
        self.made += 1
        self.ids[name] = f"{name}-{self.made}"
        return True

    def delete(self, _admin: object, name: str, _timeout_s: float) -> None:
        self._change(f"delete {name}")
        self.ids.pop(name, None)

    def await_topic(self, _admin: object, name: str, *_: object) -> TopicShape:
        shape = self._shape(name)
        assert shape is not None
        return shape

    def _change(self, what: str) -> None:
        self.changes.append(what)
        self.now_s += self.takes_s
        assert self.lets_go.wait(30.0)


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Topics:
    made = Topics()
    for module in (topic_steps, topic_mending, topic_tries, going):
        for name in {"describe", "create", "delete", "await_topic"} & vars(module).keys():
            monkeypatch.setattr(module, name, getattr(made, name))
    monkeypatch.setattr(topic_steps, "check_create", lambda *_: None)
    monkeypatch.setattr(topic_mending, "read_log", lambda *_: {})
    monkeypatch.setattr(topic_mending, "read_own_configs", lambda _, names, __: {name: {} for name in names})
    monkeypatch.setattr(try_time, "time", SimpleNamespace(monotonic=lambda: made.now_s))
    return made


@pytest.fixture
async def steps() -> AsyncIterator[KafkaSteps]:
    nowhere = "127.0.0.1:9"
    clusters = {"main": {"bootstrap.servers": nowhere}}
    made = KafkaSteps(clusters, {"main": ClientAccess(nowhere)}, dict, Runs(), lambda: 0)
    yield made
    await made.close()


async def tries(steps: KafkaSteps, action: Action) -> list[StepReported]:
    """What each try tells, until one is the last."""
    told: list[StepReported] = []
    rows: dict[object, Undo] = {}
    while not told or told[-1].outcome is Outcome.LEFT:
        heard = await steps.take(TakeStep("w", "step", len(told) + 1, action, tuple(rows.values())))
        rows |= {row.key: row for row in heard.undo}
        told.append(heard)
    return told


def names_in(heard: StepReported) -> set[str]:
    return {row.name for row in heard.undo if isinstance(row, TopicUndo)}


@pytest.mark.parametrize("kind", ["create", "recreate", "back"])
async def test_what_earlier_tries_made_takes_no_time_of_a_later_one(
    steps: KafkaSteps, topics: Topics, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    names = [f"t{number:03}" for number in range(60)]
    forms, ids = tuple(TopicForm(name, 1, 1) for name in names), {name: f"{name}-0" for name in names}
    topics.ids, topics.takes_s = dict(ids) if kind == "recreate" else {}, 3.0 if kind == "create" else 2.0

    def slow(_admin: object, _shape: TopicShape) -> dict[int, object]:
        topics.now_s += 3.0
        return {}

    monkeypatch.setattr(topic_mending, "read_log", slow)
    describe = topics.describe

    def asked(admin: object, wanted: Iterable[str], *more: object) -> dict[str, TopicShape | None]:
        topics.now_s += 0.5
        return describe(admin, wanted, *more)

    for module in (topic_steps, going):
        monkeypatch.setattr(module, "describe", asked)
    is_back = kind == "back"
    action = CreateTopics("main", forms) if kind == "create" else RecreateTopics("main", forms, ids, is_back=is_back)
    told = await tries(steps, action)
    assert (told[-1].outcome, names_in(told[-1])) == (Outcome.DONE, set(names))
    assert len(told) < 8


@pytest.mark.parametrize("kind", ["create", "delete", "recreate", "back"])
async def test_a_try_ends_in_time_and_the_next_one_goes_on(steps: KafkaSteps, topics: Topics, kind: str) -> None:
    ids: Mapping[str, str] = {name: f"{name}-0" for name in NAMES}
    topics.ids = dict(ids) if kind in {"delete", "recreate"} else {}
    topics.takes_s = 31.0 if kind != "recreate" else 16.0
    actions: dict[str, Action] = {
        "create": CreateTopics("main", FORMS),
        "delete": DeleteTopics("main", ids),
        "recreate": RecreateTopics("main", FORMS, ids),
        "back": RecreateTopics("main", FORMS, ids, is_back=True),
    }
    first, last = await tries(steps, actions[kind])
    assert (first.outcome, names_in(first)) == (Outcome.LEFT, {"a", "b"})
    assert (last.outcome, names_in(last)) == (Outcome.DONE, set(NAMES))
    assert len(topics.changes) == (6 if kind == "recreate" else 3), "nothing is done twice"
    assert set(topics.ids) == (set() if kind == "delete" else set(NAMES))
    assert not set(topics.ids.values()) & set(ids.values())


async def test_a_try_that_did_nothing_in_its_time_has_failed(
    steps: KafkaSteps, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.ids = {name: f"{name}-0" for name in NAMES}
    describe = topics.describe

    def slow(admin: object, names: Iterable[str], *more: object) -> dict[str, TopicShape | None]:
        topics.now_s += try_time.BEGIN_S
        return describe(admin, names, *more)

    for module in (topic_steps, going):
        monkeypatch.setattr(module, "describe", slow)
    [told] = await tries(steps, DeleteTopics("main", topics.ids))
    assert (told.outcome, told.is_retriable, told.undo) == (Outcome.FAILED, True, ())
    assert topics.changes == []


async def test_no_second_try_and_no_way_back_runs_beside_one_that_hangs(steps: KafkaSteps, topics: Topics) -> None:
    topics.lets_go.clear()
    create, back = CreateTopics("main", FORMS[:1]), DeleteTopics("main", {"a": "a-1"}, is_ours=True)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await steps.take(TakeStep("w", "create", 1, create))
    for again in (TakeStep("w", "create", 2, create), TakeStep("w", "back", 1, back)):
        with pytest.raises(ClusterProblem, match="still under way") as refused:
            await steps.take(again)
        assert refused.value.retriable
    topics.lets_go.set()
    give_up_s = time.monotonic() + 20.0
    while True:
        try:
            told = await steps.take(TakeStep("w", "create", 3, create))
            break
        except ClusterProblem:
            assert time.monotonic() < give_up_s
            await asyncio.sleep(0.01)
    assert (told.outcome, topics.changes) == (Outcome.DONE, ["create a"])


async def test_another_workflow_is_not_held_up(steps: KafkaSteps, topics: Topics) -> None:
    topics.lets_go.clear()
    hanging = asyncio.create_task(steps.take(TakeStep("w", "create", 1, CreateTopics("main", FORMS[:1]))))
    other = asyncio.create_task(steps.take(TakeStep("v", "create", 1, CreateTopics("main", FORMS[1:2]))))
    await asyncio.sleep(0.05)
    topics.lets_go.set()
    assert [(await task).outcome for task in (hanging, other)] == [Outcome.DONE, Outcome.DONE]


def test_a_change_that_goes_on_in_parts_does_not_fail_however_many_they_are() -> None:
    world, left = GroupWorld(), [2 * WorkflowParams().tries_most]

    def in_parts(effect: TakeStep) -> StepReported | None:
        if type(effect.action) not in CHANGES or not left[0]:
            return None
        left[0] -= 1
        return report(effect, Outcome.LEFT, "not done yet")

    world.fault = in_parts
    assert world.reset() == "accepted"
    world.pass_time(10)
    assert (world.workflow.state, left) == (State.COMPLETED, [0])


def test_the_times_of_a_try_lie_in_each_other() -> None:
    assert try_time.BEGIN_S < try_time.END_S < WorkflowParams().no_answer_ms / 1000
