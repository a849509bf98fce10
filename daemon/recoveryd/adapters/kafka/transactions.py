"""Writing a list of records in one Kafka transaction, with every way it can end told apart.

A transaction lands, or is known not to have landed and is tried again, or its outcome is unknown because the commit got
no answer. The last kind is never aborted and never written a second time: it is settled first, on the same client,
where asking again to commit gives the true answer. A client that cannot tell any more is lost (`SessionLost`), with
what it knows of the transaction; `journal_session` then reads what became of it. Blocking, and for one thread only: the
journal's.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from recoveryd import failpoints
from recoveryd.adapters.kafka.client import Properties, has_lost_sight, make_transactional_producer, problem
from recoveryd.adapters.kafka.living_clients import version_of
from recoveryd.errors import ClusterProblem
from recoveryd.kernel.catalogue import Code
from recoveryd.wire.topics import ONLY_PARTITION
from recoveryd_jobs.shared.meeting import meet

_CALL_S = 5.0
_RETRY_S = 0.05

MakeAgain = Callable[[], "Sequence[OutgoingKafkaRecord]"]
Marks = Mapping[tuple[str, int], int]  # (topic, partition) to the offset of a record there


@dataclass(frozen=True, slots=True)
class OutgoingKafkaRecord:
    """`topic` has one partition. Its record goes there also when somebody gave it more: nobody reads those."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A transaction without a known outcome: what it was for, and where the broker took its records."""

    token: object
    marks: Marks


class SessionLost(Exception):  # noqa: N818  (named for what happened)
    """A client can never write again: another one opened the same id, or the broker ended its transaction by timeout
    and shut it out, or it has lost sight of a cluster that answers others.

    `unsettled` is the transaction that may have landed. Without one, nothing of the last call did.
    """

    def __init__(self, why: str, unsettled: Unsettled | None) -> None:
        super().__init__(why)
        self.unsettled = unsettled


class _Aborted(Exception):  # noqa: N818  (named for what happened)
    """The transaction is known not to have landed; it may be tried again."""


class TransactionalWriter:
    """One client that holds a transactional id, until it raises `SessionLost`. `topic`: one that it will write to."""

    def __init__(
        self, properties: Properties, transactional_id: str, topic: str, timeout_ms: int, deadline_s: float
    ) -> None:
        self._id = transactional_id
        self._topic = topic
        self._properties, self._version = properties, version_of(properties)
        self._deadline_s = deadline_s
        self._producer: Producer = make_transactional_producer(properties, transactional_id, timeout_ms)
        self._unsettled: object | None = None  # what the transaction without a known outcome was for
        self._marks: dict[tuple[str, int], int] = {}  # of the transaction under way
        self._must_abort = False
        self._has_aborted = False  # since `again` was asked for the last time
        self._is_lost = False
        self._is_open = False
        self._refused_topic = ""

    @property
    def is_opening(self) -> bool:
        """An `open` got no answer yet. It has to be asked again here: a second client could be fenced by the first
        one's late success.
        """
        return not self._is_open and not self._is_lost

    @property
    def is_outdated(self) -> bool:
        """Its login changed, and no transaction is in doubt that only this client could settle."""
        return self._is_open and self._unsettled is None and self._version != version_of(self._properties)

    @property
    def marks(self) -> Marks:
        """Where records of the last attempt lie, as far as the broker has told."""
        return dict(self._marks)

    def open(self, deadline_s: float) -> None:
        """Fence earlier holders and end their open transaction."""
        give_up_s = time.monotonic() + deadline_s
        meet(self._producer, self._topic, _CALL_S)
        while True:
            try:
                self._producer.init_transactions(_CALL_S)
            except KafkaException as error:
                self._wait_or_raise(error, give_up_s, "become the journal's writer")
            else:
                self._is_open = True
                return

    def write(self, records: Sequence[OutgoingKafkaRecord], token: object, again: MakeAgain | None = None) -> Marks:
        """All of `records`, or an error. `token` says what they are for: the same token again after a retriable error
        is never written twice. After an abort, `again` gives the records for the next attempt.

        Returns where the last record of each partition lies.

        Raises `SessionLost`, or `ClusterProblem` when there was no success within the deadline.
        """
        give_up_s = time.monotonic() + self._deadline_s
        if self._settle(give_up_s) == token:
            return dict(self._marks)
        if not self._has_aborted:
            self._marks = {}
        while True:
            if self._has_aborted and again is not None:
                records = again()
                self._has_aborted = False
            try:
                self._write_once(records, token, give_up_s)
            except _Aborted as reason:
                if time.monotonic() >= give_up_s:
                    raise ClusterProblem(str(reason)) from reason
                time.sleep(_RETRY_S)
            else:
                return dict(self._marks)

    def close(self) -> None:
        """Leave without waiting: an open transaction is ended by the next holder or by its timeout."""
        if self._is_open and self._unsettled is None and not self._is_lost:
            self._producer.purge()
            self._producer.close()
        else:  # it could only complain, or hold us up
            threading.Thread(target=_bury, args=([self._producer],), name="bury-journal", daemon=True).start()

    def end_open(self, partitions: Sequence[tuple[str, int]], headers: Sequence[tuple[str, bytes | None]] = ()) -> None:
        """Write one record to each of these and abort: the marker ends whatever of this id was left open there. Nobody
        sees the records, unless this marker gets lost too.

        Raises `SessionLost` or `ClusterProblem`.
        """
        give_up_s = time.monotonic() + self._deadline_s
        had_aborted = self._has_aborted
        try:
            self._producer.begin_transaction()
            self._must_abort = True
            for topic, partition in partitions:
                self._producer.produce(topic, value=None, key=b"_ended", headers=list(headers), partition=partition)
            self._producer.flush(self._deadline_s)
        except KafkaException as error:
            with contextlib.suppress(_Aborted):
                self._give_up_transaction(error, give_up_s)
        else:
            self._abort(give_up_s)
            self._has_aborted = had_aborted  # this abort is what it was for; an earlier one is still to be looked at

    def _write_once(self, records: Sequence[OutgoingKafkaRecord], token: object, give_up_s: float) -> None:
        try:
            failpoints.hit("journal.before_begin")
            self._producer.begin_transaction()
            self._must_abort, self._marks = True, {}
            for record in records:
                self._produce(record, give_up_s)
            failpoints.hit("journal.before_commit")
        except KafkaException as error:
            self._give_up_transaction(error, give_up_s)
        self._commit(token, give_up_s)
        failpoints.hit("journal.after_commit")

    def _produce(self, record: OutgoingKafkaRecord, give_up_s: float) -> None:
        while True:
            try:
                self._producer.produce(
                    record.topic,
                    value=record.value,
                    key=record.key,
                    partition=ONLY_PARTITION,
                    headers=list(record.headers) or None,
                    on_delivery=self._note_delivery,
                )
            except BufferError:
                if time.monotonic() >= give_up_s:
                    raise KafkaException(KafkaError(KafkaError._QUEUE_FULL)) from None  # noqa: SLF001
                self._producer.poll(_RETRY_S)
            else:
                return

    def _note_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._marks[message.topic() or "", message.partition() or 0] = message.offset() or 0
        elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:  # the transaction's own error does not name it
            self._refused_topic = message.topic() or ""

    def _problem(self, error: KafkaException, doing: str) -> ClusterProblem:
        return problem(error, doing, "Write", self._refused_topic, self._id)

    def _commit(self, token: object, give_up_s: float) -> None:
        """Ask until there is an answer. Until then the outcome is unknown, and says so in `_unsettled`."""
        is_unknown = self._unsettled is not None
        while True:
            self._unsettled, self._must_abort = token, False
            try:
                self._producer.commit_transaction(max(min(_CALL_S, give_up_s - time.monotonic()), 0.1))
            except KafkaException as error:
                cause: KafkaError = error.args[0]
                if cause.txn_requires_abort() and not is_unknown:
                    self._unsettled, self._must_abort = None, True
                    self._give_up_transaction(error, give_up_s)
                if cause.txn_requires_abort():  # an answer to the second question says nothing certain about the first
                    self._lose(cause)
                is_unknown = True
                self._wait_or_raise(error, give_up_s, "learn whether a journal transaction landed")
            else:
                self._unsettled = None
                return

    def _settle(self, give_up_s: float) -> object | None:
        """End what an earlier call left open. Returns the token of a transaction that turned out to have landed."""
        token = self._unsettled
        if token is not None:
            self._commit(token, give_up_s)
            return token
        if self._must_abort:
            self._abort(give_up_s)
        return None

    def _give_up_transaction(self, error: KafkaException, give_up_s: float) -> NoReturn:
        """Abort, then raise `_Aborted` if another try may help and the reason itself if not."""
        cause: KafkaError = error.args[0]
        if cause.fatal():
            self._lose(cause)
        reason = self._problem(error, "write the journal")
        if self._must_abort or cause.txn_requires_abort():
            self._abort(give_up_s)
        if cause.retriable() or cause.txn_requires_abort():
            if reason.code is Code.NOT_AUTHORISED:
                raise reason from error
            raise _Aborted(reason.message) from error
        raise reason from error

    def _abort(self, give_up_s: float) -> None:
        while True:
            try:
                self._producer.abort_transaction(max(min(_CALL_S, give_up_s - time.monotonic()), 0.1))
            except KafkaException as error:
                self._wait_or_raise(error, give_up_s, "abort a journal transaction")
            else:
                self._must_abort, self._has_aborted = False, True
                return

    def _wait_or_raise(self, error: KafkaException, give_up_s: float, doing: str) -> None:
        """Returns when the same call may be made again."""
        cause: KafkaError = error.args[0]
        reason = self._problem(error, doing)
        if cause.fatal() or (not cause.retriable() and reason.code is not Code.NOT_AUTHORISED):
            self._lose(cause)
        if not cause.retriable() or time.monotonic() >= give_up_s:
            if cause.retriable() and has_lost_sight(self._producer, self._properties, self._topic):
                self._lose(cause)  # it has no broker to ask, and may never look for one
            raise reason from error
        time.sleep(_RETRY_S)

    def _lose(self, cause: KafkaError) -> NoReturn:
        # Whatever the reason, this client can never write again; who writes now is for others to find out.
        self._is_lost = True
        unsettled = None if self._unsettled is None else Unsettled(self._unsettled, dict(self._marks))
        raise SessionLost(f"The journal's client {self._id} cannot write any more: {cause.str()}", unsettled)


def _bury(holder: list[Producer]) -> None:
    """Taking a client apart may block, so a thread of its own does that."""
    producer = holder.pop()
    with contextlib.suppress(KafkaException):
        producer.purge()
        producer.poll(0)
