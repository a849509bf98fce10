"""The journal's one writing client, as its session sees it. There is at most one; it is made anew after it was lost.

Another daemon may hold the journal's transactional id meanwhile: `holds` says what we know of that, and who leads is
judged in `journal_session`.
"""

from collections.abc import Callable, Sequence

from recoveryd.adapters.kafka.transactions import (
    MakeAgain,
    Marks,
    OutgoingKafkaRecord,
    SessionLost,
    TransactionalWriter,
)
from recoveryd.errors import ClusterProblem


class JournalClient:
    """`make_writer` makes a client for the journal's transactional id. `holds`: as far as we know, nobody else opened
    the journal since this client did. The session sets it once it has opened a client and looked who leads.
    """

    def __init__(self, make_writer: Callable[[], TransactionalWriter], open_deadline_s: float) -> None:
        self._make_writer = make_writer
        self._open_deadline_s = open_deadline_s
        self._writer: TransactionalWriter | None = None
        self.holds = False

    @property
    def is_outdated(self) -> bool:
        return self.holds and self._writer is not None and self._writer.is_outdated

    @property
    def marks(self) -> Marks:
        return {} if self._writer is None else self._writer.marks

    def open(self) -> None:
        """Shut out whoever wrote until now. Raises `ClusterProblem`; then the same client is asked again."""
        self._writer = self._writer or self._make_writer()
        try:
            self._writer.open(self._open_deadline_s)
        except SessionLost as lost:
            self.drop()
            raise ClusterProblem(str(lost)) from lost

    def write(self, records: Sequence[OutgoingKafkaRecord], token: object, again: MakeAgain) -> Marks:
        """As `TransactionalWriter.write`."""
        assert self._writer is not None
        return self._writer.write(records, token, again)

    def end_open(self, partitions: Sequence[tuple[str, int]], headers: Sequence[tuple[str, bytes | None]]) -> None:
        """As `TransactionalWriter.end_open`."""
        assert self._writer is not None
        self._writer.end_open(partitions, headers)

    def drop_if_open(self) -> None:
        """One that is still opening is kept: its late success would shut out the next one."""
        if self._writer is not None and not self._writer.is_opening:
            self.drop()

    def drop(self) -> None:
        writer, self._writer, self.holds = self._writer, None, False
        if writer is not None:
            writer.close()
