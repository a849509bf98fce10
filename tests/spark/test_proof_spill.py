"""Copies without receipts: keys chose the partition, or only the last value of each key counts."""

from dataclasses import replace

import pytest

from recoveryd_jobs.contract import PartitionRange, Verification
from recoveryd_jobs.murmur2 import partition_for_key
from tests.builders.copying import Cluster, Row, rows
from tests.builders.proving import places, spilled, two_topics, verify

pytestmark = pytest.mark.broker


def by_key(data: list[Row]) -> list[Row]:
    return [replace(r, partition=partition_for_key(r.key or b"", 2)) for r in data]


KEYED = rows(50, 0) + [replace(r, key=b"other" + (r.key or b"")) for r in rows(50, 1)]
SPREAD = by_key(KEYED)
HASHED = {"mapping": "key_hash"}


def test_a_copy_by_key_needs_no_receipts_to_match(cluster: Cluster) -> None:
    merged = by_key([r for pair in zip(KEYED[:50], KEYED[50:], strict=True) for r in pair])
    found = spilled(two_topics(cluster, KEYED, merged, 2, target_more=HASHED))
    assert found == Verification("match", 100, 100, "", scope="source")


def test_records_that_are_equal_in_several_partitions_stand_in_for_each_other(cluster: Cluster) -> None:
    twins = [replace(r, partition=1) for r in rows(20, 0)]
    merged = by_key(rows(20, 0)[::-1] + twins[::-1])
    found = spilled(two_topics(cluster, rows(20, 0) + twins, merged, 2, target_more=HASHED))
    assert (found.result, found.target_records) == ("match", 40)


def test_damage_to_a_copy_by_key_is_named(cluster: Cluster) -> None:
    dropped, doubled, wrong = SPREAD[3], SPREAD[8], replace(SPREAD[60], value=b"x")
    stored = [*SPREAD[:3], *SPREAD[4:60], wrong, *SPREAD[61:], doubled]
    found = spilled(two_topics(cluster, KEYED, stored, 2, target_more=HASHED))
    assert [(d.kind, d.source_partition, d.source_offset) for d in found.differences] == [
        ("missing", 0, 3),
        ("altered", 1, 10),
        ("extra", None, None),
    ]
    assert (dropped.offset, found.extra_records) == (3, 1)


def test_a_swap_within_a_source_partition_is_found(cluster: Cluster) -> None:
    target = SPREAD[0].partition
    mine = [at for at, r in enumerate(SPREAD[:50]) if r.partition == target]
    stored = list(SPREAD)
    stored[mine[1]], stored[mine[2]] = stored[mine[2]], stored[mine[1]]
    found = spilled(two_topics(cluster, KEYED, stored, 2, target_more=HASHED))
    assert [(d.kind, d.source_partition, d.source_offset) for d in found.differences] == [("reordered", 0, mine[2])]


def test_a_mirror_of_the_same_partitions_is_proved_by_the_same_engine_as_a_copy(cluster: Cluster) -> None:
    data = rows(500)
    spec = two_topics(cluster, data, [*data[:7], *data[8:]])
    assert places(verify(spec)) == [("missing", 0, 7, 0, None, 1)]
    shorter = replace(spec.lanes[0], partitions=(PartitionRange(0, 0, 7),))
    found = verify(replace(spec, lanes=(shorter,), target=replace(spec.target, stops=((0, 7),))))
    assert (found.result, found.source_records, found.target_records, found.scope) == ("match", 7, 7, "source")


def test_the_last_value_of_each_key_is_what_counts_in_compacted_topics(cluster: Cluster) -> None:
    old = [replace(r, value=b"old") for r in rows(30)]
    gone = Row(0, 0, b"k5", None, 1_357_000_100_000)
    source = [*old, *rows(30), gone, replace(gone, key=b"never")]
    spec = two_topics(cluster, source, [r for r in rows(30)[::-1] if r.offset != 5])
    found = spilled(replace(spec, compare="latest"))
    assert found == Verification("match", 29, 29, "", (), "the last value of each key was compared", "source")


def test_records_without_a_key_are_counted_where_the_last_value_of_each_key_counts(cluster: Cluster) -> None:
    def keyless(count: int) -> list[Row]:
        return [replace(r, key=None) for r in rows(count)]

    spec = two_topics(cluster, rows(5) + keyless(4), rows(5) + keyless(1))
    found = spilled(replace(spec, compare="latest"))
    assert (found.result, found.source_records, found.target_records) == ("match", 5, 5)
    assert (found.unkeyed_source_records, found.unkeyed_target_records) == (4, 1)
    assert found.why.endswith(
        "records without a key have no last value and were only counted, 4 in the source, 1 in the target: "
        "the numbers differ"
    )


def test_equal_records_without_a_key_may_be_dealt_to_partitions_in_any_way(cluster: Cluster) -> None:
    same = Row(0, 0, None, b"same", 1_357_000_000_000)
    between = replace(same, value=b"between")
    stored = [replace(same, partition=1), replace(between, partition=1), same]
    found = spilled(two_topics(cluster, [same, between, same], stored, 2, target_more=HASHED))
    assert (found.result, found.target_records) == ("match", 3)


def test_differences_of_last_values_are_named(cluster: Cluster) -> None:
    data = rows(30)
    deleted = Row(0, 0, b"k9", None, 1_357_000_100_000)
    stored = [
        *data[:3],
        *data[4:20],
        replace(data[20], value=b"stale"),
        *data[21:],
        replace(data[0], key=b"new"),
        deleted,
    ]
    found = spilled(replace(two_topics(cluster, data, stored), compare="latest"))
    assert places(found) == [
        ("missing", 0, 3, 0, None, 1),
        ("missing", 0, 9, 0, 30, 1),
        ("altered", 0, 20, 0, 19, 1),
        ("extra", None, None, 0, 29, 1),
    ]
    assert found.extra_records == 1
