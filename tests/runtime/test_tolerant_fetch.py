"""Batches as Faust's client reads them: like the library itself, but for header names that are not UTF-8."""

from typing import Any

import pytest
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy
from aiokafka.record.memory_records import MemoryRecords

from recoveryd.app import tolerant_fetch
from recoveryd.app.tolerant_fetch import _TolerantBatch, _TolerantRecords, readable_headers
from tests.builders.odd_headers import OddName

CODECS = range(5)  # none, gzip, snappy, lz4, zstd


def batch(headers: Any, codec: int = 0) -> bytes:
    made = _DefaultRecordBatchBuilderPy(2, codec, 0, -1, -1, -1, 1_000_000)
    for number in range(3):
        made.append(number, 1_700_000_000_000 + number, b"k%d" % number, None if number else b"v", headers)
    return bytes(made.build())


def records(reader: Any, data: bytes) -> list[tuple[Any, ...]]:
    source, found = reader(data), []
    while source.has_next():
        made = source.next_batch()
        assert made.validate_crc()
        found += [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in made]
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_good_records_are_read_as_the_library_reads_them(codec: int) -> None:
    data = batch([("a", b"1"), ("é", None), ("a", b"")], codec) + batch([], codec)
    assert records(_TolerantRecords, data) == records(MemoryRecords, data)


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_with_a_name_that_is_no_text_is_read_and_has_no_headers(codec: int) -> None:
    found = records(_TolerantRecords, batch([("a", b"1"), (OddName("odd"), b"2")], codec) + batch([("a", b"1")]))
    assert [(r[2], r[3]) for r in found] == [(b"k0", b"v"), (b"k1", None), (b"k2", None)] * 2
    assert [readable_headers(r[4]) for r in found] == [()] * 3 + [(("a", b"1"),)] * 3


@pytest.fixture
def passed_over(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told: list[str] = []
    monkeypatch.setattr(_TolerantBatch, "passed_over", staticmethod(lambda: told.append("a batch")))
    return told


def large(codec: int, size: int) -> bytes:
    made = _DefaultRecordBatchBuilderPy(2, codec, 0, -1, -1, -1, 2 * size)
    made.append(0, 1_700_000_000_000, b"k", bytes(size), [])
    return bytes(made.build())


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_a_batch_that_is_huge_once_unpacked_is_passed_over_and_the_next_one_read(
    monkeypatch: pytest.MonkeyPatch, passed_over: list[str], codec: int
) -> None:
    monkeypatch.setattr(tolerant_fetch, "UNPACKED_MOST", 1_000_000)
    found = records(_TolerantRecords, large(codec, 1_000_000) + batch([("a", b"1")], codec))
    assert [(r[2], r[3]) for r in found] == [(b"k0", b"v"), (b"k1", None), (b"k2", None)]
    assert passed_over == ["a batch"]


@pytest.mark.parametrize("codec", CODECS)
def test_a_large_batch_below_the_bound_is_read_whole(passed_over: list[str], codec: int) -> None:
    data = large(codec, 3_000_000)
    assert records(_TolerantRecords, data) == records(MemoryRecords, data)
    assert passed_over == []
