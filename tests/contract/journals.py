"""Calls of a journal as the daemon makes them: again after a retriable problem, until it works."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from recoveryd.adapters.kafka.journal import KafkaJournal
from recoveryd.errors import ClusterProblem
from recoveryd.ports import Folded, JournalBatch
from tests.patience import patient_s

T = TypeVar("T")


async def opened(journal: KafkaJournal) -> Folded:
    """Open it, however long its transactions have no coordinator."""
    return await _until_it_works(journal.open)


async def commit(journal: KafkaJournal, what: JournalBatch) -> None:
    """The same batch again, as the writer loop does."""
    await _until_it_works(lambda: journal.commit(what))


async def _until_it_works(call: Callable[[], Awaitable[T]]) -> T:
    async with asyncio.timeout(patient_s(60)):
        while True:
            try:
                return await call()
            except ClusterProblem as problem:
                if not problem.retriable:
                    raise
                await asyncio.sleep(0.1)
