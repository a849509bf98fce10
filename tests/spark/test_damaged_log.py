"""A log with a damaged record: the client library goes on somewhere behind it, so that what lies there would be skipped
by the lane and by the proof alike. Both end by name instead, and nothing behind the damage is copied.
"""

from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition

from recoveryd.adapters.kafka.client import make_consumer
from recoveryd_jobs.contract import PartitionRange, encode, receipts_partition
from recoveryd_jobs.errors import JobError
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_jobs.receipts import read
from recoveryd_sandbox.broker import Broker
from tests.builders.copying import Cluster, Recovery, Row, put, rows
from tests.builders.damage import damage
from tests.builders.proving import two_topics, verify
from tests.patience import patient_s

pytestmark = pytest.mark.broker

COUNT, DAMAGED = 60, 40
SOUND = rows(COUNT)
BROKEN = SOUND[DAMAGED].value or b""


def fill(cluster: Cluster, topic: str) -> str:
    """Each record is a batch of its own, as those of a slow producer are."""
    producer = cluster.producer(**{"batch.num.messages": 1})
    for row in SOUND:
        put(producer, topic, row)
    assert producer.flush(60) == 0
    return topic


def copying(cluster: Cluster, source: str, target: str, stop: int = COUNT) -> Recovery:
    chunk = Recovery.chunk_limits(max_records=10)
    return Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, stop)]], chunk=chunk)


def test_a_damaged_source_ends_the_lane_at_the_record_that_cannot_be_read(
    cluster: Cluster, broker: Broker | None
) -> None:
    source, target = fill(cluster, cluster.topic("in")), cluster.topic("out")
    damage(broker, source, BROKEN)
    recovery = copying(cluster, source, target)
    outcome = run_lane(recovery.spec, recovery.spec.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", "source_unavailable")
    assert f"{source} partition 0 cannot be read at offset {DAMAGED}" in outcome.error_message
    assert 0 < sum(r.copied for r in recovery.ledger()) <= DAMAGED
    assert sum(r.skipped + r.lost for r in recovery.ledger()) == 0
    copied = [r.content for r in cluster.read(target)]
    assert copied == [r.content for r in SOUND][: len(copied)]


def damaged_ledger(recovery: Recovery, broker: Broker | None, *, claims: int | None = None) -> int:
    """Where its last receipt is damaged: the partition."""
    written = [replace(receipt, bytes=receipt.bytes + 1) for receipt in recovery.ledger()]
    recovery.erase_receipts(recovery.ledger())
    for receipt in written:  # not compressed, and each in a batch of its own
        recovery.write_receipts([receipt])
    home = receipts_partition(recovery.id, 2)
    damage(broker, recovery.receipts, encode(written[-1]), home, claims=claims)
    return home


def test_a_damaged_ledger_ends_the_lane_that_would_copy_again_what_it_covers(
    cluster: Cluster, broker: Broker | None
) -> None:
    source, target = fill(cluster, cluster.topic("in")), cluster.topic("out")
    recovery = copying(cluster, source, target)
    assert run_lane(recovery.spec, recovery.spec.lanes[0]).ended == "done"
    home = damaged_ledger(recovery, broker)
    again = recovery.attempt(2)
    outcome = run_lane(again, again.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", "target_unavailable")
    assert f"{recovery.receipts} partition {home} cannot be read at offset" in outcome.error_message
    assert len(cluster.read(target)) == COUNT


def test_what_lies_before_the_damage_can_be_copied_and_proved(cluster: Cluster, broker: Broker | None) -> None:
    """The client library reads ahead, so that it meets the damage too."""
    source, target = fill(cluster, cluster.topic("in")), cluster.topic("out")
    damage(broker, source, BROKEN)
    recovery = copying(cluster, source, target, DAMAGED)
    outcome = run_lane(recovery.spec, recovery.spec.lanes[0])
    assert (outcome.ended, outcome.error_message) == ("done", "")
    assert [r.content for r in cluster.read(target)] == [r.content for r in SOUND][:DAMAGED]
    found = verify(recovery.spec)
    assert (found.result, found.source_records) == ("match", DAMAGED)


@pytest.mark.parametrize("side", ["source", "target"])
def test_the_closer_look_tells_what_differs_before_the_damage(
    cluster: Cluster, broker: Broker | None, side: str
) -> None:
    source, target = fill(cluster, cluster.topic("in")), cluster.topic("out")
    producer = cluster.producer(**{"batch.num.messages": 1})
    for row in [*SOUND[:7], replace(SOUND[7], value=b"another"), *SOUND[8:]]:
        put(producer, target, row)
    assert producer.flush(60) == 0
    spec = copying(cluster, source, target, DAMAGED).spec
    there = replace(spec.target, stops=((0, DAMAGED),))
    damage(broker, source if side == "source" else target, BROKEN)
    found = verify(replace(spec, kind="verification", receipts_topic="", target=there))
    assert [(d.kind, d.source_offset) for d in found.differences] == [("altered", 7)]


@pytest.mark.parametrize("last", ["marker", "record"])
def test_a_ledger_is_read_up_to_its_end_and_not_behind_it(cluster: Cluster, broker: Broker | None, last: str) -> None:
    """What lies behind it was written after the look at its end."""
    recovery = copying(cluster, fill(cluster, cluster.topic("in")), cluster.topic("out"))
    assert run_lane(recovery.spec, recovery.spec.lanes[0]).ended == "done"
    written = recovery.ledger()
    home, odd = receipts_partition(recovery.id, 2), encode(replace(written[-1], bytes=written[-1].bytes + 1))
    producer = cluster.producer(**{"compression.type": "none", "batch.num.messages": 1})
    if last == "record":
        producer.produce(recovery.receipts, b"?", b"another's", home)
        assert producer.flush(60) == 0
    end = cluster.end(recovery.receipts, home)
    producer.produce(recovery.receipts, odd, b"another's", home)
    assert producer.flush(60) == 0
    damage(broker, recovery.receipts, odd, home)
    found = read(recovery.spec, "reader", lambda _why: None, end=end)
    assert sorted(found.receipts, key=lambda r: r.start) == written


FAR = 1_000_000


def test_a_damaged_batch_that_claims_to_lie_behind_the_range_is_not_believed(
    cluster: Cluster, broker: Broker | None
) -> None:
    """Its offset stands in its header, which may be damaged too."""
    source, target = fill(cluster, cluster.topic("in")), cluster.topic("out")
    damage(broker, source, BROKEN, claims=FAR)
    recovery = copying(cluster, source, target)
    outcome = run_lane(recovery.spec, recovery.spec.lanes[0])
    assert (outcome.ended, outcome.error_code) == ("failed", "source_unavailable")
    assert sum(r.skipped + r.lost for r in recovery.ledger()) == 0
    assert len(cluster.read(target)) <= DAMAGED


@pytest.mark.parametrize("side", ["source", "target"])
def test_no_proof_believes_where_a_damaged_batch_claims_to_lie(
    cluster: Cluster, broker: Broker | None, side: str
) -> None:
    spec = two_topics(cluster, SOUND, SOUND)
    damage(broker, spec.source.topic if side == "source" else spec.target.topic, BROKEN, claims=FAR)
    with pytest.raises(JobError, match=r"partition 0 cannot be read at offset \d+") as ended:
        verify(spec)
    assert ended.value.code == f"{side}_unavailable"


@pytest.mark.parametrize("reading", ["lane", "proof"])
def test_receipts_behind_a_damaged_one_are_not_passed_over_wherever_that_claims_to_lie(
    cluster: Cluster, broker: Broker | None, reading: str
) -> None:
    recovery = copying(cluster, fill(cluster, cluster.topic("in")), cluster.topic("out"))
    assert run_lane(recovery.spec, recovery.spec.lanes[0]).ended == "done"
    damaged_ledger(recovery, broker, claims=FAR)
    with pytest.raises(JobError, match="cannot be read at offset") as ended:
        read(recovery.spec, "reader", lambda _why: None) if reading == "lane" else verify(recovery.spec)
    assert ended.value.code == "target_unavailable"


def test_markers_before_a_damaged_batch_show_that_nothing_else_lies_there(
    cluster: Cluster, broker: Broker | None
) -> None:
    """Three records, a marker, three aborted ones, and the marker that ends them."""
    source, target = cluster.topic("in", segment_ms=str(2**40)), cluster.topic("out")  # all in one file
    producer = cluster.producer("tx")
    producer.begin_transaction()
    for row in SOUND[:3]:
        put(producer, source, row)
    producer.commit_transaction(60)
    producer.begin_transaction()
    for row in SOUND[3:6]:
        put(producer, source, row)
    assert producer.flush(60) == 0
    producer.abort_transaction(60)
    before = cluster.settled_end(source)
    cluster.fill(source, [SOUND[DAMAGED]])
    damage(broker, source, BROKEN)
    recovery = copying(cluster, source, target, before)
    outcome = run_lane(recovery.spec, recovery.spec.lanes[0])
    assert (outcome.ended, outcome.error_message) == ("done", "")
    assert [r.content for r in cluster.read(target)] == [r.content for r in SOUND][:3]
    assert verify(recovery.spec).result == "match"


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_proof_of_a_damaged_log_has_no_verdict(cluster: Cluster, broker: Broker | None, side: str) -> None:
    spec = two_topics(cluster, SOUND, SOUND)
    damage(broker, spec.source.topic if side == "source" else spec.target.topic, BROKEN)
    with pytest.raises(JobError, match=r"partition 0 cannot be read at offset \d+") as ended:
        verify(spec)
    assert ended.value.code == f"{side}_unavailable"


def test_a_batch_that_unpacks_to_more_than_by_default_is_taken_for_no_damage(cluster: Cluster) -> None:
    """With zstd a batch may hold many records that are alike; by default the client unpacks no more than 100 MB."""
    source, target, size = cluster.topic("in"), cluster.topic("out"), 101_000_000
    producer = cluster.producer(**{"message.max.bytes": 1_000_000_000, "compression.type": "zstd"})
    put(producer, source, Row(0, 0, b"k", b"x" * size, 1))
    assert producer.flush(60) == 0
    recovery = Recovery(cluster, source, target, ranges=[[PartitionRange(0, 0, 1)]])
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    [receipt] = recovery.ledger()
    assert (receipt.copied, receipt.bytes) == (1, size + 1)
    reader = make_consumer(cluster.client)
    reader.assign([TopicPartition(source, 0, 0)])
    [message] = reader.consume(1, patient_s(10.0))
    reader.close()
    assert (message.error(), len(message)) == (None, size)
