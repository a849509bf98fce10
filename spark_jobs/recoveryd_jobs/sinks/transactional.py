"""The transactional producer of one lane, with the rules for what to do when Kafka does not answer plainly.

A commit whose outcome is unknown is asked for again on the same instance and never aborted. When it stays unknown, or
after any other doubt, the instance is dropped: the next one ends the open transaction by `init_transactions`, and the
receipts say whether the chunk was committed. Only an error that the library itself calls abortable, on a commit that
was never in doubt, is answered by an abort.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from recoveryd_jobs import errors
from recoveryd_jobs.clients import make_writer
from recoveryd_jobs.contract import JobSpec, copy_client_id, transactional_id
from recoveryd_jobs.errors import Doubt, JobError, Redo

_STEP_S = 5.0
_FLUSH_STEP_S = 0.5
_NOT_NOW = KafkaError._STATE  # noqa: SLF001  (the library's own codes begin with an underscore)
_ABORT_DEADLINE_S = 20.0
_PAUSE_S = 0.2


OnDelivery = Callable[[KafkaError | None, Message], None]


class TransactionalTarget:
    """One producer at a time; `open` makes a new one and fences the last holder of the transactional id. Not
    thread-safe.
    """

    def __init__(self, spec: JobSpec, lane: int, batch_bytes_max: int) -> None:
        self._spec = spec
        self._lane = lane
        self._batch_bytes_max = batch_bytes_max
        self._producer: Producer | None = None
        self._is_fresh = False  # made but not yet initialised
        self._is_open = False

    @property
    def producer(self) -> Producer:
        assert self._producer is not None, "open() comes first"
        return self._producer

    @property
    def is_open(self) -> bool:
        """True while a transaction is open."""
        return self._is_open

    def connect(self) -> None:
        """Prepare a producer that knows the topic, without fencing anybody. This saves the half second of the first
        look-up of the coordinator.
        """
        self._producer, self._is_fresh = self._make(), True
        with contextlib.suppress(KafkaException):  # if there is no answer, `open` deals with it
            self._producer.list_topics(self._spec.target.topic, timeout=_STEP_S)

    def open(self, deadline_s: float, waiting: Callable[[str], None]) -> None:
        """New producer, `init_transactions`. Raises JobError when that does not work until `deadline_s` (monotonic), or
        Doubt when fenced.
        """
        if self._producer is None or not self._is_fresh:
            self.drop()
            self._producer = self._make()
        self._is_fresh = False
        while True:
            try:
                self._producer.init_transactions(_STEP_S)
            except KafkaException as raised:
                error: KafkaError = raised.args[0]
                self._check_final(error, "begin a session of transactions")
                if time.monotonic() >= deadline_s:
                    message = f"The target cluster does not open a session of transactions: {error.str()}."
                    raise JobError("target_unavailable", message) from None
                waiting(f"waits for the target's transaction coordinator: {error.str()}")
                time.sleep(_PAUSE_S)
                if not error.retriable():
                    self.drop()
                    self._producer = self._make()
            else:
                return

    def begin(self) -> None:
        try:
            self.producer.begin_transaction()
        except KafkaException as raised:
            raise Doubt(f"begin: {raised.args[0].str()}", fenced=errors.is_fenced(raised.args[0])) from None
        self._is_open = True

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes,
        partition: int,
        on_delivery: OnDelivery | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Queue one record of our own (a receipt or a marker; copied records are sent by the copier). Raises Redo or
        Doubt when the client does not take it.
        """
        try:
            self.producer.produce(topic, value, key, partition, on_delivery=on_delivery, headers=list(headers) or None)
        except BufferError:
            raise Redo("the target's queue is full", reopen=True) from None
        except KafkaException as raised:
            errors.raise_failed(raised.args[0])

    def check_failed(self) -> None:
        """Raises Redo or Doubt when the open transaction failed already.

        The library says so only when called: another `begin` is refused in any case, but the error tells which case it
        is.
        """
        try:
            self.producer.begin_transaction()
        except KafkaException as raised:
            error: KafkaError = raised.args[0]
            if error.code() != _NOT_NOW:
                errors.raise_failed(error)

    def make_room(self, since_s: float) -> None:
        """The queue has been full since `since_s`: let deliveries through. Raises Doubt when the broker is about to end
        the transaction.
        """
        self.producer.poll(0.05)
        self.check_failed()
        if time.monotonic() - since_s > self._spec.transaction_timeout_ms / 1000.0:
            raise Doubt("the target takes no records")

    def flush(self, deadline_s: float) -> None:
        """Wait until every record was delivered. Raises Redo when one was refused, Doubt when the target takes too
        long.
        """
        while self.producer.flush(max(0.0, min(_FLUSH_STEP_S, deadline_s - time.monotonic()))) > 0:
            self.check_failed()  # the client never sends what follows a refused record
            if time.monotonic() >= deadline_s:
                raise Doubt("the target does not confirm records in time")

    def commit(self, deadline_s: float) -> None:
        """Returns only when the transaction is committed. Raises Redo when it failed and may be aborted, Doubt for
        everything else.
        """
        is_unknown = False
        while True:
            try:
                self.producer.commit_transaction(_STEP_S)
            except KafkaException as raised:
                error: KafkaError = raised.args[0]
                if error.retriable():
                    is_unknown = True
                    if time.monotonic() >= deadline_s:
                        raise Doubt(f"commit: {error.str()}") from None
                    time.sleep(_PAUSE_S)
                    continue
                if is_unknown or not error.txn_requires_abort():
                    raise Doubt(f"commit: {error.str()}", fenced=errors.is_fenced(error)) from None
                errors.raise_failed(error)
            else:
                self._is_open = False
                return

    def abort(self, patience_s: float = _ABORT_DEADLINE_S) -> None:
        """Abort the open transaction, if there is one. Raises Doubt when that fails. Must not be called after a commit
        of unknown outcome.
        """
        deadline_s = time.monotonic() + patience_s
        while self.is_open:
            try:
                self.producer.abort_transaction(min(_STEP_S, patience_s))
            except KafkaException as raised:
                error: KafkaError = raised.args[0]
                if not error.retriable() or time.monotonic() >= deadline_s:
                    raise Doubt(f"abort: {error.str()}", fenced=errors.is_fenced(error)) from None
            else:
                self._is_open = False

    def drop(self) -> None:
        """Drop the producer without telling the broker. Destroying it may block, so a thread does it."""
        if self._producer is None:
            return
        holder = [self._producer]
        self._producer, self._is_open = None, False
        threading.Thread(target=_bury, args=(holder,), name="bury-producer", daemon=True).start()

    def _make(self) -> Producer:
        spec = self._spec
        return make_writer(
            spec.target.client,
            copy_client_id(spec.scope, spec.recovery),
            transactional_id(spec.scope, spec.recovery, self._lane),
            spec.transaction_timeout_ms,
            self._batch_bytes_max,
            spec.target.compression,
        )

    def _check_final(self, error: KafkaError, doing: str) -> None:
        if errors.is_fenced(error):
            raise Doubt(error.str(), fenced=True)
        code = errors.final_code(error)
        if code is not None:
            name = transactional_id(self._spec.scope, self._spec.recovery, self._lane)
            told = errors.refusal(error, "Write", self._spec.target.topic, name)
            raise JobError(code, f"The target cluster does not let lane {self._lane} {doing}: {told}")


def _bury(holder: list[Producer]) -> None:
    producer = holder.pop()
    try:
        producer.purge(in_queue=True, in_flight=True, blocking=False)
        producer.poll(0)
    except KafkaException:
        return
