"""How much of the proof's memory is open at a time: partitions are read in groups by what their digests may hold, and a
digest that is complete holds no records.
"""

import pytest

from recoveryd_jobs import digest
from recoveryd_jobs.contract import PartitionRange
from recoveryd_jobs.lane.life import LaneOutcome, run_lane
from recoveryd_jobs.verify.reader import GROUP, GROUP_BYTES, Range, RangeReader, groups
from recoveryd_jobs.verify.reading import held_by_digests
from recoveryd_jobs.verify.sides import TargetSide
from tests.builders.copying import Cluster, Recovery, rows
from tests.builders.proving import verify

COUNT = 300


def sizes(ranges: list[Range], pairs: int) -> list[int]:
    return [len(group) for group in groups(ranges, lambda r: held_by_digests(r.stop - r.start, pairs))]


def test_partitions_are_read_together_as_long_as_little_is_held() -> None:
    assert [len(group) for group in groups([Range(p, 0, 9) for p in range(2 * GROUP + 1)], lambda _: 0)] == [
        GROUP,
        GROUP,
        1,
    ]
    wide = sizes([Range(p, 0, 2_000) for p in range(200)], 200)
    assert sum(wide) == 200
    assert 1 < max(wide) <= GROUP_BYTES // (2_000 * 1_000), "2,000 records of a kilobyte each"
    assert sizes([Range(p, 0, 10**9) for p in range(4)], 1_000) == [1, 1, 1, 1]
    assert max(sizes([Range(p, 0, 10**9) for p in range(100)], 1)) < 100
    assert sizes([Range(p, 0, 5) for p in range(GROUP)], 1_000) == [GROUP]


def test_the_largest_come_first() -> None:
    found = list(groups([Range(0, 0, 1), Range(1, 0, 3), Range(2, 5, 7)], lambda _: GROUP_BYTES))
    assert [[r.partition for r in group] for group in found] == [[1], [2], [0]]


def copied(cluster: Cluster) -> Recovery:
    source, target = cluster.topic("in", 3), cluster.topic("out", 2)
    cluster.fill(source, [row for p in range(3) for row in rows(COUNT, p)])
    recovery = Recovery(
        cluster, source, target, ranges=[[PartitionRange(p, 0, COUNT) for p in range(3)]], partitions=2,
        target_more={"mapping": "key_hash"}, chunk=Recovery.chunk_limits(max_records=250),
    )  # fmt: skip
    assert run_lane(recovery.spec, recovery.spec.lanes[0]) == LaneOutcome(0, "done")
    return recovery


@pytest.mark.broker
def test_the_verdict_is_the_same_however_few_are_read_together(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    recovery, read = copied(cluster), list[int]()
    begin = RangeReader.begin

    def noted(reader: RangeReader, ranges: list[Range]) -> None:
        read.append(len(ranges))
        begin(reader, ranges)

    monkeypatch.setattr(RangeReader, "begin", noted)
    found = verify(recovery.spec, tasks=1)
    assert (found.result, found.target_records, read) == ("match", 3 * COUNT, [3, 2])
    monkeypatch.setattr("recoveryd_jobs.verify.reader.GROUP_BYTES", 1)
    assert verify(recovery.spec, tasks=1) == found
    assert read[2:] == [1, 1, 1, 1, 1]


@pytest.mark.broker
def test_what_is_complete_in_the_target_is_summed_up_before_its_partition_ends(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    recovery, blocks, left = copied(cluster), list[int](), list[int]()
    encode, finish = digest.encode_block, TargetSide.finish

    def noted(keys: list[bytes | None], *columns: list[object]) -> bytes:
        blocks.append(len(keys))
        return encode(keys, *columns)  # type: ignore[arg-type]

    def finished(side: TargetSide, target: int) -> None:
        before = len(blocks)
        finish(side, target)
        left.append(len(blocks) - before)

    monkeypatch.setattr(digest, "encode_block", noted)
    monkeypatch.setattr(TargetSide, "finish", finished)
    assert verify(recovery.spec, tasks=1).result == "match"
    assert left == [0, 0]
