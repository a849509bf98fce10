"""How Faust's client reads batches: a header with a name that is not UTF-8 must not end the worker.

The client library decodes names strictly: it takes the batch for corrupt, and would meet it again after every restart,
so anybody who may write to the control topic could stop the daemon for good with one record. Such a record is taken as
one without headers, as by the topic's other reader (`headers_of`).
"""

from collections.abc import Iterable
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import _MemoryRecordsPy

_MAGIC_WITH_HEADERS = 2


def tolerate_any_header() -> None:
    """For all consumers of this process. Batches are then read in Python instead of C, which is fast enough for a topic
    of commands.
    """
    fetcher.MemoryRecords = _TolerantRecords


def readable_headers(pairs: Iterable[tuple[str, bytes | None]]) -> tuple[tuple[str, bytes | None], ...]:
    """The headers, or none when a name is not UTF-8."""
    headers = tuple((name, value) for name, value in pairs)
    try:
        for name, _ in headers:
            name.encode()
    except UnicodeEncodeError:  # the name holds bytes that `surrogateescape` replaced
        return ()
    return headers


class _Escaping(bytearray):
    """Bytes whose parts decode without an error."""

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return _Escaping(found) if isinstance(at, slice) else found

    def decode(self, encoding: str = "utf-8", _errors: str = "strict") -> str:
        return super().decode(encoding, "surrogateescape")


class _TolerantBatch(_DefaultRecordBatchPy):  # type: ignore[misc]  # aiokafka is not typed for us
    _buffer: bytearray

    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        if not isinstance(self._buffer, _Escaping):
            self._buffer = _Escaping(self._buffer)


class _TolerantRecords(_MemoryRecordsPy):  # type: ignore[misc]  # aiokafka is not typed for us
    def next_batch(self) -> Any:
        data = self._next_slice
        batch = super().next_batch()
        return _TolerantBatch(data) if batch is not None and batch.magic >= _MAGIC_WITH_HEADERS else batch
