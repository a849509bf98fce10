"""Rows 28 and 29: brokers restarted one after the other, one gone for a minute, leaders moved, too few replicas. Nobody has to help afterwards."""

import time

import pytest

from sandbox.broker import Broker
from sandbox.cluster import Cluster
from tests.cluster.conftest import NewCase
from tests.cluster.replicas import await_whole, layout, move_leaders
from tests.e2e.asking import await_progress, lane_progress
from tests.e2e.history import check_copy, snapshot
from tests.e2e.log_reader import whole_log
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e, pytest.mark.timeout(280)]

GONE_S = 60.0  # the length of the fault itself
BELOW_S = 15.0


@pytest.fixture(autouse=True)
def whole_afterwards(cluster: Cluster, stack: Stack, source: str) -> None:
    yield
    for broker in cluster.brokers:
        broker.start()
    await_whole(stack.bootstrap, source)


def test_a_replay_on_three_secured_brokers_is_exact_and_its_target_is_replicated_like_the_source(
    stack: Stack, new_case: NewCase
) -> None:
    case = new_case()
    case.start(records_per_s=None)
    done = case.judge()
    assert done["attempt"] == 1
    replicas = {len(partition.replicas) for partition in layout(stack.bootstrap, case.target)}
    own = {
        len(p.replicas) for topic in (stack.receipts_topic, stack.control.topic) for p in layout(stack.bootstrap, topic)
    }
    assert (replicas, own) == ({3}, {3})


def test_row_28_brokers_restarted_one_after_the_other_do_not_disturb_a_replay(
    cluster: Cluster, stack: Stack, new_case: NewCase
) -> None:
    case = new_case()
    case.start(records_per_s=400)
    case.copying()
    for broker in cluster.brokers:
        broker.restart()
        await_whole(stack.bootstrap, case.source, case.target, stack.receipts_topic)
    done = case.finish()
    assert done["attempt"] == 1


def test_row_29_a_replay_goes_on_while_one_broker_is_gone_for_a_minute(
    cluster: Cluster, stack: Stack, new_case: NewCase
) -> None:
    case = new_case()
    case.start(records_per_s=150)
    case.copying()
    before = lane_progress(stack, case.recovery)[-1][1]
    gone: Broker = cluster.brokers[0]
    gone.kill()
    killed_s = time.monotonic()
    await_progress(stack, case.recovery, before + 1_500, GONE_S)
    time.sleep(max(0.0, killed_s + GONE_S - time.monotonic()))
    gone.start()
    done = case.finish()
    assert done["attempt"] == 1


def test_row_29_leaders_may_move_under_a_replay(stack: Stack, new_case: NewCase) -> None:
    case = new_case()
    case.start(records_per_s=1_000)
    case.copying()
    for topic in (case.source, case.target, stack.receipts_topic):
        move_leaders(stack.bootstrap, topic)
    done = case.finish()
    assert done["attempt"] == 1


def test_row_29_below_min_isr_a_replay_waits_and_goes_on(cluster: Cluster, stack: Stack, new_case: NewCase) -> None:
    case = new_case()
    case.start(records_per_s=600)
    case.copying()
    first, second = cluster.brokers[1:]
    first.kill()
    second.kill()
    time.sleep(BELOW_S)
    first.start()
    second.start()
    await_whole(stack.bootstrap, case.source, case.target, stack.receipts_topic)
    case.finish()


def test_a_replay_from_the_secured_cluster_to_a_plain_one_gets_that_ones_replicas(
    stack: Stack, bootstrap: str, source: str
) -> None:
    target = f"{stack.mark}-elsewhere"
    stack.control.replay("elsewhere", source, target, target_cluster="plain", target_create=True)
    done = stack.completed("elsewhere", 120)
    assert done["verification"]["result"] == "match"
    found = check_copy(
        bootstrap, source, target, stack.receipts_topic, "elsewhere", whole_log(stack.bootstrap, source),
        status=done, source_was=snapshot(stack.bootstrap, source),
    )  # fmt: skip
    assert found == []
    assert {len(partition.replicas) for partition in layout(bootstrap, target)} == {1}
