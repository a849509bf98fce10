"""Calls of a journal as the daemon makes them: again after a retriable problem, until it works."""

from recoveryd.errors import ClusterProblem
from recoveryd.ports import Folded, Journal, JournalBatch
from tests.patience import until_it_works


async def opened(journal: Journal) -> Folded:
    """Open it, however long its transactions have no coordinator."""
    return await until_it_works(journal.open, is_retriable)


async def commit(journal: Journal, what: JournalBatch) -> None:
    """The same batch again, as the writer loop does."""
    await until_it_works(lambda: journal.commit(what), is_retriable)


def is_retriable(error: Exception) -> bool:
    return isinstance(error, ClusterProblem) and error.retriable
