"""Topics that are made anew on a broker that makes one for each client that asks, as brokers do by default, while such
clients do: what is there in the end is as it was before, or the step says what is in the way. Nothing that was written
meanwhile goes.
"""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Self

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.steps import topic_mending, topic_steps
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.adapters.kafka.topic_admin import TopicShape, await_topic, create, describe
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.workflows.model.actions import CreateTopics, RecreateTopics, TopicForm
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.workflow import TopicUndo
from recoveryd_sandbox.broker import Broker
from tests.builders.configs import await_configs, own_configs
from tests.e2e.clients import writer
from tests.e2e.processes import wait_for

pytestmark = pytest.mark.broker

CONFIGS = {"cleanup.policy": "compact", "max.message.bytes": "2000000"}
ONE_OR_MORE = pytest.mark.parametrize("partitions", [1, 3])  # brokers make those with one


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {"auto.create.topics.enable": "true", "num.partitions": "1"}
    with Broker(tmp_path_factory.mktemp("makes"), overrides=settings, heap="256m") as broker:
        yield broker.bootstrap


class Reader:
    """A consumer that looks for its topic, and has the broker make it where it is not there."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic, self.admin = topic, AdminClient({"bootstrap.servers": bootstrap})
        properties = {"bootstrap.servers": bootstrap, "group.id": f"{topic}-reader", "allow.auto.create.topics": True}
        self.consumer = Consumer({**properties, "log_level": 0})
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._poll)

    def make(self, *_: object) -> TopicShape:
        """Asks until it is there."""
        wait_for(lambda: (self.consumer.list_topics(self.topic, timeout=60), self.shape())[1], 60.0)
        return await_topic(self.admin, self.topic, 60.0)

    def shape(self) -> TopicShape | None:
        return describe(self.admin, [self.topic], 60.0)[self.topic]

    def _poll(self) -> None:
        while not self._ends.wait(0.05):  # `retry.backoff.ms` of consumers is 100
            self.consumer.list_topics(self.topic, timeout=60)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        self.consumer.close()


@pytest.fixture
def reader(bootstrap: str, unique: str) -> Reader:
    return Reader(bootstrap, f"{unique}totals")


def made(reader: Reader, partitions: int) -> tuple[TopicForm, str]:
    """The topic as it is before, and its id."""
    assert create(reader.admin, reader.topic, partitions, 1, CONFIGS, 60.0)
    return TopicForm(reader.topic, partitions, 1, CONFIGS), await_topic(reader.admin, reader.topic, 60.0).topic_id


async def prepared(reader: Reader, partitions: int) -> RecreateTopics:
    form, topic_id = await asyncio.to_thread(made, reader, partitions)
    return RecreateTopics("main", (form,), {form.name: topic_id})


def makes_it_first(monkeypatch: pytest.MonkeyPatch, module: Any, reader: Reader, times: int) -> None:
    """The reader's request comes before ours, so many times."""
    real, left = module.create, [times]

    def late(admin: AdminClient, topic: str, *more: Any) -> bool:
        if left[0] and topic == reader.topic:
            left[0] -= 1
            reader.make()
        return bool(real(admin, topic, *more))

    monkeypatch.setattr(module, "create", late)


async def assert_as_before(reader: Reader, bootstrap: str, partitions: int, told: StepReported) -> None:
    assert told.outcome is Outcome.DONE, told
    shape = await asyncio.to_thread(await_topic, reader.admin, reader.topic, 60.0)
    assert (shape.partitions, shape.replication_factor) == (partitions, 1)
    await asyncio.to_thread(await_configs, bootstrap, reader.topic, CONFIGS)
    assert [row.was_set for row in told.undo if isinstance(row, TopicUndo)] == [shape.topic_id]


@ONE_OR_MORE
async def test_one_that_a_reader_made_first_is_as_before_in_the_end(
    steps: KafkaSteps, reader: Reader, bootstrap: str, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    action = await prepared(reader, partitions)
    makes_it_first(monkeypatch, topic_steps, reader, 1)
    told = await steps.take(TakeStep("w", "recreate_topics", 1, action))
    await assert_as_before(reader, bootstrap, partitions, told)
    said = "given its own configs" if partitions == 1 else "1 partitions in place of 3: that went, empty"
    assert said in told.why
    assert said in told.evidence[reader.topic]["note"]  # type: ignore[index]


@ONE_OR_MORE
async def test_while_a_reader_asks_for_it_all_the_time_it_is_as_before_in_the_end(
    steps: KafkaSteps, reader: Reader, bootstrap: str, partitions: int
) -> None:
    action = await prepared(reader, partitions)
    with reader:
        told = await steps.take(TakeStep("w", "recreate_topics", 1, action))
        await assert_as_before(reader, bootstrap, partitions, told)


@ONE_OR_MORE
async def test_what_a_reader_made_after_a_try_that_could_not_make_it_is_mended_by_the_next_one(
    steps: KafkaSteps, reader: Reader, bootstrap: str, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    action = await prepared(reader, partitions)

    def silent(*_: object) -> bool:
        raise ClusterProblem("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(topic_steps, "create", silent)
        first = await steps.take(TakeStep("w", "recreate_topics", 1, action))
    assert (first.outcome, first.is_retriable) == (Outcome.FAILED, True)
    await asyncio.to_thread(reader.make)
    look = await steps.take(TakeStep("w", "recreate_topics", 2, action, first.undo, is_look=True))
    assert (look.outcome, look.undo) == (Outcome.LEFT, first.undo), "it has to be made anew"
    told = await steps.take(TakeStep("w", "recreate_topics", 2, action, first.undo))
    await assert_as_before(reader, bootstrap, partitions, told)


@ONE_OR_MORE
async def test_where_a_reader_is_always_first_the_step_says_what_to_do(
    steps: KafkaSteps, reader: Reader, bootstrap: str, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    """With one partition the configs alone differ, and that is mended without making it again."""
    action = await prepared(reader, partitions)
    for module in (topic_steps, topic_mending):
        makes_it_first(monkeypatch, module, reader, -1)
    told = await steps.take(TakeStep("w", "recreate_topics", 1, action))
    if partitions == 1:
        await assert_as_before(reader, bootstrap, partitions, told)
        return
    assert (told.outcome, told.code, told.is_retriable) == (Outcome.FAILED, Code.TOPIC_CHANGED.value, False)
    assert "5 times" in told.why
    assert f"delete {reader.topic}, and `rollback` w makes it as it was" in told.why
    gone = TopicUndo(reader.topic, action.ids[reader.topic], None, is_gone=True, cluster="main")
    assert told.undo == (gone,)
    monkeypatch.undo()
    back = RecreateTopics("main", action.topics, action.ids, is_back=True)
    left = await steps.take(TakeStep("w", "make_topics_again", 1, back, told.undo))
    assert left.outcome is Outcome.DONE
    assert "1 partitions in place of 3; other configs (cleanup.policy, max.message.bytes)" in left.why


async def test_on_the_way_back_one_that_a_reader_made_first_is_as_before_too(
    steps: KafkaSteps, reader: Reader, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = RecreateTopics("main", (TopicForm(reader.topic, 3, 1, CONFIGS),), {reader.topic: "gone"}, is_back=True)
    makes_it_first(monkeypatch, topic_steps, reader, 1)
    await assert_as_before(reader, bootstrap, 3, await steps.take(TakeStep("w", "make_topics_again", 1, action)))


@ONE_OR_MORE
async def test_what_was_written_to_it_meanwhile_stays(
    steps: KafkaSteps, reader: Reader, bootstrap: str, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    action = await prepared(reader, partitions)
    written: list[str] = []

    def makes_and_writes(*_: object) -> bool:
        written.append(reader.make().topic_id)
        producer = writer(bootstrap)
        producer.produce(reader.topic, b"theirs")
        assert producer.flush(60.0) == 0
        return False

    monkeypatch.setattr(topic_steps, "create", makes_and_writes)
    told = await steps.take(TakeStep("w", "recreate_topics", 1, action))
    assert (told.outcome, told.code) == (Outcome.FAILED, Code.TOPIC_CHANGED.value)
    assert "up to 1 records came to it, so it stays" in told.why
    shape = await asyncio.to_thread(reader.shape)
    assert shape is not None
    assert [shape.topic_id] == written
    monkeypatch.undo()
    again = await steps.take(TakeStep("w", "recreate_topics", 2, action, told.undo))
    assert (again.outcome, again.code) == (Outcome.FAILED, Code.TOPIC_CHANGED.value)
    assert "`rollback` w makes it as it was" in again.why


async def test_where_configs_may_not_be_changed_it_is_made_once_more(
    steps: KafkaSteps, reader: Reader, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = await prepared(reader, 1)

    def refused(*_: object) -> None:
        raise ClusterProblem("may not", code=Code.NOT_AUTHORISED, retriable=False)

    makes_it_first(monkeypatch, topic_steps, reader, 1)
    monkeypatch.setattr(topic_mending, "change_configs", refused)
    told = await steps.take(TakeStep("w", "recreate_topics", 1, action))
    await assert_as_before(reader, bootstrap, 1, told)


@ONE_OR_MORE
async def test_a_new_one_that_a_reader_made_first_gets_its_configs_and_is_not_taken_away(
    steps: KafkaSteps, reader: Reader, bootstrap: str, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    action = CreateTopics("main", (TopicForm(reader.topic, partitions, 1, CONFIGS),))
    makes_it_first(monkeypatch, topic_steps, reader, 1)
    told = await steps.take(TakeStep("w", "create_outputs", 1, action))
    if partitions == 1:
        await assert_as_before(reader, bootstrap, partitions, told)
    else:
        assert (told.outcome, told.code) == (Outcome.FAILED, Code.TOPIC_CHANGED.value)
        assert "somebody else made it meanwhile; delete it" in told.why
        assert (await asyncio.to_thread(own_configs, bootstrap, reader.topic)) == {}


@pytest.mark.parametrize("configs", [{}, CONFIGS])
async def test_a_new_one_that_was_there_before_keeps_what_it_has(
    steps: KafkaSteps, reader: Reader, bootstrap: str, configs: Mapping[str, str]
) -> None:
    await asyncio.to_thread(create, reader.admin, reader.topic, 1, 1, configs, 60.0)
    await asyncio.to_thread(await_topic, reader.admin, reader.topic, 60.0)
    wanted = TopicForm(reader.topic, 1, 1, {"retention.ms": "-1"})
    told = await steps.take(TakeStep("w", "create_outputs", 1, CreateTopics("main", (wanted,))))
    assert told.outcome is Outcome.DONE, told
    assert (await asyncio.to_thread(own_configs, bootstrap, reader.topic)) == configs
