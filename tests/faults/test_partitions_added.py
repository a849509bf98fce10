"""Row 14: partitions added while a recovery runs are copied from their first offset, or named; never ignored."""

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.builders.history import create_topics
from tests.e2e.asking import positions
from tests.e2e.case import NewCase
from tests.e2e.clients import writer
from tests.e2e.data import LiveProducer, fill_plain, write_plain
from tests.e2e.log_reader import whole_log
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack, completed_ranges

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.e2e,
    pytest.mark.faults,
    pytest.mark.usefixtures("daemon"),
]

RECORDS = 1_000
SLOWLY = 20  # records per second
_TIMEOUT_S = 120.0


def widen(stack: Stack, topic: str, partitions: int) -> None:
    client = AdminClient({"bootstrap.servers": stack.bootstrap})
    client.create_partitions([NewPartitions(topic, partitions)])[topic].result(_TIMEOUT_S)
    wait_for(lambda: len(client.list_topics(topic, timeout=60).topics[topic].partitions) == partitions, 20)


def copies_all(stack: Stack, recovery: str) -> bool:
    """Whether some of each of the four partitions is copied."""
    status = stack.follower.status(recovery)
    at = {} if status is None else positions(status)
    return all(at.get(p, 0) > 0 for p in range(4))


def test_row_14_partitions_added_to_a_followed_source_are_copied_from_their_first_offset(
    stack: Stack, new_case: NewCase, unique: str
) -> None:
    """The target has too few partitions at first: the recovery says so, and does not complete until that changes. Live
    records come to all partitions meanwhile, more than it may copy, so that it cannot have caught up before they end.
    """
    fill_plain(stack.bootstrap, f"{unique}source", 2, RECORDS)
    case = new_case(f"{unique}source", observe=False)
    case.start(stop="caught_up", records_per_s=SLOWLY)
    case.copying(20)
    widen(stack, case.source, 4)
    write_plain(writer(stack.bootstrap), case.source, [2, 3], range(RECORDS))
    named = "partitions 2 to 3 were added"
    with LiveProducer(stack.bootstrap, case.source, 4, 2 * SLOWLY) as live:
        stack.follower.wait(lambda: named in (stack.follower.status(case.recovery) or {})["why"], 60, named)
        widen(stack, case.target, 4)
        stack.follower.wait(lambda: copies_all(stack, case.recovery), 120, "records of each partition")
    assert live.written >= 4
    case.unthrottle()
    done = stack.completed(case.recovery, 240)
    assert (done["stop"]["reason"], done["verification"]["result"]) == ("zero_lag", "match")
    ends = {p: end for p, (_, end) in whole_log(stack.bootstrap, case.source).items()}
    assert {p: stop for p, (_, stop) in completed_ranges(done).items()} == ends
    assert sum(ends.values()) == 4 * RECORDS + live.written
    case.assert_sound(completed_ranges(done))
    assert done["attempt"] >= 2
    assert [f["code"] for f in done["plan"]["findings"]].count("source_grew_covered") == 1


@pytest.mark.wide(
    "tests/recovery/test_growth.py::test_a_target_that_grows_under_keys_that_we_place_ends_the_copy_by_name"
)
def test_row_14_a_target_that_grows_under_keys_that_we_place_ends_the_copy_by_name(
    stack: Stack, new_case: NewCase, unique: str
) -> None:
    fill_plain(stack.bootstrap, f"{unique}source", 2, 6_000)
    case = new_case(f"{unique}source", observe=False)
    create_topics(stack.bootstrap, {case.target: 3})
    case.start(target_create=False, target_mapping="key_hash", records_per_s=150)
    case.copying()
    widen(stack, case.target, 5)
    failed = case.failed()
    assert (failed["error_code"], failed["stop"]["reason"]) == ("RCV-2006", "target_unavailable")
    assert f"{case.target} has 5 partitions now, planned were 3" in failed["why"]
    case.asked = {"mapping": "key_hash", "mapped_partitions": 3}
    case.judge_what_was_covered()
