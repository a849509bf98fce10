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

A broker that froze may find a partition without a leader for a moment, take it for deleted and drop the marker of a
transaction that it has answered (Kafka 4.3, TransactionMarkerChannelManager: "likely deleted already and hence can be
skipped"). Nothing of Kafka's writes it later: no time-out ends what a coordinator calls complete. What is left open is
decided by the next marker of this transactional id there, whatever its transaction was: a commit shows dead records, an
abort takes landed ones away. So whoever gets hold of the journal, and whoever aborted, looks at every partition first
(`journal_judgement` judges), then

    commits a transaction without records  where landed records wait for their marker, so that readers go on; before,
                                           it leaves word in another partition, since whoever takes the id before that
                                           commit is done aborts it
    aborts one                             where something dead is open
    writes landed records again            where an abort took them away
"""

import logging
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from recoveryd.adapters.kafka.journal_judgement import Acknowledged, Judgement
from recoveryd.adapters.kafka.journal_stamps import HiddenRecord, Stamp, Transaction, landed_header
from recoveryd.adapters.kafka.journal_tails import Place
from recoveryd.adapters.kafka.transactions import (
    Marks,
    OutgoingKafkaRecord,
    SessionLost,
    TransactionalWriter,
)
from recoveryd.errors import ClusterProblem, Fenced

_SERIES_LETTERS = 12
_TRIED = 8
_ROUNDS = 2  # of markers, at most: one may get lost again
_HINT = "If Kafka gave up the producer id that wrote them, kafka-transactions.sh find-hanging shows that transaction, and abort ends it. What was committed is written again."

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

    def is_seen(self, transaction: Transaction, tried: Sequence[Marks]) -> bool:
        """Whether a reader of committed records sees a record of this transaction at one of these places. Call when no
        transaction of the journal is open.
        """
        ...

    def judge(self, acknowledged: Acknowledged, given_up: Transaction | None = None) -> Judgement:
        """What became of the journal's last transactions."""
        ...

    def make_copies(self, lost: Sequence[tuple[Place, HiddenRecord]]) -> Sequence[OutgoingKafkaRecord]:
        """What brings back these records of a judgement."""
        ...

    def commit_landed(self, acknowledged: Acknowledged, given_up: Transaction | None) -> None:
        """Write a commit marker where `judge` says so. This fences whoever holds the journal, us too."""
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
        # Where records of the current number lie. Only the last attempts before a client is lost can be seen: whoever
        # makes one seen shuts it out.
        self._tried = deque[Marks](maxlen=_TRIED)
        self._known_to: int | None = None  # up to here we know of no other leader's mark; None = not open
        self._must_mark = False
        self._lost: Sequence[OutgoingKafkaRecord] = ()  # landed records that an abort took away
        self._acknowledged: dict[str, int] = {}
        self._series, self._number, self._attempt = _new_series(), 1, 0
        self._token: object | None = None  # what is written under the current number

    def open(self) -> None:
        """Shut out whoever wrote until now. Raises `ClusterProblem`; later may help then, and the same client is asked
        again.
        """
        if self._writer is not None and not self._writer.is_opening:
            self._drop()
        self._known_to, self._must_mark = None, False
        known_to = (
            self._evidence.end()
        )  # before: a mark that comes between belongs to somebody who may write behind what we are about to read
        self._begin_series()
        self._open_writer()
        try:
            self._mend(None)
            if self._lost:
                self._write_lost()
        except SessionLost as lost:
            self._drop()
            raise ClusterProblem(str(lost)) from lost
        self._known_to, self._holds = known_to, True

    @property
    def is_open(self) -> bool:
        return self._known_to is not None

    def write(self, make: MakeRecords, token: object) -> None:
        """All records that `make` gives, in one transaction, once per token. Raises `Fenced` or `ClusterProblem` (a
        retriable one: the same token again).
        """
        give_up_s = time.monotonic() + self._deadline_s
        if self._token is not None and self._token != token:
            self._begin_series()  # the number before has no certain end, and this client may still be at it
            if self._writer is None or not self._writer.is_opening:
                self._drop()
        self._token = token
        if self._holds and self._writer is not None and self._writer.is_outdated:
            _log.info("the login changed, goes on with a new client")
            self._drop()
        while True:
            if not self._holds and self._regain():
                return
            assert self._writer is not None
            try:
                marks = self._writer.write(self._stamped(make), token, lambda: self._again(make))
            except SessionLost as lost:
                _log.warning("lost the journal's client, looks who leads: %s", lost)
                self._note_tried()
                self._drop()
                if time.monotonic() >= give_up_s:
                    raise ClusterProblem(str(lost)) from lost
            else:
                self._must_mark, self._lost = False, ()
                self._acknowledge(marks)
                return

    def close(self) -> None:
        self._known_to = None
        self._drop()

    def _regain(self) -> bool:
        """A new client, if nobody else leads. True when what was last written turns out to have landed."""
        assert self._known_to is not None
        give_up_s = time.monotonic() + self._open_deadline_s + self._deadline_s
        self._check_leads(self._known_to)
        self._open_writer()
        try:
            _check_time(give_up_s)
            self._check_leads(self._known_to)
            _check_time(give_up_s)
            has_landed = self._settle_doubt(give_up_s)
        except (ClusterProblem, SessionLost) as problem:
            if self._writer is not None and not self._writer.is_opening:
                self._drop()
            if isinstance(problem, SessionLost):
                raise ClusterProblem(str(problem)) from problem
            raise
        self._must_mark, self._holds = True, True
        _log.warning(
            "nobody else leads, goes on with a new client; the doubtful transaction had landed: %s", has_landed
        )
        return has_landed

    def _settle_doubt(self, give_up_s: float) -> bool:
        """Also what we never asked to commit may be seen: another daemon that opened the journal found it whole and
        without markers.
        """
        series, number = self._transaction
        if self._evidence.is_seen(self._transaction, self._tried):
            self._acknowledged[series] = number
        _check_time(give_up_s)
        judged = self._mend(None)
        known = max(self._acknowledged.get(series, 0), judged.told.get(series, 0))
        has_landed = known >= number or any(stamp.transaction == (series, number) for stamp in judged.landed)
        if has_landed:
            self._acknowledge({})
        return has_landed

    def _check_leads(self, since: int) -> None:
        other = self._evidence.other_leader_since(since)
        if other is not None:
            self._drop()
            raise Fenced(f"Another daemon leads: {other}.")

    def _acknowledge(self, marks: Marks) -> None:
        """The current number landed, and these are its records. We were the one writer up to there."""
        self._acknowledged[self._series] = self._number
        self._known_to = max(self._known_to or 0, *(each.get(self._marked, -1) + 1 for each in (*self._tried, marks)))
        self._number, self._attempt, self._token = self._number + 1, 0, None
        self._tried.clear()

    @property
    def _transaction(self) -> Transaction:
        return self._series, self._number

    def _begin_series(self) -> None:
        self._series, self._number, self._attempt, self._token = _new_series(), 1, 0, None
        self._tried.clear()

    def _stamped(self, make: MakeRecords) -> Sequence[OutgoingKafkaRecord]:
        self._attempt += 1
        records = [*self._lost, *make(self._must_mark or bool(self._lost))]
        header = Stamp(*self._transaction, self._attempt, len(records)).header()
        return [replace(record, headers=(*record.headers, header)) for record in records]

    def _again(self, make: MakeRecords) -> Sequence[OutgoingKafkaRecord]:
        """For the next attempt, by the same client. Where a marker is lacking, this attempt brings one."""
        self._note_tried()
        self._mend(self._transaction, commits=False)
        return self._stamped(make)

    def _note_tried(self) -> None:
        if self._writer is not None and self._writer.marks:
            self._tried.append(self._writer.marks)

    def _open_writer(self) -> TransactionalWriter:
        self._writer = self._writer or self._make_writer()
        try:
            self._writer.open(self._open_deadline_s)
        except SessionLost as lost:
            self._drop()
            raise ClusterProblem(str(lost)) from lost
        return self._writer

    def _mend(self, given_up: Transaction | None, *, commits: bool = True) -> Judgement:
        """Call it while no transaction of ours is under way. With `commits` it may open another client. Raises
        `ClusterProblem` where our markers do not help, so that nobody leads whose records would not be seen.
        """
        rounds = Counter[str]()
        while True:
            judged = self._evidence.judge(self._acknowledged, given_up)
            if commits and _is_due(judged.commit, judged, rounds["commit"]):
                self._commit_landed(judged, given_up)
                rounds["commit"] += 1
            elif _is_due(judged.abort, judged, rounds["abort"]):
                self._end(judged)
                rounds["abort"] += 1
            else:
                break
        self._lost = self._evidence.make_copies(judged.lost)
        if judged.lost:
            _log.warning("an abort took away %d records that had landed, writes them again", len(judged.lost))
        return judged

    def _commit_landed(self, judged: Judgement, given_up: Transaction | None) -> None:
        _log.warning("a broker forgot markers of what it had called committed, writes them in %s", judged.commit)
        if judged.unproven and judged.free:
            self._end_open(judged.free[-1:], judged.unproven)
        self._drop()
        self._evidence.commit_landed(self._acknowledged, given_up)
        self._open_writer()
        if self._known_to is not None:
            self._check_leads(self._known_to)

    def _end(self, judged: Judgement) -> None:
        _log.warning("ends what an earlier client left open in %s", judged.abort)
        self._end_open(judged.abort, judged.unproven)

    def _end_open(self, places: Sequence[Place], landed: Sequence[Transaction]) -> None:
        """Write a record there, abort it, and leave in it what landed, also for who comes after us."""
        assert self._writer is not None
        self._writer.end_open(places, [Stamp(_new_series(), 1, 1, 0).header(), *map(landed_header, landed)])

    def _write_lost(self) -> None:
        assert self._writer is not None
        self._writer.write(self._stamped(_nothing), self._lost, lambda: self._again(_nothing))
        self._lost = ()
        self._acknowledge({})

    def _drop(self) -> None:
        writer, self._writer, self._holds = self._writer, None, False
        if writer is not None:
            writer.close()


def _is_due(places: Sequence[Place], judged: Judgement, rounds: int) -> bool:
    left = judged.unmarked.intersection(places)
    if left and rounds >= _ROUNDS:
        _log.error("records of the journal stay without a marker in %s. %s", sorted(left), _HINT)
        raise ClusterProblem(f"Records of the journal stay without a marker in {sorted(left)}", _HINT)
    return bool(places) and (not rounds or bool(left))


def _check_time(give_up_s: float) -> None:
    """What is asked one after the other has deadlines of its own; this is for all of it."""
    if time.monotonic() >= give_up_s:
        raise ClusterProblem("Could not find out who leads and what became of the last transaction: it took too long")


def _new_series() -> str:
    return uuid.uuid4().hex[:_SERIES_LETTERS]


def _nothing(_must_mark: bool) -> Sequence[OutgoingKafkaRecord]:
    return ()
