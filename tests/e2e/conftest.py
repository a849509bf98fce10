"""Fixtures of the end-to-end tests: one stack with one leading daemon per module, and source topics that several tests
read.
"""

from collections.abc import Iterator

import pytest

from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import fill_nasty, fill_plain
from tests.e2e.stack import Stack

PLAIN_PARTITIONS = 4
PLAIN_RECORDS_EACH = 5_000


@pytest.fixture(scope="module")
def stack(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(bootstrap, tmp_path_factory.mktemp("stack")) as made:
        yield made


@pytest.fixture(scope="module")
def daemon(stack: Stack) -> Iterator[DaemonProcess]:
    """A daemon that leads, and that leaves cleanly at the end. Without a spare driver, of which one would be started
    for nothing.
    """
    with stack.running() as leading:
        yield leading


@pytest.fixture(scope="module")
def plain(stack: Stack) -> Iterator[str]:
    """A topic of 4 partitions with 5,000 records of 100 bytes each, one second apart from `data.BASE_MS` on. No test
    changes it.
    """
    topic = f"{stack.prefix}plain".replace(".", "-")
    fill_plain(stack.bootstrap, topic, PLAIN_PARTITIONS, PLAIN_RECORDS_EACH)
    with stack.unchanged(topic):
        yield topic


@pytest.fixture(scope="module")
def nasty(stack: Stack) -> str:
    """A topic with everything a copy may stumble over; see `data.fill_nasty`."""
    topic = f"{stack.prefix}nasty".replace(".", "-")
    fill_nasty(stack.bootstrap, topic)
    return topic
