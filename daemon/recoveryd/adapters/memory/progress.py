"""The progress topic over memory: what simulated lanes say reaches the daemon through the same encoding."""

from collections.abc import Callable

from recoveryd.adapters.kafka.progress import LOOK_BACK_MS
from recoveryd.adapters.memory.kafka import MemoryBroker
from recoveryd.ports import Emit
from recoveryd_jobs.contract import ContractError, decode_progress


class MemoryProgressFeed:
    """`deliver` hands over what was written since the last time; a manual clock calls it each second."""

    def __init__(self, broker: MemoryBroker, topic: str, now_ms: Callable[[], int]) -> None:
        self._broker = broker
        self._topic = topic
        self._now_ms = now_ms
        self._emit: Emit | None = None
        self._position = 0
        self.unreadable = 0

    async def start(self, emit: Emit) -> None:
        if self._emit is None:
            self._emit = emit
            log = self._broker.topic(self._topic).log(0)
            recent = log.first_at(self._now_ms() - LOOK_BACK_MS)
            self._position = log.high_watermark if recent < 0 else recent

    async def close(self) -> None:
        self._emit = None

    def deliver(self) -> None:
        if self._emit is None:
            return
        records = self._broker.topic(self._topic).log(0).read(self._position)
        self._position += len(records)
        for record in records:
            try:
                event = decode_progress(record.value or b"")
            except ContractError:
                self.unreadable += 1
            else:
                self._emit(event)
