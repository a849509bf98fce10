"""`control: connect` against a real worker of Kafka Connect: stopped, its offsets changed, and started again."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from recoveryd.adapters.control.connect import ConnectApplication, ConnectApplications
from recoveryd.adapters.control.connect_api import ConnectorOffset, NoConnector
from recoveryd.adapters.http.asking import HttpRefusal
from recoveryd.units.control import ApplicationState, Desired, Needs
from recoveryd_sandbox.connect_worker import Connector, ConnectWorker
from tests.control.asking import asked, until, wish
from tests.streams.data import make_topics

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
            await control.forget_offsets(unit)
        assert (await asked(control, wish(Desired.STOPPED, unit))).state is ApplicationState.STOPPED
        assert (await asked(control, wish(Desired.STOPPED, unit))).state is ApplicationState.STOPPED
    file = {"filename": str(source)}
    assert await control.offsets("in") == (ConnectorOffset(file, {"position": 4}),)
    partition = {"kafka_topic": topic, "kafka_partition": 0}
    assert await control.offsets("out") == (ConnectorOffset(partition, {"kafka_offset": 2}),)
    await control.set_offsets("in", [ConnectorOffset(file, {"position": 2})])
    assert await control.offsets("in") == (ConnectorOffset(file, {"position": 2}),)
    await control.set_offsets("out", [ConnectorOffset(partition, {"kafka_offset": 1})])
    assert await control.offsets("out") == (ConnectorOffset(partition, {"kafka_offset": 1}),)
    await control.forget_offsets("out")
    assert await control.offsets("out") == ()
    for unit in ("in", "out"):
        assert (await asked(control, wish(Desired.RUNNING, unit))).state is ApplicationState.RUNNING
    await until(lambda: sink.read_text() == "a\nb\na\nb\nb\n", "what was taken back is done again")


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
