"""Real applications for tests: Kafka Streams with real state directories.

`streams_app` starts what it is asked for and ends it with the module, so that several tests can share one Java process.
Any test may use it; tests/conftest.py makes it known.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

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
