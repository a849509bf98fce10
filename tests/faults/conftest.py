"""Fixtures of the fault tests: one stack per module, sources that several tests read, and cases with names of their own."""

from collections.abc import Iterator

import pytest

from tests.e2e.case import NewCase, observed_cases
from tests.e2e.data import fill_nasty, fill_plain
from tests.e2e.stack import Stack

PARTITIONS = 4
RECORDS_EACH = 4_000


@pytest.fixture(scope="module")
def stack(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(bootstrap, tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.fixture(scope="module")
def plain(stack: Stack) -> str:
    topic = f"{stack.mark}-plain"
    fill_plain(stack.bootstrap, topic, PARTITIONS, RECORDS_EACH)
    return topic


@pytest.fixture(scope="module")
def nasty(stack: Stack) -> str:
    topic = f"{stack.mark}-nasty"
    fill_nasty(stack.bootstrap, topic, 1_000)
    return topic


@pytest.fixture
def new_case(stack: Stack, plain: str) -> Iterator[NewCase]:
    with observed_cases(stack, plain) as make:
        yield make
