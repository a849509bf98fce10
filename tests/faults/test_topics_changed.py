"""Rows 12 to 15: source or target is deleted, made again, given partitions, or loses records while a copy runs. Exact to what was covered, or failed by name."""

from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.builders.history import create_topics
from tests.e2e.asking import positions
from tests.e2e.case import Case
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import fill_plain
from tests.e2e.follower import Document
from tests.e2e.log_reader import read_log
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack
from tests.faults.conftest import NewCase

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e, pytest.mark.faults, pytest.mark.timeout(180)]

RECORDS = 6_000
_TIMEOUT_S = 20.0


@pytest.fixture(scope="module", autouse=True)
def daemon(stack: Stack) -> Iterator[DaemonProcess]:
    with stack.running(settings={"profiles": {"default": {"warm": 1}}}) as leading:
        yield leading


@pytest.fixture
def case(stack: Stack, new_case: NewCase, unique: str) -> Case:
    """A copy of two partitions that has begun."""
    fill_plain(stack.bootstrap, f"{unique}source", 2, RECORDS)
    made = new_case(f"{unique}source", observe=False)
    made.start()
    made.copying()
    return made


def admin(stack: Stack) -> AdminClient:
    return AdminClient({"bootstrap.servers": stack.bootstrap})


def delete(stack: Stack, topic: str) -> None:
    client = admin(stack)  # must outlive its futures
    client.delete_topics([topic])[topic].result(_TIMEOUT_S)
    wait_for(lambda: topic not in client.list_topics(timeout=10).topics, 20, lambda: f"{topic} is still there")


def outcome(failed: Document) -> tuple[str, str]:
    return failed["error_code"], failed["stop"]["reason"]


def test_row_12_a_deleted_source_fails_the_recovery_by_name(stack: Stack, case: Case) -> None:
    delete(stack, case.source)
    failed = case.failed()
    assert outcome(failed) == ("RCV-3003", "source_unavailable")
    assert adds_up(failed)


@pytest.mark.parametrize("records", [100, 2 * RECORDS], ids=["shorter than before", "longer than before"])
def test_row_12_a_source_made_again_is_not_taken_for_the_old_one(stack: Stack, case: Case, records: int) -> None:
    before = read_log(stack.bootstrap, case.source)
    delete(stack, case.source)
    fill_plain(stack.bootstrap, case.source, 2, records, value_bytes=120)
    failed = case.failed()
    assert outcome(failed) == ("RCV-3002", "topic_recreated")
    assert adds_up(failed)
    old = {r.content for records_ in before.values() for r in records_}
    copied = [r.content for records_ in read_log(stack.bootstrap, case.target).values() for r in records_]
    assert set(copied) <= old, "nothing of the new topic was copied"
    assert len(copied) == sum(row["copied"] for row in failed["completeness"]) == len(set(copied))


def test_row_13_a_deleted_target_fails_the_recovery_by_name(stack: Stack, case: Case) -> None:
    delete(stack, case.target)
    assert outcome(case.failed()) == ("RCV-3004", "target_unavailable")


def test_row_13_a_target_made_again_is_not_taken_for_the_old_one(stack: Stack, case: Case) -> None:
    delete(stack, case.target)
    create_topics(stack.bootstrap, {case.target: 2})
    assert outcome(case.failed()) == ("RCV-3002", "topic_recreated")


def test_row_14_partitions_added_to_source_and_target_do_not_change_the_plan(
    stack: Stack, new_case: NewCase, unique: str
) -> None:
    fill_plain(stack.bootstrap, f"{unique}source", 2, RECORDS)
    same, hashed = new_case(f"{unique}source"), new_case(f"{unique}source")
    create_topics(stack.bootstrap, {hashed.target: 3})
    same.start()
    hashed.start(target_create=False, target_mapping="key_hash")
    same.copying()
    hashed.copying()
    client = admin(stack)
    for topic in (same.source, same.target, hashed.target):
        client.create_partitions([NewPartitions(topic, 5)])[topic].result(_TIMEOUT_S)
    same.finish()
    hashed.unthrottle()
    stack.completed(hashed.recovery)
    covered = dict.fromkeys(range(2), (0, RECORDS))
    assert (
        stack.violations(
            hashed.recovery, hashed.source, hashed.target, covered, mapping="key_hash", mapped_partitions=3
        )
        == []
    )


def test_row_15_records_deleted_before_the_position_are_no_loss(stack: Stack, case: Case) -> None:
    before = read_log(stack.bootstrap, case.source)
    delete_records(stack, case.source, {0: 50, 1: 50})
    case.finish(before=before)


def test_row_15_records_deleted_past_the_position_fail_with_the_exact_range(stack: Stack, case: Case) -> None:
    """The second attempt has nothing fetched: it finds the hole at its first position."""
    before = read_log(stack.bootstrap, case.source)
    stack.control.command("pause", case.recovery)
    paused = stack.follower.wait_state(case.recovery, "paused")
    delete_records(stack, case.source, {0: RECORDS - 100, 1: RECORDS - 1})
    case.kill_driver()
    stack.control.command("resume", case.recovery)
    failed = case.failed()
    assert outcome(failed) == ("RCV-3001", "data_lost")
    assert {row["partition"]: row["to"] for row in failed["completeness"]} == positions(paused)
    holes = [(positions(paused)[0], RECORDS - 100), (positions(paused)[1], RECORDS - 1)]
    assert any(f"[{start}, {stop})" in failed["why"] for start, stop in holes)
    case.judge_what_was_covered(before=before)


def test_row_15_a_loss_that_may_be_is_counted_and_the_rest_is_copied(
    stack: Stack, new_case: NewCase, unique: str
) -> None:
    """More than a lane fetches ahead: the running lanes fall out of the range."""
    source, records = f"{unique}source", 45_000
    fill_plain(stack.bootstrap, source, 2, records, value_bytes=1_000, compression="none")
    case = new_case(source, observe=False)
    case.start(on_data_loss="continue")
    case.copying()
    before = read_log(stack.bootstrap, source)
    delete_records(stack, source, {0: records - 100})
    case.unthrottle()
    done = stack.completed(case.recovery)
    lost = done["completeness"][0]["lost"]
    assert lost > 0
    assert done["completeness"][0]["copied"] == records - lost
    case.assert_sound(case.ranges, before=before, lost={0: (0, records - 100)})


def delete_records(stack: Stack, topic: str, until: Mapping[int, int]) -> None:
    """DeleteRecords below the offsets."""
    client = admin(stack)  # must outlive its futures
    below = [TopicPartition(topic, p, offset) for p, offset in until.items()]
    for future in client.delete_records(below).values():
        future.result(_TIMEOUT_S)


def adds_up(status: Document) -> bool:
    rows = status["completeness"]
    return bool(rows) and all(
        row["offsets"] == row["to"] - row["from"] == row["copied"] + row["filtered"] + row["skipped"] + row["lost"] + row["unexplained"]
        for row in rows
    )  # fmt: skip
