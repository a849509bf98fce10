"""Fixtures of the container suite: an engine, a network, Kafka in a container, the product's image. All go at the end.

Without an engine, and without leave to install one, every test that asks for it is skipped with the reason; with that
leave it fails.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from testcontainers.core.config import ConnectionMode, testcontainers_config
from testcontainers.core.network import Network

from tests.containers import docker_engine, images, registry, steps
from tests.containers.kafka_container import KafkaContainer
from tests.e2e.conftest import daemon, nasty, plain, stack  # noqa: F401  (fixtures: the same stack on another broker)
from tests.e2e.log_reader import forget_clients


@pytest.fixture(scope="package")
def engine() -> Iterator[str]:
    """`DOCKER_HOST` of the engine that the suite uses, "" for the usual one. It is set in the environment while the
    suite runs.
    """
    with ExitStack() as opened:
        try:
            with steps.timed("engine"):
                host = opened.enter_context(docker_engine.running_engine())
        except docker_engine.EngineUnavailable as reason:
            docker_engine.do_without(reason)
        patch = opened.enter_context(pytest.MonkeyPatch.context())
        if host is not None:
            patch.setenv("DOCKER_HOST", host)
            patch.setattr(testcontainers_config, "connection_mode_override", ConnectionMode.docker_host)
            patch.setattr(testcontainers_config, "tc_host_override", "127.0.0.1")
        if not registry.can_pull(testcontainers_config.ryuk_image):
            patch.setattr(testcontainers_config, "_ryuk_disabled", True)
        yield host or ""


@pytest.fixture(scope="package")
def suite_images(engine: str) -> Iterator[images.Images]:
    try:
        obtained = images.obtain()
    except docker_engine.EngineUnavailable as reason:
        docker_engine.do_without(reason)
    yield obtained
    registry.remove(list(obtained.made))


@pytest.fixture(scope="package")
def network(engine: str) -> Iterator[Network]:
    with Network() as made:
        yield made


@pytest.fixture(scope="package")
def kafka(suite_images: images.Images, network: Network) -> Iterator[KafkaContainer]:
    """One broker for the suite."""
    with ExitStack() as opened:
        with steps.timed("Kafka's start"):
            container = opened.enter_context(KafkaContainer(suite_images.kafka, network))
        yield container


@pytest.fixture(scope="package")
def bootstrap(kafka: KafkaContainer) -> Iterator[str]:
    """In this folder, every fixture that asks for a broker gets the one in the container."""
    yield kafka.bootstrap
    forget_clients()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if steps.taken_s:
        terminalreporter.write_line(f"containers: {steps.summary()}")
