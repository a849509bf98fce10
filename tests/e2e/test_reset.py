"""`reset` and `rollback` on a real broker: groups of others set to a position, read back, and put back, by commands on
the control topic.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from recoveryd.adapters.kafka.topic_admin import describe
from tests.builders.history import create_topics
from tests.e2e.committing_group import BEFORE, EACH, PARTITIONS, Group, at
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import BASE_MS, fill_plain
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.e2e]

UNIT = {"kind": "group", "group": "owned", "inputs": ["reset-owned"], "approvers": ["//ops/kim"]}


@pytest.fixture(scope="module")
def stack(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(bootstrap, tmp_path_factory.mktemp("stack"), {"units": {"owned": UNIT}}) as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def daemon(stack: Stack) -> Iterator[DaemonProcess]:
    with stack.running() as leading:
        yield leading


@pytest.fixture
def group(bootstrap: str, stack: Stack) -> Group:
    return Group(bootstrap, stack)


@pytest.mark.scenario("S-RUN-27")
@pytest.mark.parametrize(
    ("to", "offset"),
    [
        ("earliest", 0),
        ("latest", EACH),
        ({"offset": 7}, 7),
        ({"shift": -20}, 30),
        ("2023-11-14T22:13:30Z", 10),  # ten seconds after the first record
    ],
)
def test_a_group_is_set_read_back_and_put_back_with_its_metadata(group: Group, to: Any, offset: int) -> None:
    assert BASE_MS == 1_700_000_000_000
    run = f"{group.id}-run"
    group.reset(run, to)
    status = group.done(run)
    assert group.committed() == at(offset)
    assert [(s["name"], s["state"]) for s in status["steps"]] == [
        ("await_empty", "done"), ("snapshot", "done"), ("set_offsets", "done"),
    ]  # fmt: skip
    assert {(c["partition"], c["from"], c["to"]) for c in status["plan"]["changes"]} == {
        (p, 50, offset) for p in range(PARTITIONS)
    }
    group.rolled_back(run)
    assert group.committed() == BEFORE


@pytest.mark.scenario("S-WIKI-1e")
def test_a_group_with_a_member_is_waited_for_and_never_thrown_out(group: Group) -> None:
    run = f"{group.id}-run"
    static = {"group.instance.id": "s1", "session.timeout.ms": "20000"}  # it stays a member for so long after it closed
    member = group.consumer(**{"client.id": "busy", "enable.auto.commit": "false", **static})
    member.subscribe([group.topic])
    wait_for(lambda: (member.poll(0.2), member.assignment())[1], 60.0)
    group.reset(run, "earliest")
    status = group.stack.follower.wait_state(run, "waiting")
    assert (status["waiting_for"]["kind"], status["waiting_for"]["step"]) == ("group_empty", "await_empty")
    assert status["waiting_for"]["members"] == ["busy on 127.0.0.1, static s1"]
    assert group.committed() == BEFORE
    member.unsubscribe()
    member.close()
    group.becomes(run, "completed")
    assert group.committed() == at(0)


@pytest.mark.scenario("S-WIKI-2b")
@pytest.mark.parametrize(
    ("to", "more", "code"),
    [
        ({"offset": 101}, {}, "RCV-2003"),
        ({"shift": 51}, {}, "RCV-2003"),
        ("2033-01-01T00:00:00Z", {}, "RCV-2003"),
        ("earliest", {"topics": ["no-such-topic"]}, "RCV-2001"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_changed(
    group: Group, to: Any, more: dict[str, Any], code: str
) -> None:
    command = group.reset(f"{group.id}-run", to, **more)
    answer = group.stack.follower.wait_answer(command)
    assert (answer["type"].split(".")[3], answer["data"]["code"]) == ("command_rejected", code)
    assert group.committed() == BEFORE


@pytest.mark.scenario("S-WIKI-2b")
def test_on_request_a_position_outside_is_clamped_and_a_time_beyond_is_the_end(group: Group) -> None:
    group.reset(f"{group.id}-a", {"offset": 101}, on_out_of_range="clamp")
    assert "set to 100" in group.done(f"{group.id}-a")["plan"]["findings"][0]
    group.reset(f"{group.id}-b", "2033-01-01T00:00:00Z", on_no_record="at_end")
    group.done(f"{group.id}-b")
    assert group.committed() == at(EACH)


def test_a_dry_run_changes_nothing_and_its_hash_runs_the_same_plan(group: Group) -> None:
    group.reset(f"{group.id}-dry", "earliest", dry_run=True)
    plan = group.stack.follower.wait_state(f"{group.id}-dry", "planned")["plan"]
    assert group.committed() == BEFORE
    group.reset(f"{group.id}-run", "earliest", plan_hash=plan["hash"])
    group.done(f"{group.id}-run")
    assert group.committed() == at(0)


def test_where_nothing_was_committed_a_rollback_takes_the_commits_away(bootstrap: str, stack: Stack) -> None:
    topic = f"{stack.mark}-bare"
    create_topics(bootstrap, {topic: PARTITIONS})
    group = Group(bootstrap, stack)
    group.topic, group.group = topic, f"{stack.mark}-new"
    group.reset("bare", "earliest")
    group.done("bare")
    assert group.committed() == at(0)
    group.rolled_back("bare")
    assert group.committed() == {}


def test_what_somebody_else_set_since_stays_on_the_way_back(group: Group) -> None:
    run = f"{group.id}-run"
    group.reset(run, "earliest")
    group.done(run)
    group.commit(TopicPartition(group.topic, 1, 5))
    status = group.rolled_back(run)
    assert group.committed() == {**BEFORE, 1: (5, "", None)}
    assert [u["state"] for u in status["undo"]] == ["done", "kept", "done"]


def refused(group: Group, command: str) -> tuple[str, str]:
    answer = group.stack.follower.wait_answer(command)
    assert answer["type"].split(".")[3] == "command_rejected"
    return answer["data"]["code"], answer["data"]["message"]


def test_what_is_rolled_back_is_not_rolled_back_again(group: Group) -> None:
    run = f"{group.id}-run"
    group.reset(run, "earliest")
    group.done(run)
    group.rolled_back(run)
    code, message = refused(group, group.roll_back(run))
    assert (code, message) == ("RCV-1011", f"rollback is not possible while {run} is rolled_back")
    assert group.committed() == BEFORE


def test_while_one_waits_another_on_its_group_is_refused_and_a_topic_created_again_ends_it(group: Group) -> None:
    run = f"{group.id}-run"
    member = group.consumer(**{"enable.auto.commit": "false"})
    member.subscribe([group.topic])
    wait_for(lambda: (member.poll(0.2), member.assignment())[1], 60.0)
    group.reset(run, {"offset": 7})
    group.stack.follower.wait_state(run, "waiting")
    code, message = refused(group, group.reset(f"{group.id}-second", "latest"))
    assert code == "RCV-1044"
    assert run in message
    admin = AdminClient({"bootstrap.servers": group.bootstrap})
    admin.delete_topics([group.topic])[group.topic].result(60.0)
    wait_for(lambda: describe(admin, [group.topic], 60.0)[group.topic] is None, 60.0)
    fill_plain(group.bootstrap, group.topic, PARTITIONS, EACH)
    member.unsubscribe()
    member.close()
    ended = group.becomes(run, "failed")
    assert ended["error_code"] == "RCV-3002"
    assert group.topic in ended["why"]
    wait_for(lambda: group.committed() == {}, 60.0)  # the commits went with the old topic, and nobody made others


@pytest.mark.scenario("S-RUN-5d", "S-RUN-27")
def test_an_approver_who_did_not_ask_lets_it_run(bootstrap: str, stack: Stack) -> None:
    fill_plain(bootstrap, "reset-owned", PARTITIONS, EACH)
    stack.control.command("reset", "owned", {"reason": "r", "unit": "owned", "to": "latest"})
    plan = stack.follower.wait_state("owned", "awaiting_approval")["plan"]
    refused = stack.control.command("approve", "owned", {"reason": "r", "plan_hash": plan["hash"]})
    assert stack.follower.wait_answer(refused)["data"]["code"] == "RCV-1043"
    stack.control.command("approve", "owned", {"reason": "r", "plan_hash": plan["hash"]}, source="//ops/kim")
    stack.follower.wait_state("owned", "completed")
