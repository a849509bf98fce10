"""Rows 12 to 15: source or target is deleted, created again, gets more partitions, or loses records during a copy. The
copy is exact as far as it went, or the recovery fails and names the reason.
"""

from collections.abc import Mapping

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.builders.history import create_topics
from tests.e2e.asking import positions
from tests.e2e.case import Case, NewCase
from tests.e2e.daemon_process import DaemonProcess
from tests.e2e.data import fill_plain
from tests.e2e.follower import Document
from tests.e2e.history import Snapshot, check, snapshot
from tests.e2e.ledger import read_receipts
from tests.e2e.log_reader import offsets, read_log
from tests.e2e.model import Asked, Claims, History
from tests.e2e.processes import wait_for
from tests.e2e.stack import Stack
from tests.faults.conftest import PAIR_RECORDS_EACH

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.e2e,
    pytest.mark.faults,
    pytest.mark.usefixtures("daemon"),
]

_TIMEOUT_S = 120.0


def admin(stack: Stack) -> AdminClient:
    return AdminClient({"bootstrap.servers": stack.bootstrap})


def delete(stack: Stack, topic: str) -> None:
    client = admin(stack)  # must outlive its futures
    client.delete_topics([topic])[topic].result(_TIMEOUT_S)
    wait_for(lambda: topic not in client.list_topics(timeout=60).topics, 20, lambda: f"{topic} is still there")


def outcome(failed: Document) -> tuple[str, str]:
    return failed["error_code"], failed["stop"]["reason"]


def test_row_12_a_deleted_source_fails_the_recovery_by_name(stack: Stack, case: Case) -> None:
    before = snapshot(stack.bootstrap, case.source)
    delete(stack, case.source)
    failed = case.failed()
    assert outcome(failed) == ("RCV-3003", "source_unavailable")
    assert adds_up(failed)
    case.judge_what_was_covered(source_was=before)


@pytest.mark.parametrize("records", [
    pytest.param(100, id="shorter than before", marks=pytest.mark.wide(
        "tests/faults/test_topics_changed.py::test_row_12_a_source_made_again_is_not_taken_for_the_old_one"
    )),
    pytest.param(2 * PAIR_RECORDS_EACH, id="longer than before"),  # where the old offsets fit
])  # fmt: skip
def test_row_12_a_source_made_again_is_not_taken_for_the_old_one(stack: Stack, case: Case, records: int) -> None:
    before = snapshot(stack.bootstrap, case.source)
    delete(stack, case.source)
    fill_plain(stack.bootstrap, case.source, 2, records, value_bytes=120)
    failed = case.failed()
    assert outcome(failed) == ("RCV-3002", "topic_recreated")
    assert adds_up(failed)
    case.judge_what_was_covered(source_was=before)


def judge_what_was_seen(case: Case, seen: Snapshot) -> None:
    """The copy went on after the target was read for the last time: judged is what the receipts of the chunks claim
    that were there then.
    """
    bootstrap, topic = case.stack.bootstrap, case.stack.receipts_topic
    ends = {p: max((r.offset + 1 for r in records), default=0) for p, records in seen.visible.items()}
    receipts = [
        receipt
        for receipt in read_receipts(bootstrap, topic, case.recovery)
        if all(run.stop <= ends[run.partition] for run in receipt.runs)
    ]
    stops = {
        p: max((r.stop for r in receipts if r.partition == p), default=start) for p, (start, _) in case.ranges.items()
    }
    claimed = Claims(receipts)
    last = {p: max((stop for _, stop, _ in claimed.runs(p)), default=0) for p in ends}
    target = {p: [r for r in records if r.offset < last[p]] for p, records in seen.visible.items()}
    assert sum(map(len, target.values())) > 0
    found = check(
        History(
            asked=Asked(case.recovery, {p: (start, stops[p]) for p, (start, _) in case.ranges.items()}, len(ends)),
            source=snapshot(bootstrap, case.source).visible,
            target=target,
            receipts=receipts,
            receipts_partitions=len(offsets(bootstrap, topic, end=False)),
        )
    )
    assert not found, "\n".join(map(str, found))


def paused(stack: Stack, case: Case) -> Snapshot:
    """What a copy that was paused had written."""
    stack.control.command("pause", case.recovery)
    stack.follower.wait_state(case.recovery, "paused")
    return snapshot(stack.bootstrap, case.target)


def test_row_13_a_deleted_target_fails_the_recovery_by_name(stack: Stack, case: Case) -> None:
    before = snapshot(stack.bootstrap, case.target)
    delete(stack, case.target)
    assert outcome(case.failed()) == ("RCV-3004", "target_unavailable")
    judge_what_was_seen(case, before)


@pytest.mark.wide("tests/spark/test_lane_trouble.py::test_a_topic_made_again_is_never_read_or_written")
def test_row_13_a_target_made_again_is_not_taken_for_the_old_one(stack: Stack, case: Case) -> None:
    before = snapshot(stack.bootstrap, case.target)
    delete(stack, case.target)
    create_topics(stack.bootstrap, {case.target: 2})
    assert outcome(case.failed()) == ("RCV-3002", "topic_recreated")
    judge_what_was_seen(case, before)
    assert visible(stack, case) == 0, "nothing was copied into the new topic"


@pytest.mark.wide("tests/faults/test_topics_changed.py::test_row_13_a_deleted_target_fails_the_recovery_by_name")
def test_row_13_what_a_paused_copy_had_written_before_its_target_was_deleted_was_exact(
    stack: Stack, case: Case
) -> None:
    """The copy is paused, so that the test can read the target before it is deleted."""
    before = paused(stack, case)
    delete(stack, case.target)
    stack.control.command("resume", case.recovery)
    assert outcome(case.failed()) == ("RCV-3004", "target_unavailable")
    assert sum(map(len, before.visible.values())) > 0
    case.judge_what_was_covered(target_was=before)


@pytest.mark.wide("tests/spark/test_lane_trouble.py::test_a_topic_made_again_is_never_read_or_written")
def test_row_13_what_a_paused_copy_had_written_before_its_target_was_made_again_was_exact(
    stack: Stack, case: Case
) -> None:
    before = paused(stack, case)
    delete(stack, case.target)
    create_topics(stack.bootstrap, {case.target: 2})
    stack.control.command("resume", case.recovery)
    assert outcome(case.failed()) == ("RCV-3002", "topic_recreated")
    assert sum(map(len, before.visible.values())) > 0
    case.judge_what_was_covered(target_was=before)
    assert visible(stack, case) == 0, "nothing was copied into the new topic"


def visible(stack: Stack, case: Case) -> int:
    return sum(map(len, read_log(stack.bootstrap, case.target).values()))


@pytest.mark.wide(
    "tests/recovery/test_growth.py::test_what_is_added_to_a_pinned_source_is_no_part_of_it_and_a_finding_says_so"
)
def test_row_14_and_row_15_partitions_added_to_a_pinned_plan_and_records_deleted_before_the_position_are_no_loss(
    stack: Stack, case: Case
) -> None:
    before = read_log(stack.bootstrap, case.source)
    client = admin(stack)
    for topic in (case.source, case.target):
        client.create_partitions([NewPartitions(topic, 5)])[topic].result(_TIMEOUT_S)
    delete_records(stack, case.source, {0: 50, 1: 50})
    case.finish(before=before)


def test_row_15_records_deleted_past_the_position_fail_with_the_exact_range(
    stack: Stack, case: Case, daemon: DaemonProcess
) -> None:
    """The second attempt has fetched nothing yet, so it finds the hole at its first position. The completeness counts
    what is lost in every partition, whichever lane met a loss.
    """
    before = read_log(stack.bootstrap, case.source)
    stack.control.command("pause", case.recovery)
    rests = stack.follower.wait_state(case.recovery, "paused")
    delete_records(stack, case.source, {0: PAIR_RECORDS_EACH - 100, 1: PAIR_RECORDS_EACH - 1})
    case.kill_application()
    stack.control.command("resume", case.recovery)
    failed = case.failed()
    assert outcome(failed) == ("RCV-3001", "data_lost")
    holes = {0: (positions(rests)[0], PAIR_RECORDS_EACH - 100), 1: (positions(rests)[1], PAIR_RECORDS_EACH - 1)}
    assert {row["partition"]: (row["to"] - row["lost"], row["to"]) for row in failed["completeness"]} == holes
    assert any(f"[{start}, {stop})" in failed["why"] for start, stop in holes.values())
    gone = sum(stop - start for start, stop in holes.values())
    stack.follower.wait(lambda: lost_metric(daemon, case.source) == gone, 20, "the metric to count what was lost")
    case.judge_what_was_covered(before=before, lost=holes)


@pytest.mark.wide(
    "tests/spark/test_lane_trouble.py::test_records_deleted_while_copying_are_found_where_reading_meets_the_hole"
)
def test_row_15_a_loss_that_may_be_is_counted_and_the_rest_is_copied(
    stack: Stack, new_case: NewCase, unique: str
) -> None:
    """More records are deleted than a lane fetches ahead, so running lanes find their position out of range."""
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


def lost_metric(daemon: DaemonProcess, topic: str) -> int:
    name = f'recoveryd_records_lost_total{{topic="{topic}"}} '
    return sum(
        int(float(line.removeprefix(name))) for line in daemon.get("/metrics")[1].splitlines() if line.startswith(name)
    )


def delete_records(stack: Stack, topic: str, until: Mapping[int, int]) -> None:
    """Delete the records below these offsets."""
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
