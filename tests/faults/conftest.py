"""Fixtures of the fault tests: one stack per module, sources that several tests read, and cases with names of their own."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.case import Case
from tests.e2e.data import fill_nasty, fill_plain
from tests.e2e.observer import TargetObserver
from tests.e2e.stack import Stack

PARTITIONS = 4
RECORDS_EACH = 4_000

NewCase = Callable[..., Case]

_numbers = itertools.count(1)


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
    """Makes cases with a reader on each target; the plain source unless the test names another."""
    observers: list[TargetObserver] = []

    def make(source: str = plain, *, observe: bool = True) -> Case:
        number = next(_numbers)
        case = Case(stack, f"f{number}", source, f"{stack.mark}-copy{number}")
        if observe:
            case.observer = TargetObserver(stack.bootstrap, case.target)
            observers.append(case.observer)
            case.observer.__enter__()
        return case

    yield make
    for observer in observers:
        observer.close()
