"""The plan of a reset on a real broker, for positions inside transactions and at unequal times."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest
from confluent_kafka import Producer

from tests.builders.history import Draft, create_topics, produce
from tests.e2e.clients import client, writer
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import BASE_MS
from tests.e2e.log_reader import await_markers, offsets
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.e2e]

EACH, FLUSH_S, DEADLINE_S = 20, 120.0, 120.0


@pytest.fixture(scope="module", autouse=True)
def daemon(stack: Stack) -> Iterator[DaemonProcess]:
    with stack.running() as leading:
        yield leading


@contextmanager
def transaction(bootstrap: str, topic: str, transactional_id: str) -> Iterator[Producer]:
    """Open, with records in it that are written already; whoever uses it ends it, or it is aborted."""
    producer = Producer({**client(bootstrap), "transactional.id": transactional_id, "transaction.timeout.ms": 900_000})
    producer.init_transactions(FLUSH_S)
    producer.begin_transaction()
    for number in range(EACH):
        produce(producer, topic, Draft(0, b"k", str(number).encode(), (), BASE_MS + number))
    assert producer.flush(FLUSH_S) == 0
    try:
        yield producer
    finally:
        producer.abort_transaction(FLUSH_S)
        await_markers(bootstrap, topic)


def plan(stack: Stack, run: str, topic: str, to: object) -> list[str]:
    data = {"reason": "r", "group": f"{topic}-app", "topics": [topic], "to": to, "dry_run": True}
    stack.control.command("reset", run, data)
    found: list[str] = stack.follower.wait_state(run, "planned")["plan"]["findings"]
    return [finding for finding in found if "the cluster has no group" not in finding and " moves: " not in finding]


def await_told(stack: Stack, run: str, topic: str, to: object, beginning: str) -> None:
    """The one finding of the plan begins so. It is planned again until then: a plan leaves out what it cannot learn in
    its time.
    """
    numbers, told = count(1), list[str]()

    def look() -> bool:
        told[:] = plan(stack, f"{run}-{next(numbers)}", topic, to)
        return bool(told)

    wait_for(look, DEADLINE_S)
    [finding] = told
    assert finding.startswith(beginning)


@pytest.mark.scenario("S-WIKI-2b")
def test_a_start_inside_an_open_or_aborted_transaction_is_pointed_out(bootstrap: str, stack: Stack) -> None:
    topic = f"{stack.mark}-transactions"
    create_topics(bootstrap, {topic: 1})
    with transaction(bootstrap, topic, f"{topic}-a"):
        await_told(stack, "open", topic, {"offset": 5}, f"{topic} 0: 5 lies behind an open transaction that began at 0")
    await_told(
        stack, "aborted", topic, {"offset": 5}, f"{topic} 0: 5 lies inside an aborted transaction that began at 0"
    )
    assert plan(stack, "beginning", topic, {"offset": 0}) == []
    assert plan(stack, "behind", topic, "latest") == []
    producer = writer(bootstrap, linger_ms=20)
    for number in range(EACH):
        produce(producer, topic, Draft(0, b"k", str(number).encode(), (), BASE_MS))
    assert producer.flush(FLUSH_S) == 0
    assert plan(stack, "plain", topic, {"offset": offsets(bootstrap, topic, end=True)[0] - 3}) == []


@pytest.mark.scenario("S-WIKI-2b")
def test_starts_at_unequal_times_are_pointed_out_and_a_time_is_none(bootstrap: str, stack: Stack) -> None:
    topic = f"{stack.mark}-unequal"
    create_topics(bootstrap, {topic: 2})
    producer = writer(bootstrap, linger_ms=20)
    for number in range(EACH):  # a record each second in one partition, each hour in the other
        for partition, step_ms in ((0, 1_000), (1, 3_600_000)):
            produce(producer, topic, Draft(partition, b"k", b"v", (), BASE_MS + number * step_ms))
    assert producer.flush(FLUSH_S) == 0
    beginning = f"partitions begin at unequal times, {topic} 0 at 2023-11-14T22:13:25.000Z and {topic} 1 at "
    await_told(stack, "numbers", topic, {"offset": 5}, beginning)
    assert plan(stack, "a-time", topic, "2023-11-14T22:13:25Z") == []
