"""Every suite of this folder runs twice: with adapters in memory, and with real ones and a broker."""

from collections.abc import Iterator

import pytest

from tests.contract.harness import Harness, KafkaHarness, MemoryHarness


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.broker)])
def harness(request: pytest.FixtureRequest, unique: str) -> Iterator[Harness]:
    made: Harness
    if request.param == "memory":
        made = MemoryHarness(unique)
    else:
        made = KafkaHarness(request.getfixturevalue("bootstrap"), unique)
    yield made
    made.close()


@pytest.fixture
def kafka(bootstrap: str, unique: str) -> Iterator[KafkaHarness]:
    """The real adapters, for tests of what only a real broker can show."""
    made = KafkaHarness(bootstrap, unique)
    yield made
    made.close()
