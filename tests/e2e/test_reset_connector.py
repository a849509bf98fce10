"""Offsets of a real sink connector, changed by workflows: Kafka Connect stops it, sets them and resumes it, without a
person.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from recoveryd_sandbox.connect_worker import Connector, ConnectWorker
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack
from tests.e2e.steps_of_workflows import becomes, step_of
from tests.streams.connecting import answer
from tests.streams.data import make_topics, write

pytestmark = [pytest.mark.broker, pytest.mark.e2e]


class Sink:
    """A connector that appends what it reads of `topic` to a file."""

    def __init__(self, worker: ConnectWorker, name: str, folder: Path, bootstrap: str) -> None:
        self.worker, self.name, self.topic, self.file = worker, name, f"{name}-lines", folder / "lines.txt"
        make_topics(bootstrap, {self.topic: 1})
        write(bootstrap, self.topic, [("k", "a"), ("k", "b"), ("k", "c")], 1)
        config = {
            "connector.class": Connector.FILE_SINK,
            "file": str(self.file),
            "topics": self.topic,
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        }
        worker.put_connector(name, config)

    @property
    def unit(self) -> dict[str, Any]:
        control = {"kind": "connect", "url": self.worker.url}
        return {"kind": "connect", "group": self.name, "inputs": [self.topic], "control": control}

    def await_lines(self, text: str) -> None:
        def lines() -> str:
            return self.file.read_text() if self.file.exists() else ""

        wait_for(lambda: "".join(lines().split()) == text, 60.0, lambda: f"wanted {text}, have {lines()!r}")

    def offset(self) -> int | None:
        """As Connect tells it."""
        _, told = answer(self.worker, "GET", f"/connectors/{self.name}/offsets")
        return next((int(row["offset"]["kafka_offset"]) for row in told["offsets"]), None)

    def await_offset(self, wanted: int) -> None:
        wait_for(lambda: self.offset() == wanted, 120.0, lambda: f"wanted {wanted}, have {self.offset()}")

    def state(self) -> str:
        return str(self.worker.states(self.name)[0])


@pytest.fixture(scope="module")
def sink(
    bootstrap: str,
    module_unique: str,
    connect_worker: Callable[..., ConnectWorker],
    tmp_path_factory: pytest.TempPathFactory,
) -> Sink:
    # Offsets are committed often, so that what was read is soon what a plan sees.
    worker = connect_worker(f"{module_unique}workers", {"offset.flush.interval.ms": "500"})
    return Sink(worker, f"{module_unique}files", tmp_path_factory.mktemp("sink"), bootstrap)


@pytest.fixture(scope="module")
def stack(bootstrap: str, sink: Sink, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(bootstrap, tmp_path_factory.mktemp("stack"), {"units": {"files": sink.unit}}) as made:
        made.daemon()
        yield made


@pytest.mark.scenario("S-RUN-22")
def test_a_connector_is_stopped_set_read_back_and_resumed_and_a_rollback_puts_it_back(stack: Stack, sink: Sink) -> None:
    sink.await_lines("abc")
    sink.await_offset(3)
    data = {"reason": "b and c again", "unit": "files", "to": {"offsets": {sink.topic: {"0": 1}}}}
    stack.control.command("reset", "again", data)
    done = becomes(stack, "again", "completed")
    assert [(c["from"], c["to"]) for c in done["plan"]["changes"]] == [(3, 1)]
    assert "were read back" in step_of(stack, "again", "set_offsets")["why"]
    assert any("Kafka Connect stops the connector" in finding for finding in done["plan"]["findings"])
    sink.await_lines("abcbc")
    sink.await_offset(3)
    assert sink.state() == "RUNNING"

    # What was noted is put back although it reads on: it is stopped once more for that.
    stack.control.command("reset", "first", {"reason": "all", "unit": "files", "to": "earliest"})
    becomes(stack, "first", "completed")
    sink.await_lines("abcbcabc")
    sink.await_offset(3)
    stack.control.command("rollback", "first", {"reason": "not wanted"})
    back = becomes(stack, "first", "rolled_back")
    assert sink.offset() == 3
    assert sink.state() == "RUNNING"
    assert {row["state"] for row in back["undo"]} <= {"done", "kept"}


@pytest.mark.scenario("S-RUN-22")
def test_a_connector_processes_all_of_its_input_again(stack: Stack, sink: Sink) -> None:
    """Connect refuses to change offsets of a connector that is not stopped."""
    before = sink.file.read_text()
    sink.await_offset(3)
    status, told = answer(sink.worker, "DELETE", f"/connectors/{sink.name}/offsets")
    assert status == 400
    assert "STOPPED" in json.dumps(told)
    stack.control.command("reprocess", "whole", {"reason": "all", "unit": "files", "from": "earliest", "outputs": {}})
    becomes(stack, "whole", "completed")
    sink.await_lines("".join(before.split()) + "abc")
    assert sink.state() == "RUNNING"
