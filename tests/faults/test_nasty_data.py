"""Rows 5, 21 and 22: times -1, 0, far ahead and not in order; transactions interleaved, aborted and left open;
marker-only tails; empty partitions; all with their Python workers killed in the middle, which Spark replaces.
"""

from collections.abc import Iterator

import pytest

from tests.builders.history import transactional
from tests.e2e.case import NewCase
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import add_time_zero, fill_nasty
from tests.e2e.log_reader import read_log
from tests.e2e.processes import kill
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.e2e, pytest.mark.faults]


@pytest.fixture(scope="module", autouse=True)
def daemon(stack: Stack) -> Iterator[DaemonProcess]:
    with stack.running() as leading:
        yield leading


@pytest.mark.wide("tests/e2e/test_replay.py::test_a_replay_to_latest_copies_the_nastiest_topic_bit_for_bit")
def test_rows_5_21_and_22_nasty_data_is_copied_bit_for_bit_although_workers_die(
    stack: Stack, new_case: NewCase, nasty: str
) -> None:
    case = new_case(nasty)
    case.start(records_per_s=60)
    case.copying(60)
    for worker in case.workers():
        kill(worker)
    done = case.finish()
    assert done["attempt"] == 1, "Spark replaced the workers"
    assert done["completeness"][3]["skipped"] == done["completeness"][3]["offsets"] > 0
    assert done["completeness"][2]["offsets"] == 0


@pytest.mark.wide("tests/spark/test_lane_trouble.py::test_time_zero_which_the_client_takes_for_now_is_named")
def test_row_21_time_zero_is_kept_or_refused_by_name_and_never_changed(
    stack: Stack, new_case: NewCase, unique: str
) -> None:
    source = f"{unique}source"
    fill_nasty(stack.bootstrap, source, 50)
    add_time_zero(stack.bootstrap, source, 2)
    assert [r.time_ms for r in read_log(stack.bootstrap, source)[2]] == [0, 0, 0]
    case = new_case(source)
    case.start(records_per_s=None)
    ended = stack.follower.wait_state(case.recovery, ["completed", "failed"], 90)
    if ended["state"] == "completed":
        case.assert_sound(case.ranges)
    else:
        assert "time" in ended["why"]
        case.judge_what_was_covered()


@pytest.mark.wide(
    "tests/spark/test_lane_trouble.py::test_a_foreign_transaction_before_the_stop_blocks_with_a_reason_until_it_ends"
)
def test_row_22_a_transaction_open_when_planned_and_aborted_later_is_skipped(
    stack: Stack, new_case: NewCase, unique: str
) -> None:
    source = f"{unique}source"
    fill_nasty(stack.bootstrap, source, 100)
    pending = transactional(stack.bootstrap, f"{unique}pending")
    pending.begin_transaction()
    for number in range(10):
        pending.produce(source, f"pending {number}", partition=number % 3)
    assert pending.flush(60) == 0
    case = new_case(source)
    case.start(records_per_s=None)
    stack.follower.wait_state(case.recovery, "running", 90)
    case.copying(100)
    pending.abort_transaction(60)
    case.judge()
