"""Reports of lanes with very many partitions, and those that nobody takes."""

import logging

import pytest

from recoveryd_jobs.contract import REPORT_BYTES_MAX, ControlSpec, LaneHeartbeat, LanePosition, decode_progress
from recoveryd_jobs.progress import ProgressSender
from tests.builders.copying import Cluster

pytestmark = pytest.mark.broker


def report() -> LaneHeartbeat:
    """Of about 2 MB."""
    positions = tuple(LanePosition(p, 10**9, None, "copying", 10**9, 0, 0, 0, 10**12) for p in range(12_000))
    return LaneHeartbeat("r1", 1, 0, 1, "copying", False, 0.0, 0.0, positions)


def test_a_report_of_thousands_of_partitions_arrives(cluster: Cluster) -> None:
    topic = cluster.topic("progress", max_message_bytes=str(REPORT_BYTES_MAX))
    sender = ProgressSender(ControlSpec(cluster.client, "directives", topic), "teller", 0, report)
    sender.start()
    assert sender.send_now(60.0)
    sender.close()
    told = [decode_progress(row.value or b"") for row in cluster.read(topic)]
    assert {len(each.positions) for each in told if isinstance(each, LaneHeartbeat)} == {12_000}


def test_a_report_lies_where_the_daemon_hears_it_also_on_a_topic_that_got_more_partitions(cluster: Cluster) -> None:
    topic = cluster.topic("progress", 8, max_message_bytes=str(REPORT_BYTES_MAX))
    sender = ProgressSender(ControlSpec(cluster.client, "directives", topic), "teller", 0, report)
    sender.start()
    assert sender.send_now(60.0)
    sender.close()
    assert cluster.read(topic)


def test_a_report_that_is_not_taken_is_told_once_in_the_log(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    topic = cluster.topic("progress", max_message_bytes="100000")
    sender = ProgressSender(ControlSpec(cluster.client, "directives", topic), "teller", 0, report)
    sender.start()
    with caplog.at_level(logging.WARNING, "recoveryd.progress"):
        for _ in range(3):
            sender.send_now(60.0)
        sender.close()
    assert [r.message for r in caplog.records if topic in r.message] == [
        f"a report to {topic} was not sent: Broker: Message size too large"
    ]
