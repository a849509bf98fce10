"""Kafka Connect does what recoveries of connectors build on: it carries files through topics, keeps its offsets over
a kill, and lets them be changed while a connector is stopped.
"""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from recoveryd_sandbox.connect_worker import Connector, ConnectWorker
from tests.e2e.processes import wait_for
from tests.streams.connecting import answer
from tests.streams.data import make_topics, values

pytestmark = pytest.mark.broker

_PASSES_S = 10.0


def put_source(worker: ConnectWorker, unique: str, source: Path) -> None:
    """A connector that reads the lines of `source` into a topic."""
    config = {"connector.class": Connector.FILE_SOURCE, "file": str(source), "topic": f"{unique}lines"}
    worker.put_connector(f"{unique}in", config)


def put_sink(worker: ConnectWorker, unique: str, sink: Path) -> None:
    """A connector that writes that topic into `sink`."""
    config = {"connector.class": Connector.FILE_SINK, "file": str(sink), "topics": f"{unique}lines"}
    worker.put_connector(f"{unique}out", config)


def await_lines(worker: ConnectWorker, unique: str, sink: Path, wanted: str) -> None:
    def told() -> str:
        states = worker.states(f"{unique}in"), worker.states(f"{unique}out")
        return f"{states}, {sink.read_text() if sink.exists() else None!r}, {worker.log_tail(1_000)}"

    wait_for(lambda: sink.exists() and sink.read_text() == wanted, _PASSES_S, told)


def await_position(worker: ConnectWorker, connector: str, position: int) -> None:
    """Until the connector has committed this position in its file."""

    def positions() -> list[int]:
        status, answer = worker.request("GET", f"/connectors/{connector}/offsets")
        return [row["offset"]["position"] for row in answer["offsets"]] if status == 200 else []

    wait_for(lambda: positions() == [position], _PASSES_S, lambda: str(positions()))


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(
            None,
            marks=pytest.mark.wide("tests/streams/test_connect_worker.py::test_a_killed_worker_goes_on_where_it_was"),
        ),
        "workers",
    ],
    ids=["standalone", "distributed"],
)
def test_a_killed_worker_goes_on_where_it_was(
    bootstrap: str, unique: str, tmp_path: Path, connect_worker: Callable[..., ConnectWorker], group: str | None
) -> None:
    source = tmp_path / "in.txt"
    make_topics(bootstrap, {f"{unique}lines": 1})
    source.write_text("a\nb\n")
    worker = connect_worker(group and unique + group)
    put_source(worker, unique, source)
    await_position(worker, f"{unique}in", 4)
    worker.kill()
    assert worker.await_end() == -signal.SIGKILL
    source.write_text("a\nb\nc\n")
    worker.start()
    if group is None:  # its connectors are not kept, only their offsets
        put_source(worker, unique, source)
    await_position(worker, f"{unique}in", 6)
    assert [line for _, line in values(bootstrap, f"{unique}lines")] == ["a", "b", "c"]
    assert worker.stop() == 128 + signal.SIGTERM


@pytest.mark.wide("tests/control/test_connect_worker.py::test_a_pair_of_connectors_is_stopped_taken_back_and_started")
def test_a_stopped_connector_lets_its_offsets_be_taken_back(
    bootstrap: str, unique: str, tmp_path: Path, connect_worker: Callable[..., ConnectWorker]
) -> None:
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    make_topics(bootstrap, {f"{unique}lines": 1})
    source.write_text("a\nb\n")
    worker = connect_worker(f"{unique}workers")
    put_source(worker, unique, source)
    put_sink(worker, unique, sink)
    await_lines(worker, unique, sink, "a\nb\n")
    await_position(worker, f"{unique}in", 4)
    for connector in (f"{unique}in", f"{unique}out"):
        path = f"/connectors/{connector}"
        status, refused = answer(worker, "DELETE", f"{path}/offsets")
        assert (status, "STOPPED" in refused["message"]) == (400, True)
        worker.change("PUT", f"{path}/stop")
        wait_for(lambda name=connector: worker.states(name) == ("STOPPED", []), _PASSES_S)
    file = {"filename": str(source)}
    worker.change(
        "PATCH", f"/connectors/{unique}in/offsets", {"offsets": [{"partition": file, "offset": {"position": 2}}]}
    )
    worker.change("DELETE", f"/connectors/{unique}out/offsets")
    for connector in (f"{unique}in", f"{unique}out"):
        worker.change("PUT", f"/connectors/{connector}/resume")
    await_lines(worker, unique, sink, "a\nb\na\nb\nb\n")
