"""The partitioner against Kafka's own test vectors (UtilsTest.testMurmur2 of the Java client)."""

import pytest

from recoveryd_jobs.murmur2 import KeyPartitioner, murmur2, partition_for_key

JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", JAVA)
def test_hash_equals_java(key: bytes) -> None:
    assert JAVA[key] == (murmur2(key) ^ 0x80000000) - 0x80000000


def test_partition_is_the_positive_hash_modulo_partitions() -> None:
    assert [(JAVA[key] & 0x7FFFFFFF) % 7 for key in JAVA] == [partition_for_key(key, 7) for key in JAVA]


def test_memory_of_keys_does_not_change_the_answer() -> None:
    partitioner = KeyPartitioner(5)
    keys = [str(i).encode() for i in range(70_000)]  # more than its cache holds
    assert [partition_for_key(k, 5) for k in keys] == [partitioner.of_key(k) for k in keys]
    assert [partition_for_key(k, 5) for k in keys] == [partitioner.of_key(k) for k in keys]


def test_long_keys_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """65,536 keys of 5 kB would be 330 MB in each lane."""
    asked: list[bytes] = []

    def note(key: bytes, partitions: int) -> int:
        asked.append(key)
        return partition_for_key(key, partitions)

    monkeypatch.setattr("recoveryd_jobs.murmur2.partition_for_key", note)
    partitioner, short, long = KeyPartitioner(5), b"k" * 256, b"k" * 257
    for key in (short, long) * 2:
        assert partitioner.of_key(key) == partition_for_key(key, 5)
    assert asked == [short, long, long]


def test_records_without_key_spread_evenly_and_the_same_each_time() -> None:
    assert [KeyPartitioner(4).of_null(2, offset) for offset in range(5)] == [2, 3, 0, 1, 2]
