"""What several tests of the sandbox need."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def signals_as_before() -> Iterator[None]:
    """For tests of what takes signals in this process."""
    before = {wanted: signal.getsignal(wanted) for wanted in (signal.SIGINT, signal.SIGTERM)}
    yield
    for wanted, handler in before.items():
        signal.signal(wanted, handler)
