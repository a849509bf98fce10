"""The control topic over memory."""

from collections.abc import AsyncIterator, Sequence

from recoveryd.adapters.memory.kafka import MemoryBroker
from recoveryd.ports import ControlRecord

PAGE_RECORDS = 1_000


class MemoryControlLog:
    def __init__(self, broker: MemoryBroker, topic: str) -> None:
        self._broker = broker
        self._topic = topic

    async def pages(self, start: int, stop: int | None) -> AsyncIterator[Sequence[ControlRecord]]:
        """As the port says."""
        log = self._broker.topic(self._topic).log(0)
        first = max(start, log.start)
        end = log.high_watermark if stop is None else min(stop, log.high_watermark)
        for begin in range(first, end, PAGE_RECORDS):
            page = log.records[begin : min(begin + PAGE_RECORDS, end)]
            yield [ControlRecord(0, begin + i, r.timestamp_ms, r.key, r.value, r.headers) for i, r in enumerate(page)]
