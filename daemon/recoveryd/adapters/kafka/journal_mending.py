"""Making good for a broker that forgot what became of the journal's transactions.

A broker that froze may find a partition without a leader for a moment, take it for deleted and drop the marker of a
transaction that it has answered (Kafka 4.3, TransactionMarkerChannelManager: "likely deleted already and hence can be
skipped"). Nothing of Kafka's writes it later: no timeout ends what a coordinator calls complete. What is left open is
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
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from recoveryd.adapters.kafka.journal_client import JournalClient
from recoveryd.adapters.kafka.journal_judgement import Acknowledged, Judgement
from recoveryd.adapters.kafka.journal_series import stamp_of_nothing
from recoveryd.adapters.kafka.journal_stamps import HiddenRecord, Transaction, landed_header
from recoveryd.adapters.kafka.journal_tails import Place
from recoveryd.adapters.kafka.transactions import Marks, OutgoingKafkaRecord
from recoveryd.errors import ClusterProblem

_ROUNDS: Final = 2  # of markers, at most: one may get lost again
_HINT: Final = "If Kafka gave up the producer id that wrote them, kafka-transactions.sh find-hanging shows that transaction, and abort ends it. What was committed is written again."

_log = logging.getLogger("recoveryd.journal")


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

    def commit_landed(self, acknowledged: Acknowledged) -> None:
        """Write a commit marker where `judge` says so. This fences whoever holds the journal, us too."""
        ...


class JournalMending:
    """`client` writes the markers that are lacking; `acknowledged` is what this process was told."""

    def __init__(self, evidence: Evidence, client: JournalClient, acknowledged: Acknowledged) -> None:
        self._evidence = evidence
        self._client = client
        self._acknowledged = acknowledged
        self.lost: Sequence[OutgoingKafkaRecord] = ()  # landed records that an abort took away

    def mend(self, check_leads: Callable[[], None]) -> Judgement:
        """Call it with an open client and no transaction under way. It may open another client, and then asks
        `check_leads`. Raises `ClusterProblem` where our markers do not help, so that nobody leads whose records would
        not be seen, and `SessionLost`.
        """
        rounds = Counter[str]()
        while True:
            judged = self._evidence.judge(self._acknowledged)
            if _is_due(judged.commit, judged, rounds["commit"]):
                self._commit(judged)
                check_leads()
                rounds["commit"] += 1
            elif not self._is_ended(judged, rounds):
                return self._keep_lost(judged)

    def mend_after_abort(self, given_up: Transaction) -> Judgement:
        """The same before the next attempt of a transaction that nobody asked to commit. That attempt brings the
        markers which landed records wait for.
        """
        rounds = Counter[str]()
        while True:
            judged = self._evidence.judge(self._acknowledged, given_up)
            if not self._is_ended(judged, rounds):
                return self._keep_lost(judged)

    def _is_ended(self, judged: Judgement, rounds: Counter[str]) -> bool:
        if not _is_due(judged.abort, judged, rounds["abort"]):
            return False
        _log.warning("ends what an earlier client left open in %s", judged.abort)
        self._end_open(judged.abort, judged.unproven)
        rounds["abort"] += 1
        return True

    def _commit(self, judged: Judgement) -> None:
        _log.warning("a broker forgot markers of what it had called committed, writes them in %s", judged.commit)
        if judged.unproven and judged.free:
            self._end_open(judged.free[-1:], judged.unproven)
        self._client.drop()
        self._evidence.commit_landed(self._acknowledged)
        self._client.open()

    def _end_open(self, places: Sequence[Place], landed: Sequence[Transaction]) -> None:
        """Write a record there, abort it, and leave in it what landed, also for who comes after us."""
        self._client.end_open(places, [stamp_of_nothing().header(), *map(landed_header, landed)])

    def _keep_lost(self, judged: Judgement) -> Judgement:
        self.lost = self._evidence.make_copies(judged.lost)
        if judged.lost:
            _log.warning("an abort took away %d records that had landed, writes them again", len(judged.lost))
        return judged


def _is_due(places: Sequence[Place], judged: Judgement, rounds: int) -> bool:
    left = judged.unmarked.intersection(places)
    if left and rounds >= _ROUNDS:
        _log.error("records of the journal stay without a marker in %s. %s", sorted(left), _HINT)
        raise ClusterProblem(f"Records of the journal stay without a marker in {sorted(left)}", _HINT)
    return bool(places) and (not rounds or bool(left))
