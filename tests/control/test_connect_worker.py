"""`control: connect` against a real worker of Kafka Connect: stopped, its offsets changed, and started again."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from recoveryd.adapters.control.connect import ConnectApplication, ConnectApplications
from recoveryd.adapters.control.connect_api import ConnectorOffset, NoConnector
from recoveryd.adapters.control.controls import UnitControls
from recoveryd.adapters.http.asking import HttpRefusal
from recoveryd.adapters.kafka.steps.taker import KafkaSteps
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.settings.kafka_properties import ClientAccess
from recoveryd.units.control import ApplicationState, Desired, Needs
from recoveryd.units.model import ControlKind, Unit, UnitKind
from recoveryd.workflows.model.actions import SetOffsets
from recoveryd.workflows.model.effects import TakeStep
from recoveryd.workflows.model.events import Outcome, StepReported
from recoveryd.workflows.model.workflow import OffsetUndo
from recoveryd_sandbox.connect_worker import Connector, ConnectWorker
from tests.control.asking import asked, until, wish
from tests.patience import patient_s, until_it_works
from tests.streams.data import make_topics, write

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def worker(module_unique: str, connect_worker: Callable[..., ConnectWorker]) -> ConnectWorker:
    return connect_worker(f"{module_unique}workers")


@pytest.fixture
async def control(worker: ConnectWorker, unique: str) -> AsyncIterator[ConnectApplications]:
    made = ConnectApplications(
        [
            ConnectApplication(name, f"{unique}{name}", worker.url, None, None, 10**9)
            for name in ("in", "out", "lost", "bad")
        ],
        lambda: 0,
    )
    yield made
    await made.close()


async def insisted(ask: Callable[[], Awaitable[None]]) -> None:
    """Once the group of the workers does not rebalance any more: until then Connect refuses everything."""
    await until_it_works(ask, lambda refused: isinstance(refused, HttpRefusal) and refused.is_passing)


@pytest.mark.scenario("S-RUN-22")
async def test_a_pair_of_connectors_is_stopped_taken_back_and_started(
    worker: ConnectWorker, control: ConnectApplications, bootstrap: str, unique: str, tmp_path: Path
) -> None:
    source, sink, topic = tmp_path / "in.txt", tmp_path / "out.txt", f"{unique}lines"
    make_topics(bootstrap, {topic: 1})
    source.write_text("a\nb\n")
    worker.put_connector(f"{unique}in", {"connector.class": Connector.FILE_SOURCE, "file": str(source), "topic": topic})
    worker.put_connector(f"{unique}out", {"connector.class": Connector.FILE_SINK, "file": str(sink), "topics": topic})
    for unit in ("in", "out"):
        assert (await asked(control, wish(Desired.RUNNING, unit))).state is ApplicationState.RUNNING
    await until(lambda: sink.exists() and sink.read_text() == "a\nb\n", "the lines go through")
    for unit in ("in", "out"):
        with pytest.raises(HttpRefusal, match="STOPPED"):
            await insisted(lambda: control.forget_offsets(unit))  # noqa: B023
        assert (await asked(control, wish(Desired.STOPPED, unit))).state is ApplicationState.STOPPED
        assert (await asked(control, wish(Desired.STOPPED, unit))).state is ApplicationState.STOPPED
    file = {"filename": str(source)}
    assert await control.offsets("in") == (ConnectorOffset(file, {"position": 4}),)
    partition = {"kafka_topic": topic, "kafka_partition": 0}
    assert await control.offsets("out") == (ConnectorOffset(partition, {"kafka_offset": 2}),)
    await insisted(lambda: control.set_offsets("in", [ConnectorOffset(file, {"position": 2})]))
    assert await control.offsets("in") == (ConnectorOffset(file, {"position": 2}),)
    await insisted(lambda: control.set_offsets("out", [ConnectorOffset(partition, {"kafka_offset": 1})]))
    assert await control.offsets("out") == (ConnectorOffset(partition, {"kafka_offset": 1}),)
    await insisted(lambda: control.forget_offsets("out"))
    assert await control.offsets("out") == ()
    for unit in ("in", "out"):
        assert (await asked(control, wish(Desired.RUNNING, unit))).state is ApplicationState.RUNNING
    await until(lambda: sink.read_text() == "a\nb\na\nb\nb\n", "what was taken back is done again")


@pytest.mark.scenario("S-RUN-22")
async def test_offsets_of_one_that_somebody_resumed_are_set_once_it_is_stopped_again(
    worker: ConnectWorker, control: ConnectApplications, bootstrap: str, unique: str, tmp_path: Path
) -> None:
    """Connect refuses them as long as it runs."""
    topic, file = f"{unique}lines", tmp_path / "out.txt"
    make_topics(bootstrap, {topic: 2})
    write(bootstrap, topic, [(f"k{number}", str(number)) for number in range(6)], 2)
    worker.put_connector(f"{unique}out", {"connector.class": Connector.FILE_SINK, "file": str(file), "topics": topic})
    await until(lambda: file.exists() and len(file.read_text().split()) == 6, "the records go through")
    assert (await asked(control, wish(Desired.STOPPED, "out"))).state is ApplicationState.STOPPED
    noted = await control.sink_offsets("out")
    assert sum(noted.values()) == 6
    assert (await asked(control, wish(Desired.RUNNING, "out"))).state is ApplicationState.RUNNING
    with pytest.raises(ClusterProblem, match="STOPPED") as refused:
        await control.set_sink_offsets("out", dict.fromkeys(noted, 1))
    assert (refused.value.code, refused.value.retriable) == (Code.GROUP_NOT_EMPTY, True)
    unit = Unit("out", UnitKind.CONNECT, "main", f"{unique}out", (topic,), control=ControlKind.CONNECT)
    controls = UnitControls({"out": control}, (control,))
    access = {"main": ClientAccess(bootstrap)}
    steps = KafkaSteps(
        {"main": {"bootstrap.servers": bootstrap}}, access, lambda: {"out": unit}, controls, lambda: 0, controls
    )
    rows = tuple(OffsetUndo(t, p, at, 1 if p == 0 else 0, group=unit.consumer_group) for (t, p), at in noted.items())

    async def put(action: SetOffsets) -> StepReported:
        give_up_s = time.monotonic() + patient_s(60)
        for number in itertools.count(1):
            told = await steps.take(TakeStep("w1", "set", number, action, rows, since_ms=number))
            if told.outcome is not Outcome.NOT_YET or time.monotonic() > give_up_s:
                return told
            await asyncio.sleep(0.2)
        raise AssertionError

    assert (await put(SetOffsets("main", unit.consumer_group, connector="out"))).outcome is Outcome.DONE
    assert await control.sink_offsets("out") == {(topic, 0): 1, (topic, 1): 0}
    back = SetOffsets("main", unit.consumer_group, is_back=True, connector="out")
    assert (await put(back)).outcome is Outcome.DONE
    assert (await put(back)).outcome is Outcome.DONE, "harmless to do twice"
    assert await control.sink_offsets("out") == noted
    await steps.close()


async def test_a_connector_that_is_not_there_is_named(control: ConnectApplications, unique: str) -> None:
    report = await control.ask(wish(Desired.STOPPED, "lost"))
    assert (report.state, report.needs) == (ApplicationState.UNKNOWN, Needs.MENDING)
    assert report.why == f"Kafka Connect has no connector {unique}lost"
    with pytest.raises(NoConnector):
        await control.offsets("lost")


async def test_one_that_fails_is_told_by_the_name_of_its_error(
    worker: ConnectWorker, control: ConnectApplications, bootstrap: str, unique: str, tmp_path: Path
) -> None:
    make_topics(bootstrap, {f"{unique}lines": 1})
    config = {
        "connector.class": Connector.FILE_SINK,
        "file": str(tmp_path / "no" / "folder"),
        "topics": f"{unique}lines",
    }
    worker.put_connector(f"{unique}bad", config)
    await until(lambda: worker.states(f"{unique}bad")[1] == ["FAILED"], "its task fails")
    report = await control.look("bad")
    assert report.state is ApplicationState.CHANGING
    assert report.why == "the connector is RUNNING, of 1 task 0 is FAILED (ConnectException)"
    assert (await asked(control, wish(Desired.STOPPED, "bad"))).state is ApplicationState.STOPPED


@pytest.mark.scenario("S-RUN-4")
async def test_sinks_that_read_a_topic_are_told_whoever_made_them(
    worker: ConnectWorker, control: ConnectApplications, bootstrap: str, unique: str, tmp_path: Path
) -> None:
    topic = f"{unique}read"
    make_topics(bootstrap, {topic: 1})
    for name, topics in (
        ("named", {"topics": f"{unique}other,{topic}"}),
        ("fitting", {"topics.regex": f"{unique}re.*"}),
        ("apart", {"topics": f"{unique}other"}),
    ):
        config = {"connector.class": Connector.FILE_SINK, "file": str(tmp_path / name), **topics}
        worker.put_connector(f"{unique}{name}", config)
    source = {"connector.class": Connector.FILE_SOURCE, "file": str(tmp_path / "lines"), "topic": topic}
    worker.put_connector(f"{unique}writes", source)
    found, problems = await control.sinks_of({"in", "out"}, topic)
    assert (found, problems) == ((f"{unique}fitting", f"{unique}named"), ())
    assert await control.sinks_of((), topic) == ((), ())


async def test_workers_that_do_not_answer_are_a_problem_and_no_answer(unique: str) -> None:
    gone = ConnectApplications(
        [ConnectApplication("in", f"{unique}in", "http://127.0.0.1:1", None, None, 10**9)], lambda: 0
    )
    found, (problem,) = await gone.sinks_of({"in"}, "orders")
    assert (found, problem[:57]) == ((), "which sink connectors read orders is not told by Kafka Co")
    await gone.close()
