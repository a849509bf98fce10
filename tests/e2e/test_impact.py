"""Who reads the target of a copy, on a real broker: two groups and a sink that the config declares."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.builders.history import create_topics
from tests.e2e.clients import client, commit
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import fill_plain
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

SOURCE, TARGET, BILLING, REPORTS = "impact-source", "impact-target", "impact-billing", "impact-reports"
UNITS = {
    "billing": {
        "kind": "group", "group": BILLING, "inputs": [TARGET], "owner": "ann",
        "outputs": {"impact-bills": {"behaviour": "idempotent"}},
    },
    "board": {"kind": "connect", "group": "impact-board", "inputs": [TARGET], "sink_behaviour": "append_only"},
}  # fmt: skip


@pytest.fixture(scope="module")
def stack(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(bootstrap, tmp_path_factory.mktemp("stack"), {"units": UNITS}) as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def daemon(stack: Stack) -> Iterator[DaemonProcess]:
    with stack.running() as leading:
        yield leading


@pytest.mark.scenario("S-RUN-4")
def test_all_who_read_the_target_are_in_the_plan_and_an_undeclared_one_has_to_be_approved(
    bootstrap: str, stack: Stack
) -> None:
    fill_plain(bootstrap, SOURCE, 2, 50)
    create_topics(bootstrap, {TARGET: 2})
    billing = Consumer({**client(bootstrap), "group.id": BILLING})
    commit(billing, [TopicPartition(TARGET, p, 0) for p in range(2)])
    billing.close()
    assigned: list[bool] = []
    reports = Consumer({**client(bootstrap), "group.id": REPORTS})  # has members, and no offsets
    reports.subscribe([TARGET], on_assign=lambda *_: assigned.append(True))
    try:
        stack.follower.wait(lambda: reports.poll(0.1) is None and bool(assigned), 120.0, "it is a member")
        stack.control.replay("impact", SOURCE, TARGET, target_on_existing="append")
        status = stack.follower.wait_state("impact", "awaiting_approval")
    finally:
        reports.close()
    rows = [(row["kind"], row["name"], row["unit"], row["behaviour"]) for row in status["plan"]["impact"]]
    assert rows == [
        ("group", REPORTS, None, "unknown"),
        ("group", BILLING, "billing", "idempotent"),
        ("sink", "impact-board", "board", "append_only"),
    ]
    assert f"group {REPORTS}" in status["why"]
    stack.control.command("approve", "impact", {"reason": "seen", "plan_hash": status["plan"]["hash"]})
    stack.completed("impact")
    assert stack.violations("impact", SOURCE, TARGET) == []
