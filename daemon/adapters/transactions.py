"""Writing a list of records in one Kafka transaction, with every way it can end told apart.

A transaction lands, or is known not to have landed and is tried again, or its outcome is unknown because the commit got no answer. The last kind is
never aborted and never written a second time: it is settled first, on the same client, where asking again to commit gives the true answer.
Blocking, and for one thread only: the journal's.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from confluent_kafka import KafkaError, KafkaException, Producer

from daemon import failpoints
from daemon.adapters.kafka_client import Properties, make_transactional_producer, problem
from daemon.core.catalogue import Code
from daemon.errors import ClusterProblem, Fenced

_CALL_S = 5.0
_RETRY_S = 0.05


@dataclass(frozen=True, slots=True)
class Record:
    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class _Aborted(Exception):  # noqa: N818  (named for what happened)
    """The transaction is known not to have landed; it may be tried again."""


class TransactionalWriter:
    """The only holder of a transactional id. Raises `Fenced` from the moment another one opened the same id."""

    def __init__(self, properties: Properties, transactional_id: str, timeout_ms: int, deadline_s: float) -> None:
        self._id = transactional_id
        self._deadline_s = deadline_s
        self._producer: Producer = make_transactional_producer(properties, transactional_id, timeout_ms)
        self._unsettled: object | None = None  # what the transaction without a known outcome was for
        self._must_abort = False
        self._is_fenced = False
        self._is_open = False

    @property
    def is_opening(self) -> bool:
        """An `open` got no answer yet. It has to be asked again here: a second client could be fenced by the first one's late success."""
        return not self._is_open and not self._is_fenced

    def open(self, deadline_s: float) -> None:
        """Fence earlier holders and end their open transaction."""
        give_up_s = time.monotonic() + deadline_s
        while True:
            try:
                self._producer.init_transactions(_CALL_S)
            except KafkaException as error:
                self._wait_or_raise(error, give_up_s, "become the journal's writer")
            else:
                self._is_open = True
                return

    def write(self, records: Sequence[Record], token: object) -> None:
        """All of `records`, or an error. `token` says what they are for: the same token again after a retriable error is never written twice.

        Raises `Fenced`, or `ClusterProblem` when there was no success within the deadline.
        """
        give_up_s = time.monotonic() + self._deadline_s
        if self._settle(give_up_s) == token:
            return
        while True:
            try:
                self._write_once(records, token, give_up_s)
            except _Aborted as reason:
                if time.monotonic() >= give_up_s:
                    raise ClusterProblem(str(reason)) from reason
                time.sleep(_RETRY_S)
            else:
                return

    def close(self) -> None:
        """Leave without waiting: an open transaction is ended by the next holder or by its timeout."""
        self._producer.purge()
        if (
            self._is_open and self._unsettled is None and not self._is_fenced
        ):  # otherwise the client could only complain
            self._producer.close()

    def _write_once(self, records: Sequence[Record], token: object, give_up_s: float) -> None:
        try:
            failpoints.hit("journal.before_begin")
            self._producer.begin_transaction()
            self._must_abort = True
            for record in records:
                self._produce(record, give_up_s)
            failpoints.hit("journal.before_commit")
        except KafkaException as error:
            self._give_up_transaction(error, give_up_s)
        self._commit(token, give_up_s)
        failpoints.hit("journal.after_commit")

    def _produce(self, record: Record, give_up_s: float) -> None:
        while True:
            try:
                self._producer.produce(
                    record.topic, value=record.value, key=record.key, headers=list(record.headers) or None
                )
            except BufferError:
                if time.monotonic() >= give_up_s:
                    raise KafkaException(KafkaError(KafkaError._QUEUE_FULL)) from None  # noqa: SLF001
                self._producer.poll(_RETRY_S)
            else:
                return

    def _commit(self, token: object, give_up_s: float) -> None:
        """Ask until there is an answer. Until then the outcome is unknown, and says so in `_unsettled`."""
        while True:
            self._unsettled, self._must_abort = token, False
            try:
                self._producer.commit_transaction(max(min(_CALL_S, give_up_s - time.monotonic()), 0.1))
            except KafkaException as error:
                if error.args[0].txn_requires_abort():
                    self._unsettled, self._must_abort = None, True
                    self._give_up_transaction(error, give_up_s)
                self._wait_or_raise(error, give_up_s, "learn whether a journal transaction landed")
            else:
                self._unsettled = None
                return

    def _settle(self, give_up_s: float) -> object | None:
        """End what an earlier call left open. Returns the token of a transaction that turned out to have landed."""
        token = self._unsettled
        if token is not None:
            try:
                self._commit(token, give_up_s)
            except _Aborted:
                return None
            return token
        if self._must_abort:
            self._abort(give_up_s)
        return None

    def _give_up_transaction(self, error: KafkaException, give_up_s: float) -> NoReturn:
        """Abort, then raise `_Aborted` if another try may help and the reason itself if not."""
        cause = error.args[0]
        self._raise_if_fenced(cause)
        reason = problem(error, "write the journal")
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
                self._must_abort = False
                return

    def _wait_or_raise(self, error: KafkaException, give_up_s: float, doing: str) -> None:
        """Returns when the same call may be made again."""
        cause = error.args[0]
        self._raise_if_fenced(cause)
        if not cause.retriable() or time.monotonic() >= give_up_s:
            raise problem(error, doing) from error
        time.sleep(_RETRY_S)

    def _raise_if_fenced(self, cause: KafkaError) -> None:
        # A fatal error that is not fencing has the same consequence: this instance can never write again, and a new leader must fold afresh.
        if cause.fatal():
            self._is_fenced = True
            raise Fenced(f"The journal {self._id} can not be written any more: {cause.str()}")
