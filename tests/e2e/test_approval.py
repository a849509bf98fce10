"""Plans that wait for approval, on real processes: of two approved plans into one topic only one runs, a plan whose
topics have changed does not start, no plan waits for ever.
"""

from collections.abc import Iterable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.builders.history import create_topics
from tests.e2e.asking import copied, fill_one_partition
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import fill_plain
from tests.e2e.log_reader import offsets
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e]

RECORDS_EACH = 300
_TIMEOUT_S = 120.0


@pytest.fixture(scope="module", autouse=True)
def daemon(stack: Stack) -> Iterator[DaemonProcess]:
    with stack.running(settings={"approval": {"above_records": 100}}) as leading:
        yield leading


@pytest.fixture(scope="module")
def source(stack: Stack) -> str:
    topic = f"{stack.mark}-approved"
    fill_plain(stack.bootstrap, topic, 2, RECORDS_EACH)
    return topic


def plan(stack: Stack, recovery: str, source: str, target: str) -> str:
    """Make a plan that waits for approval. Returns its hash."""
    stack.control.replay(recovery, source, target)
    return str(stack.follower.wait_state(recovery, "awaiting_approval")["plan"]["hash"])


def approve(stack: Stack, recovery: str, plan_hash: str) -> str:
    return stack.control.command("approve", recovery, {"plan_hash": plan_hash})


def started(stack: Stack, recovery: str) -> bool:
    return bool({"starting", "running"} & set(stack.follower.states(recovery)))


def completed(stack: Stack, names: Iterable[str]) -> str:
    """The first of these recoveries that is completed, or ""."""
    return next((n for n in names if (stack.follower.status(n) or {}).get("state") == "completed"), "")


def test_of_two_approved_replays_into_one_topic_one_runs_and_the_other_is_refused(stack: Stack, source: str) -> None:
    target = f"{source}-once"
    create_topics(stack.bootstrap, {target: 2})
    plans = {name: plan(stack, name, source, target) for name in ("one", "other")}
    for name, plan_hash in plans.items():
        approve(stack, name, plan_hash)
    winner = stack.follower.wait(lambda: completed(stack, plans), 90.0, "one of them to run")
    [loser] = plans.keys() - {winner}
    status = stack.follower.status(loser)
    assert status is not None
    if status["state"] == "awaiting_approval":  # its approval was refused while the other ran
        approve(stack, loser, plans[loser])
    refused = stack.follower.wait_state(loser, "rejected")
    assert refused["error_code"] in {"RCV-2005", "RCV-2007"}  # the target has records, or the other one writes there
    assert not started(stack, loser)
    assert copied(stack, target) == 2 * RECORDS_EACH
    assert stack.violations(winner, source, target) == []


def test_a_plan_gone_stale_before_it_was_approved_does_not_start(stack: Stack, source: str) -> None:
    wider, filled = f"{source}-wider", f"{source}-filled"
    create_topics(stack.bootstrap, {wider: 2, filled: 2})
    plans = {topic: plan(stack, f"into-{topic}", source, topic) for topic in (wider, filled)}
    client = AdminClient({"bootstrap.servers": stack.bootstrap})
    client.create_partitions([NewPartitions(wider, 3)])[wider].result(_TIMEOUT_S)
    wait_for(lambda: len(offsets(stack.bootstrap, wider, end=True)) == 3, 20)
    fill_one_partition(stack, filled, 0, 1)
    for topic, code, told in ((wider, "RCV-1012", "has 3 partitions, planned were 2"), (filled, "RCV-2005", "holds")):
        approve(stack, f"into-{topic}", plans[topic])
        refused = stack.follower.wait_state(f"into-{topic}", "rejected")
        assert refused["error_code"] == code
        assert told in refused["why"]
        assert not started(stack, f"into-{topic}")
    assert copied(stack, wider) == 0


def test_a_plan_that_nobody_approves_expires_and_cannot_be_approved_any_more(
    stack: Stack, source: str, daemon: DaemonProcess
) -> None:
    target = f"{source}-late"
    create_topics(stack.bootstrap, {target: 2})
    plan_hash = plan(stack, "late", source, target)
    daemon.terminate()
    with stack.running(name="b", settings={"approval": {"above_records": 100, "ttl": "1s"}}):
        expired = stack.follower.wait_state("late", "expired")
        assert expired["error_code"] == "RCV-1022"
        refusal = stack.follower.wait_answer(approve(stack, "late", plan_hash))
        assert (refusal["type"].split(".")[-2], refusal["data"]["code"]) == ("command_rejected", "RCV-1011")
    assert not started(stack, "late")
    assert copied(stack, target) == 0
