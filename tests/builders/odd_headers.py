"""Records with a header whose name is not UTF-8: brokers take them, but clients in Python have no way to write them."""

import asyncio
from unittest.mock import patch

from aiokafka import AIOKafkaProducer
from aiokafka.producer import message_accumulator, producer
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

ODD_NAME = b"\xff\xfe-odd"


class OddName(str):
    """A header name that is encoded as `ODD_NAME`."""

    __slots__ = ()

    def encode(self, _encoding: str = "utf-8", _errors: str = "strict") -> bytes:
        return ODD_NAME


def write_odd(bootstrap: str, topic: str, value: bytes, *, key: bytes | None = None, time_ms: int | None = None) -> int:
    """Write one such record to partition 0, with a good header before the odd one. Returns its offset."""

    async def write() -> int:
        client = AIOKafkaProducer(bootstrap_servers=bootstrap)
        await client.start()
        try:
            headers = [("good", b"1"), (OddName("odd"), b"2")]
            sent = await client.send_and_wait(topic, value, key, 0, time_ms, headers)
            return int(sent.offset)
        finally:
            await client.stop()

    builder = "DefaultRecordBatchBuilder"  # the one in C takes only a real `str` as a name
    with (
        patch.object(producer, builder, _DefaultRecordBatchBuilderPy),
        patch.object(message_accumulator, builder, _DefaultRecordBatchBuilderPy),
    ):
        return asyncio.run(write())
