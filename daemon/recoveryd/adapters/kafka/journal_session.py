"""One daemon's hold on the journal. When its client is lost, it goes on with a new one, unless another daemon leads.

A client can be shut out for two reasons that look alike: another daemon opened the journal, or the broker stood still
and ended a transaction by its timeout. So a client that is lost says nothing about who leads; the journal does. To go
on, in this order:

    look for another leader's record ──> found: Fenced, nothing is touched
    open a new client (from now on nobody else can write)
    look again                       ──> found: Fenced, nothing was written
    read whether the doubtful transaction landed
    write on, a `_daemon` record with our mark first

The last line makes it safe: whoever writes to the journal after losing a client leaves a mark in its first transaction,
so a daemon that folded the journal before that, and comes back after it, finds the mark and leaves. Nothing in between
can be missed, because only the newest client can write. What a broker forgot meanwhile is made good for first
(`journal_mending`). Blocking, and for the journal's thread only.
"""

import logging
import time
from collections.abc import Callable, Sequence

from recoveryd.adapters.kafka.journal_client import JournalClient
from recoveryd.adapters.kafka.journal_mending import Evidence, JournalMending
from recoveryd.adapters.kafka.journal_series import JournalSeries
from recoveryd.adapters.kafka.transactions import Marks, OutgoingKafkaRecord, SessionLost, TransactionalWriter
from recoveryd.errors import ClusterProblem, Fenced

_log = logging.getLogger("recoveryd.journal")

MakeRecords = Callable[[bool], Sequence[OutgoingKafkaRecord]]  # told whether the records must hold our mark


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
        self._evidence = evidence
        self._marked = marked
        self._deadline_s = deadline_s
        self._regain_s = open_deadline_s + deadline_s
        self._series = JournalSeries()
        self._client = JournalClient(make_writer, open_deadline_s)
        self._mending = JournalMending(evidence, self._client, self._series.acknowledged)
        self._known_to: int | None = None  # up to here we know of no other leader's mark; None = not open
        self._must_mark = False

    def open(self) -> None:
        """Shut out whoever wrote until now. Raises `ClusterProblem`; later may help then, and the same client is asked
        again.
        """
        self._client.drop_if_open()
        self._known_to, self._must_mark = None, False
        known_to = (
            self._evidence.end()
        )  # before: a mark that comes between belongs to somebody who may write behind what we are about to read
        self._series.begin()
        self._client.open()
        try:
            self._mending.mend(lambda: None)
            if self._mending.lost:
                self._write_lost()
        except SessionLost as lost:
            self._client.drop()
            raise ClusterProblem(str(lost)) from lost
        self._known_to, self._client.holds = known_to, True

    @property
    def is_open(self) -> bool:
        return self._known_to is not None

    def write(self, make: MakeRecords, token: object) -> None:
        """All records that `make` gives, in one transaction, once per token. Raises `Fenced` or `ClusterProblem` (a
        retriable one: the same token again).
        """
        give_up_s = time.monotonic() + self._deadline_s
        if self._series.token is not None and self._series.token != token:
            self._series.begin()  # and this client may still be at the number before
            self._client.drop_if_open()
        self._series.token = token
        if self._client.is_outdated:
            _log.info("the login changed, goes on with a new client")
            self._client.drop()
        while True:
            if not self._client.holds and self._regain():
                return
            try:
                marks = self._client.write(self._stamped(make), token, lambda: self._again(make))
            except SessionLost as lost:
                _log.warning("lost the journal's client, looks who leads: %s", lost)
                self._series.note_tried(self._client.marks)
                self._client.drop()
                if time.monotonic() >= give_up_s:
                    raise ClusterProblem(str(lost)) from lost
            else:
                self._must_mark, self._mending.lost = False, ()
                self._acknowledge(marks)
                return

    def close(self) -> None:
        self._known_to = None
        self._client.drop()

    def _regain(self) -> bool:
        """A new client, if nobody else leads. True when what was last written turns out to have landed."""
        give_up_s = time.monotonic() + self._regain_s
        self._check_leads()
        self._client.open()
        try:
            _check_time(give_up_s)
            self._check_leads()
            _check_time(give_up_s)
            has_landed = self._settle_doubt(give_up_s)
        except (ClusterProblem, SessionLost) as problem:
            self._client.drop_if_open()
            if isinstance(problem, SessionLost):
                raise ClusterProblem(str(problem)) from problem
            raise
        self._must_mark, self._client.holds = True, True
        _log.warning(
            "nobody else leads, goes on with a new client; the doubtful transaction had landed: %s", has_landed
        )
        return has_landed

    def _settle_doubt(self, give_up_s: float) -> bool:
        """Also what we never asked to commit may be seen: another daemon that opened the journal found it whole and
        without markers.
        """
        series, number = self._series.transaction
        if self._evidence.is_seen((series, number), self._series.tried):
            self._series.note_landed()
        _check_time(give_up_s)
        judged = self._mending.mend(self._check_leads)
        known = max(self._series.acknowledged.get(series, 0), judged.told.get(series, 0))
        has_landed = known >= number or any(stamp.transaction == (series, number) for stamp in judged.landed)
        if has_landed:
            self._acknowledge({})
        elif hidden := [p for m in self._series.tried for p, at in m.items() if at >= judged.held_up.get(p, at + 1)]:
            raise ClusterProblem(f"Could not see what became of the last transaction: others have one open in {hidden}")
        return has_landed

    def _check_leads(self) -> None:
        assert self._known_to is not None
        other = self._evidence.other_leader_since(self._known_to)
        if other is not None:
            self._client.drop()
            raise Fenced(f"Another daemon leads: {other}.")

    def _acknowledge(self, marks: Marks) -> None:
        """The current number landed, and these are its records. We were the one writer up to there."""
        written = [each.get(self._marked, -1) + 1 for each in (*self._series.tried, marks)]
        self._known_to = max(self._known_to or 0, *written)
        self._series.acknowledge()

    def _stamped(self, make: MakeRecords) -> Sequence[OutgoingKafkaRecord]:
        lost = self._mending.lost
        return self._series.stamp([*lost, *make(self._must_mark or bool(lost))])

    def _again(self, make: MakeRecords) -> Sequence[OutgoingKafkaRecord]:
        """For the next attempt, by the same client."""
        self._series.note_tried(self._client.marks)
        self._mending.mend_after_abort(self._series.transaction)
        return self._stamped(make)

    def _write_lost(self) -> None:
        self._client.write(self._stamped(_nothing), self._mending.lost, lambda: self._again(_nothing))
        self._mending.lost = ()
        self._acknowledge({})


def _check_time(give_up_s: float) -> None:
    """What is asked one after the other has deadlines of its own; this is for all of it."""
    if time.monotonic() >= give_up_s:
        raise ClusterProblem("Could not find out who leads and what became of the last transaction: it took too long")


def _nothing(_must_mark: bool) -> Sequence[OutgoingKafkaRecord]:
    return ()
