"""A log with a damaged record: the client library goes on somewhere behind it, so that what lies there would be skipped by the
lane and by the proof alike. Both end by name instead, and nothing behind the damage is copied.
"""

from pathlib import Path

import pytest

from recoveryd_jobs.contract import PartitionRange
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.lane.life import run_lane
from recoveryd_sandbox.broker import Broker
from tests.builders.copying import Cluster, Recovery, put, rows
from tests.builders.proving import two_topics, verify

pytestmark = pytest.mark.broker

COUNT, DAMAGED = 60, 40
SOUND = rows(COUNT)


def damage(broker: Broker | None, topic: str) -> None:
    """Changes one byte of a record on the broker's disk."""
    if broker is None:
        pytest.skip("needs the disk of its broker")
    [log] = broker.folder.rglob(f"{topic}-0/*.log")
    value = SOUND[DAMAGED].value
    assert value is not None
    where = Path(log).read_bytes().index(value)
    with Path(log).open("r+b") as file:
        file.seek(where)
        file.write(b"?")


def fill(cluster: Cluster, topic: str) -> str:
    """Each record is a batch of its own, as those of a slow producer are."""
    producer = cluster.producer(**{"batch.num.messages": 1})
    for row in SOUND:
        put(producer, topic, row)
    assert producer.flush(60) == 0
    return topic


def test_a_damaged_source_ends_the_lane_at_the_record_that_cannot_be_read(
    cluster: Cluster, broker: Broker | None
) -> None:
    source, target = fill(cluster, cluster.topic("in")), cluster.topic("out")
    damage(broker, source)
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, COUNT)]])
    outcome = run_lane(recovery.spec, recovery.spec.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", "source_unavailable")
    assert f"{source} partition 0 cannot be read at offset {DAMAGED}" in outcome.error_message
    assert sum(r.copied + r.skipped + r.lost for r in recovery.ledger()) <= DAMAGED
    assert [r.content for r in cluster.read(target)] == [r.content for r in SOUND][: len(cluster.read(target))]


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_proof_of_a_damaged_log_has_no_verdict(cluster: Cluster, broker: Broker | None, side: str) -> None:
    spec = two_topics(cluster, SOUND, SOUND)
    damage(broker, spec.source.topic if side == "source" else spec.target.topic)
    with pytest.raises(JobError, match=r"partition 0 cannot be read at offset \d+") as ended:
        verify(spec)
    assert ended.value.code == f"{side}_unavailable"
