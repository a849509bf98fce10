"""Reads a part of the control topic directly, without any group: what the journal says comes next, and what the group left out.

Aborted transactions are read as well, as the group's consumer does: both ways must show the same records.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from recoveryd.adapters.kafka.client import Properties, headers_of, make_consumer, problem
from recoveryd.errors import ClusterProblem
from recoveryd.ports import ControlRecord

PAGE_RECORDS: Final = 1_000
DEADLINE_S: Final = 30.0
_POLL_S: Final = 0.1


class KafkaControlLog:
    """`properties` are librdkafka's of the cluster `main`; `topic` has one partition."""

    def __init__(self, properties: Properties, topic: str) -> None:
        self._properties = properties
        self._topic = topic

    async def pages(self, start: int, stop: int | None) -> AsyncIterator[Sequence[ControlRecord]]:
        """Records of [start, stop) that are still there. Raises `ClusterProblem` when a page takes longer than 30 s."""
        consumer = await asyncio.to_thread(make_consumer, self._properties, isolation_level="read_uncommitted")
        try:
            begin, end = await asyncio.to_thread(self._bounds, consumer, start, stop)
            while begin < end:
                page, begin = await asyncio.to_thread(self._page, consumer, begin, end)
                if page:
                    yield page
        finally:
            await asyncio.to_thread(consumer.close)

    def _bounds(self, consumer: Consumer, start: int, stop: int | None) -> tuple[int, int]:
        partition = TopicPartition(self._topic, 0)
        try:
            log_start, log_end = consumer.get_watermark_offsets(partition, timeout=DEADLINE_S)
        except KafkaException as error:
            raise problem(error, f"find the ends of {self._topic}", "Describe", self._topic) from error
        begin = max(start, log_start)
        end = log_end if stop is None else min(stop, log_end)
        if begin < end:
            consumer.assign([TopicPartition(self._topic, 0, begin)])
        return begin, end

    def _page(self, consumer: Consumer, begin: int, end: int) -> tuple[list[ControlRecord], int]:
        """The next records and the offset to go on at; that is `end` once the partition was read so far, whatever lies there."""
        give_up_s = time.monotonic() + DEADLINE_S
        while time.monotonic() < give_up_s:
            page: list[ControlRecord] = []
            for message in consumer.consume(PAGE_RECORDS, _POLL_S):
                error, offset = message.error(), message.offset() or 0
                if error is None:
                    if offset < end:
                        page.append(_record(message, offset))
                    begin = offset + 1
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  (librdkafka's local codes have this form)
                    begin = max(begin, offset)
                elif error.fatal() or not (error.retriable() or error.code() < 0):
                    raise problem(error, f"read {self._topic}", "Read", self._topic)
            if page or begin >= end:
                return page, min(begin, end)
        raise ClusterProblem(f"Could not read {self._topic} from offset {begin} within {DEADLINE_S:.0f} s")


def _record(message: Message, offset: int) -> ControlRecord:
    _, broker_ms = message.timestamp()
    key, value = _bytes(message.key()), _bytes(message.value())
    return ControlRecord(message.partition() or 0, offset, broker_ms, key, value, headers_of(message))


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
