"""Fixtures of the container suite: an engine, a network, Kafka in a container, the product's image. All go at the end.

Without an engine, and without leave to install one, every test that asks for it is skipped with the reason.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from testcontainers.core.config import ConnectionMode, testcontainers_config
from testcontainers.core.network import Network

from containers import docker_engine, images, registry, steps
from containers.kafka_container import KafkaContainer


@pytest.fixture(scope="session")
def engine() -> Iterator[str]:
    """`DOCKER_HOST` of the engine the suite uses, "" for the usual one. The environment names it while the suite runs."""
    with ExitStack() as stack:
        try:
            with steps.timed("engine"):
                host = stack.enter_context(docker_engine.running_engine())
        except docker_engine.EngineUnavailable as reason:
            pytest.skip(str(reason))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        if host is not None:
            patch.setenv("DOCKER_HOST", host)
            patch.setattr(testcontainers_config, "connection_mode_override", ConnectionMode.docker_host)
            patch.setattr(testcontainers_config, "tc_host_override", "127.0.0.1")
        if not registry.can_pull(testcontainers_config.ryuk_image):
            patch.setattr(testcontainers_config, "_ryuk_disabled", True)
        yield host or ""


@pytest.fixture(scope="session")
def suite_images(engine: str) -> Iterator[images.Images]:
    try:
        obtained = images.obtain()
    except docker_engine.EngineUnavailable as reason:
        pytest.skip(str(reason))
    yield obtained
    registry.remove(list(obtained.made))


@pytest.fixture(scope="session")
def network(engine: str) -> Iterator[Network]:
    with Network() as made:
        yield made


@pytest.fixture(scope="session")
def kafka(suite_images: images.Images, network: Network) -> Iterator[KafkaContainer]:
    """One broker for the suite."""
    with steps.timed("Kafka's start"):
        container = KafkaContainer(suite_images.kafka, network).start()
    try:
        yield container
    finally:
        container.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if steps.taken_s:
        terminalreporter.write_line(f"containers: {steps.summary()}")
