"""Real applications for tests: Kafka Streams with real state directories, a Connect worker, Kafka's own tools.

`streams_app` and `connect_worker` start what they are asked for and end it with the module, so that several tests can
share one Java process. Any test may use them; tests/conftest.py makes them known.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from recoveryd_sandbox.connect_worker import ConnectWorker
from recoveryd_sandbox.kafka_tools import Told, Tool, run_tool
from recoveryd_sandbox.streams_app import AppSpec, StreamsApp
from tests.streams.places import SOURCES


@pytest.fixture(scope="module")
def module_unique() -> str:
    """As `unique`, for what the tests of a module share."""
    return f"m{uuid.uuid4().hex[:8]}-"


@pytest.fixture(scope="module")
def streams_app(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[AppSpec], StreamsApp]]:
    """`streams_app(spec)`: a running application."""
    with ExitStack() as running:

        def begin(spec: AppSpec) -> StreamsApp:
            return running.enter_context(StreamsApp(tmp_path_factory.mktemp("app"), bootstrap, spec, SOURCES))

        yield begin


@pytest.fixture(scope="module")
def connect_worker(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., ConnectWorker]]:
    """`connect_worker(group=None, settings={})`: a running worker."""
    with ExitStack() as running:

        def begin(*args: Any, **named: Any) -> ConnectWorker:
            return running.enter_context(ConnectWorker(tmp_path_factory.mktemp("connect"), bootstrap, *args, **named))

        yield begin


@pytest.fixture
def kafka_tool(bootstrap: str, tmp_path: Path) -> Callable[..., Told]:
    """`kafka_tool(Tool.CONSUMER_GROUPS, "--list")`."""

    def run(tool: Tool, *arguments: str) -> Told:
        return run_tool(tool, bootstrap, tmp_path / "tools", *arguments)

    return run
