"""Row 10: a foreign transaction stays open on the source, the target or the receipts topic. The copy waits, or says
what it waits for; it stays exact.
"""

import zlib
from collections.abc import Iterator

import pytest

from tests.builders.history import Draft, create_topics, produce, transactional
from tests.e2e.asking import copied
from tests.e2e.case import NewCase
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import BASE_MS, fill_plain
from tests.e2e.log_reader import offsets, whole_log
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e, pytest.mark.faults]

RECORDS = 500


@pytest.fixture(scope="module", autouse=True)
def daemon(stack: Stack) -> Iterator[DaemonProcess]:
    """It waits longer for others than any of these transactions takes, on a machine that stands still as well."""
    with stack.running(settings={"attempts": {"stop_wait": "10m"}}) as leading:
        yield leading


def open_transaction(stack: Stack, topic: str, partition: int, name: str):
    """A producer with one flushed record in an open transaction."""
    foreign = transactional(stack.bootstrap, f"{stack.mark}-{name}")
    foreign.begin_transaction()
    produce(foreign, topic, Draft(partition, b"foreign", name.encode(), (), BASE_MS))
    assert foreign.flush(60) == 0
    return foreign


@pytest.mark.wide(
    "tests/faults/test_foreign_transactions.py::test_row_10_what_follows_says_what_holds_it_and_ends_by_that_name_only_where_it_has_an_end"
)
def test_row_10_an_open_transaction_on_the_source_is_waited_for(stack: Stack, new_case: NewCase) -> None:
    source = f"{stack.mark}-waits"
    fill_plain(stack.bootstrap, source, 2, RECORDS)
    foreign = open_transaction(stack, source, 0, "waits")
    case = new_case(source)
    case.start(records_per_s=None)
    stack.follower.wait(lambda: copied(stack, case.target) == 2 * RECORDS, 60, "all but the open record")
    state = stack.follower.wait_state(case.recovery, "running")
    stack.follower.wait(
        lambda: "transaction" in (stack.follower.status(case.recovery) or state)["why"], 30, "the reason it waits"
    )
    foreign.commit_transaction(60)
    case.judge()
    assert copied(stack, case.target) == 2 * RECORDS + 1


def test_row_10_an_open_transaction_on_the_target_delays_and_does_not_disturb(stack: Stack, new_case: NewCase) -> None:
    case = new_case()
    create_topics(stack.bootstrap, {case.target: 4})
    foreign = open_transaction(stack, case.target, 1, "target")
    case.start(records_per_s=None, target_create=False, target_on_existing="append")
    stack.follower.wait(lambda: sum(offsets(stack.bootstrap, case.target, end=True).values()) > 16_000, 60, "the copy")
    foreign.abort_transaction(60)
    case.judge(shared=True)


@pytest.mark.wide("tests/spark/test_lane_trouble.py::test_a_foreign_transaction_on_the_receipts_topic_is_waited_for")
def test_row_10_an_open_transaction_on_the_receipts_does_not_hide_the_newest_ones(
    stack: Stack, new_case: NewCase
) -> None:
    case = new_case()
    case.start()
    case.copying()
    partitions = len(offsets(stack.bootstrap, stack.receipts_topic, end=True))
    place = zlib.crc32(case.recovery.encode()) % partitions
    foreign = transactional(stack.bootstrap, f"{stack.mark}-receipts")
    foreign.begin_transaction()
    produce(foreign, stack.receipts_topic, Draft(place, b"foreign", b'{"recovery":"nobody"}', (), BASE_MS))
    assert foreign.flush(60) == 0
    case.copying(300)
    case.kill_driver()
    stack.follower.driver_pid(case.recovery, 2)
    foreign.abort_transaction(60)
    done = case.finish()
    assert done["attempt"] == 2


@pytest.mark.wide(
    "tests/faults/test_foreign_transactions.py::test_row_10_what_follows_says_what_holds_it_and_ends_by_that_name_only_where_it_has_an_end"
)
def test_row_10_an_open_transaction_that_does_not_end_fails_the_recovery_by_name(
    stack: Stack, new_case: NewCase, daemon: DaemonProcess
) -> None:
    source = f"{stack.mark}-blocked"
    fill_plain(stack.bootstrap, source, 2, RECORDS)
    foreign = open_transaction(stack, source, 0, "blocked")
    daemon.terminate()
    with stack.running(name="impatient", settings={"attempts": {"stop_wait": "8s"}}):
        case = new_case(source)
        case.start(records_per_s=None)
        failed = case.failed()
        assert (failed["error_code"], failed["stop"]["reason"]) == ("RCV-3011", "stalled")
        foreign.abort_transaction(60)
        case.judge_what_was_covered()


def test_row_10_what_follows_says_what_holds_it_and_ends_by_that_name_only_where_it_has_an_end(
    stack: Stack, new_case: NewCase, daemon: DaemonProcess
) -> None:
    source = f"{stack.mark}-held"
    fill_plain(stack.bootstrap, source, 2, RECORDS)
    foreign = open_transaction(stack, source, 0, "held")
    daemon.terminate()
    with stack.running(name="impatient-too", settings={"attempts": {"stop_wait": "8s"}}):
        endless, ending = new_case(source), new_case(source)
        endless.start(records_per_s=None, stop="never")
        ending.start(records_per_s=None, stop="caught_up")
        failed = ending.failed(180.0)
        assert (failed["error_code"], failed["stop"]["reason"]) == ("RCV-3011", "stalled")
        assert f"a foreign transaction holds {source} partition 0" in failed["why"]
        going = stack.follower.wait_state(endless.recovery, "running")
        stack.follower.wait(
            lambda: "transaction" in (stack.follower.status(endless.recovery) or going)["why"], 60, "what it waits for"
        )
        foreign.commit_transaction(60)
        stack.follower.wait(lambda: copied(stack, endless.target) == 2 * RECORDS + 1, 90, "what was held")
        stack.control.command("stop", endless.recovery, {})
        stopped = stack.follower.wait_state(endless.recovery, "stopped")
        assert stopped["attempt"] == 1
        endless.ranges = whole_log(stack.bootstrap, source)
        for case in (endless, ending):
            case.judge_what_was_covered()
