"""Fixtures of the fault tests: one stack per module, sources that several tests read, and cases with names of their
own.
"""

from collections.abc import Iterator

import pytest

from tests.e2e import conftest as end_to_end
from tests.e2e.case import Case, NewCase, observed_cases
from tests.e2e.data import fill_nasty, fill_plain
from tests.e2e.stack import Stack
from tests.e2e.supervisor import Supervisor

PARTITIONS = 4
RECORDS_EACH = 4_000
PAIR_RECORDS_EACH = 6_000

stack, daemon = end_to_end.stack, end_to_end.daemon


@pytest.fixture(scope="module")
def supervisor(stack: Stack) -> Iterator[Supervisor]:
    """Keeps a daemon running, which may exit when its broker is away."""
    with Supervisor(lambda: stack.daemon("kept", lead=False, settings={"faust": {"instance_id": "one"}})) as kept:
        kept.daemon.await_leader()
        yield kept


@pytest.fixture(scope="module")
def plain(stack: Stack) -> Iterator[str]:
    topic = f"{stack.mark}-plain"
    fill_plain(stack.bootstrap, topic, PARTITIONS, RECORDS_EACH)
    with stack.unchanged(topic):
        yield topic


@pytest.fixture(scope="module")
def nasty(stack: Stack) -> str:
    topic = f"{stack.mark}-nasty"
    fill_nasty(stack.bootstrap, topic, 1_000)
    return topic


@pytest.fixture
def new_case(stack: Stack, plain: str) -> Iterator[NewCase]:
    with observed_cases(stack, plain) as make:
        yield make


@pytest.fixture
def case(stack: Stack, new_case: NewCase, unique: str) -> Case:
    """A replay of two partitions that has begun to copy."""
    fill_plain(stack.bootstrap, f"{unique}source", 2, PAIR_RECORDS_EACH)
    made = new_case(f"{unique}source", observe=False)
    made.start()
    made.copying()
    return made
