"""How Faust's client reads batches: neither a header with a name that is not UTF-8 nor a batch that is huge once it is
unpacked must end the worker. It would meet the same again after every restart, so anybody who may write to the control
topic could stop the daemon for good with one record.

The client library decodes names strictly and takes the batch for corrupt. Such a record is taken as one without
headers, as by the topic's other reader (`headers_of`). And it unpacks whatever comes: ten kilobytes may be gigabytes
then. A batch above the bound of that other reader is passed over here, and told of by it (`read_control`).
"""

import gzip
import io
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, Final

import cramjam
import structlog
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import _MemoryRecordsPy

from recoveryd.adapters.kafka.control_reading import UNPACKED_MOST

log = structlog.stdlib.get_logger(__name__)

_UNPACKED_FIRST: Final = 64 * 1024
_GROWTH: Final = 8
_MAGIC_WITH_HEADERS = 2


def tolerate_any_batch(passed_over: Callable[[], None]) -> None:
    """For all consumers of this process. Batches are then read in Python instead of C, which is fast enough for a topic
    of commands. `passed_over` is called, in any thread, when a batch was.
    """
    fetcher.MemoryRecords = _TolerantRecords
    _TolerantBatch.passed_over = staticmethod(passed_over)


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


def _gunzip(packed: bytes) -> bytearray:
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
        unpacked = file.read(UNPACKED_MOST + 1)
    if len(unpacked) > UNPACKED_MOST:
        raise ValueError(f"it would have more than {UNPACKED_MOST:,} bytes")
    return bytearray(unpacked)


def _unpack_into_room(unpack: Callable[[bytes, bytearray], int], packed: bytes) -> bytearray:
    """The library only bounds what has room beforehand, so room is made in steps."""
    size = max(_UNPACKED_FIRST, len(packed))
    while True:
        room = bytearray(min(size, UNPACKED_MOST))
        try:
            del room[unpack(packed, room) :]
        except cramjam.DecompressionError:
            if size >= UNPACKED_MOST:
                raise
            size *= _GROWTH
        else:
            return room


# What unpacks to a small multiple of its size only, as snappy, is left to the library.
_UNPACK: Final[Mapping[int, Callable[[bytes], bytearray]]] = {
    _DefaultRecordBatchPy.CODEC_GZIP: _gunzip,
    _DefaultRecordBatchPy.CODEC_LZ4: partial(_unpack_into_room, cramjam.lz4.decompress_into),
    _DefaultRecordBatchPy.CODEC_ZSTD: partial(_unpack_into_room, cramjam.zstd.decompress_into),
}


class _TolerantBatch(_DefaultRecordBatchPy):  # type: ignore[misc]  # aiokafka is not typed for us
    passed_over: ClassVar[Callable[[], None]] = staticmethod(lambda: None)
    _buffer: bytearray
    _pos: int
    _decompressed: bool

    def _maybe_uncompress(self) -> None:
        unpack = _UNPACK.get(self.compression_type)
        if unpack is not None and not self._decompressed:
            packed = bytes(memoryview(self._buffer)[self._pos :])
            try:
                self._buffer = unpack(packed)
            except Exception as error:  # noqa: BLE001  (whatever it is: nobody can read this batch)
                log.error(
                    "a batch of the control topic cannot be unpacked and is passed over",
                    offset=self.base_offset,
                    bytes=len(packed),
                    error=str(error),
                )
                self._buffer, self._num_records = bytearray(), 0
                type(self).passed_over()
            self._pos, self._decompressed = 0, True
        super()._maybe_uncompress()
        if not isinstance(self._buffer, _Escaping):
            self._buffer = _Escaping(self._buffer)


class _TolerantRecords(_MemoryRecordsPy):  # type: ignore[misc]  # aiokafka is not typed for us
    def next_batch(self) -> Any:
        data = self._next_slice
        batch = super().next_batch()
        return _TolerantBatch(data) if batch is not None and batch.magic >= _MAGIC_WITH_HEADERS else batch
