"""One daemon's hold on the journal, over as many clients as it takes.

A client can be shut out for two reasons that look alike: another daemon opened the journal, or the broker stood still
and ended a transaction by its time-out. So a client that is lost says nothing about who leads; the journal does. To go
on, in this order:

    look for another leader's record ──> found: Fenced, nothing is touched
    open a new client (from now on nobody else can write)
    look again                       ──> found: Fenced, nothing was written
    read whether the doubtful transaction landed
    write on, a `_daemon` record with our mark first

The last line makes it safe: whoever writes to the journal after losing a client leaves a mark in its first transaction,
so a daemon that folded the journal before that, and comes back after it, finds the mark and leaves. Nothing in between
can be missed, because only the newest client can write. Blocking, and for the journal's thread only.

A broker that froze can forget the marker of a transaction that it has answered, also of one that landed. What is left
open is aborted where it is nobody's, but never where it was acknowledged to us: the next commit there makes that
visible, an abort would take it away.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from recoveryd.adapters.kafka.transactions import (
    Marks,
    OutgoingKafkaRecord,
    SessionLost,
    TransactionalWriter,
    Unsettled,
)
from recoveryd.errors import ClusterProblem, Fenced

_log = logging.getLogger("recoveryd.journal")

MakeRecords = Callable[[bool], Sequence[OutgoingKafkaRecord]]  # told whether the records must hold our mark


class Evidence(Protocol):
    """What the journal's own topics say, whoever wrote them. Raises `ClusterProblem`."""

    def end(self) -> int:
        """Where the next status record goes."""
        ...

    def other_leader_since(self, offset: int) -> str | None:
        """Who else left a mark on the status topic at or behind `offset`, if anybody did."""
        ...

    def has_landed(self, marks: Marks, acknowledged: Marks) -> bool:
        """Whether a reader of committed records sees a record at one of these places, or will see it once
        `acknowledged` ones before it are seen. Call when no transaction of the journal is open.
        """
        ...

    def left_open(self, acknowledged: Marks) -> Sequence[tuple[str, int]]:
        """Partitions of the journal in which a transaction is open, unless one that was acknowledged is among what is
        open there. `acknowledged`: by partition, the offset behind its last record.
        """
        ...


class JournalSession:
    """`open`, then `write`. `make_writer` makes a client for the journal's transactional id; marks lie on the partition
    `marked`.
    """

    def __init__(
        self,
        make_writer: Callable[[], TransactionalWriter],
        evidence: Evidence,
        marked: tuple[str, int],
        open_deadline_s: float,
        deadline_s: float,
    ) -> None:
        self._make_writer = make_writer
        self._evidence = evidence
        self._marked = marked
        self._open_deadline_s = open_deadline_s
        self._deadline_s = deadline_s
        self._writer: TransactionalWriter | None = None
        self._holds = False  # the writer is the newest one, as far as we know
        self._doubt: Unsettled | None = None
        self._known_to: int | None = None  # up to here we know of no other leader's mark; None = not open
        self._must_mark = False
        self._acknowledged: dict[tuple[str, int], int] = {}  # where what the broker called committed ends

    def open(self) -> None:
        """Shut out whoever wrote until now. Raises `ClusterProblem`; later may help then, and the same client is asked
        again.
        """
        if self._writer is not None and not self._writer.is_opening:
            self._drop()
        self._doubt, self._known_to, self._must_mark = None, None, False
        known_to = (
            self._evidence.end()
        )  # before: a mark that comes between belongs to somebody who may write behind what we are about to read
        writer = self._open_writer()
        self._end_what_is_open(writer)
        self._known_to, self._holds = known_to, True

    @property
    def is_open(self) -> bool:
        return self._known_to is not None

    def write(self, make: MakeRecords, token: object) -> None:
        """All records that `make` gives, in one transaction, once per token. Raises `Fenced` or `ClusterProblem` (a
        retriable one: the same token again).
        """
        give_up_s = time.monotonic() + self._deadline_s
        if self._holds and self._writer is not None and self._writer.is_outdated:
            _log.info("the login changed, goes on with a new client")
            self._drop()
        while True:
            if not self._holds and self._regain(token):
                return
            assert self._writer is not None
            try:
                marks = self._writer.write(make(self._must_mark), token)
            except SessionLost as lost:
                _log.warning("lost the journal's client, looks who leads: %s", lost)
                self._drop()
                self._doubt = lost.unsettled or self._doubt
                if time.monotonic() >= give_up_s:
                    raise ClusterProblem(str(lost)) from lost
            else:
                self._must_mark = False
                self._acknowledge(marks)
                return

    def close(self) -> None:
        self._known_to = None
        self._drop()

    def _regain(self, token: object) -> bool:
        """A new client, if nobody else leads. True when the transaction of `token` turns out to have landed."""
        assert self._known_to is not None
        self._check_leads(self._known_to)
        writer = self._open_writer()
        try:
            self._check_leads(self._known_to)
            has_landed = self._doubt is not None and self._evidence.has_landed(self._doubt.marks, self._acknowledged)
            if not has_landed:
                self._end_what_is_open(writer)
        except ClusterProblem:
            self._drop()
            raise
        doubt, self._doubt, self._must_mark, self._holds = self._doubt, None, True, True
        if has_landed and doubt is not None:
            self._acknowledge(doubt.marks)
        _log.warning(
            "nobody else leads, goes on with a new client; the doubtful transaction had landed: %s", has_landed
        )
        return has_landed and doubt is not None and doubt.token == token

    def _check_leads(self, since: int) -> None:
        other = self._evidence.other_leader_since(since)
        if other is not None:
            self._drop()
            raise Fenced(f"Another daemon leads: {other}.")

    def _acknowledge(self, marks: Marks) -> None:
        """A transaction with these records landed. We were the one writer up to there."""
        ends = {place: offset + 1 for place, offset in marks.items()}
        self._acknowledged.update({place: max(end, self._acknowledged.get(place, 0)) for place, end in ends.items()})
        self._known_to = max(self._known_to or 0, ends.get(self._marked, 0))

    def _open_writer(self) -> TransactionalWriter:
        self._writer = self._writer or self._make_writer()
        try:
            self._writer.open(self._open_deadline_s)
        except SessionLost as lost:
            self._drop()
            raise ClusterProblem(str(lost)) from lost
        return self._writer

    def _end_what_is_open(self, writer: TransactionalWriter) -> None:
        """A broker that froze can forget an abort marker (see recoveryd_jobs.lane.lost_markers): a reader of committed
        records would wait for ever, and the next commit would make the dead ones visible.
        """
        left = self._evidence.left_open(self._acknowledged)
        if left:
            _log.warning("ends what an earlier client left open in %s", left)
            try:
                writer.end_open(left)
            except SessionLost as lost:
                self._drop()
                raise ClusterProblem(str(lost)) from lost

    def _drop(self) -> None:
        writer, self._writer, self._holds = self._writer, None, False
        if writer is not None:
            writer.close()
