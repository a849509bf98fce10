"""Reads a part of the control topic directly, without any group: what the journal says comes next, and what the group
left out.

Open and aborted transactions are read as well, as the group's consumer does: all ways must show the same records.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from recoveryd.adapters.kafka.client import Properties, problem
from recoveryd.adapters.kafka.control_reading import make_control_consumer, read_control
from recoveryd.ports import ControlRecord

PAGE_RECORDS: Final = 1_000
PAGE_BYTES: Final = 16 * 1024 * 1024
DEADLINE_S: Final = 30.0
CLOSE_S: Final = 0.5  # the daemon ends within ten seconds, whatever it reads then


class KafkaControlLog:
    """`properties` are librdkafka's of the cluster `main`; `topic` has one partition."""

    def __init__(self, properties: Properties, topic: str) -> None:
        self._properties = properties
        self._topic = topic

    async def pages(self, start: int, stop: int | None) -> AsyncIterator[Sequence[ControlRecord]]:
        """Records of [start, stop) that are still there. Raises `ClusterProblem` when nothing comes for 30 s.

        Each reading has a thread of its own: whoever stops reading does not stop the thread, and a consumer that is
        closed while it polls in another one may take the process with it. So it is closed behind what it does then,
        which is waited for only so long.
        """
        loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1, thread_name_prefix="control-log")
        reading = _Reading(self._properties, self._topic)
        try:
            await loop.run_in_executor(thread, reading.begin, start, stop)
            while page := await loop.run_in_executor(thread, reading.next_page):
                yield page
        finally:
            closing = loop.run_in_executor(thread, reading.close)
            thread.shutdown(wait=False)
            await asyncio.wait({closing}, timeout=CLOSE_S)


class _Reading:
    """One consumer and how far it is. Blocking; in one thread."""

    def __init__(self, properties: Properties, topic: str) -> None:
        self._properties = properties
        self._topic = topic
        self._consumer: Consumer | None = None
        self._records: Iterator[ControlRecord] = iter(())

    def begin(self, start: int, stop: int | None) -> None:
        self._consumer = make_control_consumer(self._properties)
        begin, end = self._bounds(self._consumer, start, stop)
        if begin < end:
            self._records = read_control(self._consumer, self._topic, begin, end, DEADLINE_S)

    def next_page(self) -> list[ControlRecord]:
        return _next_page(self._records)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()

    def _bounds(self, consumer: Consumer, start: int, stop: int | None) -> tuple[int, int]:
        try:
            log_start, log_end = consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=DEADLINE_S)
        except KafkaException as error:
            raise problem(error, f"find the ends of {self._topic}", "Describe", self._topic) from error
        return max(start, log_start), log_end if stop is None else min(stop, log_end)


def _next_page(records: Iterator[ControlRecord]) -> list[ControlRecord]:
    """The next records, until they are many or large; [] at the end."""
    page: list[ControlRecord] = []
    size = 0
    for record in records:
        page.append(record)
        size += record.size
        if len(page) >= PAGE_RECORDS or size >= PAGE_BYTES:
            break
    return page
